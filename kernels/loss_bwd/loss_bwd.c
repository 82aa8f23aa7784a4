/* Gradients of losses on the CPU: gx = f(x, target) * gy, element by element, where gy is one
   number for all unless reduction is none; of a mean divided by the number of elements. Dense
   arrays of one order; f16 and bf16 are computed in f32. gx may be exactly gy, x or target. Bound
   by bytes, bce_with_logits_bwd by its arithmetic. */
#include "../loss/formula.h"

#include OPS_HEADER(AICF_OP)

#include "../loss/lines.h"

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
    const char *gy; /* NULL: it is `factor` */
    const char *x, *target;
    char *gx;
    double factor, own;
} work;

#define LOSS_BWD_IN(real, s)                                                                 \
    AICF_INLINE void slopes_##s(                                                             \
        const real *gy, const real *x, const real *target, real *gx, int64_t n, real factor, \
        real own)                                                                            \
    {                                                                                        \
        AICF_INDEPENDENT                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                    \
            gx[i] = formula_##s(x[i], target[i], own) * (gy ? gy[i] : factor);               \
        }                                                                                    \
    }                                                                                        \
                                                                                             \
    AICF_CLONES static void values_##s(                                                      \
        const real *gy, const real *x, const real *target, real *gx, int64_t n, real factor, \
        real own)                                                                            \
    {                                                                                        \
        if (gy) {                                                                            \
            slopes_##s(gy, x, target, gx, n, factor, own);                                   \
        } else {                                                                             \
            slopes_##s(NULL, x, target, gx, n, factor, own);                                 \
        }                                                                                    \
    }                                                                                        \
                                                                                             \
    static void part_##s(void *context, int64_t begin, int64_t end)                          \
    {                                                                                        \
        const work *w = (const work *)context;                                               \
        const aicf_converter *d = w->dtype;                                                  \
        real gy_room[ROOM], x_room[ROOM], target_room[ROOM];                                 \
        for (int64_t i = begin, n; i < end; i += n) {                                        \
            n = at_most(end - i, ROOM);                                                      \
            const int64_t at = i * d->item;                                                  \
            const real *gy = w->gy ? line_of(d, w->gy + at, n, gy_room) : NULL;              \
            const real *x = line_of(d, w->x + at, n, x_room);                                \
            const real *target = line_of(d, w->target + at, n, target_room);                 \
            real *to = line_for(d, w->gx + at, x_room);                                      \
            values_##s(gy, x, target, to, n, (real)w->factor, (real)w->own);                 \
            line_end(d, to, n, w->gx + at);                                                  \
        }                                                                                    \
    }

LOSS_BWD_IN(float, f32)
LOSS_BWD_IN(double, f64)

#define LOSS_BWD(T, s, acc)                                                                   \
    aicf_status LAUNCHER(cpu, AICF_OP, loop, s)(                                              \
        const T *gy, const T *x, const T *target, T *gx, int64_t A,                           \
        REDUCTION_TYPE(AICF_OP) reduction, OWN aicf_stream stream)                            \
    {                                                                                         \
        const bool each = reduction == REDUCTION(NONE);                                       \
        work w = {                                                                            \
            &aicf_converter_##s,                                                              \
            each ? (const char *)gy : NULL,                                                   \
            (const char *)x,                                                                  \
            (const char *)target,                                                             \
            (char *)gx,                                                                       \
            0,                                                                                \
            OWN_VALUE};                                                                       \
        (void)stream;                                                                         \
        if (!each) {                                                                          \
            w.factor =                                                                        \
                (double)aicf_load_##s(gy) / (reduction == REDUCTION(MEAN) ? (double)A : 1.0); \
        }                                                                                     \
        aicf_parallel_for(A, GRAIN, part_##acc, &w);                                          \
        return aicf_ok();                                                                     \
    }

LOSS_BWD(float, f32, f32)
LOSS_BWD(aicf_f16, f16, f32)
LOSS_BWD(aicf_bf16, bf16, f32)
LOSS_BWD(double, f64, f64)
