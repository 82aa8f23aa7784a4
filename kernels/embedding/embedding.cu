// out[i] = weight[idx[i]] (cuda): rows of dense arrays, which are only moved, so that kernels are
// one a size; NaN for an index outside of weight, of which nothing is read.
//   packs    rows of whole 16 bytes at such addresses: a thread moves some packs
//   scalar   any other: element by element
// Bound by bytes.
#include <aicf_ops/embedding.h>

#include <type_traits>

#include <aicf/cuda/digits.cuh>
#include <aicf/cuda/launch.cuh>

namespace aicf::embedding {

constexpr int kBlock = 256;
// Packs a thread: their indices, then they themselves are on their way together.
constexpr int kUnroll = 4;
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

template <typename Unit, typename I>
__device__ inline void
rows_body(const operands<I> &p)
{
    int64_t first = blockIdx.x * int64_t{kBlock * kUnroll} + threadIdx.x;
    const Unit *weight = static_cast<const Unit *>(p.weight);
    int64_t v[kUnroll], column[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        int64_t a = first + u * kBlock;
        v[u] = -1;
        if (a < p.units) {
            column[u] = p.row.take(a);
            v[u] = p.idx[a];
        }
    }

    Unit held[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        held[u] = nan_of(Unit{});
        if (v[u] >= 0 && v[u] < p.V) {
            held[u] = weight[v[u] * p.row.size + column[u]];
        }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < p.units) {
            static_cast<Unit *>(p.out)[first + u * kBlock] = held[u];
        }
    }
}

template <typename I>
__global__ void
__launch_bounds__(kBlock, 4) packs(const __grid_constant__ operands<I> p)
{
    rows_body<words>(p);
}

template <typename Unit, typename I>
__global__ void
__launch_bounds__(kBlock, 4) scalar(const __grid_constant__ operands<I> p)
{
    rows_body<Unit>(p);
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
        whole ? packs<I> : scalar<element, I>,
        static_cast<unsigned>(ceil_div(A * row, kBlock * kUnroll)), kBlock, 0, stream, p);
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
