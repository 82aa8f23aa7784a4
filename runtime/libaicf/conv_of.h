/* What of conv.c is compiled for what is computed in: S is f32 or f64, REAL its type. Included by
   it alone. */

#define conv_vector AICF_CONV_NAME(conv_vector)
#define conv_gemm AICF_CONV_NAME(conv_gemm)
#define conv_room AICF_CONV_NAME(conv_room)
#define conv_line AICF_CONV_NAME(conv_line)
#define conv_row AICF_CONV_NAME(conv_row)
#define conv_outs AICF_CONV_NAME(conv_outs)
#define conv_factor AICF_CONV_NAME(conv_factor)
#define conv_micro AICF_CONV_NAME(conv_micro)
#define conv_few AICF_CONV_NAME(conv_few)
#define conv_multiply AICF_CONV_NAME(conv_multiply)
#define conv_tap_tile AICF_CONV_NAME(conv_tap_tile)
#define conv_place AICF_CONV_NAME(conv_place)
#define conv_last_tile AICF_CONV_NAME(conv_last_tile)
#define conv_last_part AICF_CONV_NAME(conv_last_part)
#define conv_place_tile AICF_CONV_NAME(conv_place_tile)
#define conv_tap_part AICF_CONV_NAME(conv_tap_part)
#define conv_place_part AICF_CONV_NAME(conv_place_part)
#define conv_over_taps AICF_CONV_NAME(aicf_conv_over_taps)
#define conv_over_places AICF_CONV_NAME(aicf_conv_over_places)

typedef REAL conv_vector __attribute__((vector_size(32)));

typedef void conv_gemm(
    int order, int trans_a, int trans_b, int m, int n, int k, REAL alpha, const void *a, int lda,
    const void *b, int ldb, REAL beta, void *c, int ldc);

/* a: rows of TILE_K products; b: TILE_K rows of what is gathered. Rows of b and sums are as long as
   a tile. */
typedef struct conv_room {
    _Alignas(64) REAL a[AICF_CONV_TILE_M * AICF_CONV_TILE_K];
    _Alignas(64) REAL b[AICF_CONV_TILE_K * AICF_CONV_TILE_N];
    _Alignas(64) REAL sums[AICF_CONV_TILE_M * AICF_CONV_TILE_N];
} conv_room;

/* ---- packing ----------------------------------------------------------------------------------
 */

/* Part of a row of places: n of them, the first at element x of the row that begins at `from`. */
static void
conv_row(const aicf_conv_plan *t, const char *from, int64_t x, int64_t n, REAL *to)
{
    const aicf_conv *c = t->conv;
    const int64_t step = c->x.step, item = c->item;
    const int64_t skip = x >= 0 ? 0 : aicf_conv_least((-x - 1) / step + 1, n);
    const int64_t end = x >= c->x.size ? 0 : aicf_conv_least((c->x.size - 1 - x) / step + 1, n);
    memset(to, 0, sizeof(REAL) * (size_t)skip);
    if (skip < end) {
        from += (x + skip * step) * c->field_strides[3] * item;
        t->dtype->load(from, step * c->field_strides[3], end - skip, to + skip);
    }
    if (end < n) {
        const int64_t rest = end > skip ? end : skip;
        memset(to + rest, 0, sizeof(REAL) * (size_t)(n - rest));
    }
}

/* What index k of channels and taps meets at the places [j, j + n) of the field `from`. */
static void
conv_line(const aicf_conv_plan *t, const char *from, int64_t k, int64_t j, int64_t n, REAL *to)
{
    const aicf_conv *c = t->conv;
    const int64_t item = c->item, width = c->x.places;
    const int64_t ty = aicf_conv_digit(&t->k, t->k.y, k), tx = aicf_conv_digit(&t->k, t->k.x, k);
    from += aicf_conv_digit(&t->k, t->k.channel, k) * c->field_strides[1] * item;
    for (int64_t done = 0; done < n;) {
        const int64_t row = (j + done) / width, column = (j + done) % width;
        const int64_t run = aicf_conv_least(width - column, n - done);
        const int64_t y = c->y.first + row * c->y.step + ty * c->y.tap_step;
        if (y >= 0 && y < c->y.size) {
            const int64_t x = c->x.first + column * c->x.step + tx * c->x.tap_step;
            conv_row(t, from + y * c->field_strides[2] * item, x, run, to + done);
        } else {
            memset(to + done, 0, sizeof(REAL) * (size_t)run);
        }
        done += run;
    }
}

