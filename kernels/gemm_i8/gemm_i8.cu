// gemm_i8 on CUDA without matrix units: operands of any strides, any sizes (see
// aicf/cuda/conv_i8.cuh).
#define AICF_OP gemm_i8
#include <aicf_ops/gemm_i8.h>

#include <aicf/product.h>

#include <aicf/cuda/conv_i8.cuh>

#define LAUNCHER(q, Q, is_signed, u, U, KIND)                                                      \
    aicf_status aicf_cuda_gemm_i8_dp4a_##q##_##u(                                                  \
        const aicf_view *a, const aicf_view *b, const float *a_scale, const float *b_scale,        \
        const int32_t *a_zero, const int32_t *bias, const float *out_scale,                        \
        const int32_t *out_zero, const aicf_view *out, int64_t M, int64_t K, int64_t N, int64_t S, \
        aicf_gemm_i8_act act, aicf_stream stream)                                                  \
    {                                                                                              \
        const aicf_conv c = aicf_conv_of_product(sizeof(U), a, b, out, M, K, N);                   \
        const aicf_requant r = {a_scale,   b_scale,  out_scale, a_zero,                            \
                                bias,      out_zero, S,         act == AICF_GEMM_I8_ACT_RELU,      \
                                is_signed, KIND};                                                  \
        return aicf::gemm_i8::launch_dp4a(c, r, stream);                                           \
    }

AICF_REQUANTS(LAUNCHER)
