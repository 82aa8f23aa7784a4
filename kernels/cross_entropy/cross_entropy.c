/* Cross entropy on the CPU of logits [N, C, R] and targets [N, R], dense; f16 and bf16 are computed
   in f32 and rounded once. `lse` and `divisor` are written where they are not NULL. Sums over lines
   are of f64, part by part. */
#include <aicf_ops/cross_entropy.h>

#include "rules.h"

enum { LOSS_PARTS = 256 }; /* of all lines, at most: as many sums on the stack */

typedef struct loss_plan {
    loss_rules rules;
    const void *logits;
    void *out; /* of `none`, else NULL */
    void *lse;
    double (*sums)[2];
    int64_t share; /* groups a part */
} loss_plan;

#define S f32
#define REAL float
#include "loss_of.h"
#undef REAL
#undef S

#define S f64
#define REAL double
#include "loss_of.h"
#undef REAL
#undef S

#define CROSS_ENTROPY(T, s, acc, I, i)                                                           \
    aicf_status aicf_cpu_cross_entropy_loop_##s##_##i(                                           \
        const T *logits, const I *target, const T *weight, T *out, aicf_acc_##s *lse,            \
        aicf_acc_##s *divisor, int64_t N, int64_t C, int64_t R,                                  \
        aicf_cross_entropy_reduction reduction, int64_t ignore_index, double label_smoothing,    \
        aicf_stream stream)                                                                      \
    {                                                                                            \
        const bool none = reduction == AICF_CROSS_ENTROPY_REDUCTION_NONE;                        \
        loss_plan p = {                                                                          \
            {&aicf_converter_##s, target, sizeof(I) == 8, weight, ignore_index, label_smoothing, \
             soft_shape_of(N, C, R)},                                                            \
            logits,                                                                              \
            none ? out : NULL,                                                                   \
            lse,                                                                                 \
            NULL,                                                                                \
            0};                                                                                  \
        (void)stream;                                                                            \
        loss_run_##acc(&p, reduction == AICF_CROSS_ENTROPY_REDUCTION_MEAN, out, divisor);        \
        return aicf_ok();                                                                        \
    }

#define CROSS_ENTROPIES(T, s, acc)         \
    CROSS_ENTROPY(T, s, acc, int64_t, i64) \
    CROSS_ENTROPY(T, s, acc, int32_t, i32)

CROSS_ENTROPIES(float, f32, f32)
CROSS_ENTROPIES(aicf_f16, f16, f32)
CROSS_ENTROPIES(aicf_bf16, bf16, f32)
CROSS_ENTROPIES(double, f64, f64)
