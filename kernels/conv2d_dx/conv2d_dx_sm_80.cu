// The input gradient of conv2d on the matrix units of sm_80 and later, one launch for each phase of
// the strides (see aicf/cuda/conv_mma.cuh).
#define AICF_OP conv2d_dx

#include "phases.cuh"

#include <aicf/cuda/conv_mma.cuh>

namespace aicf::conv2d_dx {

template <typename T>
aicf_status
mma_phase(const aicf_conv *c, void *stream)
{
    return launch_mma<input_op>(problem_of<T>(*c, false), static_cast<aicf_stream>(stream));
}

} // namespace aicf::conv2d_dx

AICF_CONV2D_DX_LAUNCHER(igemm_nhwc, mma_phase, aicf_f16, f16)
AICF_CONV2D_DX_LAUNCHER(igemm_nhwc, mma_phase, aicf_bf16, bf16)
