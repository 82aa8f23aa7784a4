// gb[n] = the sum of gy[L, n, R] over L and R (cuda): dense, f32, f16 and bf16, accumulated in f32;
// a sum of nothing is 0. The two stages are described in aicf/cuda/reduce.cuh; `workspace` holds
// the first one's sums.
#include <aicf_ops/bias_add_bwd.h>

#include <aicf/cuda/reduce.cuh>

namespace aicf::bias_add_bwd {

AICF_REDUCE_KERNELS(reduce::sum_of)

template <typename T>
aicf_status
launch(const T *gy, T *gb, int64_t L, int64_t N, int64_t R, void *workspace, aicf_stream stream)
{
    aicf_view view = {const_cast<T *>(gy), 3, {L, N, R}, {N * R, R, 1}};
    return reduce::launch(kernels_of<T>(), view, 1 << 0 | 1 << 2, gb, {}, workspace, stream);
}

} // namespace aicf::bias_add_bwd

#define LAUNCHER(T, suffix)                                                            \
    aicf_status aicf_cuda_bias_add_bwd_two_stage_##suffix(                             \
        const T *gy, T *gb, int64_t L, int64_t N, int64_t R, int64_t, void *workspace, \
        aicf_stream stream)                                                            \
    {                                                                                  \
        return aicf::bias_add_bwd::launch(                                             \
            aicf::device(gy), aicf::device(gb), L, N, R, workspace, stream);           \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
