// The input gradient of conv2d on the matrix units of sm_80 and later, one launch for each phase of
// the strides (see aicf/cuda/conv_mma.cuh).
#define AICF_OP conv2d_dx

#include "channels_last.cuh"

#include <aicf/cuda/conv_mma.cuh>

namespace aicf::conv2d_dx {

template <typename T>
aicf_status
mma_phase(const aicf_conv *c, void *stream)
{
    return launch_mma<input_op>(problem_of<T>(*c, false), static_cast<aicf_stream>(stream));
}

template <typename T>
aicf_status
run_mma(
    const aicf_view *gy, const aicf_view *w, const aicf_view *gx, const int64_t stride[2],
    const int64_t pad[2], const int64_t dilation[2], int64_t groups, aicf_stream stream)
{
    return aicf_conv_each_phase(
        sizeof(T), gy, w, gx, stride, pad, dilation, groups, mma_phase<T>, stream);
}

} // namespace aicf::conv2d_dx

AICF_CONV2D_DX_LAUNCHER(igemm_nhwc, run_mma, aicf_f16, f16)
AICF_CONV2D_DX_LAUNCHER(igemm_nhwc, run_mma, aicf_bf16, bf16)
