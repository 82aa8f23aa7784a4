/* conv2d on the CPU, tensors of any strides (see aicf/cpu/conv.h); `blas` multiplies by OpenBLAS,
   on one thread a tile. */
#include <aicf_ops/conv2d.h>

#include <aicf/cpu/conv.h>

#define LAUNCHER(T, s, id, acc, gemm)                                                           \
    aicf_status aicf_cpu_conv2d_##id##_##s(                                                     \
        const aicf_view *x, const aicf_view *w, const T *bias, const aicf_view *out, int64_t N, \
        int64_t C, int64_t H, int64_t W, int64_t O, int64_t D, int64_t R, int64_t S, int64_t P, \
        int64_t Q, const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2],    \
        int64_t groups, aicf_stream stream)                                                     \
    {                                                                                           \
        aicf_conv c =                                                                           \
            aicf_conv_of(aicf_converter_##s.item, x, w, out, stride, pad, dilation, groups);    \
        (void)N, (void)C, (void)H, (void)W, (void)O, (void)D, (void)R, (void)S, (void)P;        \
        (void)Q, (void)stream;                                                                  \
        c.bias = bias;                                                                          \
        aicf_conv_trim(&c);                                                                     \
        aicf_conv_over_taps_##acc(&c, &aicf_converter_##s, gemm);                               \
        return aicf_ok();                                                                       \
    }

LAUNCHER(float, f32, blas, f32, "cblas_sgemm")
LAUNCHER(double, f64, blas, f64, "cblas_dgemm")
LAUNCHER(float, f32, loop, f32, NULL)
LAUNCHER(aicf_f16, f16, loop, f32, NULL)
LAUNCHER(aicf_bf16, bf16, loop, f32, NULL)
LAUNCHER(double, f64, loop, f64, NULL)
