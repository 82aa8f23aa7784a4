// conv2d on CUDA without matrix units: `direct` for depthwise convolutions, `igemm` for all others;
// any strides (see aicf/cuda/conv_direct.cuh and conv_fma.cuh; in f32 threes.cuh).
#define AICF_OP conv2d

#include <aicf_ops/conv2d.h>

#include <aicf/cuda/conv_direct.cuh>
#include <aicf/cuda/conv_fma.cuh>

#include "threes.cuh"

namespace aicf::conv2d {

template <typename T>
aicf_status
run_direct(const aicf_conv &c, aicf_stream stream)
{
    return launch_direct<T>(c, stream);
}

template <typename T>
aicf_status
run_igemm(const aicf_conv &c, aicf_stream stream)
{
    bool done = false;
    if constexpr (std::is_same_v<T, float>) {
        aicf_status status = threes::launch(c, done, stream);
        if (status.kind) {
            return status;
        }
    }
    return done ? aicf_ok() : launch_multiplied(problem_of<T>(c, false), stream);
}

} // namespace aicf::conv2d

#define LAUNCHER(id, T, suffix)                                                                   \
    aicf_status aicf_cuda_conv2d_##id##_##suffix(                                                 \
        const aicf_view *x, const aicf_view *w, const T *bias, const aicf_view *out, int64_t,     \
        int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,          \
        const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2], int64_t groups, \
        aicf_stream stream)                                                                       \
    {                                                                                             \
        aicf_conv c = aicf_conv_of(sizeof(T), x, w, out, stride, pad, dilation, groups);          \
        c.bias = bias;                                                                            \
        aicf_conv_trim(&c);                                                                       \
        return aicf::conv2d::run_##id<aicf::device_t<T>>(c, stream);                              \
    }

LAUNCHER(direct, float, f32)
LAUNCHER(direct, aicf_f16, f16)
LAUNCHER(direct, aicf_bf16, bf16)
LAUNCHER(igemm, float, f32)
LAUNCHER(igemm, aicf_f16, f16)
LAUNCHER(igemm, aicf_bf16, bf16)
