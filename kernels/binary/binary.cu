// add, sub, mul and div (cuda): f32, f16 and bf16 computed in f32 and rounded once; add, sub and
// mul of integers too, which wrap. The kernels and what they take are described in
// aicf/cuda/elementwise.cuh; out may be exactly a or exactly b. Bound by bytes.
#include <aicf/family.h>

#include AICF_OP_HEADER

#include <aicf/cuda/elementwise.cuh>

namespace aicf::binary {

// Integers are computed without their sign: two's complement needs none, and nothing overflows.
template <typename T>
using computed_t = std::conditional_t<
    std::is_floating_point_v<T>, T, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;

struct add {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return static_cast<T>(computed_t<T>(a) + computed_t<T>(b));
    }
};

struct sub {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return static_cast<T>(computed_t<T>(a) - computed_t<T>(b));
    }
};

struct mul {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return static_cast<T>(computed_t<T>(a) * computed_t<T>(b));
    }
};

struct div {
    __device__ float operator()(float a, float b) const
    {
        return a / b;
    }
};

using function = AICF_OP;

} // namespace aicf::binary

namespace aicf::AICF_OP {

AICF_ELEMENTWISE_KERNELS

} // namespace aicf::AICF_OP

#define LAUNCHERS(T, s)                                                                    \
    aicf_status AICF_OP_NAME(aicf_cuda_, _vec_##s)(                                        \
        const T *a, const T *b, T *out, int64_t A, int64_t, aicf_stream stream)            \
    {                                                                                      \
        using namespace aicf::AICF_OP;                                                     \
        using D = aicf::device_t<T>;                                                       \
        return run_vec(                                                                    \
            aicf::binary::function{}, of<D, D, D>{}, operands_of(out, a, b), A, stream);   \
    }                                                                                      \
    aicf_status AICF_OP_NAME(aicf_cuda_, _strided_##s)(                                    \
        const aicf_view *a, const aicf_view *b, const aicf_view *out, int64_t, int64_t,    \
        aicf_stream stream)                                                                \
    {                                                                                      \
        using namespace aicf::AICF_OP;                                                     \
        using D = aicf::device_t<T>;                                                       \
        return run_views(aicf::binary::function{}, of<D, D, D>{}, {*out, *a, *b}, stream); \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)

#define WHOLE_add 1
#define WHOLE_sub 1
#define WHOLE_mul 1
#define WHOLE_div 0

#if AICF_OP_CHOICE(WHOLE_)
LAUNCHERS(int8_t, i8)
LAUNCHERS(uint8_t, u8)
LAUNCHERS(int16_t, i16)
LAUNCHERS(int32_t, i32)
LAUNCHERS(int64_t, i64)
#endif
