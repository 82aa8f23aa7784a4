// The input gradient of conv2d by warpgroups of sm_90a (see ../conv2d/windows.cuh): for each phase
// of the strides a convolution of gy by those taps that reach it, in reverse.
#define AICF_OP conv2d_dx

#include "phases.cuh"

#include "../conv2d/windows.cuh"

namespace aicf::conv2d_dx {

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
    const int64_t row = c.m * c.x.places, image = row * c.y.places;
    const bool scattered = (c.x.places > 1 && c.out_strides[3] != c.m) ||
                           (c.y.places > 1 && c.out_strides[2] != row) ||
                           (c.images > 1 && c.out_strides[0] != image);
    return scattered ? launch_fitting<true, true, T>(c, static_cast<aicf_stream>(stream))
                     : launch_fitting<true, false, T>(c, static_cast<aicf_stream>(stream));
}

} // namespace aicf::conv2d_dx

AICF_CONV2D_DX_LAUNCHER(warpgroups, warpgroups_phase, aicf_f16, f16)
AICF_CONV2D_DX_LAUNCHER(warpgroups, warpgroups_phase, aicf_bf16, bf16)
