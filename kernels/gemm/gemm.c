/* gemm on the CPU: out = act(alpha * a @ b + beta * c + bias), batches broadcast; product.h has
   how.

   c is read only where beta is not 0, and may be exactly out. `blas` hands on to `loop` what
   OpenBLAS does not take. */
#include "product.h"

#define LOOP(T, s, acc)                                                                            \
    aicf_status aicf_cpu_gemm_loop_##s(                                                            \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,                 \
        const aicf_view *out, int64_t A, int64_t M, int64_t K, int64_t B, int64_t N, double alpha, \
        double beta, aicf_gemm_act act, aicf_gemm_precision precision, aicf_stream stream)         \
    {                                                                                              \
        product p = {&aicf_converter_##s, a, b, c, out, bias, M, N, K, 0, 0, alpha, beta, act};    \
        (void)A, (void)B, (void)precision, (void)stream;                                           \
        gemm_run_##acc(&p);                                                                        \
        return aicf_ok();                                                                          \
    }

LOOP(float, f32, f32)
LOOP(aicf_f16, f16, f32)
LOOP(aicf_bf16, bf16, f32)
LOOP(double, f64, f64)

#define BLAS(T, s)                                                                                 \
    aicf_status aicf_cpu_gemm_blas_##s(                                                            \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,                 \
        const aicf_view *out, int64_t A, int64_t M, int64_t K, int64_t B, int64_t N, double alpha, \
        double beta, aicf_gemm_act act, aicf_gemm_precision precision, aicf_stream stream)         \
    {                                                                                              \
        product p = {&aicf_converter_##s, a, b, c, out, bias, M, N, K, 0, 0, alpha, beta, act};    \
        (void)A, (void)B, (void)precision, (void)stream;                                           \
        if (!blas_run_##s(&p)) {                                                                   \
            gemm_run_##s(&p);                                                                      \
        }                                                                                          \
        return aicf_ok();                                                                          \
    }

BLAS(float, f32)
BLAS(double, f64)
