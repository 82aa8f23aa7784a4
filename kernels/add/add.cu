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

AICF_ELEMENTWISE_KERNELS(plus, 2)

} // namespace aicf::add

#define LAUNCHERS(T, suffix)                                                                   \
    aicf_status aicf_cuda_add_vec_##suffix(                                                    \
        const T *a, const T *b, T *out, int64_t A, int64_t, aicf_stream stream)                \
    {                                                                                          \
        using D = aicf::device_t<T>;                                                           \
        aicf::elementwise::operands<D, 2> p = {                                                \
            {aicf::device(a), aicf::device(b)}, aicf::device(out)};                            \
        return aicf::elementwise::launch_vec(                                                  \
            aicf::add::vec<D>, aicf::add::scalar<D>, aicf::add::plus{}, p, A, stream);         \
    }                                                                                          \
    aicf_status aicf_cuda_add_strided_##suffix(                                                \
        const aicf_view *a, const aicf_view *b, const aicf_view *out, int64_t, int64_t,        \
        aicf_stream stream)                                                                    \
    {                                                                                          \
        return aicf::elementwise::launch_strided(                                              \
            aicf::add::strided<aicf::device_t<T>>, aicf::add::plus{}, {*out, *a, *b}, stream); \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
