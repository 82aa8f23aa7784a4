// Part of rows.cuh: the threads that share a row, and what they reduce over it.
#ifndef AICF_CUDA_ROWS_TEAMS_CUH
#define AICF_CUDA_ROWS_TEAMS_CUH

#include <aicf/cuda/rows_held.cuh>

namespace aicf::rows {

// ---- reductions ---------------------------------------------------------------------------------

// What is reduced: kCount floats that are combined as one, in an order that only the shape sets.
struct add {
    __device__ static float identity(int)
    {
        return 0.0f;
    }

    template <int kCount>
    __device__ void operator()(float (&a)[kCount], const float (&b)[kCount]) const
    {
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            a[i] += b[i];
        }
    }
};

// Over groups of `width` neighbouring lanes, a power of two; every lane has the result. Rows go
// side by side, so that their shuffles overlap.
template <int kRows, int kCount, typename Combine>
__device__ inline void
reduce_lanes(float (&v)[kRows][kCount], int width, Combine combine)
{
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        if (distance < width) {
            float other[kRows][kCount];
#pragma unroll
            for (int r = 0; r < kRows; r++) {
#pragma unroll
                for (int i = 0; i < kCount; i++) {
                    other[r][i] = __shfl_xor_sync(0xffffffff, v[r][i], distance);
                }
            }
#pragma unroll
            for (int r = 0; r < kRows; r++) {
                combine(v[r], other[r]);
            }
        }
    }
}

// ---- teams --------------------------------------------------------------------------------------

// Each has: row(r, kRows), the index of the r-th of the rows that this thread takes part in, which
// may be past the last one; span_of(x, shape, row), what it has of it; lanes(v, combine), which
// reduces over those of the team that are in one warp; across(v, combine), over its warps, of which
// each has one value in all lanes; reduce(v, combine), both. All threads of a block go through
// these together.

struct lanes_team {
    using place = span;
    int width;  // 16 or 32
    int64_t at; // index of the block

    __device__ lanes_team(int threads, int64_t block = blockIdx.x) : width(threads), at(block)
    {
    }

    __device__ int64_t row(int r, int rows) const
    {
        unsigned shift = width == kWarp ? 5 : 4;
        return (at * (blockDim.x >> shift) + (threadIdx.x >> shift)) * rows + r;
    }

