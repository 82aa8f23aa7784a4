// out = x (cuda), any dtype: only the size of an element matters, so kernels are one a size, and
// one for bool, of which any byte but 0 is true and is written as 1.
//   vec, rows, strided: described in aicf/cuda/elementwise.cuh, where x and out run through memory
//     along the same dim
//   tiled, direct: described in aicf/cuda/transpose.cuh, elsewhere
// x and out are apart (the row has no overlap). Bound by bytes.
#include <aicf_ops/copy.h>

#include <aicf/cuda/elementwise.cuh>
#include <aicf/cuda/transpose.cuh>

namespace aicf::copy {

struct same {
    static constexpr bool kStartsEarly = true;

    template <typename V> __device__ V operator()(V x) const
    {
        return x;
    }
};

AICF_ELEMENTWISE_KERNELS

AICF_TRANSPOSE_KERNELS

static bool
run_together(const aicf_view &x, const aicf_view &out)
{
    bool together = numel(&out) <= 1;
    for (int64_t dim = 0; dim < out.rank; dim++) {
        together |= out.sizes[dim] > 1 && out.strides[dim] == 1 && x.strides[dim] == 1;
    }
    return together;
}

template <typename T>
aicf_status
run(const aicf_view &x, const aicf_view &out, aicf_stream stream)
{
    if (run_together(x, out)) {
        return run_views(same{}, of<T, T>{}, {out, x}, stream);
    }
    constexpr bool kTruth = std::is_same_v<T, aicf_bool>;
    return transpose::launch(table, x, out, static_cast<int>(sizeof(T)), kTruth, stream);
}

} // namespace aicf::copy

#define LAUNCHERS(T, suffix)                                                                    \
    aicf_status aicf_cuda_copy_flat_##suffix(const T *x, T *out, int64_t A, aicf_stream stream) \
    {                                                                                           \
        using namespace aicf::copy;                                                             \
        using D = aicf::bits_t<T>;                                                              \
        return run_vec(same{}, of<D, D>{}, operands_of(out, x), A, stream);                     \
    }                                                                                           \
    aicf_status aicf_cuda_copy_strided_##suffix(                                                \
        const aicf_view *x, const aicf_view *out, int64_t, aicf_stream stream)                  \
    {                                                                                           \
        return aicf::copy::run<aicf::bits_t<T>>(*x, *out, stream);                              \
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
