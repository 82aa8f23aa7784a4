// conv2d by warpgroups of sm_90a (see windows.cuh).
#define AICF_OP conv2d

#include <aicf_ops/conv2d.h>

#include "windows.cuh"

#define LAUNCHER(T, suffix)                                                                        \
    aicf_status aicf_cuda_conv2d_warpgroups_##suffix(                                              \
        const T *x, const T *w, const T *bias, T *out, int64_t N, int64_t C, int64_t H, int64_t W, \
        int64_t O, int64_t D, int64_t R, int64_t S, int64_t P, int64_t Q, const int64_t stride[2], \
        const int64_t pad[2], const int64_t dilation[2], int64_t groups, aicf_stream stream)       \
    {                                                                                              \
        const aicf_view views[3] = {                                                               \
            aicf_conv_channels_last(x, N, C, H, W), aicf_conv_channels_last(w, O, D, R, S),        \
            aicf_conv_channels_last(out, N, O, P, Q)};                                             \
        aicf_conv c = aicf_conv_of(                                                                \
            sizeof(T), &views[0], &views[1], &views[2], stride, pad, dilation, groups);            \
        c.bias = bias;                                                                             \
        return aicf::conv2d::launch_fitting<false, aicf::device_t<T>>(c, stream);                  \
    }

LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
