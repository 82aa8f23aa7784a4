// The kernel of gemm_sm_90a.cu for outs of whole tiles and a fringe: up to 8 rows below them and 8
// columns beside them, for which tiles of their own would cost a wave.
//
// Some tiles bring a part of the fringe along: the columns beside their rows, the rows below their
// columns, or both. Their stages have the fringe's slabs as well, and their consumers multiply 8
// more columns by wgmma: of the b that is the fringe by their rows of a, and, transposed, of the a
// that is the fringe by their columns of b. What is a row and a column of the fringe, 64 elements,
// are sums of idle warps. Clusters that have a tile fewer than others make such tiles first.
#ifndef AICF_GEMM_FRINGE_CUH
#define AICF_GEMM_FRINGE_CUH

#include "warpgroups.cuh"

namespace aicf::gemm {

struct fringe_plan : plan { // M and N with the fringe, tiles without it
    const void *a, *b;
    void *out;
    int64_t a_along_m, a_along_k, b_along_n, b_along_k; // strides
    int64_t out_pitch;
    int k;
};

// ---- tiles --------------------------------------------------------------------------------------

struct fringe_tile {
    corner at;
    bool rows, columns; // of the fringe, that come along
};

template <class S>
__device__ inline int
rows_of_tiles(const fringe_plan &p)
{
    return p.m_groups * S::kShare * S::kRows;
}

template <class S>
__device__ inline int
columns_of_tiles(const fringe_plan &p)
{
    return p.n_tiles * S::kCols;
}

// The j-th tile of a cluster: the first numbers go to the clusters that have one tile fewer.
__device__ inline int
number_of(const plan &p, int cluster, int clusters, int j)
{
    int longer = p.tiles % clusters, shorter = clusters - longer, each = p.tiles / clusters;
    return cluster >= longer ? j * shorter + cluster - longer
                             : shorter * each + j * longer + cluster;
}

// Tile `number`, of this block. The first are those that bring the fringe along, on the diagonal of
// the tiles, so that each row and column of tiles has one; the others follow in bands as those of
// corner_of().
template <class S>
__device__ inline fringe_tile
fringe_tile_of(const fringe_plan &p, int number, int rank)
{
    constexpr int kBandTiles = 8;
    int most = max(p.m_groups, p.n_tiles);
    int m = number % p.m_groups, n = number % p.n_tiles;
    fringe_tile t = {};
    if (number < most) {
        t.rows = p.m > rows_of_tiles<S>(p) && number < p.n_tiles;
        t.columns = p.n > columns_of_tiles<S>(p) && number < p.m_groups;
    } else {
        bool tall =
            p.m_groups >= p.n_tiles; // a row of tiles has one on the diagonal, else a column
        int rows = p.m_groups - !tall, columns = p.n_tiles - tall, index = number - most;
        int band = index / (kBandTiles * rows), within = index % (kBandTiles * rows);
        int width = min(kBandTiles, columns - band * kBandTiles);
        m = within / width;
        n = band * kBandTiles + within % width;
        n += tall && n >= m % p.n_tiles;
        m += !tall && m >= n % p.m_groups;
    }
    t.at = {(m * S::kShare + rank) * S::kRows, n * S::kCols, 0};
    return t;
}

// ---- the fringe's operands ----------------------------------------------------------------------

// In a stage: rows of 128 bytes as everywhere where k lies together; turned, a line of 8 elements a
// k, not swizzled, of which 8 make one core matrix.
constexpr int kCoreBytes = 128;

template <bool kTurned>
__device__ inline uint64_t
fringe_descriptor(uint32_t address)
{
    if constexpr (kTurned) { // no swizzle; of the two distances only that along k is read
        constexpr uint64_t kNext = kCoreBytes >> 4;
        return static_cast<uint64_t>((address & 0x3FFFF) >> 4) | kNext << 16 | kNext << 32;
    } else {
        return descriptor_of(address);
    }
}

template <bool kTurned>
constexpr int kFringeNext16 = kTurned ? kStepK / 8 * kCoreBytes >> 4 : kNext16<false>;

template <bool kTurned>
__device__ inline void
load_fringe(uint32_t to, const CUtensorMap *map, int first, int k, uint32_t full)
{
    if constexpr (kTurned) {
        ptx::box_load(to, map, first, k, 0, full);
    } else {
        ptx::box_load(to, map, k, first, 0, full);
    }
}

struct fringe_maps {
    const CUtensorMap *a, *b, *bias, *a_rows, *b_columns;
};

// One thread: fills the stages for all of this block's tiles.
template <class S, bool kATurned, bool kBTurned>
__device__ inline void
produce_fringed(
    const shared_memory<S> &shared, const fringe_maps &maps, const fringe_plan &p, int rank)
{
    ring<S::kStages> place;
    int clusters = static_cast<int>(gridDim.x) / S::kCluster;
    int cluster = static_cast<int>(blockIdx.x) / S::kCluster;
    int count = p.tiles / clusters + (cluster < p.tiles % clusters);
    for (int j = 0; j < count; j++) {
        fringe_tile t = fringe_tile_of<S>(p, number_of(p, cluster, clusters, j), rank);
        if (p.bias_row) {
            ptx::barrier_wait(shared.barriers().empty(place.stage), place.parity ^ 1);
            load_bias(shared, place.stage, maps.bias, t.at);
            place.next();
        }
        for (int slab = 0; slab < p.slabs; slab++, place.next()) {
            int k = slab * kDepth;
            ptx::barrier_wait(shared.barriers().empty(place.stage), place.parity ^ 1);
            load_slab<S, kATurned, kBTurned>(
                shared, place.stage, maps.a, maps.b, p, t.at, k, rank,
                (t.rows + t.columns) * S::kFringeBytes);
            uint32_t full = shared.barriers().full(place.stage);
            if (t.rows) {
                load_fringe<kATurned>(
                    shared.rows_below(place.stage), maps.a_rows, rows_of_tiles<S>(p), k, full);
            }
            if (t.columns) {
                load_fringe<kBTurned>(
                    shared.columns_beside(place.stage), maps.b_columns, columns_of_tiles<S>(p), k,
                    full);
            }
        }
    }
}

// ---- consumers ----------------------------------------------------------------------------------

// A consumer's sums of the fringe: of the columns beside its 64 rows, and, transposed, of the rows
// below 64 columns. What does not come along is made of what shared memory holds, and not stored.
struct fringe_sums {
    float columns[4], rows[4];
};

// As multiply(), and the fringe; `panel`: of the tile's columns, for the rows below.
template <class S, typename T, bool kATurned, bool kBTurned, class Under>
__device__ inline void
multiply_fringed(
    float (&sums)[S::kSums], fringe_sums &f, const shared_memory<S> &shared,
    ring<S::kStages> &place, int consumer, int panel, int slabs, Under under, uint32_t before)
{
    const bool begun = before != 0;
    for (int slab = 0; slab < slabs; slab++, place.next()) {
        ptx::barrier_wait(shared.barriers().full(place.stage), place.parity);
        uint32_t b = shared.b(place.stage);
        uint64_t from_a = descriptor_of(shared.a(place.stage) + consumer * kPanelBytes);
        uint64_t from_b = descriptor_of(b), from_panel = descriptor_of(b + panel * kPanelBytes);
        uint64_t rows = fringe_descriptor<kATurned>(shared.rows_below(place.stage));
        uint64_t columns = fringe_descriptor<kBTurned>(shared.columns_beside(place.stage));
        bool first = slab == 0;
        ptx::wgmma_fence();
#pragma unroll
        for (int k = 0; k < kDepth / kStepK; k++) {
            ptx::wgmma<kATurned, kBTurned>(
                sums, from_a + k * kNext16<kATurned>, from_b + k * kNext16<kBTurned>,
                !first || begun || k > 0, T{});
            ptx::wgmma<kATurned, kBTurned>(
                f.columns, from_a + k * kNext16<kATurned>, columns + k * kFringeNext16<kBTurned>,
                !first || k > 0, T{});
            ptx::wgmma<kBTurned, kATurned>(
                f.rows, from_panel + k * kNext16<kBTurned>, rows + k * kFringeNext16<kATurned>,
                !first || k > 0, T{});
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
        if (slab > 0 || begun) {
            release_stage<S::kShare>(before);
        }
        before = shared.barriers().empty(place.stage);
        under();
    }
    ptx::wgmma_wait<0>();
    release_stage<S::kShare>(before);
}

// One element of the out from its sum of products.
template <typename T>
__device__ inline void
store_element(const fringe_plan &p, int m, int n, float x)
{
    if (m >= p.m || n >= p.n) {
        return;
    }
    x *= p.alpha;
    if (p.c) {
        x += p.beta * to_f32(static_cast<const T *>(p.c)[m * p.c_pitch + n]);
    }
    if (p.bias) {
        x += to_f32(static_cast<const T *>(p.bias)[n]);
    }
    if (p.act == AICF_GEMM_ACT_RELU) {
        x = ptx::max_nan(x, 0.0f);
    } else if (p.act == AICF_GEMM_ACT_GELU) {
        x = gelu_of<kQuick<T>>(x);
    }
    static_cast<T *>(p.out)[m * p.out_pitch + n] = of_f32<T>(x);
}

template <class S, typename T>
__device__ inline void
store_fringe(
    const fringe_plan &p, const fringe_tile &t, const fringe_sums &f, int consumer, int panel)
{
    int below = rows_of_tiles<S>(p), beside = columns_of_tiles<S>(p);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int along = row_of_sums() + i / 2 * 8, across = column_of_sums() + i % 2;
        if (t.columns) {
            store_element<T>(
                p, t.at.m + consumer * kConsumerRows + along, beside + across, f.columns[i]);
        }
        if (t.rows) {
            store_element<T>(p, below + across, t.at.n + panel * kPanel + along, f.rows[i]);
        }
    }
}

template <bool kFringed, class S, typename T, bool kATurned, bool kBTurned>
__device__ inline void
consume_tile(
    late_store<S, T> &late, ring<S::kStages> &place, const fringe_tile &t,
    const shared_memory<S> &shared, const CUtensorMap *out, const fringe_plan &p, int consumer,
    int panel)
{
    bias_words<S, T> bias = {};
    if (p.bias && !p.bias_row) {
        bias.load(p, t.at.n);
    }
    float sums[S::kSums];
    fringe_sums f;
    uint32_t before = p.bias_row ? begin_with_bias<S, T>(sums, shared, place) : 0;
    auto under = [&] {
        if (late.next < S::kPanels) {
            late.store_next(shared, out, p, consumer);
        }
    };
    if constexpr (kFringed) {
        multiply_fringed<S, T, kATurned, kBTurned>(
            sums, f, shared, place, consumer, panel, p.slabs, under, before);
    } else {
        multiply<S, T, kATurned, kBTurned>(
            sums, shared, place, consumer, 0, p.slabs, under, before);
    }
    while (late.next < S::kPanels) { // fewer slabs than panels
        late.store_next(shared, out, p, consumer);
    }
    finish<S, T>(late.packed, sums, bias, p, t.at, consumer);
    late.at = t.at;
    late.next = 0;
    if constexpr (kFringed) {
        store_fringe<S, T>(p, t, f, consumer, panel);
    }
}

// One warpgroup: 64 rows of all of this block's tiles. Two loops and not one with two kinds of
// tiles: where products of either kind meet, the compiler waits for each of them.
template <class S, typename T, bool kATurned, bool kBTurned>
__device__ inline void
consume_fringed(
    const shared_memory<S> &shared, const CUtensorMap *out, const fringe_plan &p, int consumer,
    int rank)
{
    static_assert(S::kConsumers * S::kShare == S::kPanels, "a panel a consumer of the cluster");
    late_store<S, T> late;
    ring<S::kStages> place;
    int clusters = static_cast<int>(gridDim.x) / S::kCluster;
    int cluster = static_cast<int>(blockIdx.x) / S::kCluster;
    int count = p.tiles / clusters + (cluster < p.tiles % clusters);
    int panel = S::kConsumers * rank + consumer, j = 0;
    for (; j < count; j++) {
        fringe_tile t = fringe_tile_of<S>(p, number_of(p, cluster, clusters, j), rank);
        if (!t.rows && !t.columns) {
            break;
        }
        consume_tile<true, S, T, kATurned, kBTurned>(
            late, place, t, shared, out, p, consumer, panel);
    }
    for (; j < count; j++) {
        fringe_tile t = fringe_tile_of<S>(p, number_of(p, cluster, clusters, j), rank);
        consume_tile<false, S, T, kATurned, kBTurned>(
            late, place, t, shared, out, p, consumer, panel);
    }
    while (late.next < S::kPanels) {
        late.store_next(shared, out, p, consumer);
    }
    if (threadIdx.x % kWarpgroup == 0) {
        ptx::box_store_wait_read<0>(); // shared memory outlives the stores' reads
    }
}

// What is a row of the fringe and a column: an element a warp, whose lanes take k in turn.
template <class S, typename T>
__device__ inline void
make_corner(const fringe_plan &p)
{
    int below = rows_of_tiles<S>(p), beside = columns_of_tiles<S>(p);
    int width = p.n - beside, count = (p.m - below) * width;
    for (int i = static_cast<int>(blockIdx.x); i < count; i += static_cast<int>(gridDim.x)) {
        int m = below + i / width, n = beside + i % width,
            lane = static_cast<int>(threadIdx.x) % 32;
        const T *a = static_cast<const T *>(p.a) + m * p.a_along_m;
        const T *b = static_cast<const T *>(p.b) + n * p.b_along_n;
        float sum = 0.0f;
#pragma unroll 1
        for (int k = lane; k < p.k; k += 32) {
            sum += to_f32(a[k * p.a_along_k]) * to_f32(b[k * p.b_along_k]);
        }
#pragma unroll
        for (int other = 16; other > 0; other /= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, other);
        }
        if (lane == 0) {
            store_element<T>(p, m, n, sum);
        }
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

template <class S, typename T, bool kATurned, bool kBTurned>
__global__ void
__launch_bounds__(S::kThreads, 1) fringed(
    const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
    const __grid_constant__ CUtensorMap out, const __grid_constant__ CUtensorMap bias,
    const __grid_constant__ CUtensorMap a_rows, const __grid_constant__ CUtensorMap b_columns,
    const __grid_constant__ fringe_plan p)
{
    extern __shared__ __align__(kSwizzleBytes) uint8_t bytes[];
    shared_memory<S> shared = {ptx::shared_address(bytes)};
    int rank = static_cast<int>(ptx::cluster_rank());
    begin_block(shared, a, b, out, p, rank);
    ptx::wait_for_launch_before();
    ptx::let_next_launch_begin();

    int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
    if (warpgroup == 0) {
        ptx::registers_give<40>();
        if (threadIdx.x == 0) {
            const fringe_maps maps = {&a, &b, &bias, &a_rows, &b_columns};
            produce_fringed<S, kATurned, kBTurned>(shared, maps, p, rank);
        }
        if (threadIdx.x / 32 == 1) {
            make_corner<S, T>(p);
        }
        __syncwarp();
    } else {
        ptx::registers_take<232>();
        consume_fringed<S, T, kATurned, kBTurned>(shared, &out, p, warpgroup - 1, rank);
        __syncwarp();
    }
    ptx::cluster_arrive(); // while the peer may still write or arrive here, stay
    ptx::cluster_wait();
}

} // namespace aicf::gemm

#endif
