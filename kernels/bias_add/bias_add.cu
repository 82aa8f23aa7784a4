// out = x + bias along one axis (cuda): x[L, N, R] and out dense, bias[N], f32, f16 and bf16,
// summed in f32 and rounded once. out may be exactly x; any addresses. 16-byte accesses where x and
// out have one phase; bias, read once a pack or once an element, comes from the caches. Bound by
// bytes.
#include <aicf_ops/bias_add.h>

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::bias_add {

constexpr int kBlock = 256;
constexpr int kUnroll = 4; // elements of a thread where it goes element by element

// Where element i stands: its index n along the axis and its distance r from the start of that n.
struct position {
    int64_t n, r;
};

// 32 bits: all indexes are below 2^31.
struct narrow {
    divider by_r, by_n;

    __device__ position find(int64_t i) const
    {
        uint32_t row = divide(static_cast<uint32_t>(i), by_r);
        uint32_t outer = divide(row, by_n);
        return {row - outer * by_n.divisor, static_cast<uint32_t>(i) - row * by_r.divisor};
    }
};

struct wide {
    int64_t by_r, by_n;

    __device__ position find(int64_t i) const
    {
        int64_t row = i / by_r;
        return {row % by_n, i - row * by_r};
    }
};

template <typename T> struct operands {
    const T *x, *bias;
    T *out;
    int64_t N, R, head, count;
};

template <typename T>
__device__ inline T
plus(T x, T bias)
{
    return of_f32<T>(to_f32(x) + to_f32(bias));
}

// The sum of a pack whose first element stands at `at`.
template <typename T>
__device__ inline words
plus_pack(const operands<T> &p, const words &held, position at)
{
    constexpr int kSize = kPackSize<T>;
    float x[kSize];
    unpack(held, x, T{});
    if (at.r + kSize <= p.R) {
        float bias = to_f32(p.bias[at.n]);
#pragma unroll
        for (int lane = 0; lane < kSize; lane++) {
            x[lane] += bias;
        }
        return repack(x, T{});
    }
    if (p.R == 1 && at.n + kSize <= p.N &&
        reinterpret_cast<uintptr_t>(p.bias + at.n) % kPackBytes == 0) {
        float bias[kSize];
        unpack(load_words(p.bias + at.n), bias, T{});
#pragma unroll
        for (int lane = 0; lane < kSize; lane++) {
            x[lane] += bias[lane];
        }
        return repack(x, T{});
    }
    float bias = to_f32(p.bias[at.n]);
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        if (at.r == p.R) {
            at.r = 0;
            at.n = at.n + 1 == p.N ? 0 : at.n + 1;
            bias = to_f32(p.bias[at.n]);
        }
        x[lane] += bias;
        at.r++;
    }
    return repack(x, T{});
}

// Requires x + head and out + head on 16-byte boundaries. Block 0 does the head and the tail.
template <typename T, typename Index>
__global__ void
__launch_bounds__(kBlock) vec(operands<T> p, Index index)
{
    constexpr int kSize = kPackSize<T>;
    int64_t packs = (p.count - p.head) / kSize;
    int64_t i = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (i < packs) {
        int64_t element = p.head + i * kSize;
        words x = load_words(p.x + element);
        store_words(p.out + element, plus_pack(p, x, index.find(element)));
    }

    if (blockIdx.x == 0) {
        int64_t tail = p.head + packs * kSize + threadIdx.x;
        if (threadIdx.x < p.head) {
            p.out[threadIdx.x] = plus(p.x[threadIdx.x], p.bias[index.find(threadIdx.x).n]);
        }
        if (tail < p.count) {
            p.out[tail] = plus(p.x[tail], p.bias[index.find(tail).n]);
        }
    }
}

// x and out have different phases: element by element.
template <typename T, typename Index>
__global__ void
__launch_bounds__(kBlock) scalar(operands<T> p, Index index)
{
    int64_t first = blockIdx.x * int64_t{kBlock * kUnroll} + threadIdx.x;

    T x[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < p.count) {
            x[u] = p.x[first + u * kBlock];
        }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        int64_t i = first + u * kBlock;
        if (i < p.count) {
            p.out[i] = plus(x[u], p.bias[index.find(i).n]);
        }
    }
}

template <typename T, typename Index>
aicf_status
launch_indexed(const operands<T> &p, Index index, aicf_stream stream)
{
    if (phase_of(p.x) == phase_of(p.out)) {
        unsigned blocks = static_cast<unsigned>(ceil_div(p.count / kPackSize<T> + 1, kBlock));
        return aicf::launch(vec<T, Index>, blocks, kBlock, 0, stream, p, index);
    }
    unsigned blocks = static_cast<unsigned>(ceil_div(p.count, kBlock * kUnroll));
    return aicf::launch(scalar<T, Index>, blocks, kBlock, 0, stream, p, index);
}

template <typename T>
aicf_status
launch(const T *x, const T *bias, T *out, int64_t L, int64_t N, int64_t R, aicf_stream stream)
{
    operands<T> p = {x, bias, out, N, R, head_of(out, L * N * R), L * N * R};

    if (p.count == 0) {
        return aicf_ok();
    }
    if (p.count < int64_t{1} << 31) {
        return launch_indexed(p, narrow{divider_of(R), divider_of(N)}, stream);
    }
    return launch_indexed(p, wide{R, N}, stream);
}

} // namespace aicf::bias_add

#define LAUNCHER(T, suffix)                                                           \
    aicf_status aicf_cuda_bias_add_vec_##suffix(                                      \
        const T *x, const T *bias, T *out, int64_t L, int64_t N, int64_t R, int64_t,  \
        aicf_stream stream)                                                           \
    {                                                                                 \
        return aicf::bias_add::launch(                                                \
            aicf::device(x), aicf::device(bias), aicf::device(out), L, N, R, stream); \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
