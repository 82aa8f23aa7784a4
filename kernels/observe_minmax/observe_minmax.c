/* observe_minmax on the CPU: lo = min(lo, x), hi = max(hi, x), of all of x or of each channel of
   [L, C, R]; a NaN makes both NaN, and they stay it. Dense. Floats are compared as integers that
   have their order, with -0 below 0 and NaN at the ends: so loops are vectorised, and the bits of a
   result do not depend on who came first. Bound by bytes. */
#include <aicf_ops/observe_minmax.h>

#include <math.h>

#include <aicf/cpu/real.h>

enum {
    GRAIN = 32768, /* elements a part: long beside the cost of waking a thread */
    LANES = 64     /* compared side by side */
};

/* What LANES elements and those below them came to. */
typedef struct range {
    float least[LANES], most[LANES];
} range;

/* `rows` rows of `width` lanes, `pitch` elements apart, from element `first` on. */
typedef void
sweep_fn(const void *x, int64_t first, int64_t rows, int64_t pitch, int64_t width, range *found);

#define SWEEP(T, s, BITS, MOST)                                                                 \
    AICF_INLINE BITS key_##s(BITS bits)                                                         \
    {                                                                                           \
        return (BITS)(bits ^ ((bits >> (sizeof bits * 8 - 1)) & MOST));                         \
    }                                                                                           \
                                                                                                \
    AICF_INLINE void keys_##s(                                                                  \
        const BITS *x, int64_t rows, int64_t pitch, int64_t width, BITS *least, BITS *most)     \
    {                                                                                           \
        for (int64_t row = 0; row < rows; row++) {                                              \
            for (int64_t i = 0; i < width; i++) {                                               \
                const BITS key = key_##s(x[row * pitch + i]);                                   \
                least[i] = key < least[i] ? key : least[i];                                     \
                most[i] = key > most[i] ? key : most[i];                                        \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    static float float_##s(BITS key)                                                            \
    {                                                                                           \
        const BITS bits = key_##s(key);                                                         \
        T x;                                                                                    \
        memcpy(&x, &bits, sizeof x);                                                            \
        return (float)aicf_load_##s(&x);                                                        \
    }                                                                                           \
                                                                                                \
    AICF_CLONES static void sweep_##s(                                                          \
        const void *x, int64_t first, int64_t rows, int64_t pitch, int64_t width, range *found) \
    {                                                                                           \
        const BITS *at = (const BITS *)x + first;                                               \
        BITS least[LANES], most[LANES];                                                         \
        for (int i = 0; i < LANES; i++) {                                                       \
            least[i] = MOST;                                                                    \
            most[i] = (BITS)~MOST;                                                              \
        }                                                                                       \
        if (width == LANES) {                                                                   \
            keys_##s(at, rows, pitch, LANES, least, most);                                      \
        } else {                                                                                \
            keys_##s(at, rows, pitch, width, least, most);                                      \
        }                                                                                       \
        for (int64_t i = 0; i < width; i++) {                                                   \
            found->least[i] = float_##s(least[i]);                                              \
            found->most[i] = float_##s(most[i]);                                                \
        }                                                                                       \
    }

SWEEP(float, f32, int32_t, INT32_MAX)
SWEEP(aicf_f16, f16, int16_t, INT16_MAX)
SWEEP(aicf_bf16, bf16, int16_t, INT16_MAX)
SWEEP(double, f64, int64_t, INT64_MAX)

typedef struct observing {
    const void *x;
    float *lo, *hi;
    int64_t L, C, R;
    int64_t pieces, piece; /* of a run of R: how many, elements in each */
    sweep_fn *sweep;
} observing;

/* Bits of a float in the order of floats. */
static int32_t
order_of(float x)
{
    return key_f32((int32_t)aicf_bits_of_f32(x));
}

/* Makes *to the lesser of itself and x in the order of `sign` times the floats, whoever else does
   the same; NaN is less than all. */
static void
merge(float *to, float x, int32_t sign)
{
    uint32_t *word = (uint32_t *)(void *)to;
    const uint32_t bits = x != x ? 0x7fc00000 : aicf_bits_of_f32(x);
    uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (;;) {
        const float held = aicf_f32_of_bits(seen);
        const bool less = sign > 0 ? order_of(x) < order_of(held) : order_of(x) > order_of(held);
        if (held != held || !(x != x || less) ||
            __atomic_compare_exchange_n(
                word, &seen, bits, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            return;
        }
    }
}

/* Lane i belongs to channel (c + i) % C. */
static void
merge_lanes(const observing *o, const range *found, int64_t c, int64_t width)
{
    for (int64_t i = 0; i < width; i++) {
        const float least = found->least[i], most = found->most[i];
        const bool nan = least != least || most != most;
        const int64_t channel = (c + i) % o->C;
        merge(o->lo + channel, nan ? NAN : least, 1);
        merge(o->hi + channel, nan ? NAN : most, -1);
    }
}

/* n elements from `first` on, channels changing with a period of C <= LANES; c is the first. */
static void
observe_line(const observing *o, int64_t first, int64_t n, int64_t period, int64_t c)
{
    const int64_t width = LANES / period * period, rows = n / width;
    range found;
    if (rows > 0) {
        o->sweep(o->x, first, rows, width, width, &found);
        merge_lanes(o, &found, c, width);
    }
    if (n > rows * width) {
        o->sweep(o->x, first + rows * width, 1, width, n - rows * width, &found);
        merge_lanes(o, &found, c, n - rows * width);
    }
}

/* Few channels side by side: [begin, end) are indexes of L. */
static void
observe_narrow(void *context, int64_t begin, int64_t end)
{
    const observing *o = (const observing *)context;
    observe_line(o, begin * o->C, (end - begin) * o->C, o->C, 0);
}

/* Many channels side by side: [begin, end) count rows of LANES channels, those of the same channels
   one after the other. */
static void
observe_wide(void *context, int64_t begin, int64_t end)
{
    const observing *o = (const observing *)context;
    while (begin < end) {
        const int64_t c = begin / o->L * LANES, row = begin % o->L;
        const int64_t rows = o->L - row < end - begin ? o->L - row : end - begin;
        const int64_t width = o->C - c < LANES ? o->C - c : LANES;
        range found;
        o->sweep(o->x, row * o->C + c, rows, o->C, width, &found);
        merge_lanes(o, &found, c, width);
        begin += rows;
    }
}

/* Channels in runs: [begin, end) count pieces of runs. Lanes of a run are of one channel. */
static void
observe_runs(void *context, int64_t begin, int64_t end)
{
    const observing *o = (const observing *)context;
    for (; begin < end; begin++) {
        const int64_t run = begin / o->pieces, at = begin % o->pieces * o->piece;
        const int64_t n = o->R - at < o->piece ? o->R - at : o->piece, c = run % o->C;
        const observing one = {o->x, o->lo + c, o->hi + c, 1, 1, n, 1, n, o->sweep};
        observe_line(&one, run * o->R + at, n, 1, 0);
    }
}

static aicf_status
observe(observing *o, int64_t S)
{
    if (S == 1) {
        o->L *= o->C * o->R;
        o->C = o->R = 1;
    }
    if (o->L * o->C * o->R == 0) {
        return aicf_ok();
    }
    if (o->R > 1) {
        o->piece = GRAIN / 2;
        o->pieces = (o->R + o->piece - 1) / o->piece;
        const int64_t length = o->R < o->piece ? o->R : o->piece;
        aicf_parallel_for(o->L * o->C * o->pieces, GRAIN / length, observe_runs, o);
    } else if (o->C <= LANES) {
        aicf_parallel_for(o->L, GRAIN / o->C, observe_narrow, o);
    } else {
        const int64_t groups = (o->C + LANES - 1) / LANES;
        aicf_parallel_for(o->L * groups, GRAIN / LANES, observe_wide, o);
    }
    return aicf_ok();
}

#define OBSERVE_MINMAX(T, s)                                                          \
    aicf_status aicf_cpu_observe_minmax_loop_##s(                                     \
        const T *x, float *lo, float *hi, int64_t L, int64_t C, int64_t R, int64_t S, \
        int64_t axis, aicf_stream stream)                                             \
    {                                                                                 \
        observing o = {x, lo, hi, L, C, R, 1, R, sweep_##s};                          \
        (void)axis, (void)stream;                                                     \
        return observe(&o, S);                                                        \
    }

AICF_REALS(OBSERVE_MINMAX)
