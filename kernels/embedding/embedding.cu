// out[i] = weight[idx[i]] (cuda): rows of dense arrays, which are only moved, so that kernels are
// one a size; NaN for an index outside of weight, of which nothing is read.
//   packs    rows of whole 16 bytes at such addresses: a thread moves a pack
//   scalar   any other: element by element
// Bound by bytes.
#include <aicf_ops/embedding.h>

#include <type_traits>

#include <aicf/cuda/digits.cuh>
#include <aicf/cuda/launch.cuh>

namespace aicf::embedding {

constexpr int kBlock = 256;
// A NaN as f32, and as each of two 16-bit floats.
constexpr uint32_t kNaN = 0x7fffffff;

template <typename I> struct operands {
    const void *weight;
    const I *idx;
    void *out;
    int64_t V;
    digits row; // units of a row
    int64_t units;
};

__device__ inline words
nan_of(words)
{
    return {{kNaN, kNaN, kNaN, kNaN}};
}

__device__ inline uint32_t
nan_of(uint32_t)
{
    return kNaN;
}

__device__ inline uint16_t
nan_of(uint16_t)
{
    return static_cast<uint16_t>(kNaN >> 16);
}

// A unit a thread: a unit waits for its index, and more blocks hide that better than more units of
// a thread, which besides leave multiprocessors idle at the end (H200, 12.6 MB of 16-bit rows:
// 0.79 of the copy rate with four).
template <typename Unit, typename I>
__device__ inline void
move(const operands<I> &p)
{
    int64_t unit = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (unit >= p.units) {
        return;
    }
    int64_t row = unit, column = p.row.take(row);
    int64_t v = p.idx[row];
    Unit held = nan_of(Unit{});
    if (v >= 0 && v < p.V) {
        held = static_cast<const Unit *>(p.weight)[v * p.row.size + column];
    }
    static_cast<Unit *>(p.out)[unit] = held;
}

template <typename I>
__global__ void
__launch_bounds__(kBlock) packs(const __grid_constant__ operands<I> p)
{
    move<words>(p);
}

template <typename Unit, typename I>
__global__ void
__launch_bounds__(kBlock) scalar(const __grid_constant__ operands<I> p)
{
    move<Unit>(p);
}

template <int kItem, typename I>
aicf_status
launch(
    const void *weight, const I *idx, void *out, int64_t V, int64_t D, int64_t A,
    aicf_stream stream)
{
    using element = std::conditional_t<kItem == 4, uint32_t, uint16_t>;
    bool whole = D * kItem % kPackBytes == 0 && phase_of(weight) == 0 && phase_of(out) == 0;
    int64_t row = whole ? D * kItem / kPackBytes : D;
    operands<I> p = {weight, idx, out, V, digits_of(row, A * row), A * row};
    return aicf::launch(
        whole ? packs<I> : scalar<element, I>, static_cast<unsigned>(ceil_div(A * row, kBlock)),
        kBlock, 0, stream, p);
}

} // namespace aicf::embedding

#define LAUNCHER(T, s, I, i)                                                             \
    aicf_status aicf_cuda_embedding_vec_##s##_##i(                                       \
        const T *weight, const I *idx, T *out, int64_t V, int64_t D, int64_t A, int64_t, \
        aicf_stream stream)                                                              \
    {                                                                                    \
        return aicf::embedding::launch<static_cast<int>(sizeof(T))>(                     \
            weight, idx, out, V, D, A, stream);                                          \
    }

#define LAUNCHERS(T, s)          \
    LAUNCHER(T, s, int64_t, i64) \
    LAUNCHER(T, s, int32_t, i32)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
