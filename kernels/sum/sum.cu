// out = x summed over axes (cuda): x a view of any strides, out dense, f32, f16 and bf16,
// accumulated in f32; a sum of nothing is 0. The two stages are described in aicf/cuda/reduce.cuh;
// `workspace` holds the first one's sums.
#include <aicf_ops/sum.h>

#include <aicf/cuda/reduce.cuh>

namespace aicf::sum {

AICF_REDUCE_KERNELS

// `axes` is folded: indexes of dims of x, each at most once.
template <typename T>
aicf_status
launch(const aicf_view *x, T *out, const aicf_ints *axes, void *workspace, aicf_stream stream)
{
    uint32_t bits = 0;
    for (int64_t i = 0; i < axes->count; i++) {
        bits |= uint32_t{1} << axes->values[i];
    }
    return reduce::launch(kernels_of<T>(), *x, bits, out, workspace, stream);
}

} // namespace aicf::sum

#define LAUNCHER(T, suffix)                                                                \
    aicf_status aicf_cuda_sum_two_stage_##suffix(                                          \
        const aicf_view *x, T *out, int64_t, const aicf_ints *axes, bool, void *workspace, \
        aicf_stream stream)                                                                \
    {                                                                                      \
        return aicf::sum::launch(x, aicf::device(out), axes, workspace, stream);           \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
