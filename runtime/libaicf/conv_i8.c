/* Convolutions of 8-bit integers: aicf/cpu/conv_i8.h. Compiled as kernels are: for the baseline and
   for x86-64-v3.

   Multiplied is in f32, which a compiler vectorises best: fields less their zero are at most 255,
   factors 128, and up to TILE_K such products add up to less than 2^24, where f32 is exact in any
   order. Those sums are then added in 32-bit integers.

   What is computed is cut into tiles of places by outputs, by the sizes alone. A tile belongs to
   one thread, which packs what it needs onto its own stack: panels of ROWS places and of COLUMNS
   outputs side by side, k after k. Places and outputs that are not there are packed as 0 and never
   stored. */
#include <aicf/cpu/conv_i8.h>

#include <aicf/cpu/convert.h>

enum {
    AICF_I8_ROWS = 6, /* of a micro tile: with 2 vectors a row, 12 of the 16 registers accumulate */
    AICF_I8_COLUMNS = 16,
    AICF_I8_TILE_M = 16 * AICF_I8_ROWS,
    AICF_I8_TILE_N = 128,
    AICF_I8_TILE_K = 256,
    AICF_I8_TASK = 1 << 18 /* multiplications in one task at least: long beside waking a thread */
};
_Static_assert(AICF_I8_TILE_K * 255 * 128 < 1 << 24, "f32 has such sums exactly");

/* A run of k: where it is in the field and in the factor, and how far from a window's corner. */
typedef struct aicf_i8_taps {
    int64_t field[AICF_I8_TILE_K], factor[AICF_I8_TILE_K];
    int64_t y[AICF_I8_TILE_K], x[AICF_I8_TILE_K];
    int64_t count;
    bool even; /* field[i] = field[0] + i */
} aicf_i8_taps;

typedef struct aicf_i8_room {
    _Alignas(64) float a[AICF_I8_TILE_M * AICF_I8_TILE_K];
    _Alignas(64) float b[AICF_I8_TILE_K * AICF_I8_TILE_N];
    _Alignas(64) int32_t sums[AICF_I8_TILE_M * AICF_I8_TILE_N];
    aicf_i8_taps taps;
} aicf_i8_room;

typedef struct aicf_i8_plan {
    const aicf_conv *conv;
    const aicf_requant *requant;
    int64_t tiles_m, tiles_n;
    int32_t zero; /* of the field, within its range */
} aicf_i8_plan;

/* A place: the corner of its window, and where its outs are. */
typedef struct aicf_i8_place {
    int64_t y, x, field, out;
} aicf_i8_place;

/* ---- packing ----------------------------------------------------------------------------------
 */

static aicf_i8_place
aicf_i8_place_of(const aicf_conv *c, int64_t m)
{
    const int64_t column = m % c->x.places, row = m / c->x.places % c->y.places;
    const int64_t image = m / (c->x.places * c->y.places);
    aicf_i8_place p = {c->y.first + row * c->y.step, c->x.first + column * c->x.step, 0, 0};
    p.field = image * c->field_strides[0] + p.y * c->field_strides[2] + p.x * c->field_strides[3];
    p.out = image * c->out_strides[0] + row * c->out_strides[2] + column * c->out_strides[3];
    return p;
}

/* `count` of the channels and taps from k on, channels innermost where they lie side by side. */
static void
aicf_i8_take_taps(const aicf_conv *c, int64_t k, int64_t count, aicf_i8_taps *t)
{
    const bool inside = c->field_strides[1] == 1;
    t->count = count;
    t->even = true;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = k + i, taps = c->y.taps * c->x.taps;
        const int64_t channel = inside ? at % c->channels : at / taps;
        const int64_t tap = inside ? at / c->channels : at % taps;
        const int64_t ty = tap / c->x.taps, tx = tap % c->x.taps;
        t->y[i] = ty * c->y.tap_step;
        t->x[i] = tx * c->x.tap_step;
        t->field[i] = channel * c->field_strides[1] + t->y[i] * c->field_strides[2] +
                      t->x[i] * c->field_strides[3];
        t->factor[i] =
            channel * c->factor_strides[1] + ty * c->factor_strides[2] + tx * c->factor_strides[3];
        t->even = t->even && t->field[i] == t->field[0] + i;
    }
}

static inline bool
aicf_i8_inside(const aicf_conv *c, int64_t y, int64_t x)
{
    return y >= 0 && y < c->y.size && x >= 0 && x < c->x.size;
}

/* Whether all taps of the window are in the field. */
static inline bool
aicf_i8_whole(const aicf_conv *c, const aicf_i8_place *p)
{
    return aicf_i8_inside(c, p->y, p->x) &&
           aicf_i8_inside(
               c, p->y + (c->y.taps - 1) * c->y.tap_step, p->x + (c->x.taps - 1) * c->x.tap_step);
}

