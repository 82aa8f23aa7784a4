/* Functions of one real on the CPU, over joint views; f16 and bf16 computed in f32. What each gives
   of NaN, infinities and 0 is said in unary.cu. out may be exactly x. Bound by bytes, but f64 by
   the arithmetic of the host's libm. */
#include <aicf/family.h>

#include AICF_OP_HEADER

#include <aicf/cpu/blocks.h>
#include <aicf/cpu/gelu.h>
#include <aicf/cpu/math.h>

/* Of x, in the accumulator type, and of the op's attributes p. */
#define FORMULA_neg(x, p) (-(x))
#define FORMULA_exp(x, p) aicf_exp(x)
#define FORMULA_log(x, p) aicf_log(x)
#define FORMULA_sqrt(x, p) aicf_sqrt(x)
#define FORMULA_relu(x, p) aicf_select((x) < 0, 0, x)
#define FORMULA_tanh(x, p) aicf_tanh(x)
#define FORMULA_sigmoid(x, p) aicf_sigmoid(x)
#define FORMULA_silu(x, p) (aicf_at_least(x, -FAR) * aicf_sigmoid(x))
#define FORMULA_leaky_relu(x, p) aicf_select((x) > 0, x, (x) * p[0])
#define FORMULA_gelu(x, p) aicf_gelu(x)
#define FORMULA_elu(x, p) aicf_select((x) > 0, x, p[0] * aicf_expm1(x))
#define FORMULA_softplus(x, p) aicf_select((x) * p[0] > p[1], x, SOFTPLUS((x) * p[0]) / p[0])
#define FORMULA AICF_OP_CHOICE(FORMULA_)
#define BY_TANH(x, p) aicf_gelu_tanh(x)

/* Sigmoid is 0 there; -inf times 0 would be NaN. */
#define FAR 10000

/* ln(1 + e**z) that overflows for no z. */
#define SOFTPLUS(z) (aicf_at_least(z, 0) + aicf_log1p_unit(aicf_exp(aicf_below_0(z))))

#define ATTRIBUTES_neg
#define ATTRIBUTES_exp
#define ATTRIBUTES_log
#define ATTRIBUTES_sqrt
#define ATTRIBUTES_relu
#define ATTRIBUTES_tanh
#define ATTRIBUTES_sigmoid
#define ATTRIBUTES_silu
#define ATTRIBUTES_leaky_relu double slope,
#define ATTRIBUTES_gelu aicf_gelu_approx approx,
#define ATTRIBUTES_elu double alpha,
#define ATTRIBUTES_softplus double beta, double threshold,

#define PARAMETERS_neg 0
#define PARAMETERS_exp 0
#define PARAMETERS_log 0
#define PARAMETERS_sqrt 0
#define PARAMETERS_relu 0
#define PARAMETERS_tanh 0
#define PARAMETERS_sigmoid 0
#define PARAMETERS_silu 0
#define PARAMETERS_leaky_relu slope
#define PARAMETERS_gelu 0
#define PARAMETERS_elu alpha
#define PARAMETERS_softplus beta, threshold

enum { GRAIN = 8192 }; /* elements a part: long beside the cost of waking a thread */

AICF_UNARY_BLOCKS(unary, FORMULA)
#define BLOCK_OF(T) AICF_BLOCK_FOR(unary, T)

#define HAS_APPROX_gelu 1
#if AICF_OP_CHOICE(HAS_APPROX_)
AICF_UNARY_BLOCKS(unary_by_tanh, BY_TANH)
#undef BLOCK_OF
#define BLOCK_OF(T) \
    (approx == AICF_GELU_APPROX_TANH ? AICF_BLOCK_FOR(unary_by_tanh, T) : AICF_BLOCK_FOR(unary, T))
#endif

#define UNARY(T, s)                                                              \
    aicf_status AICF_OP_NAME(aicf_cpu_, _loop_##s)(                              \
        const aicf_view *x, const aicf_view *out, int64_t A,                     \
        AICF_OP_CHOICE(ATTRIBUTES_) aicf_stream stream)                          \
    {                                                                            \
        const aicf_view *const views[] = {x, out};                               \
        const aicf_blocks b = {                                                  \
            &aicf_converter_##s, BLOCK_OF(T), 1, {AICF_OP_CHOICE(PARAMETERS_)}}; \
        (void)A, (void)stream;                                                   \
        return aicf_lines_run(views, 2, sizeof(T), GRAIN, aicf_blocks_line, &b); \
    }

AICF_REALS(UNARY)