    template <typename T> __device__ span span_of(const T *x, const shape &s, int64_t row) const
    {
        int rank = static_cast<int>(threadIdx.x) & (width - 1);
        return row < s.count ? rows::span_of(x + row * s.n, s, rank, width) : nothing();
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void lanes(float (&v)[kRows][kCount], Combine combine)
    {
        reduce_lanes(v, width, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void across(float (&)[kRows][kCount], Combine)
    {
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void reduce(float (&v)[kRows][kCount], Combine combine)
    {
        lanes(v, combine);
    }
};

// Each warp of a block, on its own.
struct warps_team {
    template <int kRows, int kCount, typename Combine>
    __device__ void lanes(float (&v)[kRows][kCount], Combine combine)
    {
        reduce_lanes(v, kWarp, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void across(float (&)[kRows][kCount], Combine)
    {
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void reduce(float (&v)[kRows][kCount], Combine combine)
    {
        lanes(v, combine);
    }
};

// Of up to kWarps warps.
template <int kWarps> struct block_team_of {
    using place = span;
    int round = 0; // two buffers take turns, so that one barrier a reduction is enough

    __device__ int64_t row(int, int) const
    {
        return blockIdx.x;
    }

    template <typename T> __device__ span span_of(const T *x, const shape &s, int64_t row) const
    {
        int rank = static_cast<int>(threadIdx.x), team = static_cast<int>(blockDim.x);
        return rows::span_of(x + row * s.n, s, rank, team);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void lanes(float (&v)[kRows][kCount], Combine combine)
    {
        reduce_lanes(v, kWarp, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void reduce(float (&v)[kRows][kCount], Combine combine)
    {
        lanes(v, combine);
        across(v, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void across(float (&v)[kRows][kCount], Combine combine)
    {
        static_assert(kRows == 1, "a block has one row");
        __shared__ float warps[2][kCount][kWarps];
        int lane = static_cast<int>(threadIdx.x) % kWarp;
        int count = static_cast<int>(blockDim.x) / kWarp;

        if (count == 1) {
            return;
        }
        if (lane == 0) {
            for (int i = 0; i < kCount; i++) {
                warps[round][i][threadIdx.x / kWarp] = v[0][i];
            }
        }
        __syncthreads();
        int width = count <= 4 ? 4 : kWarps, from = lane % width; // few warps, few shuffles
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            v[0][i] = from < count ? warps[round][i][from] : Combine::identity(i);
        }
        reduce_lanes(v, width, combine);
        round ^= 1;
    }
};

using block_team = block_team_of<kMostWarps>;

// A block that goes from row to row.
struct staying_team : block_team_of<kWarp> {
    int64_t at = blockIdx.x;

    __device__ int64_t row(int, int) const
    {
        return at;
    }
};

// A cluster whose blocks send each other what they reduce, each with its count of bytes to a
// barrier of the receiver: a barrier of the whole cluster would wait for the rows that are being
// written. Two rooms take turns; one is written anew only after all have read it, since each warp
// sends for the next reduction after it has read for this one.
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
struct cluster_team {
    using place = span;
    static constexpr int kMostFloats = 2;
    static constexpr int kEntries = kClusterBlocks * kMostWarps;

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

    __device__ cluster_team()
    {
        if (threadIdx.x == 0) {
            ptx::barrier_init(ptx::shared_address(&room().barrier[0]), 1);
            ptx::barrier_init(ptx::shared_address(&room().barrier[1]), 1);
            ptx::barrier_init_fence();
        }
        ptx::cluster_arrive();
    }

    __device__ int64_t row(int, int) const
    {
        return ptx::cluster_index();
    }

    template <typename T> __device__ span span_of(const T *x, const shape &s, int64_t row) const
    {
        int rank = static_cast<int>(threadIdx.x), team = static_cast<int>(blockDim.x);
        int part = static_cast<int>(ptx::cluster_rank());
        return rows::span_of(x + row * s.n, s, rank, team, part);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void lanes(float (&v)[kRows][kCount], Combine combine)
    {
        reduce_lanes(v, kWarp, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void reduce(float (&v)[kRows][kCount], Combine combine)
    {
        lanes(v, combine);
        across(v, combine);
    }

    // Each warp sends what it has to every block of the cluster.
    template <int kRows, int kCount, typename Combine>
    __device__ void across(float (&v)[kRows][kCount], Combine combine)
    {
        static_assert(kRows == 1 && kCount <= kMostFloats, "a cluster has one row");
        int lane = static_cast<int>(threadIdx.x) % kWarp;
        int count = static_cast<int>(blockDim.x) / kWarp;
        int blocks = static_cast<int>(ptx::cluster_size());
        int mine =
            static_cast<int>(ptx::cluster_rank()) * count + static_cast<int>(threadIdx.x) / kWarp;
        int turn = static_cast<int>(round & 1);
        uint32_t barrier = ptx::shared_address(&room().barrier[turn]);

        if (!met) {
            ptx::cluster_wait();
            met = true;
        }
        if (threadIdx.x == 0) {
            ptx::barrier_expect(
                barrier, static_cast<uint32_t>(kCount * blocks * count) * uint32_t{sizeof(float)});
        }
        if (lane < blocks) {
            uint32_t to = static_cast<uint32_t>(lane);
#pragma unroll
            for (int i = 0; i < kCount; i++) {
                uint32_t here = ptx::shared_address(&room().entries[turn][i][mine]);
                ptx::send_cluster(
                    ptx::address_in_block(here, to), v[0][i], ptx::address_in_block(barrier, to));
            }
        }
        __syncwarp();
        ptx::barrier_wait(barrier, round >> 1 & 1);

#pragma unroll
        for (int i = 0; i < kCount; i++) {
            v[0][i] = Combine::identity(i);
        }
        for (int from = lane; from < count * blocks; from += kWarp) {
            float other[kCount];
#pragma unroll
            for (int i = 0; i < kCount; i++) {
                other[i] = room().entries[turn][i][from];
            }
            combine(v[0], other);
        }
        reduce_lanes(v, kWarp, combine);
        round++;
    }
};
#endif

// Of rows that fill their lanes: `whole_span` says when. Wider ones gain nothing by that: without
// the branches between packs the compiler holds too many of them unpacked at once.

template <int kWidth> struct whole_lanes_team {
    using place = whole_span;

    __device__ int64_t row(int r, int rows) const
    {
        int64_t team = blockIdx.x * int64_t{blockDim.x / kWidth} + threadIdx.x / kWidth;
        return team * rows + r;
    }

    template <typename T>
    __device__ whole_span span_of(const T *, const shape &s, int64_t row) const
    {
        constexpr int kSize = kPackSize<T>;
        return {static_cast<int>(threadIdx.x) % kWidth * kSize, kWidth * kSize, row < s.count};
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void lanes(float (&v)[kRows][kCount], Combine combine)
    {
        reduce_lanes(v, kWidth, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void across(float (&)[kRows][kCount], Combine)
    {
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void reduce(float (&v)[kRows][kCount], Combine combine)
    {
        lanes(v, combine);
    }
};

} // namespace aicf::rows

#endif