/* One place of a panel; outside of the field is its zero. Q: its type. */
#define AICF_I8_PACK_PLACE(Q, q)                                                              \
    AICF_INLINE void aicf_i8_pack_place_##q(                                                  \
        const aicf_conv *c, const aicf_i8_taps *t, const char *field, const aicf_i8_place *p, \
        int32_t zero, float *to)                                                              \
    {                                                                                         \
        const Q *from = (const Q *)field + p->field;                                          \
        if (!aicf_i8_whole(c, p)) {                                                           \
            for (int64_t i = 0; i < t->count; i++) {                                          \
                const bool in = aicf_i8_inside(c, p->y + t->y[i], p->x + t->x[i]);            \
                to[i * AICF_I8_ROWS] = in ? (float)(from[t->field[i]] - zero) : 0;            \
            }                                                                                 \
        } else if (t->even) {                                                                 \
            const Q *line = from + t->field[0];                                               \
            for (int64_t i = 0; i < t->count; i++) {                                          \
                to[i * AICF_I8_ROWS] = (float)(line[i] - zero);                               \
            }                                                                                 \
        } else {                                                                              \
            for (int64_t i = 0; i < t->count; i++) {                                          \
                to[i * AICF_I8_ROWS] = (float)(from[t->field[i]] - zero);                     \
            }                                                                                 \
        }                                                                                     \
    }

AICF_I8_PACK_PLACE(int8_t, i8)
AICF_I8_PACK_PLACE(uint8_t, u8)

AICF_CLONES static void
aicf_i8_pack_places(
    const aicf_i8_plan *t, const char *field, int64_t m, int64_t count, aicf_i8_room *in)
{
    const int64_t k = in->taps.count;
    for (int64_t i = 0; i < count; i++) {
        const aicf_i8_place p = aicf_i8_place_of(t->conv, m + i);
        float *to = in->a + i / AICF_I8_ROWS * AICF_I8_ROWS * k + i % AICF_I8_ROWS;
        if (t->requant->signed_in) {
            aicf_i8_pack_place_i8(t->conv, &in->taps, field, &p, t->zero, to);
        } else {
            aicf_i8_pack_place_u8(t->conv, &in->taps, field, &p, t->zero, to);
        }
    }
    for (int64_t i = count; i % AICF_I8_ROWS; i++) {
        float *to = in->a + i / AICF_I8_ROWS * AICF_I8_ROWS * k + i % AICF_I8_ROWS;
        for (int64_t j = 0; j < k; j++) {
            to[j * AICF_I8_ROWS] = 0;
        }
    }
}

AICF_CLONES static void
aicf_i8_pack_outputs(
    const int8_t *factor, int64_t stride, int64_t count, const aicf_i8_taps *t, float *to)
{
    for (int64_t n = 0; n < count; n += AICF_I8_COLUMNS, to += AICF_I8_COLUMNS * t->count) {
        const int64_t there = aicf_conv_least(count - n, AICF_I8_COLUMNS);
        for (int64_t i = 0; i < t->count; i++) {
            const int8_t *from = factor + n * stride + t->factor[i];
            float *line = to + i * AICF_I8_COLUMNS;
            if (there == AICF_I8_COLUMNS && stride == 1) {
                for (int j = 0; j < AICF_I8_COLUMNS; j++) {
                    line[j] = from[j];
                }
                continue;
            }
            for (int64_t j = 0; j < AICF_I8_COLUMNS; j++) {
                line[j] = j < there ? from[j * stride] : 0;
            }
        }
    }
}

/* ---- sums -------------------------------------------------------------------------------------
 */

typedef float aicf_i8_vector __attribute__((vector_size(32)));
typedef int32_t aicf_i8_whole_vector __attribute__((vector_size(32)));

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast") /* exact either way */
#endif

/* sums (+)= a panel of places times one of outputs. */
AICF_INLINE void
aicf_i8_micro(const float *a, const float *b, int64_t k, bool first, int32_t *sums)
{
    aicf_i8_vector acc[AICF_I8_ROWS][2] = {{{0}}};
    const aicf_i8_vector *row = (const aicf_i8_vector *)b;
    aicf_i8_whole_vector *out = (aicf_i8_whole_vector *)sums;
    for (int64_t i = 0; i < k; i++) {
#pragma GCC unroll 8
        for (int r = 0; r < AICF_I8_ROWS; r++) {
            acc[r][0] += a[i * AICF_I8_ROWS + r] * row[2 * i];
            acc[r][1] += a[i * AICF_I8_ROWS + r] * row[2 * i + 1];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < AICF_I8_ROWS; r++) {
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            const aicf_i8_whole_vector sum =
                __builtin_convertvector(acc[r][half], aicf_i8_whole_vector);
            out[2 * r + half] = first ? sum : out[2 * r + half] + sum;
        }
    }
}

