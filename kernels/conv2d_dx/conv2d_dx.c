/* The input gradient of conv2d on the CPU, tensors of any strides (see aicf/cpu/conv.h): a sum over
   taps for each phase of the strides. `blas` multiplies by OpenBLAS, on one thread a tile. */
#include <aicf_ops/conv2d_dx.h>

#include <aicf/cpu/conv.h>

typedef struct how {
    const aicf_converter *dtype;
    const char *gemm;
    void (*run)(const aicf_conv *c, const aicf_converter *dtype, const char *gemm);
} how;

static aicf_status
run_phase(const aicf_conv *c, void *context)
{
    const how *h = (const how *)context;
    aicf_conv trimmed = *c;
    aicf_conv_trim(&trimmed);
    h->run(&trimmed, h->dtype, h->gemm);
    return aicf_ok();
}

#define LAUNCHER(s, id, acc, gemm)                                                                \
    aicf_status aicf_cpu_conv2d_dx_##id##_##s(                                                    \
        const aicf_view *gy, const aicf_view *w, const aicf_view *gx, int64_t N, int64_t O,       \
        int64_t P, int64_t Q, int64_t D, int64_t R, int64_t S, int64_t H, int64_t W,              \
        const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2], int64_t groups, \
        aicf_stream stream)                                                                       \
    {                                                                                             \
        how h = {&aicf_converter_##s, gemm, aicf_conv_over_taps_##acc};                           \
        (void)N, (void)O, (void)P, (void)Q, (void)D, (void)R, (void)S, (void)H, (void)W;          \
        (void)stream;                                                                             \
        return aicf_conv_each_phase(                                                              \
            h.dtype->item, gy, w, gx, stride, pad, dilation, groups, run_phase, &h);              \
    }

LAUNCHER(f32, blas, f32, "cblas_sgemm")
LAUNCHER(f64, blas, f64, "cblas_dgemm")
LAUNCHER(f32, loop, f32, NULL)
LAUNCHER(f16, loop, f32, NULL)
LAUNCHER(bf16, loop, f32, NULL)
LAUNCHER(f64, loop, f64, NULL)
