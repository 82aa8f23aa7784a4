/* Gradient of cross entropy by its logits [N, C, R] on the CPU, dense, from lse and divisor as
   cross_entropy gives them; f16 and bf16 are computed in f32 and rounded once. gx may be exactly
   logits. */
#include <aicf_ops/cross_entropy_bwd.h>

#include "../cross_entropy/rules.h"

typedef struct slope_plan {
    loss_rules rules;
    const void *gy, *logits, *lse, *divisor;
    void *gx;
    bool each;      /* gy has a value a line */
    bool divided;   /* by the divisor */
    double weights; /* their sum */
} slope_plan;

#define S f32
#define REAL float
#include "slope_of.h"
#undef REAL
#undef S

#define S f64
#define REAL double
#include "slope_of.h"
#undef REAL
#undef S

#define CROSS_ENTROPY_BWD(T, s, acc, I, i)                                                        \
    aicf_status aicf_cpu_cross_entropy_bwd_loop_##s##_##i(                                        \
        const T *gy, const T *logits, const I *target, const aicf_acc_##s *lse,                   \
        const aicf_acc_##s *divisor, const T *weight, T *gx, int64_t N, int64_t R, int64_t C,     \
        aicf_cross_entropy_bwd_reduction reduction, int64_t ignore_index, double label_smoothing, \
        aicf_stream stream)                                                                       \
    {                                                                                             \
        slope_plan p = {                                                                          \
            {&aicf_converter_##s, target, sizeof(I) == 8, weight, ignore_index, label_smoothing,  \
             soft_shape_of(N, C, R)},                                                             \
            gy,                                                                                   \
            logits,                                                                               \
            lse,                                                                                  \
            divisor,                                                                              \
            gx,                                                                                   \
            reduction == AICF_CROSS_ENTROPY_BWD_REDUCTION_NONE,                                   \
            reduction == AICF_CROSS_ENTROPY_BWD_REDUCTION_MEAN,                                   \
            0};                                                                                   \
        (void)stream;                                                                             \
        slope_run_##acc(&p);                                                                      \
        return aicf_ok();                                                                         \
    }

#define CROSS_ENTROPIES_BWD(T, s, acc)         \
    CROSS_ENTROPY_BWD(T, s, acc, int64_t, i64) \
    CROSS_ENTROPY_BWD(T, s, acc, int32_t, i32)

CROSS_ENTROPIES_BWD(float, f32, f32)
CROSS_ENTROPIES_BWD(aicf_f16, f16, f32)
CROSS_ENTROPIES_BWD(aicf_bf16, bf16, f32)
CROSS_ENTROPIES_BWD(double, f64, f64)
