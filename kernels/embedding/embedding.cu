// out[i] = weight[idx[i]] (cuda): rows of dense arrays, which are only moved, so that kernels are
// one a size; NaN for an index outside of weight, of which nothing is read.
//   packs    rows of whole 16 bytes at such addresses: a thread moves some of them
//   scalar   any other: element by element
// Bound by bytes.
#include <aicf_ops/embedding.h>

#include <type_traits>

#include <aicf/cuda/digits.cuh>
#include <aicf/cuda/launch.cuh>

namespace aicf::embedding {

constexpr int kBlock = 128;
// So many packs a multiprocessor fill the machine. Of more a thread has two or four: each waits for
// its index first, so that with one pack a thread too few bytes are on their way.
constexpr int64_t kMany = 2048;
constexpr int64_t kFew = 65536; // in all, which fill none
// A NaN as f32, and as each of two 16-bit floats.
constexpr uint32_t kNaN = 0x7fffffff;

template <typename I> struct operands {
    const void *weight;
    const I *idx;
    void *out;
    int64_t V;
    int64_t units; // of a row
    digits strips; // threads of a row: one has the units strip, strip + strips, ...
    int64_t threads;
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

// Some units of a row a thread: their index is read once, and all are on their way together.
template <int kUnits, typename Unit, typename I>
__device__ inline void
move(const operands<I> &p)
{
    ptx::let_next_launch_begin();
    int64_t thread = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (thread >= p.threads) {
        return;
    }
    int64_t row = thread, column = p.strips.take(row), units = p.units;
    ptx::wait_for_launch_before();
    int64_t v = p.idx[row];
    bool there = v >= 0 && v < p.V;
    const Unit *from = static_cast<const Unit *>(p.weight) + (there ? v * units : 0);
    Unit *to = static_cast<Unit *>(p.out) + row * units;
    Unit held[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; u++) {
        int64_t i = column + u * p.strips.size;
        held[u] = nan_of(Unit{});
        if (there && i < units) {
            held[u] = from[i];
        }
    }
#pragma unroll
    for (int u = 0; u < kUnits; u++) {
        int64_t i = column + u * p.strips.size;
        if (i < units) {
            to[i] = held[u];
        }
    }
}

template <int kUnits, typename I>
__global__ void
__launch_bounds__(kBlock) packs(const __grid_constant__ operands<I> p)
{
    move<kUnits, words>(p);
}

template <typename Unit, typename I>
__global__ void
__launch_bounds__(kBlock) scalar(const __grid_constant__ operands<I> p)
{
    move<1, Unit>(p);
}

// Packs of a thread, of so many in all.
static int
packs_of_thread(int64_t packs)
{
    int processors = 0;
    if (packs < kFew || count_processors(&processors).kind) {
        return 1;
    }
    int64_t many = processors * kMany;
    return packs >= 4 * many ? 4 : packs >= many ? 2 : 1;
}

template <int kItem, typename I>
aicf_status
launch(
    const void *weight, const I *idx, void *out, int64_t V, int64_t D, int64_t A,
    aicf_stream stream)
{
    using element = std::conditional_t<kItem == 4, uint32_t, uint16_t>;
    bool whole = D * kItem % kPackBytes == 0 && phase_of(weight) == 0 && phase_of(out) == 0;
    int64_t units = whole ? D * kItem / kPackBytes : D;
    int each = whole ? packs_of_thread(A * units) : 1;
    int64_t strips = ceil_div(units, each);
    operands<I> p = {weight, idx, out, V, units, digits_of(strips, A * strips), A * strips};
    return launch_waiting(
        each == 4   ? packs<4, I>
        : each == 2 ? packs<2, I>
        : whole     ? packs<1, I>
                    : scalar<element, I>,
        static_cast<unsigned>(ceil_div(p.threads, kBlock)), kBlock, 0, stream, p);
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