/* The outs at the places [j, j + n) of an image and output, read or written. */
static void
conv_outs(const aicf_conv_plan *t, char *at, int64_t j, int64_t n, REAL *line, bool write)
{
    const aicf_conv *c = t->conv;
    const int64_t width = c->x.places, step = c->out_strides[3];
    const bool flat = c->out_strides[2] == width * step;
    for (int64_t done = 0; done < n;) {
        const int64_t row = (j + done) / width, column = (j + done) % width;
        const int64_t run = flat ? n : aicf_conv_least(width - column, n - done);
        char *out = at + (row * c->out_strides[2] + column * step) * c->item;
        if (write) {
            t->dtype->store(line + done, run, out, step);
        } else {
            t->dtype->load(out, step, run, line + done);
        }
        done += run;
    }
}

/* n numbers of the factor at `at`, from index k of channels and taps on. */
static void
conv_factor(const aicf_conv_plan *t, char *at, int64_t k, int64_t n, REAL *line, bool write)
{
    const aicf_conv *c = t->conv;
    const int64_t step = t->k.factor[0];
    for (int64_t done = 0; done < n;) {
        const int64_t run = aicf_conv_factor_run(&t->k, k + done, n - done);
        char *factor = at + aicf_conv_factor_at(&t->k, k + done) * c->item;
        if (write) {
            t->dtype->store(line + done, run, factor, step);
        } else {
            t->dtype->load(factor, step, run, line + done);
        }
        done += run;
    }
}

/* ---- products ---------------------------------------------------------------------------------
 */

