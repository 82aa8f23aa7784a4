// x = value everywhere, in place (cuda), any dtype: only the size of an element matters, so kernels
// are one a size, and one for bool, of which any byte but 0 is true and is written as 1. value is a
// host number or what is at a device address, read by every thread. The kernels and what they take
// are described in aicf/cuda/elementwise.cuh. Bound by bytes.
#include <aicf_ops/fill.h>

#include <aicf/half.h>
#include <aicf/cuda/elementwise.cuh>

namespace aicf::fill {

template <typename T> struct constant {
    static constexpr bool kStartsEarly = true;

    const T *device; // NULL: `host`
    T host;

    __device__ value_t<T> operator()() const
    {
        return to_value(device ? *device : host);
    }
};

AICF_ELEMENTWISE_KERNELS

// The bits of what the host holds, which is a number where the dtype is one.
template <typename T, typename Word>
constant<Word>
constant_of(const aicf_scalar *value)
{
    constant<Word> c = {static_cast<const Word *>(value->data), {}};
    T host;
    if constexpr (std::is_same_v<T, aicf_f16>) {
        host = aicf_f16_of_f32(static_cast<float>(value->host.real));
    } else if constexpr (std::is_same_v<T, aicf_bf16>) {
        host = aicf_bf16_of_f32(static_cast<float>(value->host.real));
    } else if constexpr (std::is_same_v<T, aicf_bool>) {
        host = {static_cast<uint8_t>(value->host.integer != 0)};
    } else if constexpr (std::is_floating_point_v<T>) {
        host = static_cast<T>(value->host.real);
    } else {
        host = static_cast<T>(value->host.integer);
    }
    memcpy(&c.host, &host, sizeof host);
    return c;
}

} // namespace aicf::fill

#define LAUNCHERS(T, suffix, Word)                                                          \
    aicf_status aicf_cuda_fill_vec_##suffix(                                                \
        T *x, int64_t A, const aicf_scalar *value, aicf_stream stream)                      \
    {                                                                                       \
        using namespace aicf::fill;                                                         \
        return run_vec(constant_of<T, Word>(value), of<Word>{}, operands_of(x), A, stream); \
    }                                                                                       \
    aicf_status aicf_cuda_fill_strided_##suffix(                                            \
        const aicf_view *x, int64_t, const aicf_scalar *value, aicf_stream stream)          \
    {                                                                                       \
        using namespace aicf::fill;                                                         \
        return run_views(constant_of<T, Word>(value), of<Word>{}, {*x}, stream);            \
    }

LAUNCHERS(float, f32, uint32_t)
LAUNCHERS(aicf_f16, f16, uint16_t)
LAUNCHERS(aicf_bf16, bf16, uint16_t)
LAUNCHERS(double, f64, uint64_t)
LAUNCHERS(int8_t, i8, uint8_t)
LAUNCHERS(uint8_t, u8, uint8_t)
LAUNCHERS(int16_t, i16, uint16_t)
LAUNCHERS(int32_t, i32, uint32_t)
LAUNCHERS(int64_t, i64, uint64_t)
LAUNCHERS(aicf_bool, bool, aicf_bool)