/* Micro tile after micro tile: those of the first panel of outputs, of the next one. */
AICF_CLONES static void
aicf_i8_multiply(aicf_i8_room *in, int64_t m, int64_t n, bool first)
{
    const int64_t k = in->taps.count;
    for (int64_t j = 0; j < n; j += AICF_I8_COLUMNS) {
        for (int64_t i = 0; i < m; i += AICF_I8_ROWS) {
            aicf_i8_micro(
                in->a + i * k, in->b + j * k, k, first,
                in->sums + j * AICF_I8_TILE_M + i * AICF_I8_COLUMNS);
        }
    }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

/* ---- outs -------------------------------------------------------------------------------------
 */

/* Columns of a tile as the epilogue meets them. */
typedef struct aicf_i8_columns {
    int32_t bias[AICF_I8_TILE_N], sums[AICF_I8_TILE_N];
    float scale[AICF_I8_TILE_N], y[AICF_I8_TILE_N];
    int64_t n;
    int32_t zero;
    bool scaled;
} aicf_i8_columns;

static void
aicf_i8_take_columns(const aicf_requant *r, int64_t first, int64_t n, aicf_i8_columns *c)
{
    c->n = n;
    c->zero = r->out_zero ? *r->out_zero : 0;
    c->scaled = aicf_requant_scales(r);
    const float field = r->field_scale ? *r->field_scale : 1, one = 1;
    const float out = r->out_scale ? 1 / *r->out_scale : 1;
    const float *factor = r->factor_scale ? r->factor_scale : &one;
    const int64_t step = r->factor_scale && r->scales > 1;
    for (int64_t j = 0; j < n; j++) {
        c->bias[j] = r->bias ? r->bias[first + j] : 0;
        c->scale[j] = field * factor[(first + j) * step] * out;
    }
}

AICF_INLINE int32_t
aicf_i8_add(int32_t a, int32_t b)
{
    const int64_t sum = (int64_t)a + b;
    return (int32_t)(sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum);
}

/* To the nearest, half to even; NaN is 0. Beyond 2^23 there are no fractions. */
AICF_INLINE int32_t
aicf_i8_round(float y)
{
    const float known = y != y ? 0 : y, large = 0x1p23f;
    const float up = known < 0 ? -large : large, size = known < 0 ? -known : known;
    const float moved = known + up;
    const float whole = size < large ? moved - up : known;
    return whole >= 0x1p31f ? INT32_MAX : whole < -0x1p31f ? INT32_MIN : (int32_t)whole;
}

/* Integers as bytes, of either sign. */
static void
aicf_i8_store_bytes(const int32_t *from, int64_t n, uint8_t *out, int64_t step)
{
    for (int64_t j = 0; j < n; j++) {
        out[j * step] = (uint8_t)from[j];
    }
}

static void
aicf_i8_store_words(const int32_t *from, int64_t n, int32_t *out, int64_t step)
{
    for (int64_t j = 0; j < n; j++) {
        out[j * step] = from[j];
    }
}

/* The sums of a row as y, which are floats, or q, where there is no scale. */
AICF_CLONES static void
aicf_i8_scale(const aicf_requant *r, aicf_i8_columns *c)
{
    const int32_t least = !c->scaled && r->relu ? 0 : INT32_MIN;
    for (int64_t j = 0; j < c->n; j++) {
        const int32_t q = aicf_i8_add(c->sums[j], c->bias[j]);
        c->sums[j] = q < least ? least : q;
        const float y = c->scaled ? (float)c->sums[j] * c->scale[j] : (float)c->sums[j];
        c->y[j] = r->relu && y <= 0 ? 0 : y;
    }
}

AICF_CLONES static void
aicf_i8_move_wholes(aicf_i8_columns *c, int32_t least, int32_t most)
{
    for (int64_t j = 0; j < c->n; j++) {
        const int32_t whole = c->scaled ? aicf_i8_round(c->y[j]) : c->sums[j];
        const int32_t moved = aicf_i8_add(whole, c->zero);
        c->sums[j] = moved < least ? least : moved > most ? most : moved;
    }
}

/* The row of sums in `c` to outs that are `step` elements apart. */
static void
aicf_i8_finish(const aicf_requant *r, aicf_i8_columns *c, char *out, int64_t step)
{
    const aicf_dtype kind = r->kind;
    aicf_i8_scale(r, c);
    if (kind == AICF_I32 || kind == AICF_I8 || kind == AICF_U8) {
        aicf_i8_move_wholes(
            c,
            kind == AICF_I8   ? INT8_MIN
            : kind == AICF_U8 ? 0
                              : INT32_MIN,
            kind == AICF_I8   ? INT8_MAX
            : kind == AICF_U8 ? UINT8_MAX
                              : INT32_MAX);
        if (kind == AICF_I32) {
            aicf_i8_store_words(c->sums, c->n, (int32_t *)out, step);
        } else {
            aicf_i8_store_bytes(c->sums, c->n, (uint8_t *)out, step);
        }
        return;
    }
    for (int64_t j = 0; r->out_zero && j < c->n; j++) {
        c->y[j] += (float)c->zero;
    }
    const aicf_converter *to = kind == AICF_F16    ? &aicf_converter_f16
                               : kind == AICF_BF16 ? &aicf_converter_bf16
                                                   : &aicf_converter_f32;
    to->store(c->y, c->n, out, step);
}

/* ---- tiles ------------------------------------------------------------------------------------
 */

static inline int64_t
aicf_i8_tiles(int64_t size, int64_t tile)
{
    return size / tile + (size % tile != 0);
}

static void
aicf_i8_tile(const aicf_i8_plan *t, int64_t index, aicf_i8_room *in)
{
    const aicf_conv *c = t->conv;
    const int64_t depth = aicf_conv_depth(c), places = c->images * c->y.places * c->x.places;
    const int64_t m0 = index % t->tiles_m * AICF_I8_TILE_M;
    const int64_t n0 = index / t->tiles_m % t->tiles_n * AICF_I8_TILE_N;
    const int64_t group = index / (t->tiles_m * t->tiles_n), output = group * c->m + n0;
    const int64_t m = aicf_conv_least(places - m0, AICF_I8_TILE_M);
    const int64_t n = aicf_conv_least(c->m - n0, AICF_I8_TILE_N);
    const char *field = c->field + group * c->channels * c->field_strides[1];
    const int8_t *factor =
        (const int8_t *)c->factor + group * c->factor_group + n0 * c->factor_strides[0];
    int64_t k0 = 0;
    do { /* once even if there is no k: then the sums are 0 */
        aicf_i8_take_taps(c, k0, aicf_conv_least(depth - k0, AICF_I8_TILE_K), &in->taps);
        aicf_i8_pack_places(t, field, m0, m, in);
        aicf_i8_pack_outputs(factor, c->factor_strides[0], n, &in->taps, in->b);
        aicf_i8_multiply(in, m, n, k0 == 0);
        k0 += AICF_I8_TILE_K;
    } while (k0 < depth);
    aicf_i8_columns columns;
    aicf_i8_take_columns(t->requant, output, n, &columns);
    for (int64_t i = 0; i < m; i++) {
        const aicf_i8_place p = aicf_i8_place_of(c, m0 + i);
        for (int64_t j = 0; j < n; j++) {
            columns.sums[j] = in->sums
                                  [j / AICF_I8_COLUMNS * AICF_I8_COLUMNS * AICF_I8_TILE_M +
                                   i * AICF_I8_COLUMNS + j % AICF_I8_COLUMNS];
        }
        char *out = c->out + (p.out + output * c->out_strides[1]) * c->item;
        aicf_i8_finish(t->requant, &columns, out, c->out_strides[1]);
    }
}

static void
aicf_i8_part(void *context, int64_t begin, int64_t end)
{
    aicf_i8_room in;
    for (int64_t i = begin; i < end; i++) {
        aicf_i8_tile((const aicf_i8_plan *)context, i, &in);
    }
}

aicf_status
aicf_i8_run(const aicf_conv *c, const aicf_requant *r)
{
    const int64_t places = c->images * c->y.places * c->x.places;
    const int32_t least = r->signed_in ? INT8_MIN : 0, most = r->signed_in ? INT8_MAX : UINT8_MAX;
    const int32_t zero = r->field_zero ? *r->field_zero : 0;
    aicf_i8_plan t = {
        c, r, aicf_i8_tiles(places, AICF_I8_TILE_M), aicf_i8_tiles(c->m, AICF_I8_TILE_N),
        zero < least  ? least
        : zero > most ? most
                      : zero};
    const int64_t multiplies = aicf_conv_least(places, AICF_I8_TILE_M) *
                               aicf_conv_least(c->m, AICF_I8_TILE_N) *
                               aicf_conv_least(aicf_conv_depth(c), AICF_I8_TASK);
    const int64_t grain = multiplies > 0 ? 1 + AICF_I8_TASK / multiplies : AICF_I8_TASK;
    const int64_t tiles = t.tiles_m * t.tiles_n * c->groups;
    if (tiles > 0) {
        aicf_parallel_for(tiles, grain, aicf_i8_part, &t);
    }
    return aicf_ok();
}
