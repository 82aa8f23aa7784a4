// out = a + b (cuda), f32, f16 and bf16, summed in f32 and rounded once. The two kernels and what
// they take are described in aicf/cuda/elementwise.cuh; out may be exactly a or exactly b. Bound by
// bytes.
#include <aicf_ops/add.h>

#include <aicf/cuda/elementwise.cuh>

namespace aicf::add {

struct plus {
    __device__ float operator()(float a, float b) const
    {
        return a + b;
    }
};

AICF_ELEMENTWISE_KERNELS

} // namespace aicf::add

#define LAUNCHERS(T, suffix)                                                            \
    aicf_status aicf_cuda_add_vec_##suffix(                                             \
        const T *a, const T *b, T *out, int64_t A, int64_t, aicf_stream stream)         \
    {                                                                                   \
        using namespace aicf::add;                                                      \
        using D = aicf::device_t<T>;                                                    \
        return run_vec(plus{}, of<D, D, D>{}, operands_of(out, a, b), A, stream);       \
    }                                                                                   \
    aicf_status aicf_cuda_add_strided_##suffix(                                         \
        const aicf_view *a, const aicf_view *b, const aicf_view *out, int64_t, int64_t, \
        aicf_stream stream)                                                             \
    {                                                                                   \
        using namespace aicf::add;                                                      \
        using D = aicf::device_t<T>;                                                    \
        return run_views(plus{}, of<D, D, D>{}, {*out, *a, *b}, stream);                \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
