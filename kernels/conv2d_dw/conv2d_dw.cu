// The weight gradient of conv2d on CUDA without matrix units; any strides (see
// aicf/cuda/conv_simt.cuh). Where few tiles make the gradient, places are split among blocks, whose
// sums in f32 are added in a fixed order.
#include <aicf_ops/conv2d_dw.h>

#include <aicf/cuda/conv_simt.cuh>

namespace aicf::conv {

template <typename T>
aicf_status
run_igemm(const aicf_conv &c, void *workspace, aicf_stream stream)
{
    problem<T> p = problem_of<T>(c, true);
    split(p, workspace, kSlab);
    return launch_simt(p, stream);
}

} // namespace aicf::conv

#define LAUNCHER(T, suffix)                                                                        \
    aicf_status aicf_cuda_conv2d_dw_igemm_##suffix(                                                \
        const aicf_view *gy, const aicf_view *x, const aicf_view *gw, int64_t, int64_t, int64_t,   \
        int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, const int64_t stride[2],             \
        const int64_t pad[2], const int64_t dilation[2], int64_t groups, void *workspace,          \
        aicf_stream stream)                                                                        \
    {                                                                                              \
        return aicf::conv::run_igemm<aicf::device_t<T>>(                                           \
            aicf_conv_of(sizeof(T), x, gw, gy, stride, pad, dilation, groups), workspace, stream); \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
