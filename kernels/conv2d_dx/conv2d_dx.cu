// The input gradient of conv2d on CUDA without matrix units, one launch for each phase of the
// strides: `direct` for depthwise convolutions, `igemm` for all others; any strides (see
// aicf/cuda/conv_direct.cuh and conv_fma.cuh; in f32 ../conv2d/threes.cuh).
#define AICF_OP conv2d_dx

#include <aicf_ops/conv2d_dx.h>

#include <aicf/cuda/conv_direct.cuh>
#include <aicf/cuda/conv_fma.cuh>

#include "../conv2d/threes.cuh"

namespace aicf::conv2d_dx {

template <typename T>
aicf_status
run_direct(const aicf_conv *phase, void *stream)
{
    aicf_conv c = *phase;
    aicf_conv_trim(&c);
    return launch_direct<T>(c, static_cast<aicf_stream>(stream));
}

template <typename T>
aicf_status
run_igemm(const aicf_conv *phase, void *stream)
{
    aicf_conv c = *phase;
    bool done = false;
    aicf_conv_trim(&c);
    if constexpr (std::is_same_v<T, float>) {
        aicf_status status = threes::launch(c, done, static_cast<aicf_stream>(stream));
        if (status.kind) {
            return status;
        }
    }
    return done ? aicf_ok()
                : launch_multiplied(problem_of<T>(c, false), static_cast<aicf_stream>(stream));
}

} // namespace aicf::conv2d_dx

#define LAUNCHER(id, T, suffix)                                                                  \
    aicf_status aicf_cuda_conv2d_dx_##id##_##suffix(                                             \
        const aicf_view *gy, const aicf_view *w, const aicf_view *gx, int64_t, int64_t, int64_t, \
        int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, const int64_t stride[2],           \
        const int64_t pad[2], const int64_t dilation[2], int64_t groups, aicf_stream stream)     \
    {                                                                                            \
        return aicf_conv_each_phase(                                                             \
            sizeof(T), gy, w, gx, stride, pad, dilation, groups,                                 \
            aicf::conv2d_dx::run_##id<aicf::device_t<T>>, stream);                               \
    }

LAUNCHER(direct, float, f32)
LAUNCHER(direct, aicf_f16, f16)
LAUNCHER(direct, aicf_bf16, bf16)
LAUNCHER(igemm, float, f32)
LAUNCHER(igemm, aicf_f16, f16)
LAUNCHER(igemm, aicf_bf16, bf16)
