// out = factor * x (cuda), f32, f16 and bf16, computed in f32; factor is a host number or the f32
// at a device address, read by every thread. The two kernels and what they take are described in
// aicf/cuda/elementwise.cuh; out may be exactly x. Bound by bytes.
#include <aicf_ops/scale.h>

#include <aicf/cuda/elementwise.cuh>

namespace aicf::scale {

struct times {
    const float *device; // NULL: `host`
    float host;

    __device__ float operator()(float x) const
    {
        return (device ? *device : host) * x;
    }
};

AICF_ELEMENTWISE_KERNELS

static times
times_of(const aicf_scalar *factor)
{
    return {static_cast<const float *>(factor->data), static_cast<float>(factor->host.real)};
}

} // namespace aicf::scale

#define LAUNCHERS(T, suffix)                                                          \
    aicf_status aicf_cuda_scale_vec_##suffix(                                         \
        const T *x, T *out, int64_t A, const aicf_scalar *factor, aicf_stream stream) \
    {                                                                                 \
        using namespace aicf::scale;                                                  \
        using D = aicf::device_t<T>;                                                  \
        return run_vec(times_of(factor), of<D, D>{}, operands_of(out, x), A, stream); \
    }                                                                                 \
    aicf_status aicf_cuda_scale_strided_##suffix(                                     \
        const aicf_view *x, const aicf_view *out, int64_t, const aicf_scalar *factor, \
        aicf_stream stream)                                                           \
    {                                                                                 \
        using namespace aicf::scale;                                                  \
        using D = aicf::device_t<T>;                                                  \
        return run_views(times_of(factor), of<D, D>{}, {*out, *x}, stream);           \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
