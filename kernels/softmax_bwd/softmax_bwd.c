/* Gradients of softmax and log_softmax on the CPU, along one axis of dense arrays, from the forward
   result: compiled once an op, with AICF_OP its name. f16 and bf16 are computed in f32 and rounded
   once. gx may be exactly gy or exactly fwd. */
#define HEADER(op) <aicf_ops/op.h>
#include HEADER(AICF_OP)

#include <aicf/cpu/soft.h>

#define JOIN(name, op) name##op
#define JOINED(name, op) JOIN(name, op)

/* What is summed along the axis, and the gradient by that sum; y is the forward result. */
enum { weighs_softmax_bwd = 1, weighs_log_softmax_bwd = 0 };
#define TERM(gy, y) (JOINED(weighs_, AICF_OP) ? (gy) * (y) : (gy))
#define RULE_softmax_bwd(gy, y, sum) ((y) * ((gy) - (sum)))
#define RULE_log_softmax_bwd(gy, y, sum) ((gy) - aicf_exp(y) * (sum))
#define RULE JOINED(RULE_, AICF_OP)

typedef struct softmax_bwd_plan {
    const aicf_converter *dtype;
    const void *gy, *fwd;
    void *gx;
    soft_shape shape;
} softmax_bwd_plan;

#define SOFTMAX_BWD_IN(REAL, S)                                                               \
    AICF_INLINE void softmax_bwd_sum_##S(                                                     \
        const softmax_bwd_plan *p, const soft_group *g, REAL *sum)                            \
    {                                                                                         \
        REAL held[SOFT_LANES], other[SOFT_LANES], block[SOFT_LANES];                          \
        soft_fill_##S(sum, 0);                                                                \
        soft_fill_##S(block, 0);                                                              \
        for (int64_t row = 0; row < g->rows; row++) {                                         \
            const REAL *gy = (const REAL *)soft_load(p->dtype, g, row, p->gy, held);          \
            const REAL *y = (const REAL *)soft_load(p->dtype, g, row, p->fwd, other);         \
            const int width = soft_width(g, row);                                             \
            for (int w = 0; w < width; w++) {                                                 \
                block[w] += TERM(gy[w], y[w]);                                                \
            }                                                                                 \
            soft_block_##S(g, row, sum, block);                                               \
        }                                                                                     \
        if (g->single) {                                                                      \
            soft_fold_sum_##S(sum);                                                           \
        }                                                                                     \
    }                                                                                         \
                                                                                              \
    AICF_INLINE void softmax_bwd_map_##S(                                                     \
        const softmax_bwd_plan *p, const soft_group *g, const REAL *sum)                      \
    {                                                                                         \
        REAL held[SOFT_LANES], other[SOFT_LANES], result[SOFT_LANES];                         \
        for (int64_t row = 0; row < g->rows; row++) {                                         \
            const REAL *gy = (const REAL *)soft_load(p->dtype, g, row, p->gy, held);          \
            const REAL *y = (const REAL *)soft_load(p->dtype, g, row, p->fwd, other);         \
            REAL *gx = (REAL *)soft_place(p->dtype, g, row, p->gx, result);                   \
            const int width = soft_width(g, row);                                             \
            AICF_INDEPENDENT                                                                  \
            for (int w = 0; w < width; w++) {                                                 \
                gx[w] = RULE(gy[w], y[w], sum[w]);                                            \
            }                                                                                 \
            soft_store(p->dtype, g, row, p->gx, gx);                                          \
        }                                                                                     \
    }                                                                                         \
                                                                                              \
    AICF_CLONES static void softmax_bwd_groups_##S(void *context, int64_t begin, int64_t end) \
    {                                                                                         \
        const softmax_bwd_plan *p = (const softmax_bwd_plan *)context;                        \
        for (int64_t i = begin; i < end; i++) {                                               \
            const soft_group g = soft_group_at(&p->shape, i);                                 \
            REAL sum[SOFT_LANES];                                                             \
            softmax_bwd_sum_##S(p, &g, sum);                                                  \
            softmax_bwd_map_##S(p, &g, sum);                                                  \
        }                                                                                     \
    }

SOFTMAX_BWD_IN(float, f32)
SOFTMAX_BWD_IN(double, f64)

#define NAME_OF(op, s) aicf_cpu_##op##_loop_##s
#define NAME(op, s) NAME_OF(op, s)

#define SOFTMAX_BWD(T, s, acc)                                                           \
    aicf_status NAME(AICF_OP, s)(                                                        \
        const T *gy, const T *fwd, T *gx, int64_t L, int64_t N, int64_t R, int64_t axis, \
        aicf_stream stream)                                                              \
    {                                                                                    \
        softmax_bwd_plan p = {&aicf_converter_##s, gy, fwd, gx, soft_shape_of(L, N, R)}; \
        (void)axis, (void)stream;                                                        \
        soft_run(&p.shape, softmax_bwd_groups_##acc, &p);                                \
        return aicf_ok();                                                                \
    }

SOFTMAX_BWD(float, f32, f32)
SOFTMAX_BWD(aicf_f16, f16, f32)
SOFTMAX_BWD(aicf_bf16, bf16, f32)
SOFTMAX_BWD(double, f64, f64)
