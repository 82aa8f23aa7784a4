// What kernels of sm_90a that multiply by warpgroups share: tiles of operands in shared memory as
// the copy engine swizzles them and wgmma reads them, the ring of stages that they pass through,
// and the way of 16-bit results back through shared memory.
//
// One producer thread fills stages, each with a slab of 128 bytes along k of both operands;
// consumer warpgroups of 64 rows multiply them. Invariants of the ring: `full` of a stage completes
// when it holds a slab, `empty` when every warp that reads it, in every block it was loaded for,
// has let it go. Producer and consumers walk the same slabs, so stage and parity follow from their
// count alone.
#ifndef AICF_CUDA_WGMMA_CUH
#define AICF_CUDA_WGMMA_CUH

#include <aicf/cuda/copy_engine.cuh>
#include <aicf/cuda/pairs.cuh>
#include <aicf/cuda/ptx_sm_90a.cuh>

namespace aicf::wgmma {

constexpr int kWarpgroup = 128;   // threads
constexpr int kConsumerRows = 64; // m of one wgmma
constexpr int kRowBytes = kLineBytes;
constexpr int kDepth = 64; // k of a slab: 16-bit values in a swizzled row
constexpr int kStepK = 16; // of one wgmma
constexpr int kPanel = 64; // columns in a swizzled row
constexpr int kPanelBytes = kConsumerRows * kRowBytes;
constexpr int kSwizzleBytes = 1024; // 8 rows: what the swizzle repeats over, and its alignment
constexpr int kMostShared = 227 * 1024;
static_assert(kPanel == kConsumerRows, "panels of either operand are squares");

// ---- operands -----------------------------------------------------------------------------------

// An operand's part of a stage: x (m or n) by k. Where k lies together, rows of 64 k, one an x.
// Turned, where x lies together: panels of 64 x, each 64 rows of 64 x, one a k.

// What wgmma is told of it. PTX ISA, "Matrix descriptor": bits 0-13 the address, 16-29 the leading
// and 32-45 the stride distance, all / 16; 62-63 the swizzle. Stride: from 8 rows to the next 8.
// Leading: from a panel to the next one; not read where k lies together.
// kLines: of a panel.
template <int kLines = kDepth>
__device__ inline uint64_t
descriptor_of(uint32_t address)
{
    constexpr uint64_t kSwizzle128 = 1;
    constexpr uint64_t kLeading = kLines * kRowBytes >> 4, kStride = kSwizzleBytes >> 4;
    return static_cast<uint64_t>((address & 0x3FFFF) >> 4) | kLeading << 16 | kStride << 32 |
           kSwizzle128 << 62;
}

// From 16 k to the next in descriptors: 32 bytes along a row, whatever lies there, or 16 rows of
// each panel.
template <bool kTurned> constexpr int kNext16 = (kTurned ? kStepK * kRowBytes : kStepK * 2) >> 4;

// sums += 64 rows of a times columns of b over one slab; with `first`, over nothing before it.
template <bool kATurned, bool kBTurned, typename T, int kSums>
__device__ inline void
multiply_slab(float (&sums)[kSums], uint32_t a, uint32_t b, bool first)
{
    uint64_t from_a = descriptor_of(a), from_b = descriptor_of(b);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < kDepth / kStepK; k++) {
        ptx::wgmma<kATurned, kBTurned>(
            sums, from_a + k * kNext16<kATurned>, from_b + k * kNext16<kBTurned>, !first || k > 0,
            T{});
    }
    ptx::wgmma_commit();
}

// sums = one row of 16-bit values, the same for all 64: the product of ones, k = 0 of 16, and
// panels of 16 lines of which the row is the first; the others are zeros, as the copy engine fills
// them in past a tensor of one line. Exact, and the matrix units do it beside other products.
template <typename T, int kSums>
__device__ inline void
begin_with_row(float (&sums)[kSums], uint32_t panels)
{
    uint32_t one = threadIdx.x % 4 == 0 ? pair_of(1.0f, 0.0f, T{}) : 0;
    const uint32_t ones[4] = {one, one, 0, 0};
    ptx::wgmma_fence();
    ptx::wgmma_held<true>(sums, ones, descriptor_of<kStepK>(panels), false, T{});
    ptx::wgmma_commit();
}

