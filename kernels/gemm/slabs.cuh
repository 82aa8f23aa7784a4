// The slabs of gemm_sm_80.cu: how k-slabs of a and b reach shared memory by asynchronous copies,
// where they lie as mma.cuh has it, tile after tile of a block's.
#ifndef AICF_GEMM_SLABS_CUH
#define AICF_GEMM_SLABS_CUH

#include "gemm.cuh"

#include <aicf/cuda/mma.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::gemm {

using namespace units;

template <typename S, typename T>
__device__ inline job<T>
tile_of(const problem<T> &p, int64_t tile)
{
    if (p.narrow) {
        return job_at<S::kTileM, S::kTileN>(p, static_cast<uint32_t>(tile));
    }
    return job_at<S::kTileM, S::kTileN>(p, static_cast<uint64_t>(tile));
}

// One thread's copies of an operand's slabs, of x (m or n) by k: the same chunk of every kStride-th
// row, which lie swizzled alike.
template <typename T, int kTile, int kSlab, int kThreads, bool kAlongK> struct loader {
    static constexpr int kChunks = kRowChunks<kTile, kSlab, kAlongK>;
    static constexpr int kRows = kAlongK ? kTile : kSlab;
    static constexpr int kStride = kThreads / kChunks;
    static constexpr int kCount = kRows / kStride;
    static_assert(kThreads % kChunks == 0 && kRows % kStride == 0, "whole rows");
    static_assert(kStride % 8 == 0, "what the swizzle repeats over");

    const T *next; // of the copy to come

    __device__ static int row()
    {
        return static_cast<int>(threadIdx.x) / kChunks;
    }

    __device__ static int chunk()
    {
        return static_cast<int>(threadIdx.x) % kChunks;
    }

    __device__ static uint32_t place(int i)
    {
        return chunk_offset<kChunks>(row(), chunk()) + i * (kStride * kChunks * kChunkBytes);
    }

    // From `first` on, the element of the tile at k = 0.
    __device__ void aim(const T *first, int64_t pitch)
    {
        next = first + row() * pitch + chunk() * kChunk;
    }

    // Part kPart of kParts of a slab that lies inside the operand.
    template <int kPart, int kParts> __device__ void copy(uint32_t to, int64_t pitch)
    {
#pragma unroll
        for (int i = kPart * kCount / kParts; i < (kPart + 1) * kCount / kParts; i++) {
            ptx::copy_async_16(to + place(i), next);
            next += kStride * pitch;
        }
        if (kAlongK && kPart == kParts - 1) {
            next += kSlab - kTile * pitch;
        }
    }

    // All of any slab, of which `size` x and `depth` k are there; `valid`: an address in the
    // operand. Not unrolled: it is the rare case.
    __device__ void copy_edge(uint32_t to, int64_t pitch, int size, int depth, const T *valid)
    {
        int left = (kAlongK ? depth : size) - chunk() * kChunk, lines = kAlongK ? size : depth;
        int bytes = left <= 0 ? 0 : left >= kChunk ? kChunkBytes : left * 2;
#pragma unroll 1
        for (int i = 0; i < kCount; i++) {
            int inside = row() + i * kStride < lines ? bytes : 0;
            // Nothing is read of a chunk of no bytes, but its address has to be a valid one.
            ptx::copy_async_16(to + place(i), inside ? next : valid, inside);
            next += kStride * pitch;
        }
        next += kAlongK ? kSlab - kTile * pitch : 0;
    }
};

// The slabs of this block's tiles on their way, in order. Past the last one groups of copies are
// empty, so that every slab has its own: waiting counts groups.
template <typename T, typename S, bool kAAlongK, bool kBAlongK> struct feed {
    const problem<T> &p;
    int64_t tile;
    int left; // slabs of the tile that are not asked for yet
    loader<T, S::kTileM, S::kSlab, S::kThreads, kAAlongK> a;
    loader<T, S::kTileN, S::kSlab, S::kThreads, kBAlongK> b;
    bool whole; // the tile, as to m and n

    __device__ explicit feed(const problem<T> &p) : p(p), tile(blockIdx.x)
    {
        aim();
    }

    __device__ int64_t tiles() const
    {
        return p.tiles_m * p.tiles_n * p.batches;
    }

    __device__ int slabs() const
    {
        return static_cast<int>((p.K + S::kSlab - 1) / S::kSlab);
    }

    __device__ void aim()
    {
        left = 0;
        whole = false;
        if (tile < tiles()) {
            job<T> j = tile_of<S>(p, tile);
            a.aim(j.a + j.m * (kAAlongK ? p.a_pitch : 1), p.a_pitch);
            b.aim(j.b + j.n * (kBAlongK ? p.b_pitch : 1), p.b_pitch);
            whole = p.M - j.m >= S::kTileM && p.N - j.n >= S::kTileN;
            left = slabs();
        }
    }

    // How many of the tile's slabs to come are not its last, and lie inside of both operands.
    __device__ int inside() const
    {
        return whole && left > 1 ? left - 1 : 0;
    }

    // Part kPart of kParts of the next slab. kInside: it lies inside, for one that does not all of
    // it is copied with the first part.
    template <bool kInside, int kPart, int kParts> __device__ void copy(uint32_t to)
    {
        if (kInside || (whole && (left > 1 || (left == 1 && p.K % S::kSlab == 0)))) {
            a.template copy<kPart, kParts>(to, p.a_pitch);
            b.template copy<kPart, kParts>(to + S::kBytesA, p.b_pitch);
        } else if (kPart == 0 && left > 0) {
            copy_edge(to);
        }
    }

    __device__ void copy_edge(uint32_t to)
    {
        auto least = [](int64_t x, int most) { return x < most ? static_cast<int>(x) : most; };
        job<T> j = tile_of<S>(p, tile);
        int depth = least(p.K - static_cast<int64_t>(slabs() - left) * S::kSlab, S::kSlab);
        a.copy_edge(to, p.a_pitch, least(p.M - j.m, S::kTileM), depth, p.a);
        b.copy_edge(to + S::kBytesA, p.b_pitch, least(p.N - j.n, S::kTileN), depth, p.b);
    }

    // After a slab's last part: one group of copies. kInside: it is not the tile's last.
    template <bool kInside> __device__ void close()
    {
        ptx::copy_async_commit();
        left--;
        if (!kInside && left <= 0) {
            tile += gridDim.x;
            aim();
        }
    }
};

} // namespace aicf::gemm

#endif
