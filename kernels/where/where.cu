// out = a where cond, else b (cuda), any dtype: only the size of an element matters, so kernels are
// one a size, and one for bool, of which any byte but 0 is true and is written as 1. A side that is
// absent is 0. What is not chosen is read and has no say, a NaN neither. The kernels and what they
// take are described in aicf/cuda/elementwise.cuh; out may be exactly a or exactly b. Bound by
// bytes.
#include <aicf_ops/where.h>

#include <aicf/cuda/elementwise.cuh>

namespace aicf::where {

struct choose {
    template <typename V> __device__ V operator()(bool cond, V a, V b) const
    {
        return cond ? a : b;
    }
};

// One side is absent: the other one counts where cond is `when`.
struct keep {
    bool when;

    template <typename V> __device__ V operator()(bool cond, V x) const
    {
        return cond == when ? x : V{0};
    }
};

AICF_ELEMENTWISE_KERNELS

template <typename T>
aicf_status
vec_of(
    const aicf_bool *cond, const void *a, const void *b, void *out, int64_t n, aicf_stream stream)
{
    const T *first = static_cast<const T *>(a), *second = static_cast<const T *>(b);
    if (a && b) {
        return run_vec(
            choose{}, of<T, aicf_bool, T, T>{}, operands_of(out, cond, first, second), n, stream);
    }
    return run_vec(
        keep{a != nullptr}, of<T, aicf_bool, T>{}, operands_of(out, cond, a ? first : second), n,
        stream);
}

template <typename T>
aicf_status
views_of(
    const aicf_view *cond, const aicf_view *a, const aicf_view *b, const aicf_view *out,
    aicf_stream stream)
{
    if (a && b) {
        return run_views(choose{}, of<T, aicf_bool, T, T>{}, {*out, *cond, *a, *b}, stream);
    }
    return run_views(keep{a != nullptr}, of<T, aicf_bool, T>{}, {*out, *cond, a ? *a : *b}, stream);
}

} // namespace aicf::where

// vec: nothing is broadcast, so the out is of C elements.
#define LAUNCHERS(T, suffix)                                                                 \
    aicf_status aicf_cuda_where_vec_##suffix(                                                \
        const aicf_bool *cond, const T *a, const T *b, T *out, int64_t C, int64_t, int64_t,  \
        aicf_stream stream)                                                                  \
    {                                                                                        \
        using namespace aicf::where;                                                         \
        return vec_of<aicf::bits_t<T>>(cond, a, b, out, C, stream);                          \
    }                                                                                        \
    aicf_status aicf_cuda_where_strided_##suffix(                                            \
        const aicf_view *cond, const aicf_view *a, const aicf_view *b, const aicf_view *out, \
        int64_t, int64_t, int64_t, aicf_stream stream)                                       \
    {                                                                                        \
        using namespace aicf::where;                                                         \
        return views_of<aicf::bits_t<T>>(cond, a, b, out, stream);                           \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
LAUNCHERS(double, f64)
LAUNCHERS(int8_t, i8)
LAUNCHERS(uint8_t, u8)
LAUNCHERS(int16_t, i16)
LAUNCHERS(int32_t, i32)
LAUNCHERS(int64_t, i64)
LAUNCHERS(aicf_bool, bool)