// Which of the tile's columns, rows a thread's sums are: those of wgmma in ptx_sm_90a.cuh. Sums 4 j
// + 2 h and the next: row row_of_sums() + 8 h of the consumer's 64, column 8 j + column_of_sums().
__device__ inline int
row_of_sums()
{
    return static_cast<int>(threadIdx.x) / 32 % 4 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
}

__device__ inline int
column_of_sums()
{
    return static_cast<int>(threadIdx.x) % 4 * 2;
}

// ---- the ring of stages -------------------------------------------------------------------------

// A place in it; the parity flips at each lap.
template <int kStages> struct ring {
    int stage = 0;
    uint32_t parity = 0;

    __device__ void next()
    {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// The barriers of kStages stages at `base` in shared memory: full ones, then empty ones.
template <int kStages> struct stage_barriers {
    static constexpr int kBytes = 2 * kStages * 8;
    uint32_t base;

    __device__ uint32_t full(int stage) const
    {
        return base + stage * 8;
    }

    __device__ uint32_t empty(int stage) const
    {
        return base + (kStages + stage) * 8;
    }

    // By one thread; `readers`: warps that let a stage go.
    __device__ void init(int readers) const
    {
        for (int stage = 0; stage < kStages; stage++) {
            ptx::barrier_init(full(stage), 1);
            ptx::barrier_init(empty(stage), readers);
        }
    }
};

// A stage let go by this warp in each of the kBlocks blocks that fill it.
template <int kBlocks>
__device__ inline void
release_stage(uint32_t empty)
{
    int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kBlocks == 1) {
        if (lane == 0) {
            ptx::barrier_arrive(empty);
        }
    } else if (lane < kBlocks) {
        ptx::barrier_arrive_in_cluster(ptx::address_in_block(empty, static_cast<uint32_t>(lane)));
    }
}

// A box for this block alone or, where kBlocks load each other's, for all of the cluster.
template <int kBlocks>
__device__ inline void
load_box(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t full)
{
    if constexpr (kBlocks == 1) {
        ptx::box_load(to, map, x, y, z, full);
    } else {
        ptx::box_load_to_all(to, map, x, y, z, full, (1 << kBlocks) - 1);
    }
}

// ---- results ------------------------------------------------------------------------------------

// Stores 64 columns of a consumer's 64 rows by way of a panel in shared memory, from which one
// thread's store() takes them; `packed` are the thread's 16 words of them, pairs of sums in order.
// A warpgroup calls it together; `barrier` is its own. At most kPending of its stores before still
// read other panels.
template <int kPending, class Store>
__device__ inline void
store_panel(const uint32_t *packed, uint32_t panel, int barrier, Store store)
{
    int warp = static_cast<int>(threadIdx.x) / 32 % 4, lane = static_cast<int>(threadIdx.x) % 32;
    bool issuer = threadIdx.x % kWarpgroup == 0;
    if (issuer) {
        ptx::box_store_wait_read<kPending>(); // the last store from this panel is among the others
    }
    ptx::threads_meet(barrier, kWarpgroup);
    // Lanes 0-7 and 8-15 name the upper and lower 8 rows of 8 columns, 16-31 those 8 columns on.
    int row = warp * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < kPanel / 16; i++) {
        int chunk = (i * 2 + lane / 16) ^ (row % 8); // the swizzle
        ptx::stmatrix_x4(
            panel + static_cast<uint32_t>(row * kRowBytes + chunk * 16), packed[4 * i],
            packed[4 * i + 1], packed[4 * i + 2], packed[4 * i + 3]);
    }
    ptx::copy_engine_fence();
    ptx::threads_meet(barrier, kWarpgroup);
    if (issuer) {
        store();
        ptx::box_store_commit();
    }
}

// The same to the box at (x, y, z).
template <int kPending>
__device__ inline void
store_panel(
    const uint32_t *packed, uint32_t panel, const CUtensorMap *out, int x, int y, int z,
    int barrier)
{
    store_panel<kPending>(packed, panel, barrier, [&] { ptx::box_store(out, x, y, z, panel); });
}

} // namespace aicf::wgmma

#endif
