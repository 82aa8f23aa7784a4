// How the k-slabs of one tile reach shared memory by asynchronous copies, where they lie as mma.cuh
// has it: what units::sum_slabs is fed by, for kernels whose blocks make a tile each.
#ifndef AICF_CUDA_MMA_SLABS_CUH
#define AICF_CUDA_MMA_SLABS_CUH

#include <aicf/cuda/mma.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::units {

// An operand of x (m or n) by k, seen from one tile.
template <typename T> struct source {
    const T *data;
    int64_t pitch, size, depth; // size: how many x there are from the tile's first on
};

// One thread's copies of a slab: always the same chunk of every kStride-th row.
template <typename T, int kTile, int kSlab, int kThreads, bool kAlongK> struct slab_loader {
    static constexpr int kChunks = kRowChunks<kTile, kSlab, kAlongK>;
    static constexpr int kRows = kAlongK ? kTile : kSlab;
    static constexpr int kStride = kThreads / kChunks;
    static constexpr int kCount = kRows / kStride;
    static_assert(kThreads % kChunks == 0 && kRows % kStride == 0, "whole rows");

    const T *from; // of the thread's first chunk in the next slab
    int64_t step;  // from one of its rows to the next
    int row, chunk;
    uint32_t inside; // along k: bit i: row i is inside; else the bytes of its chunks that are

    __device__ slab_loader(const source<T> &s)
    {
        row = static_cast<int>(threadIdx.x) / kChunks;
        chunk = static_cast<int>(threadIdx.x) % kChunks;
        from = s.data + row * s.pitch + chunk * kChunk;
        step = kStride * s.pitch;
        inside = 0;
        if (kAlongK) {
#pragma unroll
            for (int i = 0; i < kCount; i++) {
                inside |= static_cast<uint32_t>(row + i * kStride < s.size) << i;
            }
        } else {
            inside = bytes_of(s.size - chunk * kChunk);
        }
    }

    __device__ static uint32_t bytes_of(int64_t elements)
    {
        return elements >= kChunk ? kChunkBytes
               : elements <= 0    ? 0
                                  : static_cast<uint32_t>(elements) * 2;
    }

    // Copy number i of kCount of a slab that lies inside the operand.
    __device__ void copy(int i, uint32_t to) const
    {
        ptx::copy_async_16(to + chunk_offset<kChunks>(row + i * kStride, chunk), from + i * step);
    }

    // The same of any slab; `k` is its first k.
    __device__ void copy_edge(const source<T> &s, int64_t k, int i, uint32_t to) const
    {
        static_assert(kCount <= 32, "a bit a row");
        uint32_t bytes = kAlongK ? bytes_of(s.depth - k - chunk * kChunk) : inside;
        bool whole = kAlongK ? inside >> i & 1 : k + row + i * kStride < s.depth;
        uint32_t size = whole ? bytes : 0;
        // Nothing is read of a chunk of no bytes, but its address has to be a valid one.
        ptx::copy_async_16(
            to + chunk_offset<kChunks>(row + i * kStride, chunk), size ? from + i * step : s.data,
            static_cast<int>(size));
    }

    __device__ void advance(const source<T> &s)
    {
        from += kAlongK ? kSlab : kSlab * s.pitch;
    }
};

// The slabs of a tile on their way into the stages, in order. Those beyond the operands' depth are
// zeros, so that every slab has its group of copies: waiting counts groups.
template <typename T, typename S, bool kAAlongK, bool kBAlongK> struct tile_feed {
    using loader_a = slab_loader<T, S::kTileM, S::kSlab, S::kThreads, kAAlongK>;
    using loader_b = slab_loader<T, S::kTileN, S::kSlab, S::kThreads, kBAlongK>;

    const source<T> &a, &b;
    loader_a load_a;
    loader_b load_b;
    int64_t k = 0;       // of the slab on its way
    uint32_t into, base; // its stage

    bool a_inside, b_inside; // the tile, as to m and n

    __device__ tile_feed(const source<T> &a, const source<T> &b, uint32_t shared)
        : a(a), b(b), load_a(a), load_b(b), into(shared), base(shared),
          a_inside(a.size >= S::kTileM), b_inside(b.size >= S::kTileN)
    {
    }

    // Part kPart of kParts of the slab's copies. An operand that the slab sticks out of is copied
    // whole with the first part, not unrolled: it is the rare case, and would hold registers.
    template <int kPart, int kParts> __device__ void copy() const
    {
        bool deep = k + S::kSlab <= a.depth;
        if (deep && a_inside) {
#pragma unroll
            for (int i = kPart * loader_a::kCount / kParts;
                 i < (kPart + 1) * loader_a::kCount / kParts; i++) {
                load_a.copy(i, into);
            }
        } else if (kPart == 0) {
#pragma unroll 1
            for (int i = 0; i < loader_a::kCount; i++) {
                load_a.copy_edge(a, k, i, into);
            }
        }
        if (deep && b_inside) {
#pragma unroll
            for (int i = kPart * loader_b::kCount / kParts;
                 i < (kPart + 1) * loader_b::kCount / kParts; i++) {
                load_b.copy(i, into + S::kBytesA);
            }
        } else if (kPart == 0) {
#pragma unroll 1
            for (int i = 0; i < loader_b::kCount; i++) {
                load_b.copy_edge(b, k, i, into + S::kBytesA);
            }
        }
    }

    __device__ void close()
    {
        ptx::copy_async_commit();
        load_a.advance(a);
        load_b.advance(b);
        k += S::kSlab;
        into += S::kStageBytes;
        into = into == base + S::kStages * S::kStageBytes ? base : into;
    }
};

} // namespace aicf::units

#endif
