/* gemm on the CPU: out = act(alpha * a @ b + beta * c + bias), batches broadcast; product.h has
   how.

   c is read only where beta is not 0, and may be exactly out. `blas` hands on to `loop` what
   OpenBLAS does not take. */
#include <aicf_ops/gemm.h>

#include <aicf/cpu/product.h>

_Static_assert((int)AICF_GEMM_ACT_NONE == (int)AICF_PRODUCT_NONE, "one order");
_Static_assert((int)AICF_GEMM_ACT_RELU == (int)AICF_PRODUCT_RELU, "one order");
_Static_assert((int)AICF_GEMM_ACT_GELU == (int)AICF_PRODUCT_GELU, "one order");

#define LAUNCHER(kernel, T, s, acc, blas)                                                          \
    aicf_status aicf_cpu_gemm_##kernel##_##s(                                                      \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,                 \
        const aicf_view *out, int64_t A, int64_t M, int64_t K, int64_t B, int64_t N, double alpha, \
        double beta, aicf_gemm_act act, aicf_gemm_precision precision, aicf_stream stream)         \
    {                                                                                              \
        (void)A, (void)B, (void)precision, (void)stream;                                           \
        const aicf_product p = {&aicf_converter_##s,   a, b, c, out, bias, M, N, K, alpha, beta,   \
                                (aicf_product_act)act, 0, 0};                                      \
        aicf_product_##acc(p, blas);                                                               \
        return aicf_ok();                                                                          \
    }

LAUNCHER(loop, float, f32, f32, false)
LAUNCHER(loop, aicf_f16, f16, f32, false)
LAUNCHER(loop, aicf_bf16, bf16, f32, false)
LAUNCHER(loop, double, f64, f64, false)

LAUNCHER(blas, float, f32, f32, true)
LAUNCHER(blas, double, f64, f64, true)
