// The weight gradient of conv2d on CUDA without matrix units: `direct` for depthwise convolutions,
// `igemm` for all others; any strides (see aicf/cuda/conv_direct.cuh and conv_fma.cuh; in f32
// threes.cuh). Where few blocks would make the gradient, places are split among more, whose sums in
// f32 are added in a fixed order.
#define AICF_OP conv2d_dw

#include <aicf_ops/conv2d_dw.h>

#include <aicf/cuda/conv_direct.cuh>
#include <aicf/cuda/conv_fma.cuh>

#include "threes.cuh"

namespace aicf::conv2d_dw {

template <typename T>
aicf_status
run_direct(const aicf_conv &c, void *workspace, aicf_stream stream)
{
    return launch_direct_places<T>(c, workspace, stream);
}

template <typename T>
aicf_status
run_igemm(const aicf_conv &c, void *workspace, aicf_stream stream)
{
    problem<T> p = problem_of<T>(c, true);
    if constexpr (std::is_same_v<T, float>) {
        bool done = false;
        aicf_status status = threes::launch(c, most_splits(p), workspace, done, stream);
        if (status.kind || done) {
            return status;
        }
    }
    split(p, workspace, kSlab);
    return launch_multiplied(p, stream);
}

} // namespace aicf::conv2d_dw

#define LAUNCHER(id, T, suffix)                                                                    \
    aicf_status aicf_cuda_conv2d_dw_##id##_##suffix(                                               \
        const aicf_view *gy, const aicf_view *x, const aicf_view *gw, int64_t, int64_t, int64_t,   \
        int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, const int64_t stride[2],             \
        const int64_t pad[2], const int64_t dilation[2], int64_t groups, void *workspace,          \
        aicf_stream stream)                                                                        \
    {                                                                                              \
        return aicf::conv2d_dw::run_##id<aicf::device_t<T>>(                                       \
            aicf_conv_of(sizeof(T), x, gw, gy, stride, pad, dilation, groups), workspace, stream); \
    }

LAUNCHER(direct, float, f32)
LAUNCHER(direct, aicf_f16, f16)
LAUNCHER(direct, aicf_bf16, bf16)
LAUNCHER(igemm, float, f32)
LAUNCHER(igemm, aicf_f16, f16)
LAUNCHER(igemm, aicf_bf16, bf16)
