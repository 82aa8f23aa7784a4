// Teams that go over the rows of a dense matrix, each thread with the same columns of all: so what
// goes by column, weights and sums, stays in registers, and the next row is on its way while one is
// reduced. For rows that start on 16-byte boundaries, or element by element.
#ifndef AICF_CUDA_COLUMNS_CUH
#define AICF_CUDA_COLUMNS_CUH

#include <cstring>

#include <aicf/cuda/rows.cuh>

namespace aicf::columns {

constexpr int kMine = 16;         // columns of a thread at most
constexpr int kMostThreads = 512; // of a block
constexpr int64_t kMachine = 132; // multiprocessors of the largest machines

// ---- units --------------------------------------------------------------------------------------

// 16 bytes, or one element, as they lie in memory.
template <typename T, int kSize> struct unit {
    static_assert(kSize == kPackSize<T>, "a pack or an element");
    words held;

    __device__ void load(const T *p)
    {
        held = load_words(p);
    }

    __device__ void unpack(float (&x)[kSize])
    {
        for (uint32_t &word : held.word) {
            ptx::opaque(word); // else f32 of it are kept from one use to the next
        }
        aicf::unpack(held, x, T{});
    }
};

template <typename T> struct unit<T, 1> {
    T held;

    __device__ void load(const T *p)
    {
        held = *p;
    }

    __device__ void unpack(float (&x)[1])
    {
        x[0] = to_f32(held);
    }
};

// kSize elements that a kernel never writes, so that their loads may go ahead of its stores; by one
// access if `packed`. Not __ldg of a __half: that is an asm without effects, which compilers take
// out of the condition that its address hangs on.
template <typename T, int kSize>
__device__ inline void
coefficients(const T *from, bool packed, float (&c)[kSize])
{
    if constexpr (kSize == kPackSize<T>) {
        if (packed) {
            uint4 w = __ldg(reinterpret_cast<const uint4 *>(from));
            aicf::unpack(words{{w.x, w.y, w.z, w.w}}, c, T{});
            return;
        }
    }
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        T value;
        if constexpr (sizeof(T) == sizeof(unsigned short)) {
            unsigned short bits = __ldg(reinterpret_cast<const unsigned short *>(from + lane));
            memcpy(&value, &bits, sizeof(T));
        } else {
            value = __ldg(from + lane);
        }
        c[lane] = to_f32(value);
    }
}

// ---- clusters -----------------------------------------------------------------------------------

// A cluster whose blocks send each other what they reduce, each with its count of bytes to a
// barrier of the receiver: a barrier of the whole cluster would wait for the rows that are being
// written. Two rooms take turns; one is written anew only after all have read it, since each warp
// sends for the next reduction after it has read for this one.
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
struct mail_team {
    static constexpr int kMostFloats = 4;
    static constexpr int kEntries = rows::kClusterBlocks * rows::kMostWarps;

    struct mail {
        float entries[2][kMostFloats][kEntries];
        uint64_t barrier[2];
    };

    uint32_t round = 0;
    bool met = false; // whether the barriers of the cluster are known to be there

    __device__ static mail &room()
    {
        __shared__ mail shared;
        return shared;
    }

    __device__ mail_team()
    {
        if (threadIdx.x == 0) {
            ptx::barrier_init(ptx::shared_address(&room().barrier[0]), 1);
            ptx::barrier_init(ptx::shared_address(&room().barrier[1]), 1);
            ptx::barrier_init_fence();
        }
        ptx::cluster_arrive();
    }

    // Sends v of this thread's warp, the same in all of its lanes, to all blocks, and waits for
    // what they send; how many entries there are then.
    template <int kCount> __device__ int exchange(const float (&v)[kCount])
    {
        static_assert(kCount <= kMostFloats, "");
        int lane = static_cast<int>(threadIdx.x) % rows::kWarp;
        int warps = static_cast<int>(blockDim.x) / rows::kWarp;
        int blocks = static_cast<int>(ptx::cluster_size());
        int mine = static_cast<int>(ptx::cluster_rank()) * warps +
                   static_cast<int>(threadIdx.x) / rows::kWarp;
        int turn = static_cast<int>(round & 1);
        uint32_t barrier = ptx::shared_address(&room().barrier[turn]);

        if (!met) {
            ptx::cluster_wait();
            met = true;
        }
        if (threadIdx.x == 0) {
            ptx::barrier_expect(
                barrier, static_cast<uint32_t>(kCount * blocks * warps) * uint32_t{sizeof(float)});
        }
        if (lane < blocks) {
            uint32_t to = static_cast<uint32_t>(lane);
#pragma unroll
            for (int i = 0; i < kCount; i++) {
                uint32_t here = ptx::shared_address(&room().entries[turn][i][mine]);
                ptx::send_cluster(
                    ptx::address_in_block(here, to), v[i], ptx::address_in_block(barrier, to));
            }
        }
        __syncwarp();
        ptx::barrier_wait(barrier, round >> 1 & 1);
        return blocks * warps;
    }

    // Entry `from` of the last exchange; then `next` ends the reading.
    __device__ float entry(int i, int from)
    {
        return room().entries[round & 1][i][from];
    }

    __device__ void next()
    {
        round++;
    }

    template <int kCount, typename Combine>
    __device__ void reduce(float (&v)[1][kCount], Combine combine)
    {
        rows::reduce_lanes(v, rows::kWarp, combine);
        int count = exchange(v[0]);
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            v[0][i] = Combine::identity(i);
        }
        for (int from = static_cast<int>(threadIdx.x) % rows::kWarp; from < count;
             from += rows::kWarp) {
            float other[kCount];
#pragma unroll
            for (int i = 0; i < kCount; i++) {
                other[i] = entry(i, from);
            }
            combine(v[0], other);
        }
        next();
        rows::reduce_lanes(v, rows::kWarp, combine);
    }
};
#endif

// Clusters of so many whole multiprocessors that the largest machines run at once: each within one
// of their groups of 16 or 18.
inline int64_t
clusters(int parts)
{
    return parts == 2 ? kMachine / 2 : 128 / parts;
}

// ---- places -------------------------------------------------------------------------------------

// Which team of how many this thread is in, and which thread of how many in it.
struct place {
    int64_t team, teams;
    int rank, size;
};

__device__ inline place
place_in(const rows::lanes_team &team)
{
    int64_t thread = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
    int64_t threads = gridDim.x * int64_t{blockDim.x};
    return {
        thread / team.width, threads / team.width, static_cast<int>(threadIdx.x) % team.width,
        team.width};
}

__device__ inline place
place_in(const rows::block_team &)
{
    return {blockIdx.x, gridDim.x, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
}

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
__device__ inline place
place_in(const mail_team &)
{
    int blocks = static_cast<int>(ptx::cluster_size()), size = static_cast<int>(blockDim.x);
    int rank = static_cast<int>(ptx::cluster_rank()) * size + static_cast<int>(threadIdx.x);
    return {blockIdx.x / blocks, gridDim.x / blocks, rank, blocks * size};
}
#endif

} // namespace aicf::columns

#endif
