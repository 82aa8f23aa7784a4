// The input gradient of conv2d on the matrix units of sm_80 and later, one launch for each phase of
// the strides (see aicf/cuda/conv_mma.cuh).
#include <aicf_ops/conv2d_dx.h>

#include <aicf/cuda/conv_mma.cuh>

namespace aicf::conv {

template <typename T>
aicf_status
mma_phase(const aicf_conv *c, void *stream)
{
    return launch_mma<input_op>(problem_of<T>(*c, false), static_cast<aicf_stream>(stream));
}

} // namespace aicf::conv

#define LAUNCHER(T, suffix)                                                                        \
    aicf_status aicf_cuda_conv2d_dx_igemm_nhwc_##suffix(                                           \
        const T *gy, const T *w, T *gx, int64_t N, int64_t O, int64_t P, int64_t Q, int64_t D,     \
        int64_t R, int64_t S, int64_t H, int64_t W, const int64_t stride[2], const int64_t pad[2], \
        const int64_t dilation[2], int64_t groups, aicf_stream stream)                             \
    {                                                                                              \
        const aicf_view views[3] = {                                                               \
            aicf_conv_channels_last(gy, N, O, P, Q), aicf_conv_channels_last(w, O, D, R, S),       \
            aicf_conv_channels_last(gx, N, D * groups, H, W)};                                     \
        return aicf_conv_each_phase(                                                               \
            sizeof(T), &views[0], &views[1], &views[2], stride, pad, dilation, groups,             \
            aicf::conv::mma_phase<aicf::device_t<T>>, stream);                                     \
    }

LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
