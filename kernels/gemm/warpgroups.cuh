// The kernel of gemm_sm_90a.cu (see gemm.cuh for the operands, wgmma.cuh for stages and panels).
//
// Blocks persist. Each walks tiles: its producer thread copies k-slabs of a and b into stages; each
// consumer warpgroup multiplies 64 rows of the tile, with the sums in registers, packs them to 16
// bits and stores a panel under each of the *next* tile's slabs, while that one's products run. A
// cluster is either blocks along m that load b's slabs for each other (kShare), or blocks that
// split one tile's k (kSplit), whose sums block 0 adds in order: results are the same bits at every
// run.
//
// Edges need no code: the copy engine fills reads outside an operand with zeros, to the element,
// and drops writes outside the out, to 16 bytes.
#ifndef AICF_GEMM_WARPGROUPS_CUH
#define AICF_GEMM_WARPGROUPS_CUH

#include "warpgroup_ends.cuh"

namespace aicf::gemm {

// ---- the producer -------------------------------------------------------------------------------

// One slab of a tile into a stage, to which `more` bytes come besides.
template <class S, bool kATurned, bool kBTurned>
__device__ inline void
load_slab(
    const shared_memory<S> &shared, int stage, const CUtensorMap *a, const CUtensorMap *b,
    const plan &p, const corner &at, int k, int rank, int more = 0)
{
    constexpr int kCols = S::kCols / S::kShare; // of b that this block loads
    int column = S::kShare > 1 ? rank * kCols : 0;
    int of_a = at.matrix * p.a_step, of_b = at.matrix * p.b_step;
    uint32_t full = shared.barriers().full(stage);
    ptx::barrier_expect(full, static_cast<uint32_t>(p.a_bytes + S::kBBytes + more));
    if constexpr (kATurned) {
#pragma unroll
        for (int m = 0; m < S::kRows; m += kPanel) {
            ptx::box_load(shared.a(stage) + m * kRowBytes, a, at.m + m, k, of_a, full);
        }
    } else {
        ptx::box_load(shared.a(stage), a, k, at.m, of_a, full);
    }
    if constexpr (kBTurned) {
#pragma unroll
        for (int n = 0; n < kCols; n += kPanel) {
            load_box<S::kShare>(
                shared.b(stage) + (column + n) * kRowBytes, b, at.n + column + n, k, of_b, full);
        }
    } else {
        load_box<S::kShare>(shared.b(stage) + column * kRowBytes, b, k, at.n + column, of_b, full);
    }
}

// The bias of a tile's columns into a stage: the map has one line, the boxes have zeros below it.
template <class S>
__device__ inline void
load_bias(const shared_memory<S> &shared, int stage, const CUtensorMap *bias, const corner &at)
{
    constexpr int kBytes = kStepK * kRowBytes; // of a box
    uint32_t full = shared.barriers().full(stage);
    ptx::barrier_expect(full, S::kPanels * kBytes);
#pragma unroll
    for (int i = 0; i < S::kPanels; i++) {
        ptx::box_load(shared.b(stage) + i * kBytes, bias, at.n + i * kPanel, 0, 0, full);
    }
}

// One thread: fills the stages for all of this block's tiles; kK: k of a slab.
template <class S, bool kATurned, bool kBTurned, int kK = kDepth>
__device__ inline void
produce(
    const shared_memory<S> &shared, const CUtensorMap *a, const CUtensorMap *b,
    const CUtensorMap *bias, const plan &p, int rank)
{
    ring<S::kStages> place;
    int clusters = static_cast<int>(gridDim.x) / S::kCluster;
    for (int i = static_cast<int>(blockIdx.x) / S::kCluster; i < p.tiles; i += clusters) {
        corner at = corner_of<S>(p, i, rank);
        if (p.bias_row) {
            ptx::barrier_wait(shared.barriers().empty(place.stage), place.parity ^ 1);
            load_bias(shared, place.stage, bias, at);
            place.next();
        }
        for (int slab = first_slab<S>(rank); slab < p.slabs; slab += S::kSplit, place.next()) {
            ptx::barrier_wait(shared.barriers().empty(place.stage), place.parity ^ 1);
            load_slab<S, kATurned, kBTurned>(shared, place.stage, a, b, p, at, slab * kK, rank);
        }
    }
}

// ---- consumers ----------------------------------------------------------------------------------

// The sums of a tile begin with the bias, from the next stage; what multiply() takes as `before`.
template <class S, typename T>
__device__ inline uint32_t
begin_with_bias(float (&sums)[S::kSums], const shared_memory<S> &shared, ring<S::kStages> &place)
{
    ptx::barrier_wait(shared.barriers().full(place.stage), place.parity);
    begin_with_row<T>(sums, shared.b(place.stage));
    uint32_t empty = shared.barriers().empty(place.stage);
    place.next();
    return empty;
}

// sums = 64 rows of a times the tile's columns of b. One slab's products stay in flight while the
// next are issued, so a stage is let go one slab late; `under()` runs while each slab's are in
// flight. There is at least one slab. With `before` the sums are what has begun already, from the
// stage to be let go there.
template <class S, typename T, bool kATurned, bool kBTurned, class Under>
__device__ inline void
multiply(
    float (&sums)[S::kSums], const shared_memory<S> &shared, ring<S::kStages> &place, int consumer,
    int first, int slabs, Under under, uint32_t before = 0)
{
    const bool begun = before != 0;
    for (int slab = first; slab < slabs; slab += S::kSplit, place.next()) {
        ptx::barrier_wait(shared.barriers().full(place.stage), place.parity);
        multiply_slab<kATurned, kBTurned, T>(
            sums, shared.a(place.stage) + consumer * kPanelBytes, shared.b(place.stage),
            slab == first && !begun);
        ptx::wgmma_wait<1>();
        if (slab > first || begun) {
            release_stage<S::kShare>(before);
        }
        before = shared.barriers().empty(place.stage);
        under();
    }
    ptx::wgmma_wait<0>();
    release_stage<S::kShare>(before);
}

// Adds up a tile whose k the cluster's blocks split: block 0 receives the others' sums and adds
// them in order of rank. Only warps with rows of the out take part.
template <class S>
__device__ inline void
gather(float (&sums)[S::kSums], const shared_memory<S> &shared, int rank)
{
    if (rank > 0) {
        uint32_t to = ptx::address_in_block(shared.partial(rank - 1), 0);
        uint32_t barrier = ptx::address_in_block(shared.gathered(), 0);
#pragma unroll
        for (int i = 0; i < S::kSums / 4; i++) {
            ptx::send_cluster_x4(
                to + i * shared.kPartialStride, sums[4 * i], sums[4 * i + 1], sums[4 * i + 2],
                sums[4 * i + 3], barrier);
        }
        return;
    }
    ptx::barrier_wait_cluster(shared.gathered(), 0);
    for (int other = 1; other < S::kSplit; other++) {
#pragma unroll
        for (int i = 0; i < S::kSums / 4; i++) {
            uint32_t x[4];
            ptx::load_shared(shared.partial(other - 1) + i * shared.kPartialStride, x);
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                sums[4 * i + lane] += __uint_as_float(x[lane]);
            }
        }
    }
}

