// conv2d_i8 by warpgroups of sm_90a: dense tensors, channels innermost, one group (see
// aicf/cuda/fields_i8.cuh). conv2d's producer (../conv2d/windows.cuh) on pairs of channels,
// gemm_i8's consumers (../gemm_i8/warpgroups_i8.cuh). A slab is 128 channels at one tap: what a
// field has less are zeros. Bound by the matrix units, where windows are of one element by bytes.
#define AICF_OP conv2d_i8
#include <aicf_ops/conv2d_i8.h>

#include <algorithm>

#include <aicf/cuda/conv_windows.cuh>
#include <aicf/cuda/fields_i8.cuh>

#include "../gemm_i8/warpgroups_i8.cuh"

namespace aicf::conv2d_i8 {

using namespace i8;

constexpr int kSlabPairs = kDepth;

// What the producer knows of windows.
struct window_steps {
    int rows, columns;
    int first_y, first_x, step_y, step_x;
    int taps_x, dilation_y, dilation_x;
    int tap_slabs, slabs; // of one tap, and of all
};

// One thread: fills the stages for all of this block's tiles.
template <class S>
__device__ inline void
produce(
    const gemm::shared_memory<S> &shared, const CUtensorMap *field, const CUtensorMap *factor,
    const gemm::plan &p, const window_steps &w)
{
    ring<S::kStages> place;
    for (int i = static_cast<int>(blockIdx.x); i < p.tiles; i += static_cast<int>(gridDim.x)) {
        gemm::corner at = gemm::corner_of<S>(p, i, 0);
        int line = at.m / w.columns, column = at.m - line * w.columns;
        int image = line / w.rows, row = line - image * w.rows;
        int y = w.first_y + row * w.step_y, x = w.first_x + column * w.step_x;
        int part = 0, tap = 0, tap_y = 0, tap_x = 0;
        for (int slab = 0; slab < w.slabs; slab++, place.next()) {
            ptx::barrier_wait(shared.barriers().empty(place.stage), place.parity ^ 1);
            uint32_t full = shared.barriers().full(place.stage);
            ptx::barrier_expect(full, S::kABytes + S::kBBytes);
            ptx::windows_load(
                shared.a(place.stage), field, part * kSlabPairs, x, y, image,
                static_cast<uint16_t>(tap_x * w.dilation_x),
                static_cast<uint16_t>(tap_y * w.dilation_y), full);
            ptx::box_load(shared.b(place.stage), factor, part * kSlabPairs, at.n, tap, full);
            if (++part == w.tap_slabs) {
                part = 0;
                tap++;
                if (++tap_x == w.taps_x) {
                    tap_x = 0;
                    tap_y++;
                }
            }
        }
    }
}

template <class S, typename Pair>
__global__ void
__launch_bounds__(S::kThreads, 1) windows(
    const __grid_constant__ CUtensorMap field, const __grid_constant__ CUtensorMap factor,
    const __grid_constant__ gemm::plan p, const __grid_constant__ window_steps w,
    const __grid_constant__ outs to)
{
    extern __shared__ __align__(kSwizzleBytes) uint8_t bytes[];
    gemm::shared_memory<S> shared = {ptx::shared_address(bytes)};
    if (threadIdx.x == 0) {
        ptx::map_prefetch(&field);
        ptx::map_prefetch(&factor);
        shared.barriers().init(S::kConsumers * (kWarpgroup / 32));
        ptx::barrier_init_fence();
    }
    __syncthreads();
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before(); // nothing above reads or writes what another launch may

    // 128 sums and what finishes them are more than an even share of the registers.
    constexpr bool kMoveRegisters = S::kCols == 256;
    int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
    if (warpgroup == 0) {
        if constexpr (kMoveRegisters) {
            ptx::registers_give<40>();
        }
        if (threadIdx.x == 0) {
            produce<S>(shared, &field, &factor, p, w);
        }
        __syncwarp();
    } else {
        if constexpr (kMoveRegisters) {
            ptx::registers_take<232>();
        }
        consume<S, Pair>(shared, bytes, p, to, warpgroup - 1, 0);
        __syncwarp();
    }
}

// ---- launching ----------------------------------------------------------------------------------

using wide = gemm::tile_shape<2, 256, 4, 1>;
using square = gemm::tile_shape<2, 128, 6, 1>;
using low = gemm::tile_shape<1, 128, 8, 1>;
using narrow = gemm::tile_shape<2, 64, 8, 1>;
using small = gemm::tile_shape<1, 64, 12, 1>;

// Of one tap.
inline int64_t
slabs_of(const aicf_conv &c)
{
    return ceil_div(c.channels, kSlabPairs);
}

inline int64_t
places_of(const aicf_conv &c)
{
    return c.images * c.y.places * c.x.places;
}

inline window_steps
windows_of(const aicf_conv &c)
{
    int64_t taps = c.y.taps * c.x.taps;
    return {
        static_cast<int>(c.y.places),
        static_cast<int>(c.x.places),
        static_cast<int>(c.y.first),
        static_cast<int>(c.x.first),
        static_cast<int>(c.y.places > 1 ? c.y.step : 0),
        static_cast<int>(c.x.places > 1 ? c.x.step : 0),
        static_cast<int>(c.x.taps),
        static_cast<int>(c.y.taps > 1 ? c.y.tap_step : 0),
        static_cast<int>(c.x.taps > 1 ? c.x.tap_step : 0),
        static_cast<int>(slabs_of(c)),
        static_cast<int>(taps * slabs_of(c))};
}

template <class S>
aicf_status
launch_windows(const aicf_conv &c, const outs &to, int processors, aicf_stream stream)
{
    int64_t places = places_of(c), taps = c.y.taps * c.x.taps;
    CUtensorMap field, factor;
    aicf_status status = conv::encode_windows(&field, c, CU_TENSOR_MAP_DATA_TYPE_UINT16, S::kRows);
    if (!status.kind) {
        matrices m = {c.factor,          c.channels, c.m, taps,
                      taps * c.channels, c.channels, 2,   CU_TENSOR_MAP_DATA_TYPE_UINT16};
        status = encode_map(&factor, m, S::kCols);
    }
    if (status.kind) {
        return status;
    }
    window_steps w = windows_of(c);
    gemm::plan p = {};
    p.m = static_cast<int>(places);
    p.n = static_cast<int>(c.m);
    p.slabs = w.slabs;
    p.m_groups = static_cast<int>(ceil_div(places, S::kRows));
    p.n_tiles = static_cast<int>(ceil_div(c.m, S::kCols));
    p.tiles = p.m_groups * p.n_tiles;
    return launch_clusters(
        to.requant.signed_in ? windows<S, pair_i8> : windows<S, pair_u8>,
        static_cast<unsigned>(std::min(p.tiles, processors)), S::kThreads, S::kShared, 1, stream,
        field, factor, p, w, to);
}

// Clocks of a shape, as gemm_i8's.
template <class S>
int64_t
clocks(const aicf_conv &c, int processors, int slab_clocks)
{
    int64_t tiles = ceil_div(places_of(c), S::kRows) * ceil_div(c.m, S::kCols);
    return ceil_div(tiles, processors) *
           (c.y.taps * c.x.taps * slabs_of(c) * slab_clocks + 500 + 8 * S::kCols);
}

inline aicf_status
launch_fitting(const aicf_conv &c, const outs &to, aicf_stream stream)
{
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    int64_t for_wide = clocks<wide>(c, processors, 1060);
    int64_t for_square = clocks<square>(c, processors, 545);
    int64_t for_low = clocks<low>(c, processors, 400);
    int64_t for_narrow = clocks<narrow>(c, processors, 390);
    int64_t for_small = clocks<small>(c, processors, 330);
    int64_t best = std::min({for_wide, for_square, for_low, for_narrow, for_small});
    return best == for_wide     ? launch_windows<wide>(c, to, processors, stream)
           : best == for_square ? launch_windows<square>(c, to, processors, stream)
           : best == for_low    ? launch_windows<low>(c, to, processors, stream)
           : best == for_narrow ? launch_windows<narrow>(c, to, processors, stream)
                                : launch_windows<small>(c, to, processors, stream);
}

inline aicf_status
run_warpgroups(aicf_conv c, const aicf_requant &r, void *workspace, aicf_stream stream)
{
    const int *shifts = nullptr;
    aicf_status status = take_field<90>(c, r, workspace, &shifts, stream);
    return status.kind ? status : launch_fitting(c, outs_of(c.out, c.m, c.m, shifts, r), stream);
}

} // namespace aicf::conv2d_i8

#define LAUNCHER(...) \
    AICF_CONV2D_I8_LAUNCHER(warpgroups, aicf::conv2d_i8::run_warpgroups, __VA_ARGS__)

AICF_REQUANTS(LAUNCHER)
