/* What cross_entropy and its gradient share on the CPU: how targets and the classes' weights
   count. Lines are those of logits [N, C, R], N * R of them. */
#ifndef AICF_KERNELS_CROSS_ENTROPY_RULES_H
#define AICF_KERNELS_CROSS_ENTROPY_RULES_H

#include <aicf/cpu/soft.h>

typedef struct loss_rules {
    const aicf_converter *dtype; /* of logits, weight and gradients */
    const void *target;
    bool wide;          /* targets are i64, else i32 */
    const void *weight; /* NULL: all 1 */
    int64_t ignore_index;
    double smoothing;
    soft_shape shape;
} loss_rules;

AICF_INLINE int64_t
loss_target(const loss_rules *r, int64_t line)
{
    return r->wide ? ((const int64_t *)r->target)[line] : ((const int32_t *)r->target)[line];
}

AICF_INLINE bool
loss_is_class(const loss_rules *r, int64_t t)
{
    return t >= 0 && t < r->shape.N;
}

/* Index of logits[n, c, r] where `line` is n and r. */
AICF_INLINE int64_t
loss_at(const loss_rules *r, int64_t line, int64_t c)
{
    return (line / r->shape.R * r->shape.N + c) * r->shape.R + line % r->shape.R;
}

#define S f32
#define REAL float
#include "rules_of.h"
#undef REAL
#undef S

#define S f64
#define REAL double
#include "rules_of.h"
#undef REAL
#undef S

#endif
