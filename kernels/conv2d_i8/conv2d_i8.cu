// conv2d_i8 on CUDA without matrix units: tensors of any strides (see aicf/cuda/conv_i8.cuh).
#define AICF_OP conv2d_i8
#include <aicf_ops/conv2d_i8.h>

#include <aicf/cuda/conv_i8.cuh>

// Once, and not in each launcher.
__attribute__((noinline)) static aicf_conv
conv_of(
    int64_t item, const aicf_view *x, const aicf_view *w, const aicf_view *out,
    const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2], int64_t groups)
{
    return aicf_conv_of(item, x, w, out, stride, pad, dilation, groups);
}

#define LAUNCHER(q, T, is_signed, u, U, KIND)                                                     \
    aicf_status aicf_cuda_conv2d_i8_dp4a_##q##_##u(                                               \
        const aicf_view *x, const aicf_view *w, const float *x_scale, const float *w_scale,       \
        const int32_t *x_zero, const int32_t *bias, const float *out_scale,                       \
        const int32_t *out_zero, const aicf_view *out, int64_t, int64_t, int64_t, int64_t,        \
        int64_t, int64_t, int64_t, int64_t, int64_t Z, int64_t, int64_t, aicf_conv2d_i8_act act,  \
        const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2], int64_t groups, \
        aicf_stream stream)                                                                       \
    {                                                                                             \
        const aicf_conv c = conv_of(sizeof(U), x, w, out, stride, pad, dilation, groups);         \
        const aicf_requant r = {x_scale,   w_scale,  out_scale, x_zero,                           \
                                bias,      out_zero, Z,         act == AICF_CONV2D_I8_ACT_RELU,   \
                                is_signed, KIND};                                                 \
        return aicf::conv2d_i8::launch_dp4a(c, r, stream);                                        \
    }

AICF_REQUANTS(LAUNCHER)
