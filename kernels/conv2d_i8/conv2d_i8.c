/* conv2d_i8 on the CPU, tensors of any strides (see aicf/cpu/conv_i8.h). */
#include <aicf_ops/conv2d_i8.h>

#include <aicf/cpu/conv_i8.h>

/* Once, and not in each launcher. */
AICF_ONCE aicf_conv
conv_of(
    int64_t item, const aicf_view *x, const aicf_view *w, const aicf_view *out,
    const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2], int64_t groups)
{
    return aicf_conv_of(item, x, w, out, stride, pad, dilation, groups);
}

#define LOOP(q, T, is_signed, u, U, KIND)                                                          \
    aicf_status aicf_cpu_conv2d_i8_loop_##q##_##u(                                                 \
        const aicf_view *x, const aicf_view *w, const float *x_scale, const float *w_scale,        \
        const int32_t *x_zero, const int32_t *bias, const float *out_scale,                        \
        const int32_t *out_zero, const aicf_view *out, int64_t N, int64_t C, int64_t H, int64_t W, \
        int64_t O, int64_t D, int64_t R, int64_t S, int64_t Z, int64_t P, int64_t Q2,              \
        aicf_conv2d_i8_act act, const int64_t stride[2], const int64_t pad[2],                     \
        const int64_t dilation[2], int64_t groups, aicf_stream stream)                             \
    {                                                                                              \
        const aicf_conv c = conv_of(sizeof(U), x, w, out, stride, pad, dilation, groups);          \
        const aicf_requant r = {x_scale,   w_scale,  out_scale, x_zero,                            \
                                bias,      out_zero, Z,         act == AICF_CONV2D_I8_ACT_RELU,    \
                                is_signed, KIND};                                                  \
        (void)N, (void)C, (void)H, (void)W, (void)O, (void)D, (void)R, (void)S, (void)P;           \
        (void)Q2, (void)stream;                                                                    \
        return aicf_i8_run(&c, &r);                                                                \
    }

AICF_REQUANTS(LOOP)
