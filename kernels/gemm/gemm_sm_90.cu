// gemm for sm_90 and later without their matrix units: f32 where the out has few tiles.
#include "split.cuh"

aicf_status
aicf_cuda_gemm_split_f32(
    const aicf_view *a, const aicf_view *b, const float *bias, const aicf_view *c,
    const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha,
    double beta, aicf_gemm_act act, aicf_gemm_precision, aicf_stream stream)
{
    return aicf::gemm::launch_split(
        aicf::gemm::problem_of(a, b, bias, c, out, M, K, N, alpha, beta, act), stream);
}
