// out = max(x, 0) (cuda), f32, f16 and bf16; NaN stays NaN. The two kernels and what they take are
// described in aicf/cuda/elementwise.cuh; out may be exactly x. Bound by bytes.
#include <aicf_ops/relu.h>

#include <aicf/cuda/elementwise.cuh>

namespace aicf::relu {

struct positive {
    // Written so that NaN, which no comparison holds for, passes.
    __device__ float operator()(float x) const
    {
        return x <= 0.0f ? 0.0f : x;
    }
};

AICF_ELEMENTWISE_KERNELS

} // namespace aicf::relu

#define LAUNCHERS(T, suffix)                                                                   \
    aicf_status aicf_cuda_relu_vec_##suffix(const T *x, T *out, int64_t A, aicf_stream stream) \
    {                                                                                          \
        using namespace aicf::relu;                                                            \
        using D = aicf::device_t<T>;                                                           \
        return run_vec(positive{}, of<D, D>{}, operands_of(out, x), A, stream);                \
    }                                                                                          \
    aicf_status aicf_cuda_relu_strided_##suffix(                                               \
        const aicf_view *x, const aicf_view *out, int64_t, aicf_stream stream)                 \
    {                                                                                          \
        using namespace aicf::relu;                                                            \
        using D = aicf::device_t<T>;                                                           \
        return run_views(positive{}, of<D, D>{}, {*out, *x}, stream);                          \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
