// out = x / (1 - p), or 0 where the element's number (aicf/philox.h) says so, NaN too (cuda): x and
// out dense, f32, f16 and bf16, scaled in f32 and rounded once. Seed and offset are host numbers or
// the i64 at device addresses, read by every thread. out may be exactly x (so no pointer is
// __restrict__).
//   vec: both addresses on 16-byte boundaries: packs, whose elements are whole blocks of numbers
//   blocks: any addresses: one block of numbers and its four elements a thread
// Bound by bytes; in 16 bits the ten rounds of Philox come near.
#include <aicf_ops/dropout.h>

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/ptx.cuh>
#include <aicf/philox.h>

namespace aicf::dropout {

constexpr int kBlock = 256;
constexpr int kNumbers = AICF_PHILOX_SIZE;

struct number {
    const int64_t *device; // NULL: `host`
    int64_t host;

    __device__ uint64_t value() const
    {
        return static_cast<uint64_t>(device ? *device : host);
    }
};

template <typename T> struct operands {
    const T *x;
    T *out;
    int64_t n;
    number seed, offset;
    bool all; // is dropped
    uint32_t limit;
    float scale; // of what is kept
};

template <typename T>
__device__ inline float
dropped(const operands<T> &p, float x, uint32_t number)
{
    return number < p.limit ? 0.0f : x * p.scale;
}

// The elements of a block of numbers, as many as there are.
template <typename T>
__device__ inline void
drop_block(const operands<T> &p, int64_t block)
{
    int64_t first = block * kNumbers;
    T x[kNumbers];
#pragma unroll
    for (int i = 0; i < kNumbers; i++) {
        if (first + i < p.n) {
            x[i] = p.x[first + i];
        }
    }

    aicf_philox made = aicf_philox_block(p.seed.value(), p.offset.value(), block);

#pragma unroll
    for (int i = 0; i < kNumbers; i++) {
        if (first + i < p.n) {
            float out = p.all ? 0.0f : dropped(p, to_f32(x[i]), made.number[i]);
            p.out[first + i] = of_f32<T>(out);
        }
    }
}

// Packs of a thread: x is on its way while their numbers are made.
template <typename T> constexpr int kPacks = kPackSize<T> / kNumbers;

// Requires p.x and p.out on 16-byte boundaries. Block 0 does the tail.
template <typename T>
__global__ void
__launch_bounds__(kBlock) vec(operands<T> p)
{
    constexpr int kSize = kPackSize<T>, kBlocks = kSize / kNumbers;
    static_assert(kSize % kNumbers == 0, "whole blocks of numbers");
    int64_t packs = p.n / kSize;
    int64_t first = blockIdx.x * int64_t{kBlock * kPacks<T>} + threadIdx.x;
    words held[kPacks<T>];
#pragma unroll
    for (int u = 0; u < kPacks<T>; u++) {
        if (first + u * kBlock < packs && !p.all) {
            ptx::load_first(p.x + (first + u * kBlock) * kSize, held[u].word);
        }
    }

    uint64_t seed = p.seed.value(), offset = p.offset.value();
#pragma unroll
    for (int u = 0; u < kPacks<T>; u++) {
        int64_t i = first + u * kBlock;
        if (i < packs && p.all) {
            store_words(p.out + i * kSize, words{});
        } else if (i < packs) {
            float x[kSize];
            aicf_philox made[kBlocks];
#pragma unroll
            for (int block = 0; block < kBlocks; block++) {
                made[block] = aicf_philox_block(seed, offset, i * kBlocks + block);
            }
            unpack(held[u], x, T{});
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                x[lane] = dropped(p, x[lane], made[lane / kNumbers].number[lane % kNumbers]);
            }
            store_words(p.out + i * kSize, repack(x, T{}));
        }
    }

    int64_t block = packs * kBlocks + threadIdx.x;
    if (blockIdx.x == 0 && block * kNumbers < p.n) {
        drop_block(p, block);
    }
}

template <typename T>
__global__ void
__launch_bounds__(kBlock) blocks(operands<T> p)
{
    int64_t block = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (block * kNumbers < p.n) {
        drop_block(p, block);
    }
}

static number
number_of(const aicf_scalar *scalar)
{
    return {static_cast<const int64_t *>(scalar->data), scalar->host.integer};
}

template <typename T>
aicf_status
launch(operands<T> o, double p, aicf_stream stream)
{
    if (o.n == 0) {
        return aicf_ok();
    }
    o.all = p == 1;
    o.limit = aicf_philox_limit(p);
    o.scale = static_cast<float>(1 / (1 - p));
    bool whole = phase_of(o.x) == 0 && phase_of(o.out) == 0;
    int64_t threads = whole ? ceil_div(o.n / kPackSize<T> + 1, kPacks<T>) : ceil_div(o.n, kNumbers);
    return aicf::launch(
        whole ? vec<T> : blocks<T>, static_cast<unsigned>(ceil_div(threads, kBlock)), kBlock, 0,
        stream, o);
}

} // namespace aicf::dropout

#define LAUNCHER(T, suffix)                                                                \
    aicf_status aicf_cuda_dropout_vec_##suffix(                                            \
        const T *x, T *out, int64_t A, const aicf_scalar *seed, const aicf_scalar *offset, \
        double p, aicf_stream stream)                                                      \
    {                                                                                      \
        using namespace aicf::dropout;                                                     \
        operands<aicf::device_t<T>> o = {aicf::device(x),                                  \
                                         aicf::device(out),                                \
                                         A,                                                \
                                         number_of(seed),                                  \
                                         number_of(offset),                                \
                                         false,                                            \
                                         0,                                                \
                                         0};                                               \
        return launch(o, p, stream);                                                       \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
