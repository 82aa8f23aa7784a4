// Tiles of the kernels that multiply by warpgroups (warpgroups.cuh): their shapes, where they lie
// in the problem, and what of them lies where in shared memory.
#ifndef AICF_GEMM_WARPGROUP_TILES_CUH
#define AICF_GEMM_WARPGROUP_TILES_CUH

#include "gemm.cuh"

#include <aicf/cuda/wgmma.cuh>

namespace aicf::gemm {

using namespace aicf::wgmma;

constexpr int kFringe = 8; // rows and columns past whole tiles, at most: the least n of wgmma

// kARows: rows of a that a stage keeps, fewer than the tile has where M is small; the rows wgmma
// reads past them are other stages' bytes, and reach only rows of the tile that are not stored.
// kOutPanels: panels in which a consumer stages its out. kShare: rows off the 128-byte lines cost
// two reads of the L2 each, which then bounds a block that loads alone (H200: 0.65 of the speed
// that 2 have together); 4 together are slower than 1.
template <
    int kConsumers_, int kCols_, int kStages_, int kOutPanels_, int kSplit_ = 1,
    int kARows_ = kConsumers_ * kConsumerRows, int kShare_ = 1, bool kFringed_ = false>
struct tile_shape {
    static constexpr int kConsumers = kConsumers_, kCols = kCols_, kStages = kStages_;
    static constexpr int kOutPanels = kOutPanels_, kSplit = kSplit_, kShare = kShare_;
    static constexpr int kCluster = kSplit * kShare;
    static constexpr int kRows = kConsumers * kConsumerRows, kARows = kARows_;
    static constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
    static constexpr int kPanels = kCols / kPanel, kSums = kCols / 2;

    // Shared memory: a's stages, b's, the out's panels, the sums that arrive, the barriers.
    static constexpr int kABytes = kARows * kRowBytes, kBBytes = kCols * kRowBytes;
    static constexpr bool kScatters = kSplit > 1 && kPanels == kSplit; // a panel a block
    static constexpr int kPartialBytes = kRows * (kScatters ? kPanel : kCols) * 4;
    static constexpr int kBAt = kStages * kABytes;
    static constexpr int kFringeBytes = kFringed_ ? kFringe * kRowBytes : 0; // a side's in a stage
    static constexpr int kFringeAt = kBAt + kStages * kBBytes;
    static constexpr int kOutAt = kFringeAt + kStages * 2 * kFringeBytes;
    static constexpr int kPartialAt = kOutAt + kConsumers * kOutPanels * kPanelBytes;
    static constexpr int kBarrierAt = kPartialAt + (kSplit - 1) * kPartialBytes;
    static constexpr int kGatheredAt = kBarrierAt + stage_barriers<kStages>::kBytes;
    static constexpr int kShared = kGatheredAt + 8;

    static_assert(kCols % kPanel == 0 && kPanels % kShare == 0, "whole panels, evenly loaded");
    static_assert(kShare == 1 || kSplit == 1, "a cluster has one purpose");
    static_assert(kABytes % kSwizzleBytes == 0, "stages start where the swizzle does");
    static_assert(kShared <= kMostShared, "more shared memory than a block can have");
};

// The problem as the device sees it.
struct plan {
    int m, n;
    int slabs;             // of K, kDepth each
    int m_groups, n_tiles; // tiles along m counted in groups of kShare
    int tiles;             // groups of all matrices
    int a_bytes;           // of a's boxes in a stage: M may be less than its rows
    int a_step, b_step;    // from a matrix to the next in the maps: 0 or 1
    const void *bias, *c;  // may be NULL
    bool bias_row;         // the sums begin with the bias, which passes through a stage
    int64_t c_pitch, c_step;
    bool c_pairs; // pairs of c lie on 4 bytes, and N is even
    float alpha, beta;
    int act; // aicf_gemm_act
    // Another part of the product that the launch before this one makes: it reads what that reads,
    // writes elsewhere, and may run beside it.
    bool beside;
};

// Of a tile in its matrix.
struct corner {
    int m, n, matrix;
};

// Bands of 8 tiles along n are walked along m: the columns of b that the blocks work on stay in the
// L2.
template <class S>
__device__ inline corner
corner_of(const plan &p, int index, int rank)
{
    constexpr int kBandTiles = 8;
    int tiles = p.m_groups * p.n_tiles, matrix = index / tiles;
    index -= matrix * tiles;
    int band = index / (kBandTiles * p.m_groups), within = index % (kBandTiles * p.m_groups);
    int width = min(kBandTiles, p.n_tiles - band * kBandTiles);
    int m_tile = within / width * S::kShare + (S::kShare > 1 ? rank : 0);
    return {m_tile * S::kRows, (band * kBandTiles + within % width) * S::kCols, matrix};
}

// Where a block's shared memory holds what.
template <class S> struct shared_memory {
    uint32_t base;

    __device__ uint32_t a(int stage) const
    {
        return base + stage * S::kABytes;
    }

    __device__ uint32_t b(int stage) const
    {
        return base + S::kBAt + stage * S::kBBytes;
    }

    __device__ uint32_t rows_below(int stage) const
    {
        return base + S::kFringeAt + stage * 2 * S::kFringeBytes;
    }

    __device__ uint32_t columns_beside(int stage) const
    {
        return rows_below(stage) + S::kFringeBytes;
    }

    __device__ uint32_t out(int consumer, int panel) const
    {
        return base + S::kOutAt + (consumer * S::kOutPanels + panel % S::kOutPanels) * kPanelBytes;
    }

    // This thread's sums from another block, the `place`-th: float4s, kPartialStride apart.
    static constexpr int kPartialStride = S::kConsumers * kWarpgroup * 16;
    __device__ uint32_t partial(int place) const
    {
        return base + S::kPartialAt + place * S::kPartialBytes +
               (static_cast<int>(threadIdx.x) - kWarpgroup) * 16;
    }

    __device__ stage_barriers<S::kStages> barriers() const
    {
        return {base + S::kBarrierAt};
    }

    __device__ uint32_t gathered() const
    {
        return base + S::kGatheredAt;
    }
};

// Blocks that split k take its slabs in turn, so that together they read whole lines.
template <class S>
__device__ inline int
first_slab(int rank)
{
    return S::kSplit > 1 ? rank : 0;
}

} // namespace aicf::gemm

#endif
