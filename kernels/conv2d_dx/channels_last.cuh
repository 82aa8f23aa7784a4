// The launcher of the input gradient of conv2d where all tensors are dense with the channels
// innermost, by run<T> of views.
#ifndef AICF_CONV2D_DX_CHANNELS_LAST_CUH
#define AICF_CONV2D_DX_CHANNELS_LAST_CUH

#include <aicf_ops/conv2d_dx.h>

#include <aicf/conv.h>
#include <aicf/cuda/numeric.cuh>

#define AICF_CONV2D_DX_LAUNCHER(id, run, T, suffix)                                                \
    aicf_status aicf_cuda_conv2d_dx_##id##_##suffix(                                               \
        const T *gy, const T *w, T *gx, int64_t N, int64_t O, int64_t P, int64_t Q, int64_t D,     \
        int64_t R, int64_t S, int64_t H, int64_t W, const int64_t stride[2], const int64_t pad[2], \
        const int64_t dilation[2], int64_t groups, aicf_stream stream)                             \
    {                                                                                              \
        const aicf_view views[3] = {                                                               \
            aicf_conv_channels_last(gy, N, O, P, Q), aicf_conv_channels_last(w, O, D, R, S),       \
            aicf_conv_channels_last(gx, N, D * groups, H, W)};                                     \
        return aicf::conv2d_dx::run<aicf::device_t<T>>(                                            \
            &views[0], &views[1], &views[2], stride, pad, dilation, groups, stream);               \
    }

#endif