// A tile whose k the cluster's blocks split: each block sends the others their panels of its sums
// and adds up its own panel, what is its own first, then theirs in order of rank. Only warps with
// rows of the out take part.
template <class S>
__device__ inline void
scatter(
    float (&own)[kPanel / 2], const float (&sums)[S::kSums], const shared_memory<S> &shared,
    int rank)
{
    constexpr int kPart = kPanel / 2; // of a thread's sums
#pragma unroll
    for (int panel = 0; panel < S::kPanels; panel++) {
        if (panel == rank) {
#pragma unroll
            for (int i = 0; i < kPart; i++) {
                own[i] = sums[panel * kPart + i];
            }
            continue;
        }
        uint32_t to = ptx::address_in_block(shared.partial(rank - (rank > panel)), panel);
        uint32_t barrier = ptx::address_in_block(shared.gathered(), panel);
#pragma unroll
        for (int i = 0; i < kPart / 4; i++) {
            const float *x = &sums[panel * kPart + 4 * i];
            ptx::send_cluster_x4(to + i * shared.kPartialStride, x[0], x[1], x[2], x[3], barrier);
        }
    }
    ptx::barrier_wait_cluster(shared.gathered(), 0);
#pragma unroll
    for (int other = 0; other < S::kSplit - 1; other++) {
#pragma unroll
        for (int i = 0; i < kPart / 4; i++) {
            uint32_t x[4];
            ptx::load_shared(shared.partial(other) + i * shared.kPartialStride, x);
#pragma unroll
            for (int lane = 0; lane < 4; lane++) {
                own[4 * i + lane] += __uint_as_float(x[lane]);
            }
        }
    }
}

