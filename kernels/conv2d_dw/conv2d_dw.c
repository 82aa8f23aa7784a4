/* The weight gradient of conv2d on the CPU, tensors of any strides (see aicf/cpu/conv.h); `blas`
   multiplies by OpenBLAS, on one thread a tile. */
#include <aicf_ops/conv2d_dw.h>

#include <aicf/cpu/conv.h>

#define LAUNCHER(s, id, acc, gemm)                                                                \
    aicf_status aicf_cpu_conv2d_dw_##id##_##s(                                                    \
        const aicf_view *gy, const aicf_view *x, const aicf_view *gw, int64_t N, int64_t O,       \
        int64_t P, int64_t Q, int64_t C, int64_t H, int64_t W, int64_t R, int64_t S,              \
        const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2], int64_t groups, \
        aicf_stream stream)                                                                       \
    {                                                                                             \
        aicf_conv c =                                                                             \
            aicf_conv_of(aicf_converter_##s.item, x, gw, gy, stride, pad, dilation, groups);      \
        (void)N, (void)O, (void)P, (void)Q, (void)C, (void)H, (void)W, (void)R, (void)S;          \
        (void)stream;                                                                             \
        aicf_conv_over_places_##acc(&c, &aicf_converter_##s, gemm);                               \
        return aicf_ok();                                                                         \
    }

LAUNCHER(f32, blas, f32, "cblas_sgemm")
LAUNCHER(f64, blas, f64, "cblas_dgemm")
LAUNCHER(f32, loop, f32, NULL)
LAUNCHER(f16, loop, f32, NULL)
LAUNCHER(bf16, loop, f32, NULL)
LAUNCHER(f64, loop, f64, NULL)
