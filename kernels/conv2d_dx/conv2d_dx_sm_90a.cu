// The input gradient of conv2d by warpgroups of sm_90a (see ../conv2d/windows.cuh): where strides
// are 1, a convolution of gy by the taps in reverse.
#include <aicf_ops/conv2d_dx.h>

#include "../conv2d/windows.cuh"

namespace aicf::conv {

// From the last tap to the first one, so that they step forwards through gy.
inline aicf_conv_axis
reversed(const aicf_conv_axis &a)
{
    int64_t last = a.taps - 1;
    return {a.places, a.step, a.taps, -a.tap_step, a.first + last * a.tap_step, a.size};
}

template <typename T>
aicf_status
warpgroups_phase(const aicf_conv *phase, void *stream)
{
    aicf_conv c = *phase;
    c.y = reversed(c.y);
    c.x = reversed(c.x);
    return launch_fitting<true, T>(c, static_cast<aicf_stream>(stream));
}

} // namespace aicf::conv

#define LAUNCHER(T, suffix)                                                                        \
    aicf_status aicf_cuda_conv2d_dx_warpgroups_##suffix(                                           \
        const T *gy, const T *w, T *gx, int64_t N, int64_t O, int64_t P, int64_t Q, int64_t D,     \
        int64_t R, int64_t S, int64_t H, int64_t W, const int64_t stride[2], const int64_t pad[2], \
        const int64_t dilation[2], int64_t groups, aicf_stream stream)                             \
    {                                                                                              \
        const aicf_view views[3] = {                                                               \
            aicf_conv_channels_last(gy, N, O, P, Q), aicf_conv_channels_last(w, O, D, R, S),       \
            aicf_conv_channels_last(gx, N, D * groups, H, W)};                                     \
        return aicf_conv_each_phase(                                                               \
            sizeof(T), &views[0], &views[1], &views[2], stride, pad, dilation, groups,             \
            aicf::conv::warpgroups_phase<aicf::device_t<T>>, stream);                              \
    }

LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