// One warpgroup: 64 rows of all of this block's tiles. kBiasRow: the plan may say so.
template <class S, typename T, bool kATurned, bool kBTurned, bool kBiasRow = false>
__device__ inline void
consume(
    const shared_memory<S> &shared, const CUtensorMap *out, const plan &p, int consumer, int rank)
{
    late_store<S, T> late;
    ring<S::kStages> place;
    int clusters = static_cast<int>(gridDim.x) / S::kCluster;
    for (int i = static_cast<int>(blockIdx.x) / S::kCluster; i < p.tiles; i += clusters) {
        corner at = corner_of<S>(p, i, rank);
        bias_words<S, T> bias = {};
        if (p.bias && !p.bias_row) {
            bias.load(p, at.n);
        }
        float sums[S::kSums];
        uint32_t before = 0;
        if constexpr (kBiasRow) {
            before = p.bias_row ? begin_with_bias<S, T>(sums, shared, place) : 0;
        }
        multiply<S, T, kATurned, kBTurned>(
            sums, shared, place, consumer, first_slab<S>(rank), p.slabs,
            [&] {
                if (late.next < S::kPanels) {
                    late.store_next(shared, out, p, consumer);
                }
            },
            before);
        while (late.next < S::kPanels) { // fewer slabs than panels
            late.store_next(shared, out, p, consumer);
        }
        if constexpr (S::kSplit > 1) {
            if (at.m + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + consumer * kConsumerRows <
                p.m) {
                gather(sums, shared, rank);
            }
            if (rank > 0) {
                return;
            }
        }
        finish<S, T>(late.packed, sums, bias, p, at, consumer);
        late.at = at;
        late.next = 0;
    }
    while (late.next < S::kPanels) {
        late.store_next(shared, out, p, consumer);
    }
    if (threadIdx.x % kWarpgroup == 0) {
        ptx::box_store_wait_read<0>(); // shared memory outlives the stores' reads
    }
}

