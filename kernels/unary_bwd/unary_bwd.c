/* Gradients of functions of one real on the CPU, over joint views; f16 and bf16 computed in f32.
   What y is, and what each gives of NaN and infinities, is said in unary_bwd.cu. gx may be exactly
   gy or exactly y. Bound by bytes, but f64 by the arithmetic of the host's libm. */
#include <aicf/family.h>

#include AICF_OP_HEADER

#include <aicf/cpu/blocks.h>
#include <aicf/cpu/gelu.h>
#include <aicf/cpu/math.h>

/* Of gy as g and y, in the accumulator type, and of the op's attributes p. */
#define FORMULA_relu_bwd(g, y, p) aicf_select((y) <= 0, 0, g)
#define FORMULA_tanh_bwd(g, y, p) ((g) * (1 - (y) * (y)))
#define FORMULA_sigmoid_bwd(g, y, p) ((g) * ((1 - (y)) * (y)))
#define FORMULA_silu_bwd(g, y, p) ((g) * SILU_SLOPE(aicf_clamp(y, -FAR, FAR)))
#define FORMULA_leaky_relu_bwd(g, y, p) aicf_select((y) > 0, g, (g) * p[0])
#define FORMULA_gelu_bwd(g, y, p) ((g) * aicf_gelu_slope(y))
#define FORMULA_elu_bwd(g, y, p) aicf_select((y) > 0, g, (g) * p[0] * aicf_exp(y))
#define FORMULA_softplus_bwd(g, y, p) \
    aicf_select((y) * p[0] > p[1], g, (g) * aicf_sigmoid((y) * p[0]))
#define FORMULA AICF_OP_CHOICE(FORMULA_)
#define BY_TANH(g, y, p) ((g) * aicf_gelu_tanh_slope(y))

/* Beyond it the slope is 0 or 1; an infinity times 0 would be NaN. */
#define FAR 10000
#define SILU_SLOPE(y) (aicf_sigmoid(y) * (1 + (y) * (1 - aicf_sigmoid(y))))

#define ATTRIBUTES_relu_bwd
#define ATTRIBUTES_tanh_bwd
#define ATTRIBUTES_sigmoid_bwd
#define ATTRIBUTES_silu_bwd
#define ATTRIBUTES_leaky_relu_bwd double slope,
#define ATTRIBUTES_gelu_bwd aicf_gelu_bwd_approx approx,
#define ATTRIBUTES_elu_bwd double alpha,
#define ATTRIBUTES_softplus_bwd double beta, double threshold,

#define PARAMETERS_relu_bwd 0
#define PARAMETERS_tanh_bwd 0
#define PARAMETERS_sigmoid_bwd 0
#define PARAMETERS_silu_bwd 0
#define PARAMETERS_leaky_relu_bwd slope
#define PARAMETERS_gelu_bwd 0
#define PARAMETERS_elu_bwd alpha
#define PARAMETERS_softplus_bwd beta, threshold

enum { GRAIN = 8192 }; /* elements a part: long beside the cost of waking a thread */

AICF_BINARY_BLOCKS(unary_bwd, FORMULA)
#define BLOCK_OF(T) AICF_BLOCK_FOR(unary_bwd, T)

#define HAS_APPROX_gelu_bwd 1
#if AICF_OP_CHOICE(HAS_APPROX_)
AICF_BINARY_BLOCKS(unary_bwd_by_tanh, BY_TANH)
#undef BLOCK_OF
#define BLOCK_OF(T)                                                             \
    (approx == AICF_GELU_BWD_APPROX_TANH ? AICF_BLOCK_FOR(unary_bwd_by_tanh, T) \
                                         : AICF_BLOCK_FOR(unary_bwd, T))
#endif

#define UNARY_BWD(T, s)                                                          \
    aicf_status AICF_OP_NAME(aicf_cpu_, _loop_##s)(                              \
        const aicf_view *gy, const aicf_view *y, const aicf_view *gx, int64_t A, \
        AICF_OP_CHOICE(ATTRIBUTES_) aicf_stream stream)                          \
    {                                                                            \
        const aicf_view *const views[] = {gy, y, gx};                            \
        const aicf_blocks b = {                                                  \
            &aicf_converter_##s, BLOCK_OF(T), 2, {AICF_OP_CHOICE(PARAMETERS_)}}; \
        (void)A, (void)stream;                                                   \
        return aicf_lines_run(views, 3, sizeof(T), GRAIN, aicf_blocks_line, &b); \
    }

AICF_REALS(UNARY_BWD)
