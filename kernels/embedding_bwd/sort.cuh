// Places sorted by their keys, the rows they belong to; equal keys keep their order.
#ifndef EMBEDDING_BWD_SORT_CUH
#define EMBEDDING_BWD_SORT_CUH

#include <aicf/cuda/launch.cuh>

namespace aicf::embedding_bwd {

constexpr int kBlock = 256;
constexpr int kWarp = 32, kWarps = kBlock / kWarp;
constexpr int kDigits = 256; // a digit has 8 bits
static_assert(kDigits == kBlock, "a thread a digit");
constexpr int kItems = 4; // keys that a thread moves at once
constexpr int kTile = kBlock * kItems;
// Blocks of a pass, at most; the row's workspace has room for the counts of so many. Each block
// adds up the counts of all.
constexpr int64_t kMostBlocks = 128;
constexpr int kFew = 1024; // places that one block ranks

// Keys of the first pass are made of idx.
template <typename I> struct raw_keys {
    const I *idx;
    int64_t V, padding;

    __device__ uint32_t key(int64_t i) const
    {
        int64_t v = idx[i];
        return static_cast<uint32_t>(v >= 0 && v < V && v != padding ? v : V);
    }

    __device__ uint32_t place(int64_t i) const
    {
        return static_cast<uint32_t>(i);
    }
};

struct sorted_keys {
    const uint32_t *keys, *places;

    __device__ uint32_t key(int64_t i) const
    {
        return keys[i];
    }

    __device__ uint32_t place(int64_t i) const
    {
        return places[i];
    }
};

// One pass: `n` keys, of which each block has `share`, whole tiles. counts[digit * blocks + block].
struct pass {
    uint32_t *counts, *keys, *places;
    int64_t n, share;
    int blocks, shift;
};

__device__ inline uint32_t
digit_of(uint32_t key, int shift)
{
    return key >> shift & (kDigits - 1);
}

template <typename Keys>
__global__ void
__launch_bounds__(kBlock) count(Keys from, pass p)
{
    __shared__ uint32_t found[kDigits];
    ptx::let_next_launch_begin();
    found[threadIdx.x] = 0;
    __syncthreads();
    int64_t begin = blockIdx.x * p.share;
    int64_t end = begin + p.share < p.n ? begin + p.share : p.n;
    for (int64_t i = begin + threadIdx.x; i < end; i += kBlock) {
        atomicAdd(&found[digit_of(from.key(i), p.shift)], 1u); // a count: any order does
    }
    __syncthreads();
    p.counts[threadIdx.x * p.blocks + blockIdx.x] = found[threadIdx.x];
}

// The sum of x over the threads before this one.
__device__ inline uint32_t
sum_before(uint32_t x)
{
    __shared__ uint32_t warps[kWarps];
    int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    uint32_t sum = x;
    for (int distance = 1; distance < kWarp; distance *= 2) {
        uint32_t other = __shfl_up_sync(0xffffffff, sum, distance);
        sum += lane >= distance ? other : 0;
    }
    if (lane == kWarp - 1) {
        warps[warp] = sum;
    }
    __syncthreads();
    for (int w = 0; w < warp; w++) {
        sum += warps[w];
    }
    return sum - x;
}

// Where this block's first key of digit `threadIdx.x` goes.
__device__ inline uint32_t
place_of_digit(const pass &p)
{
    const uint32_t *counts = p.counts + threadIdx.x * p.blocks;
    uint32_t before = 0, all = 0;
    for (int block = 0; block < p.blocks; block++) {
        uint32_t found = counts[block];
        before += block < static_cast<int>(blockIdx.x) ? found : 0;
        all += found;
    }
    return sum_before(all) + before;
}

// Tile by tile. In a tile a warp has kItems * kWarp keys side by side, which it ranks kWarp at a
// time among those of its own with the same digit; then a thread a digit ranks the warps.
template <typename Keys>
__global__ void
__launch_bounds__(kBlock) scatter(Keys from, pass p)
{
    __shared__ uint32_t next[kWarps][kDigits];
    int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    ptx::let_next_launch_begin();
    uint32_t place = place_of_digit(p);
    int64_t begin = blockIdx.x * p.share;
    int64_t end = begin + p.share < p.n ? begin + p.share : p.n;

    for (int64_t tile = begin; tile < end; tile += kTile) {
        for (int w = 0; w < kWarps; w++) {
            next[w][threadIdx.x] = 0;
        }
        __syncthreads();

        uint32_t key[kItems], rank[kItems];
#pragma unroll
        for (int k = 0; k < kItems; k++) {
            int64_t i = tile + (warp * kItems + k) * kWarp + lane;
            key[k] = i < end ? from.key(i) : 0;
            uint32_t digit = i < end ? digit_of(key[k], p.shift) : kDigits;
            uint32_t alike = __match_any_sync(0xffffffff, digit);
            uint32_t before = __popc(alike & ((1u << lane) - 1));
            rank[k] = (i < end ? next[warp][digit] : 0) + before;
            __syncwarp();
            if (i < end && before == 0) {
                next[warp][digit] += __popc(alike);
            }
            __syncwarp();
        }
        __syncthreads();

        for (int w = 0; w < kWarps; w++) {
            uint32_t found = next[w][threadIdx.x];
            next[w][threadIdx.x] = place;
            place += found;
        }
        __syncthreads();

#pragma unroll
        for (int k = 0; k < kItems; k++) {
            int64_t i = tile + (warp * kItems + k) * kWarp + lane;
            if (i < end) {
                uint32_t to = next[warp][digit_of(key[k], p.shift)] + rank[k];
                p.keys[to] = key[k];
                p.places[to] = from.place(i);
            }
        }
        __syncthreads();
    }
}

// One block. A key's place is the count of those below it, and of its like before it.
template <typename Keys>
__global__ void
__launch_bounds__(kFew) rank(Keys from, uint32_t *keys, uint32_t *places, int n)
{
    __shared__ uint32_t all[kFew];
    int i = static_cast<int>(threadIdx.x);
    ptx::let_next_launch_begin();
    if (i < n) {
        all[i] = from.key(i);
    }
    __syncthreads();
    if (i >= n) {
        return;
    }
    uint32_t key = all[i];
    int to = 0;
#pragma unroll 8
    for (int j = 0; j < n; j++) {
        to += all[j] < key || (all[j] == key && j < i);
    }
    keys[to] = key;
    places[to] = static_cast<uint32_t>(i);
}

// How many of the sorted keys are below v.
__device__ inline uint32_t
count_below(const uint32_t *keys, int64_t n, int64_t v)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        bool below = keys[middle] < v;
        low = below ? middle + 1 : low;
        high = below ? high : middle;
    }
    return static_cast<uint32_t>(low);
}

// begin[v] for v in [0, V].
__global__ void
__launch_bounds__(kBlock) bounds(const uint32_t *keys, uint32_t *begin, int64_t n, int64_t V)
{
    int64_t v = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    ptx::let_next_launch_begin();
    if (v <= V) {
        begin[v] = count_below(keys, n, v);
    }
}

} // namespace aicf::embedding_bwd

#endif
