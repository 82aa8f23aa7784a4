/* Losses on the CPU: out = f(x, target), element by element, or the sum or mean of that; dense
   arrays of one order. f16 and bf16 are computed in f32; sums are of f64, in parts that follow from
   their number alone. Of nothing the sum is 0 and the mean NaN. out may be exactly x or target.
   Bound by bytes, bce_with_logits by its arithmetic. */
#include "formula.h"

#include OPS_HEADER(AICF_OP)

#include "lines.h"

enum {
    LANES = 8, /* running sums: enough to hide the latency of an addition */
    PARTS = 64 /* of a sum */
};

#define S f32
#define REAL float
#include FORMULA_HEADER(AICF_OP)
#undef REAL
#undef S

#define S f64
#define REAL double
#include FORMULA_HEADER(AICF_OP)
#undef REAL
#undef S

typedef struct work {
    const aicf_converter *dtype;
    const char *x, *target;
    char *out;
    int64_t n, part; /* elements of all, of a part */
    double own;
    double *sums; /* one a part */
} work;

#define LOSS_IN(real, s)                                                                  \
    AICF_CLONES static void values_##s(                                                   \
        const real *x, const real *target, real *to, int64_t n, real own)                 \
    {                                                                                     \
        AICF_INDEPENDENT                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                 \
            to[i] = formula_##s(x[i], target[i], own);                                    \
        }                                                                                 \
    }                                                                                     \
                                                                                          \
    AICF_CLONES static double sum_##s(const real *x, int64_t n)                           \
    {                                                                                     \
        double lanes[LANES] = {0}, sum = 0;                                               \
        const int64_t whole = n - n % LANES;                                              \
        for (int64_t i = 0; i < whole; i += LANES) {                                      \
            for (int lane = 0; lane < LANES; lane++) {                                    \
                lanes[lane] += x[i + lane];                                               \
            }                                                                             \
        }                                                                                 \
        for (int64_t i = whole; i < n; i++) {                                             \
            lanes[i - whole] += x[i];                                                     \
        }                                                                                 \
        for (int lane = 0; lane < LANES; lane++) {                                        \
            sum += lanes[lane];                                                           \
        }                                                                                 \
        return sum;                                                                       \
    }                                                                                     \
                                                                                          \
    /* Elements [begin, end) to out. */                                                   \
    static void each_##s(void *context, int64_t begin, int64_t end)                       \
    {                                                                                     \
        const work *w = (const work *)context;                                            \
        const aicf_converter *d = w->dtype;                                               \
        real x_room[ROOM], target_room[ROOM];                                             \
        for (int64_t i = begin, n; i < end; i += n) {                                     \
            n = at_most(end - i, ROOM);                                                   \
            const real *x = line_of(d, w->x + i * d->item, n, x_room);                    \
            const real *target = line_of(d, w->target + i * d->item, n, target_room);     \
            real *to = line_for(d, w->out + i * d->item, x_room);                         \
            values_##s(x, target, to, n, (real)w->own);                                   \
            line_end(d, to, n, w->out + i * d->item);                                     \
        }                                                                                 \
    }                                                                                     \
                                                                                          \
    /* Parts [begin, end) to their sums. */                                               \
    static void parts_##s(void *context, int64_t begin, int64_t end)                      \
    {                                                                                     \
        const work *w = (const work *)context;                                            \
        const aicf_converter *d = w->dtype;                                               \
        real x_room[ROOM], target_room[ROOM];                                             \
        for (int64_t part = begin; part < end; part++) {                                  \
            const int64_t stop = at_most((part + 1) * w->part, w->n);                     \
            double sum = 0;                                                               \
            for (int64_t i = part * w->part, n; i < stop; i += n) {                       \
                n = at_most(stop - i, ROOM);                                              \
                const real *x = line_of(d, w->x + i * d->item, n, x_room);                \
                const real *target = line_of(d, w->target + i * d->item, n, target_room); \
                values_##s(x, target, x_room, n, (real)w->own);                           \
                sum += sum_##s(x_room, n);                                                \
            }                                                                             \
            w->sums[part] = sum;                                                          \
        }                                                                                 \
    }                                                                                     \
                                                                                          \
    static void run_##s(work *w, bool each, double factor)                                \
    {                                                                                     \
        if (each) {                                                                       \
            aicf_parallel_for(w->n, GRAIN, each_##s, w);                                  \
            return;                                                                       \
        }                                                                                 \
        double sums[PARTS], total = 0;                                                    \
        const int64_t parts = at_most(1 + w->n / GRAIN, PARTS);                           \
        w->part = w->n / parts + 1;                                                       \
        w->sums = sums;                                                                   \
        aicf_parallel_for(parts, 1, parts_##s, w);                                        \
        for (int64_t part = 0; part < parts; part++) {                                    \
            total += sums[part];                                                          \
        }                                                                                 \
        const real result = (real)(total * factor);                                       \
        memcpy(line_for(w->dtype, w->out, &(real){0}), &result, sizeof result);           \
        line_end(w->dtype, &result, 1, w->out);                                           \
    }

LOSS_IN(float, f32)
LOSS_IN(double, f64)

#define LOSS(T, s, acc)                                                                    \
    aicf_status LAUNCHER(cpu, AICF_OP, loop, s)(                                           \
        const T *x, const T *target, T *out, int64_t A, REDUCTION_TYPE(AICF_OP) reduction, \
        OWN aicf_stream stream)                                                            \
    {                                                                                      \
        work w = {&aicf_converter_##s,                                                     \
                  (const char *)x,                                                         \
                  (const char *)target,                                                    \
                  (char *)out,                                                             \
                  A,                                                                       \
                  0,                                                                       \
                  OWN_VALUE,                                                               \
                  NULL};                                                                   \
        (void)stream;                                                                      \
        run_##acc(                                                                         \
            &w, reduction == REDUCTION(NONE),                                              \
            reduction == REDUCTION(MEAN) ? 1.0 / (double)A : 1.0);                         \
        return aicf_ok();                                                                  \
    }

LOSS(float, f32, f32)
LOSS(aicf_f16, f16, f32)
LOSS(aicf_bf16, bf16, f32)
LOSS(double, f64, f64)
