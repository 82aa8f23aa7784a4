// The input gradient of conv2d by warpgroups of sm_90a (see ../conv2d/windows.cuh): where strides
// are 1 a convolution of gy by the taps in reverse, else one for each phase of the strides (see
// scattered.cuh).
#define AICF_OP conv2d_dx

#include "channels_last.cuh"

#include "scattered.cuh"

namespace aicf::conv2d_dx {

// From the last tap to the first one, so that they step forwards through gy.
inline aicf_conv_axis
reversed(const aicf_conv_axis &a)
{
    int64_t last = a.taps - 1;
    return {a.places, a.step, a.taps, -a.tap_step, a.first + last * a.tap_step, a.size};
}

// Phases on their way to one launch.
struct gathered {
    aicf_conv of[kPhases];
    int count;
    bool strides;
    aicf_stream stream;
};

template <typename T>
aicf_status
gather_phase(const aicf_conv *phase, void *context)
{
    gathered *all = static_cast<gathered *>(context);
    aicf_conv c = *phase;
    c.y = reversed(c.y);
    c.x = reversed(c.x);
    if (!all->strides) {
        return launch_fitting<true, T>(c, all->stream);
    }
    all->of[all->count++] = c;
    if (all->count < kPhases) {
        return aicf_ok();
    }
    all->count = 0;
    return launch_scattered<T>(all->of, kPhases, all->stream);
}

template <typename T>
aicf_status
run_warpgroups(
    const aicf_view *gy, const aicf_view *w, const aicf_view *gx, const int64_t stride[2],
    const int64_t pad[2], const int64_t dilation[2], int64_t groups, aicf_stream stream)
{
    gathered all = {};
    all.strides = stride[0] > 1 || stride[1] > 1;
    all.stream = stream;
    aicf_status status = aicf_conv_each_phase(
        sizeof(T), gy, w, gx, stride, pad, dilation, groups, gather_phase<T>, &all);
    return status.kind ? status : launch_scattered<T>(all.of, all.count, stream);
}

} // namespace aicf::conv2d_dx

AICF_CONV2D_DX_LAUNCHER(warpgroups, run_warpgroups, aicf_f16, f16)
AICF_CONV2D_DX_LAUNCHER(warpgroups, run_warpgroups, aicf_bf16, bf16)
