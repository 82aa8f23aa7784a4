// The slabs and fragments of gemm_sm_80.cu: how k-slabs of a and b reach shared memory by
// asynchronous copies, lie there, and are read as the fragments of mma.sync.
#ifndef AICF_GEMM_SLABS_CUH
#define AICF_GEMM_SLABS_CUH

#include "gemm.cuh"

#include <aicf/cuda/ptx.cuh>

namespace aicf::gemm {

constexpr int kWarp = 32;
constexpr int kStepK = 16; // k of one mma
constexpr int kChunk = 8;  // elements of 16 bytes: one copy, one row of an 8 x 8 block
constexpr int kChunkBytes = 16;

// A shape of tiles. Each warp makes kM x kN of the out.
template <int kTileM_, int kTileN_, int kSlab_, int kStages_, int kWarpsM_, int kWarpsN_>
struct shape {
    static constexpr int kTileM = kTileM_, kTileN = kTileN_, kSlab = kSlab_, kStages = kStages_;
    static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
    static constexpr int kThreads = kWarpsM * kWarpsN * kWarp;
    static constexpr int kM = kTileM / kWarpsM, kN = kTileN / kWarpsN;
    static constexpr int kSteps = kSlab / kStepK;
    static constexpr int kBytesA = kTileM * kSlab * 2, kBytesB = kTileN * kSlab * 2;
    static constexpr int kStageBytes = kBytesA + kBytesB;
    // A warp's sums on their way to the out: 8 more than a row turn the banks by 8 a row, so that
    // the pairs which 4 rows of fragments store at once lie apart.
    static constexpr int kPitchOut = kN + 8;
    static constexpr int kOutBytes = kWarpsM * kWarpsN * kM * kPitchOut * 4;
    static constexpr int kShared =
        kStages * kStageBytes > kOutBytes ? kStages *kStageBytes : kOutBytes;
    // As many blocks a multiprocessor as leave a thread 255 registers where it holds 128 sums, 128
    // else.
    static constexpr int kRegisters = kM * kN / kWarp > 64 ? 256 : 128;
    static constexpr int kBlocks = 65536 / (kThreads * kRegisters);
    static_assert(kM % 16 == 0 && kN % 16 == 0, "fragments come 16 by 16");
    static_assert(kStages >= 2, "one slab is multiplied while another arrives");
};

// ---- slabs in shared memory ---------------------------------------------------------------------

// Operand x (m or n) by k. Along k: kTile rows of kSlab elements; else kSlab rows of kTile. The
// 16-byte chunks of a row are permuted by the row's number, so that the 8 rows of a block that
// ldmatrix reads at one chunk lie in 8 different quarters of the banks: by all 3 bits where a row
// spans all banks (8 chunks), by the 2 bits above the lowest where two rows do.
template <int kChunks>
__device__ inline uint32_t
chunk_offset(int row, int chunk)
{
    static_assert(kChunks == 4 || kChunks % 8 == 0, "rows of 64 bytes or of whole bank rounds");
    int swizzled = kChunks == 4 ? chunk ^ (row >> 1 & 3) : chunk ^ (row & 7);
    return static_cast<uint32_t>((row * kChunks + swizzled) * kChunkBytes);
}

template <int kTile, int kSlab, bool kAlongK>
constexpr int kRowChunks = (kAlongK ? kSlab : kTile) / kChunk;

// An operand seen from one tile, as in the table of gemm.cuh.
template <typename T> struct source {
    const T *data;
    int64_t pitch, size, depth; // size: how many x there are from the tile's first on
};

// One thread's copies of a slab: always the same chunk of every kStride-th row.
template <typename T, int kTile, int kSlab, int kThreads, bool kAlongK> struct loader {
    static constexpr int kChunks = kRowChunks<kTile, kSlab, kAlongK>;
    static constexpr int kRows = kAlongK ? kTile : kSlab;
    static constexpr int kStride = kThreads / kChunks;
    static constexpr int kCount = kRows / kStride;
    static_assert(kThreads % kChunks == 0 && kRows % kStride == 0, "whole rows");

    const T *from; // of the thread's first chunk in the next slab
    int64_t step;  // from one of its rows to the next
    int row, chunk;
    uint32_t inside; // along k: bit i: row i is inside; else the bytes of its chunks that are

    __device__ loader(const source<T> &s)
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
template <typename T, typename S, bool kAAlongK, bool kBAlongK> struct feed {
    using loader_a = loader<T, S::kTileM, S::kSlab, S::kThreads, kAAlongK>;
    using loader_b = loader<T, S::kTileN, S::kSlab, S::kThreads, kBAlongK>;

    const source<T> &a, &b;
    loader_a load_a;
    loader_b load_b;
    int64_t k = 0;       // of the slab on its way
    uint32_t into, base; // its stage

    bool a_inside, b_inside; // the tile, as to m and n

    __device__ feed(const source<T> &a, const source<T> &b, uint32_t shared)
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

// ---- fragments ----------------------------------------------------------------------------------

// a: 16 x 16 at row m of the slab and step `step`: blocks (m, k), (m + 8, k), (m, k + 8), (m + 8, k
// + 8).
template <int kTile, int kSlab, bool kAlongK>
__device__ inline void
load_a(uint32_t slab, int m, int step, uint32_t (&r)[4])
{
    constexpr int kChunks = kRowChunks<kTile, kSlab, kAlongK>;
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    if constexpr (kAlongK) {
        ptx::ldmatrix_x4(slab + chunk_offset<kChunks>(m + lane % 16, step * 2 + lane / 16), r);
    } else {
        ptx::ldmatrix_x4_trans(
            slab + chunk_offset<kChunks>(
                       step * kStepK + lane / 16 * 8 + lane % 8, m / kChunk + lane / 8 % 2),
            r);
    }
}

// b: 16 x 16 at column n: blocks (k, n), (k + 8, n), (k, n + 8), (k + 8, n + 8): two fragments of 8
// columns.
template <int kTile, int kSlab, bool kAlongK>
__device__ inline void
load_b(uint32_t slab, int n, int step, uint32_t (&r)[4])
{
    constexpr int kChunks = kRowChunks<kTile, kSlab, kAlongK>;
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    if constexpr (kAlongK) {
        ptx::ldmatrix_x4(
            slab + chunk_offset<kChunks>(n + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2), r);
    } else {
        ptx::ldmatrix_x4_trans(
            slab + chunk_offset<kChunks>(
                       step * kStepK + lane / 8 % 2 * 8 + lane % 8, n / kChunk + lane / 16),
            r);
    }
}

template <typename S> struct fragments {
    uint32_t a[S::kM / 16][4];
    uint32_t b[S::kN / 16][4];
};

// Half of the fragments of a step.
template <typename S, bool kAAlongK, bool kBAlongK>
__device__ inline void
load_half(uint32_t stage, int m, int n, int step, int half, fragments<S> &f)
{
    constexpr int kRows = S::kM / 16, kColumns = S::kN / 16;
#pragma unroll
    for (int i = half * kRows / 2; i < (half + 1) * kRows / 2; i++) {
        load_a<S::kTileM, S::kSlab, kAAlongK>(stage, m + i * 16, step, f.a[i]);
    }
#pragma unroll
    for (int j = half * kColumns / 2; j < (half + 1) * kColumns / 2; j++) {
        load_b<S::kTileN, S::kSlab, kBAlongK>(stage + S::kBytesA, n + j * 16, step, f.b[j]);
    }
}

template <typename T, typename S>
__device__ inline void
multiply_row(const fragments<S> &f, int i, float (&sums)[S::kM / 16][S::kN / 8][4])
{
#pragma unroll
    for (int j = 0; j < S::kN / 8; j++) {
        ptx::mma_m16n8k16(
            sums[i][j], f.a[i], f.b[j / 2][j % 2 * 2], f.b[j / 2][j % 2 * 2 + 1], T{});
    }
}

} // namespace aicf::gemm

#endif
