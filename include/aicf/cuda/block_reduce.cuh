// Reductions over the lanes of a warp and over a block: one value a thread becomes one value of
// all. The order is fixed, so the bits are the same at every run. A value is any struct of whole
// 32-bit words; `combine(a, b)` is associative and commutative up to rounding.
//
//   float top = block_reduce<kBlock>(x, largest{}, room);
#ifndef AICF_CUDA_BLOCK_REDUCE_CUH
#define AICF_CUDA_BLOCK_REDUCE_CUH

#include <cstring>

#include <aicf/cuda/ptx.cuh>

namespace aicf {

constexpr int kWarp = 32;

// ---- what is combined ---------------------------------------------------------------------------

struct plus {
    template <typename V> __device__ V operator()(V a, V b) const
    {
        return a + b;
    }
};

// The larger and the smaller; NaN wins.
struct largest {
    __device__ float operator()(float a, float b) const
    {
        return ptx::max_nan(a, b);
    }
};

struct smallest {
    __device__ float operator()(float a, float b) const
    {
        return ptx::min_nan(a, b);
    }
};

// ---- warp ---------------------------------------------------------------------------------------

// The value of the lane whose number differs by `distance`, a power of two.
template <typename V>
__device__ inline V
shuffle_xor(const V &x, int distance)
{
    static_assert(sizeof(V) % sizeof(uint32_t) == 0, "whole words");
    uint32_t word[sizeof(V) / sizeof(uint32_t)];
    memcpy(word, &x, sizeof(V));
#pragma unroll
    for (uint32_t &w : word) {
        w = __shfl_xor_sync(0xffffffff, w, distance);
    }
    V y;
    memcpy(&y, word, sizeof(V));
    return y;
}

// Over groups of kLanes neighbouring lanes, a power of two; every lane of a group has the result.
// All lanes of the warp take part.
template <int kLanes = kWarp, typename V, typename Combine>
__device__ inline V
warp_reduce(V x, Combine combine)
{
    static_assert(kLanes > 0 && kLanes <= kWarp && (kLanes & (kLanes - 1)) == 0, "a power of two");
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        x = combine(x, shuffle_xor(x, distance));
    }
    return x;
}

// The same for a number of lanes that is known at launch.
template <typename V, typename Combine>
__device__ inline V
warp_reduce(V x, int lanes, Combine combine)
{
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
        x = combine(x, shuffle_xor(x, distance));
    }
    return x;
}

// ---- block --------------------------------------------------------------------------------------

// Over a block of kThreads, all of which take part; every thread has the result. `room`: a value a
// warp, in shared memory, free again after the next barrier.
template <int kThreads, typename V, typename Combine>
__device__ inline V
block_reduce(V x, Combine combine, V *room)
{
    constexpr int kWarps = kThreads / kWarp;
    static_assert(kThreads % kWarp == 0 && (kWarps & (kWarps - 1)) == 0 && kWarps <= kWarp, "");
    x = warp_reduce(x, combine);
    if (kWarps == 1) {
        return x;
    }
    if (threadIdx.x % kWarp == 0) {
        room[threadIdx.x / kWarp] = x;
    }
    __syncthreads();
    return warp_reduce<kWarps>(room[threadIdx.x % kWarps], combine);
}

// The same for a number of threads that is known at launch: a power of two times kWarp.
template <typename V, typename Combine>
__device__ inline V
block_reduce(V x, int threads, Combine combine, V *room)
{
    int warps = threads / kWarp;
    x = warp_reduce(x, combine);
    if (threadIdx.x % kWarp == 0) {
        room[threadIdx.x / kWarp] = x;
    }
    __syncthreads();
    return warp_reduce(room[static_cast<int>(threadIdx.x) % warps], warps, combine);
}

} // namespace aicf

#endif
