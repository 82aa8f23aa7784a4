// The weight gradient of conv2d on the matrix units of sm_80 and later (see
// aicf/cuda/conv_mma.cuh). Where few tiles make the gradient, places are split among blocks, whose
// sums in f32 are added in a fixed order.
#define AICF_OP conv2d_dw

#include <aicf_ops/conv2d_dw.h>

#include <aicf/cuda/conv_mma.cuh>

namespace aicf::conv2d_dw {

template <typename T>
aicf_status
run(const aicf_conv &c, void *workspace, aicf_stream stream)
{
    problem<T> p = problem_of<T>(c, true);
    split(p, workspace, small::kSlab);
    aicf_status status = launch_mma<weight_op>(p, stream);
    return status.kind || !p.parts ? status : launch_sum_parts(p, stream);
}

} // namespace aicf::conv2d_dw

#define LAUNCHER(T, suffix)                                                                        \
    aicf_status aicf_cuda_conv2d_dw_igemm_nhwc_##suffix(                                           \
        const T *gy, const T *x, T *gw, int64_t N, int64_t O, int64_t P, int64_t Q, int64_t C,     \
        int64_t H, int64_t W, int64_t R, int64_t S, const int64_t stride[2], const int64_t pad[2], \
        const int64_t dilation[2], int64_t groups, void *workspace, aicf_stream stream)            \
    {                                                                                              \
        const aicf_view views[3] = {                                                               \
            aicf_conv_channels_last(gy, N, O, P, Q), aicf_conv_channels_last(x, N, C, H, W),       \
            aicf_conv_channels_last(gw, O, C / groups, R, S)};                                     \
        return aicf::conv2d_dw::run<aicf::device_t<T>>(                                            \
            aicf_conv_of(                                                                          \
                sizeof(T), &views[1], &views[2], &views[0], stride, pad, dilation, groups),        \
            workspace, stream);                                                                    \
    }

LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
