// The weight gradient of conv2d by warpgroups of sm_90a, in f16 or bf16 with f32 sums. Dense
// tensors with the channels innermost, one group, channels of x in 64s, those of gy in eights,
// addresses on multiples of 16 bytes; for the rest see conv_windows.cuh.
//
// gemm's consumers (warpgroups.cuh) over places: a is gy, whose slabs are 64 places of the tile's
// outputs; b is x, of which a panel is 64 channels at one tap of the windows at those places. Both
// lie with the places outermost. Where few tiles make the gradient, places are split among blocks,
// whose sums in f32 are added in a fixed order. Bound by what the stages read of the L2.
#define AICF_OP conv2d_dw

#include <aicf_ops/conv2d_dw.h>

#include <algorithm>

#include <aicf/cuda/conv.cuh>
#include <aicf/cuda/conv_windows.cuh>

#include "../gemm/warpgroups.cuh"

namespace aicf::conv2d_dw {

using namespace wgmma;

// The problem as the device sees it: M outputs by N channels and taps, the channels innermost,
// which is how the gradient lies.
struct window_plan {
    int m, n, n_tiles, tiles, panels;         // panels: of n
    int slabs, depth;                         // of all places; of a split
    int rows, columns;                        // of places
    int step_images, step_rows, step_columns; // from a slab's first place to the next one's
    int first_y, first_x, step_y, step_x;
    int taps_x, dilation_y, dilation_x, channel_panels;
    float *parts; // [split][m][n]; NULL where there is one split, whose sums go to the out
    void *out;
};

// What a block makes: the tile at (m, n) over its slabs.
struct window_job {
    int m, n, split, first, end;
};

template <class S>
__device__ inline window_job
window_job_of(const window_plan &p)
{
    int split = static_cast<int>(blockIdx.x) / p.tiles;
    int tile = static_cast<int>(blockIdx.x) - split * p.tiles, m_tile = tile / p.n_tiles;
    int first = split * p.depth;
    return {
        m_tile * S::kRows, (tile - m_tile * p.n_tiles) * S::kCols, split, first,
        min(p.slabs, first + p.depth)};
}

// ---- the producer -------------------------------------------------------------------------------

// One warp, whose lanes bring a box each: what a lane needs to know of its own is found once.
// Panels beyond the last are not loaded, and what they lack reaches sums that are not stored.
template <class S>
__device__ inline void
produce(
    const gemm::shared_memory<S> &shared, const CUtensorMap *dense, const CUtensorMap *field,
    const window_plan &p, const window_job &j)
{
    constexpr int kBoxes = S::kRows / kPanel; // of a
    int lane = static_cast<int>(threadIdx.x), panels = min(S::kPanels, p.panels - j.n / kPanel);
    int own = lane - kBoxes, panel = j.n / kPanel + own;
    int tap = panel / p.channel_panels, tap_y = tap / p.taps_x;
    int channel = (panel - tap * p.channel_panels) * kPanel;
    uint16_t from_x = static_cast<uint16_t>((tap - tap_y * p.taps_x) * p.dilation_x);
    uint16_t from_y = static_cast<uint16_t>(tap_y * p.dilation_y);
    int k = j.first * kDepth, line = k / p.columns, column = k - line * p.columns;
    int image = line / p.rows, row = line - image * p.rows;
    ring<S::kStages> place;
    for (int slab = j.first; slab < j.end; slab++, k += kDepth, place.next()) {
        uint32_t full = shared.barriers().full(place.stage);
        if (lane == 0) {
            ptx::barrier_wait(shared.barriers().empty(place.stage), place.parity ^ 1);
            ptx::barrier_expect(full, static_cast<uint32_t>(S::kABytes + panels * kPanelBytes));
        }
        __syncwarp();
        if (lane < kBoxes) {
            ptx::box_load(
                shared.a(place.stage) + lane * kPanelBytes, dense, j.m + lane * kPanel, k, 0, full);
        } else if (own < panels) {
            ptx::windows_load(
                shared.b(place.stage) + own * kPanelBytes, field, channel,
                p.first_x + column * p.step_x, p.first_y + row * p.step_y, image, from_x, from_y,
                full);
        }
        column += p.step_columns;
        int over = column >= p.columns;
        column -= over ? p.columns : 0;
        row += p.step_rows + over;
        over = row >= p.rows;
        row -= over ? p.rows : 0;
        image += p.step_images + over;
    }
}

// ---- consumers ----------------------------------------------------------------------------------

__device__ inline void
store_pair(float *to, float low, float high, float)
{
    *reinterpret_cast<float2 *>(to) = make_float2(low, high);
}

template <typename T>
__device__ inline void
store_pair(T *to, float low, float high, T)
{
    *reinterpret_cast<uint32_t *>(to) = pair_of(low, high, T{});
}

// A thread's sums to rows of p.n numbers; four threads fill 32 or 16 bytes of one.
template <class S, typename T>
__device__ inline void
store_sums(
    const float (&sums)[S::kSums], T *to, const window_plan &p, const window_job &j, int consumer)
{
    int m = j.m + consumer * kConsumerRows + row_of_sums(), n = j.n + column_of_sums();
#pragma unroll
    for (int half = 0; half < 2; half++, m += 8) {
        T *row = to + static_cast<int64_t>(m) * p.n + n;
#pragma unroll
        for (int block = 0; block < S::kCols / 8; block++) {
            const float *x = &sums[4 * block + 2 * half];
            if (m < p.m && n + 8 * block < p.n) {
                store_pair(row + 8 * block, x[0], x[1], T{});
            }
        }
    }
}

template <class S, typename T>
__device__ inline void
consume(
    const gemm::shared_memory<S> &shared, const window_plan &p, const window_job &j, int consumer)
{
    ring<S::kStages> place;
    float sums[S::kSums];
    gemm::multiply<S, T, true, true>(sums, shared, place, consumer, j.first, j.end, [] {});
    if (p.parts) {
        int64_t size = static_cast<int64_t>(p.m) * p.n;
        store_sums<S>(sums, p.parts + j.split * size, p, j, consumer);
    } else {
        store_sums<S>(sums, static_cast<T *>(p.out), p, j, consumer);
    }
}

template <class S, typename T>
__global__ void
__launch_bounds__(S::kThreads, 1) warpgroups(
    const __grid_constant__ CUtensorMap dense, const __grid_constant__ CUtensorMap field,
    const __grid_constant__ window_plan p)
{
    extern __shared__ __align__(kSwizzleBytes) uint8_t bytes[];
    gemm::shared_memory<S> shared = {ptx::shared_address(bytes)};
    if (threadIdx.x == 0) {
        ptx::map_prefetch(&dense);
        ptx::map_prefetch(&field);
        shared.barriers().init(S::kConsumers * (kWarpgroup / 32));
        ptx::barrier_init_fence();
    }
    __syncthreads();
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before(); // nothing above reads or writes what another launch may

    constexpr bool kMoveRegisters = S::kCols == 256; // as in gemm's
    window_job j = window_job_of<S>(p);
    int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
    if (warpgroup == 0) {
        if constexpr (kMoveRegisters) {
            ptx::registers_give<40>();
        }
        if (threadIdx.x < 32) {
            produce<S>(shared, &dense, &field, p, j);
        }
    } else {
        if constexpr (kMoveRegisters) {
            ptx::registers_take<232>();
        }
        consume<S, T>(shared, p, j, warpgroup - 1);
        __syncwarp();
    }
}

// ---- launching ----------------------------------------------------------------------------------

// Windows of three columns have panels in threes.
using wide = gemm::tile_shape<2, 256, 4, 0>;
using threes = gemm::tile_shape<2, 192, 5, 0>;
using low = gemm::tile_shape<1, 192, 6, 0>;

template <typename T>
window_plan
window_plan_of(const aicf_conv &c)
{
    window_plan p = {};
    p.m = static_cast<int>(c.m);
    p.n = static_cast<int>(aicf_conv_depth(&c));
    p.panels = p.n / kPanel;
    p.slabs = static_cast<int>(ceil_div(c.images * c.y.places * c.x.places, kDepth));
    p.rows = static_cast<int>(c.y.places);
    p.columns = static_cast<int>(c.x.places);
    const int lines = kDepth / p.columns;
    p.step_columns = kDepth - lines * p.columns;
    p.step_images = lines / p.rows;
    p.step_rows = lines - p.step_images * p.rows;
    p.first_y = static_cast<int>(c.y.first);
    p.first_x = static_cast<int>(c.x.first);
    p.step_y = static_cast<int>(c.y.places > 1 ? c.y.step : 0);
    p.step_x = static_cast<int>(c.x.places > 1 ? c.x.step : 0);
    p.taps_x = static_cast<int>(c.x.taps);
    p.dilation_y = static_cast<int>(c.y.taps > 1 ? c.y.tap_step : 0);
    p.dilation_x = static_cast<int>(c.x.taps > 1 ? c.x.tap_step : 0);
    p.channel_panels = static_cast<int>(c.channels / kPanel);
    p.out = c.factor;
    return p;
}

// A shape and a number of splits, and their clocks.
struct window_way {
    int64_t clocks, splits;
};

// Waves of blocks, each its slabs, which read `slab_clocks` long of the L2, and a fixed part; then
// the parts, written and read. Splits that fill one, two or three waves are weighed.
template <class S>
window_way
window_way_of(const window_plan &p, int processors, int64_t slab_clocks, int64_t most)
{
    constexpr int64_t kFixed = 2000, kPartsPerClock = 400;
    int64_t tiles = ceil_div(p.m, S::kRows) * ceil_div(p.n, S::kCols);
    window_way best = {INT64_MAX, 1};
    for (int64_t waves = 1; waves <= 3; waves++) {
        int64_t splits = std::min({waves * processors / tiles, most, int64_t{p.slabs}});
        splits = std::max(splits, int64_t{1});
        int64_t depth = ceil_div(p.slabs, splits), parts = splits > 1 ? splits * p.m * p.n : 0;
        int64_t clocks = ceil_div(tiles * splits, processors) * (depth * slab_clocks + kFixed) +
                         parts / kPartsPerClock;
        best = clocks < best.clocks ? window_way{clocks, splits} : best;
    }
    return best;
}

template <class S, typename T>
aicf_status
launch_windows(
    const aicf_conv &c, window_plan p, int64_t splits, void *workspace, aicf_stream stream)
{
    constexpr CUtensorMapDataType kType = std::is_same_v<T, __half>
                                              ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                              : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const int64_t places = c.images * c.y.places * c.x.places;
    CUtensorMap dense, field;
    const matrices m = {c.out, c.m, places, 1, c.m, 0, sizeof(T), kType};
    aicf_status status = encode_map(&dense, m, kDepth);
    if (!status.kind) {
        status = encode_windows(&field, c, kType, kDepth);
    }
    if (status.kind) {
        return status;
    }
    p.n_tiles = static_cast<int>(ceil_div(p.n, S::kCols));
    p.tiles = static_cast<int>(ceil_div(p.m, S::kRows)) * p.n_tiles;
    p.depth = static_cast<int>(ceil_div(p.slabs, splits));
    splits = ceil_div(p.slabs, p.depth);
    p.parts = splits > 1 ? static_cast<float *>(workspace) : nullptr;
    status = launch_clusters(
        warpgroups<S, T>, static_cast<unsigned>(p.tiles * splits), S::kThreads, S::kShared, 1,
        stream, dense, field, p);
    if (status.kind || splits == 1) {
        return status;
    }
    problem<T> sums = problem_of<T>(c, true);
    sums.parts = p.parts;
    sums.splits = static_cast<int>(splits);
    return launch_sum_parts_early(sums, stream);
}

template <typename T>
aicf_status
run_warpgroups(const aicf_conv &c, void *workspace, aicf_stream stream)
{
    constexpr int64_t kMostParts = 6291456; // of the table's workspace
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    const window_plan p = window_plan_of<T>(c);
    const int64_t most = std::min(kMostParts / (int64_t{p.m} * p.n), int64_t{64});
    // What stages hold, at 32 bytes a clock.
    const window_way for_wide = window_way_of<wide>(p, processors, 1536, most);
    const window_way for_threes = window_way_of<threes>(p, processors, 1280, most);
    const window_way for_low = window_way_of<low>(p, processors, 1024, most);
    const int64_t least = std::min({for_wide.clocks, for_threes.clocks, for_low.clocks});
    return least == for_wide.clocks
               ? launch_windows<wide, T>(c, p, for_wide.splits, workspace, stream)
           : least == for_threes.clocks
               ? launch_windows<threes, T>(c, p, for_threes.splits, workspace, stream)
               : launch_windows<low, T>(c, p, for_low.splits, workspace, stream);
}

} // namespace aicf::conv2d_dw

#define LAUNCHER(T, suffix)                                                                        \
    aicf_status aicf_cuda_conv2d_dw_warpgroups_##suffix(                                           \
        const T *gy, const T *x, T *gw, int64_t N, int64_t O, int64_t P, int64_t Q, int64_t C,     \
        int64_t H, int64_t W, int64_t R, int64_t S, const int64_t stride[2], const int64_t pad[2], \
        const int64_t dilation[2], int64_t groups, void *workspace, aicf_stream stream)            \
    {                                                                                              \
        const aicf_view views[3] = {                                                               \
            aicf_conv_channels_last(gy, N, O, P, Q), aicf_conv_channels_last(x, N, C, H, W),       \
            aicf_conv_channels_last(gw, O, C, R, S)};                                              \
        return aicf::conv2d_dw::run_warpgroups<aicf::device_t<T>>(                                 \
            aicf_conv_of(                                                                          \
                sizeof(T), &views[1], &views[2], &views[0], stride, pad, dilation, groups),        \
            workspace, stream);                                                                    \
    }

LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