// One warpgroup: 64 rows of this block's one tile, of which it makes the panel of its rank.
template <class S, typename T, bool kATurned, bool kBTurned>
__device__ inline void
consume_panel(
    const shared_memory<S> &shared, const CUtensorMap *out, const plan &p, int consumer, int rank)
{
    using panel = tile_shape<S::kConsumers, kPanel, 1, 1>;
    corner at = corner_of<S>(p, static_cast<int>(blockIdx.x) / S::kCluster, rank), mine = at;
    mine.n += rank * kPanel;
    bias_words<panel, T> bias = {};
    if (p.bias) {
        bias.load(p, mine.n);
    }
    ring<S::kStages> place;
    float sums[S::kSums], own[panel::kSums];
    multiply<S, T, kATurned, kBTurned>(
        sums, shared, place, consumer, first_slab<S>(rank), p.slabs, [] {});
    if (at.m + consumer * kConsumerRows + static_cast<int>(threadIdx.x) / 32 % 4 * 16 < p.m) {
        scatter(own, sums, shared, rank);
    }
    uint32_t packed[panel::kSums / 2];
    finish<panel, T>(packed, own, bias, p, mine, consumer);
    if (p.act == AICF_GEMM_ACT_RELU) {
        relu_words<T>(packed);
    }
    store_panel<0>(
        packed, shared.out(consumer, 0), out, mine.n, mine.m + consumer * kConsumerRows,
        mine.matrix, 1 + consumer);
    if (threadIdx.x % kWarpgroup == 0) {
        ptx::box_store_wait_read<0>(); // shared memory outlives the store's reads
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

template <class S>
__device__ inline void
init_barriers(const shared_memory<S> &shared, const plan &p, int rank)
{
    shared.barriers().init(S::kConsumers * (kWarpgroup / 32) * S::kShare);
    if constexpr (S::kSplit > 1) {
        ptx::barrier_init(shared.gathered(), 1);
    }
    ptx::barrier_init_fence();
    if constexpr (S::kSplit > 1) {
        if (rank == 0 || S::kScatters) { // 16 rows a warp, of those that the out has
            int m = corner_of<S>(p, static_cast<int>(blockIdx.x) / S::kCluster, rank).m;
            int warps = min(S::kRows / 16, (p.m - m + 15) / 16);
            ptx::barrier_expect(
                shared.gathered(), (S::kSplit - 1) * warps * (S::kPartialBytes / (S::kRows / 16)));
        }
    }
}

// The beginning of a block, which neither reads nor writes what another launch may.
template <class S>
__device__ inline void
begin_block(
    const shared_memory<S> &shared, const CUtensorMap &a, const CUtensorMap &b,
    const CUtensorMap &out, const plan &p, int rank)
{
    if (threadIdx.x == 0) {
        ptx::map_prefetch(&a);
        ptx::map_prefetch(&b);
        ptx::map_prefetch(&out);
        init_barriers(shared, p, rank);
    }
    __syncthreads();
    if constexpr (S::kCluster > 1) { // a peer's barriers exist before anything arrives there
        ptx::cluster_arrive();
        ptx::cluster_wait();
    }
}

// Asks the L2 for the first slabs of b while the launch before this one ends, which is no read
// (early.cuh): where rows are few, the time is that of b's bytes. What more rows need as well only
// gets in their way (H200, 256 rows: 4% slower).
template <class S, bool kBTurned>
__device__ inline void
ask_for_slabs(const CUtensorMap *b, const plan &p, int rank)
{
    constexpr int kAhead = 5;
    corner at = corner_of<S>(p, static_cast<int>(blockIdx.x) / S::kCluster, rank);
    int first = first_slab<S>(rank), end = min(first + kAhead * S::kSplit, p.slabs);
    for (int slab = first; slab < end; slab += S::kSplit) {
        int k = slab * kDepth, of_b = at.matrix * p.b_step;
        ptx::box_prefetch(b, kBTurned ? at.n : k, kBTurned ? k : at.n, of_b);
    }
}

template <class S, typename T, bool kATurned, bool kBTurned>
__global__ void
__launch_bounds__(S::kThreads, 1) warpgroups(
    const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
    const __grid_constant__ CUtensorMap out, const __grid_constant__ CUtensorMap bias,
    const __grid_constant__ plan p)
{
    extern __shared__ __align__(kSwizzleBytes) uint8_t bytes[];
    shared_memory<S> shared = {ptx::shared_address(bytes)};
    int rank = S::kCluster > 1 ? static_cast<int>(ptx::cluster_rank()) : 0;
    if constexpr (S::kSplit > 1 && S::kCols == kPanel) {
        if (threadIdx.x == kWarpgroup) {
            ask_for_slabs<S, kBTurned>(&b, p, rank);
        }
    }
    begin_block(shared, a, b, out, p, rank);

    // What begins after this has waited knows that all launches before this one are over, so that
    // a launch beside it need not wait for their sake. Its first block does so at its end: who
    // waits for it waits for both.
    if (!p.beside) {
        ptx::wait_for_launch_before();
    }
    ptx::let_next_launch_begin();

    // 128 sums and 64 packed words a thread are more than an even share of the registers.
    constexpr bool kMoveRegisters = S::kCols == 256;
    int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
    if (warpgroup == 0) {
        if constexpr (kMoveRegisters) {
            ptx::registers_give<40>();
        }
        if (threadIdx.x == 0) {
            produce<S, kATurned, kBTurned>(shared, &a, &b, &bias, p, rank);
        }
        __syncwarp();
    } else {
        if constexpr (kMoveRegisters) {
            ptx::registers_take<232>();
        }
        if constexpr (S::kScatters) {
            consume_panel<S, T, kATurned, kBTurned>(shared, &out, p, warpgroup - 1, rank);
        } else {
            consume<S, T, kATurned, kBTurned, S::kSplit == 1>(shared, &out, p, warpgroup - 1, rank);
        }
        __syncwarp();
    }
    if constexpr (S::kShare > 1) { // while the peer may still write or arrive here, stay
        ptx::cluster_arrive();
        ptx::cluster_wait();
    }
    if (p.beside && blockIdx.x == 0) {
        ptx::wait_for_launch_before();
    }
}

} // namespace aicf::gemm

#endif