/* ROWS rows of a by two vectors of b. */
AICF_INLINE void
conv_micro(const REAL *a, const REAL *b, int64_t k, bool first, REAL *sums)
{
    enum { VECTOR = 32 / sizeof(REAL), ROW = AICF_CONV_TILE_BYTES / sizeof(REAL) };
    conv_vector acc[AICF_CONV_ROWS][2] = {{{0}}};
    for (int64_t i = 0; i < k; i++) {
        const conv_vector *line = (const conv_vector *)(b + i * ROW);
#pragma GCC unroll 8
        for (int r = 0; r < AICF_CONV_ROWS; r++) {
            acc[r][0] += a[r * AICF_CONV_TILE_K + i] * line[0];
            acc[r][1] += a[r * AICF_CONV_TILE_K + i] * line[1];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < AICF_CONV_ROWS; r++) {
        conv_vector *out = (conv_vector *)(sums + r * ROW);
        out[0] = first ? acc[r][0] : out[0] + acc[r][0];
        out[1] = first ? acc[r][1] : out[1] + acc[r][1];
    }
}

/* As few rows as a depthwise convolution has. */
AICF_INLINE void
conv_few(const conv_room *in, int64_t m, int64_t n, int64_t k, bool first, REAL *sums)
{
    for (int64_t r = 0; r < m; r++) {
        REAL *out = sums + r * AICF_CONV_TILE_N;
        if (first) {
            memset(out, 0, sizeof(REAL) * (size_t)n);
        }
        for (int64_t i = 0; i < k; i++) {
            const REAL a = in->a[r * AICF_CONV_TILE_K + i], *line = in->b + i * AICF_CONV_TILE_N;
            AICF_INDEPENDENT
            for (int64_t j = 0; j < n; j++) {
                out[j] += a * line[j];
            }
        }
    }
}

/* sums (+)= a * b; rows and columns beyond m and n are whatever they are, and never stored. */
AICF_CLONES static void
conv_multiply(conv_room *in, int64_t m, int64_t n, int64_t k, bool first)
{
    enum { COLUMNS = 64 / sizeof(REAL) };
    if (m <= AICF_CONV_FEW) {
        conv_few(in, m, n, k, first, in->sums);
        return;
    }
    for (int64_t j = 0; j < n; j += COLUMNS) {
        for (int64_t i = 0; i < m; i += AICF_CONV_ROWS) {
            conv_micro(
                in->a + i * AICF_CONV_TILE_K, in->b + j, k, first,
                in->sums + i * AICF_CONV_TILE_N + j);
        }
    }
}

static void
AICF_CONV_NAME(conv_product)(
    const aicf_conv_plan *t, conv_room *in, int64_t m, int64_t n, int64_t k, bool first)
{
    if (!t->gemm || m <= AICF_CONV_FEW) {
        conv_multiply(in, m, n, k, first);
        return;
    }
    ((conv_gemm *)t->gemm)(
        AICF_CONV_ROW_MAJOR, AICF_CONV_NO_TRANS, AICF_CONV_NO_TRANS, (int)m, (int)n, (int)k, 1,
        in->a, AICF_CONV_TILE_K, in->b, AICF_CONV_TILE_N, first ? 0 : 1, in->sums,
        AICF_CONV_TILE_N);
}

/* ---- tiles ------------------------------------------------------------------------------------
 */

/* A tile of an image's outs: outputs by places. */
static void
conv_tap_tile(const aicf_conv_plan *t, int64_t index, conv_room *in)
{
    const aicf_conv *c = t->conv;
    const int64_t item = c->item, depth = aicf_conv_depth(c);
    const int64_t row = index % t->tiles_m * AICF_CONV_TILE_M;
    const int64_t column = index / t->tiles_m % t->tiles_n * AICF_CONV_TILE_N;
    const int64_t whole = index / (t->tiles_m * t->tiles_n), group = whole % c->groups;
    const int64_t image = whole / c->groups, output = group * c->m + row;
    const int64_t m = aicf_conv_least(c->m - row, AICF_CONV_TILE_M);
    const int64_t n = aicf_conv_least(c->y.places * c->x.places - column, AICF_CONV_TILE_N);
    char *factor = c->factor + (group * c->factor_group + row * c->factor_strides[0]) * item;
    const char *field =
        c->field + (image * c->field_strides[0] + group * c->channels * c->field_strides[1]) * item;
    char *out = c->out + (image * c->out_strides[0] + output * c->out_strides[1]) * item;
    if (depth == 0) {
        memset(in->sums, 0, sizeof in->sums);
    }
    for (int64_t k0 = 0; k0 < depth; k0 += AICF_CONV_TILE_K) {
        const int64_t k = aicf_conv_least(depth - k0, AICF_CONV_TILE_K);
        for (int64_t i = 0; i < m; i++) {
            conv_factor(
                t, factor + i * c->factor_strides[0] * item, k0, k, in->a + i * AICF_CONV_TILE_K,
                false);
        }
        for (int64_t i = 0; i < k; i++) {
            conv_line(t, field, k0 + i, column, n, in->b + i * AICF_CONV_TILE_N);
        }
        AICF_CONV_NAME(conv_product)(t, in, m, n, k, k0 == 0);
    }
    for (int64_t i = 0; i < m; i++) {
        REAL *line = in->sums + i * AICF_CONV_TILE_N, bias = 0;
        if (c->bias) {
            t->dtype->load((const char *)c->bias + (output + i) * item, 1, 1, &bias);
            for (int64_t j = 0; j < n; j++) {
                line[j] += bias;
            }
        }
        conv_outs(t, out + i * c->out_strides[1] * item, column, n, line, true);
    }
}

/* What the indices [k, k + n) of channels and taps, channels innermost and side by side, meet at a
   place of the field `from`. */
static void
conv_place(const aicf_conv_plan *t, const char *from, int64_t place, int64_t k, int64_t n, REAL *to)
{
    const aicf_conv *c = t->conv;
    const int64_t row = place / c->x.places, column = place % c->x.places;
    for (int64_t done = 0; done < n;) {
        const int64_t channel = (k + done) % c->channels, tap = (k + done) / c->channels;
        const int64_t run = aicf_conv_least(c->channels - channel, n - done);
        const int64_t y = c->y.first + row * c->y.step + tap / c->x.taps * c->y.tap_step;
        const int64_t x = c->x.first + column * c->x.step + tap % c->x.taps * c->x.tap_step;
        if (y >= 0 && y < c->y.size && x >= 0 && x < c->x.size) {
            const int64_t at = y * c->field_strides[2] + x * c->field_strides[3] + channel;
            t->dtype->load(from + at * c->item, 1, run, to + done);
        } else {
            memset(to + done, 0, sizeof(REAL) * (size_t)run);
        }
        done += run;
    }
}

/* A tile of an image's outs, places by outputs: where channels and outputs lie side by side. */
static void
conv_last_tile(const aicf_conv_plan *t, int64_t index, conv_room *in)
{
    const aicf_conv *c = t->conv;
    const int64_t item = c->item, depth = aicf_conv_depth(c);
    const int64_t row = index % t->tiles_m * AICF_CONV_TILE_M;
    const int64_t column = index / t->tiles_m % t->tiles_n * AICF_CONV_TILE_N;
    const int64_t whole = index / (t->tiles_m * t->tiles_n), group = whole % c->groups;
    const int64_t image = whole / c->groups, output = group * c->m + column;
    const int64_t m = aicf_conv_least(c->y.places * c->x.places - row, AICF_CONV_TILE_M);
    const int64_t n = aicf_conv_least(c->m - column, AICF_CONV_TILE_N);
    char *factor = c->factor + (group * c->factor_group + column * c->factor_strides[0]) * item;
    const char *field = c->field + (image * c->field_strides[0] + group * c->channels) * item;
    REAL line[AICF_CONV_TILE_K], bias[AICF_CONV_TILE_N] = {0};
    for (int64_t k0 = 0; k0 < depth; k0 += AICF_CONV_TILE_K) {
        const int64_t k = aicf_conv_least(depth - k0, AICF_CONV_TILE_K);
        for (int64_t i = 0; i < m; i++) {
            conv_place(t, field, row + i, k0, k, in->a + i * AICF_CONV_TILE_K);
        }
        for (int64_t j = 0; j < n; j++) {
            conv_factor(t, factor + j * c->factor_strides[0] * item, k0, k, line, false);
            for (int64_t i = 0; i < k; i++) {
                in->b[i * AICF_CONV_TILE_N + j] = line[i];
            }
        }
        AICF_CONV_NAME(conv_product)(t, in, m, n, k, k0 == 0);
    }
    if (depth == 0) {
        memset(in->sums, 0, sizeof in->sums);
    }
    if (c->bias) {
        t->dtype->load((const char *)c->bias + output * item, 1, n, bias);
    }
    char *out = c->out + (image * c->out_strides[0] + output) * item;
    for (int64_t i = 0; i < m; i++) {
        const int64_t y = (row + i) / c->x.places, x = (row + i) % c->x.places;
        REAL *sums = in->sums + i * AICF_CONV_TILE_N;
        for (int64_t j = 0; j < n; j++) {
            sums[j] += bias[j];
        }
        t->dtype->store(sums, n, out + (y * c->out_strides[2] + x * c->out_strides[3]) * item, 1);
    }
}

/* A tile of a group's factor: outputs by channels and taps. */
static void
conv_place_tile(const aicf_conv_plan *t, int64_t index, conv_room *in)
{
    const aicf_conv *c = t->conv;
    const int64_t item = c->item, places = c->y.places * c->x.places;
    const int64_t row = index % t->tiles_m * AICF_CONV_TILE_M;
    const int64_t column = index / t->tiles_m % t->tiles_n * AICF_CONV_TILE_N;
    const int64_t group = index / (t->tiles_m * t->tiles_n), output = group * c->m + row;
    const int64_t m = aicf_conv_least(c->m - row, AICF_CONV_TILE_M);
    const int64_t n = aicf_conv_least(aicf_conv_depth(c) - column, AICF_CONV_TILE_N);
    char *factor = c->factor + (group * c->factor_group + row * c->factor_strides[0]) * item;
    const char *field = c->field + group * c->channels * c->field_strides[1] * item;
    char *out = c->out + output * c->out_strides[1] * item;
    REAL line[AICF_CONV_TILE_K];
    bool first = true;
    for (int64_t image = 0; image < c->images; image++) {
        for (int64_t k0 = 0; k0 < places; k0 += AICF_CONV_TILE_K) {
            const int64_t k = aicf_conv_least(places - k0, AICF_CONV_TILE_K);
            for (int64_t i = 0; i < m; i++) {
                conv_outs(
                    t, out + (image * c->out_strides[0] + i * c->out_strides[1]) * item, k0, k,
                    in->a + i * AICF_CONV_TILE_K, false);
            }
            for (int64_t j = 0; j < n; j++) {
                conv_line(t, field + image * c->field_strides[0] * item, column + j, k0, k, line);
                for (int64_t i = 0; i < k; i++) {
                    in->b[i * AICF_CONV_TILE_N + j] = line[i];
                }
            }
            AICF_CONV_NAME(conv_product)(t, in, m, n, k, first);
            first = false;
        }
    }
    if (first) {
        memset(in->sums, 0, sizeof in->sums);
    }
    for (int64_t i = 0; i < m; i++) {
        conv_factor(
            t, factor + i * c->factor_strides[0] * item, column, n, in->sums + i * AICF_CONV_TILE_N,
            true);
    }
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static void
AICF_CONV_NAME(conv_part)(
    void *context, int64_t begin, int64_t end,
    void (*tile)(const aicf_conv_plan *t, int64_t index, conv_room *in))
{
    const aicf_conv_plan *t = (const aicf_conv_plan *)context;
    conv_room in;
    memset(in.a, 0, sizeof in.a); /* of what is never stored too, no arithmetic on garbage */
    memset(in.b, 0, sizeof in.b);
    if (t->gemm) {
        aicf_conv_enter();
    }
    for (int64_t i = begin; i < end; i++) {
        tile(t, i, &in);
    }
    if (t->gemm) {
        aicf_openblas_leave();
    }
}

static void
conv_tap_part(void *context, int64_t begin, int64_t end)
{
    AICF_CONV_NAME(conv_part)(context, begin, end, conv_tap_tile);
}

static void
conv_last_part(void *context, int64_t begin, int64_t end)
{
    AICF_CONV_NAME(conv_part)(context, begin, end, conv_last_tile);
}

static void
conv_place_part(void *context, int64_t begin, int64_t end)
{
    AICF_CONV_NAME(conv_part)(context, begin, end, conv_place_tile);
}

void
conv_over_taps(const aicf_conv *c, const aicf_converter *dtype, const char *gemm)
{
    const int64_t places = c->y.places * c->x.places, depth = aicf_conv_depth(c);
    const bool last = c->field_strides[1] == 1 && c->out_strides[1] == 1 && c->m > AICF_CONV_FEW;
    const int64_t rows = last ? places : c->m, columns = last ? c->m : places;
    const aicf_conv_plan t = aicf_conv_plan_of(c, dtype, rows, columns, AICF_CONV_TILE_N, gemm);
    aicf_parallel_for(
        c->images * c->groups * t.tiles_m * t.tiles_n, aicf_conv_grain(rows, columns, depth),
        last ? conv_last_part : conv_tap_part, (void *)&t);
}

void
conv_over_places(const aicf_conv *c, const aicf_converter *dtype, const char *gemm)
{
    const int64_t depth = aicf_conv_depth(c), places = c->images * c->y.places * c->x.places;
    const aicf_conv_plan t = aicf_conv_plan_of(c, dtype, c->m, depth, AICF_CONV_TILE_N, gemm);
    aicf_parallel_for(
        c->groups * t.tiles_m * t.tiles_n, aicf_conv_grain(c->m, depth, places), conv_place_part,
        (void *)&t);
}

#undef conv_vector
#undef conv_gemm
#undef conv_room
#undef conv_line
#undef conv_row
#undef conv_outs
#undef conv_factor
#undef conv_micro
#undef conv_few
#undef conv_multiply
#undef conv_tap_tile
#undef conv_place
#undef conv_last_tile
#undef conv_last_part
#undef conv_place_tile
#undef conv_tap_part
#undef conv_place_part
#undef conv_over_taps
#undef conv_over_places
