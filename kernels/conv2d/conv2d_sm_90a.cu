// conv2d by warpgroups on sm_90a: f16 and bf16, f32 sums, dense tensors with the channels innermost
// and one group. Requires channels in 64s, outputs in eights, addresses on multiples of 16 bytes,
// strides of at most 8, padding below 128 and windows of at most 128 elements a side.
//
// gemm's kernel (warpgroups.cuh) with another producer: a is the field, whose slabs are 64 channels
// at one tap and come by way of a map of windows (conv_windows.cuh). Bound by the matrix units,
// where windows are of one element by bytes.
#include <aicf_ops/conv2d.h>

#include <algorithm>

#include <aicf/cuda/conv_windows.cuh>

#include "../gemm/warpgroups.cuh"

namespace aicf::conv {

using namespace aicf::wgmma;

// What the producer knows of windows.
struct windows {
    int rows, columns; // of places
    int first_y, first_x, step_y, step_x;
    int taps_x, dilation_y, dilation_x;
    int channels, slabs;
};

// One thread: fills the stages for all of this block's tiles.
template <class S, typename T>
__device__ inline void
produce(
    const gemm::shared_memory<S> &shared, const CUtensorMap *field, const CUtensorMap *factor,
    const gemm::plan<T> &p, const windows &w)
{
    ring<S::kStages> place;
    for (int i = static_cast<int>(blockIdx.x); i < p.tiles; i += static_cast<int>(gridDim.x)) {
        gemm::corner at = gemm::corner_of<S>(p, i, 0);
        int line = at.m / w.columns, column = at.m - line * w.columns;
        int image = line / w.rows, row = line - image * w.rows;
        int y = w.first_y + row * w.step_y, x = w.first_x + column * w.step_x;
        int channel = 0, tap = 0, tap_y = 0, tap_x = 0;
        for (int slab = 0; slab < w.slabs; slab++, place.next()) {
            ptx::barrier_wait(shared.barriers().empty(place.stage), place.parity ^ 1);
            uint32_t full = shared.barriers().full(place.stage);
            ptx::barrier_expect(full, S::kABytes + S::kBBytes);
            ptx::windows_load(
                shared.a(place.stage), field, channel, x, y, image,
                static_cast<uint16_t>(tap_x * w.dilation_x),
                static_cast<uint16_t>(tap_y * w.dilation_y), full);
            ptx::box_load(shared.b(place.stage), factor, channel, at.n, tap, full);
            channel += kDepth;
            if (channel == w.channels) {
                channel = 0;
                tap++;
                if (++tap_x == w.taps_x) {
                    tap_x = 0;
                    tap_y++;
                }
            }
        }
    }
}

template <class S, typename T>
__global__ void
__launch_bounds__(S::kThreads, 1) warpgroups(
    const __grid_constant__ CUtensorMap field, const __grid_constant__ CUtensorMap factor,
    const __grid_constant__ CUtensorMap out, const __grid_constant__ gemm::plan<T> p,
    const __grid_constant__ windows w)
{
    extern __shared__ __align__(kSwizzleBytes) uint8_t bytes[];
    gemm::shared_memory<S> shared = {ptx::shared_address(bytes)};
    if (threadIdx.x == 0) {
        ptx::map_prefetch(&field);
        ptx::map_prefetch(&factor);
        ptx::map_prefetch(&out);
        shared.barriers().init(S::kConsumers * (kWarpgroup / 32));
        ptx::barrier_init_fence();
    }
    __syncthreads();
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before(); // nothing above reads or writes what another launch may

    // 128 sums and 64 packed words a thread are more than an even share of the registers.
    constexpr bool kMoveRegisters = S::kCols == 256;
    int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
    if (warpgroup == 0) {
        if constexpr (kMoveRegisters) {
            ptx::registers_give<40>();
        }
        if (threadIdx.x == 0) {
            produce<S>(shared, &field, &factor, p, w);
        }
    } else {
        if constexpr (kMoveRegisters) {
            ptx::registers_take<232>();
        }
        gemm::consume<S, T, false, false>(shared, &out, p, warpgroup - 1, 0);
    }
}

// ---- launching ----------------------------------------------------------------------------------

using wide = gemm::tile_shape<2, 256, 4, 2>;
using square = gemm::tile_shape<2, 128, 6, 2>;
using low = gemm::tile_shape<1, 128, 8, 1>;
using narrow = gemm::tile_shape<2, 64, 8, 1>;
using small = gemm::tile_shape<1, 64, 12, 1>;

template <class S, typename T>
aicf_status
launch_windows(const aicf_conv &c, int processors, aicf_stream stream)
{
    int64_t places = c.images * c.y.places * c.x.places, taps = c.y.taps * c.x.taps;
    CUtensorMap field, factor, out;
    aicf_status status = encode_windows<T>(&field, c, S::kRows);
    if (!status.kind) {
        matrices<T> m = {reinterpret_cast<const T *>(c.factor),
                         c.channels,
                         c.m,
                         taps,
                         taps * c.channels,
                         c.channels};
        status = encode_map(&factor, m, S::kCols);
    }
    if (!status.kind) {
        matrices<T> m = {reinterpret_cast<const T *>(c.out), c.m, places, 1, c.m, 0};
        status = encode_map(&out, m, kConsumerRows);
    }
    if (status.kind) {
        return status;
    }
    windows w = {
        static_cast<int>(c.y.places),
        static_cast<int>(c.x.places),
        static_cast<int>(c.y.first),
        static_cast<int>(c.x.first),
        static_cast<int>(c.y.places > 1 ? c.y.step : 0),
        static_cast<int>(c.x.places > 1 ? c.x.step : 0),
        static_cast<int>(c.x.taps),
        static_cast<int>(c.y.taps > 1 ? c.y.tap_step : 0),
        static_cast<int>(c.x.taps > 1 ? c.x.tap_step : 0),
        static_cast<int>(c.channels),
        static_cast<int>(taps * c.channels / kDepth)};
    gemm::plan<T> p = {};
    p.m = static_cast<int>(places);
    p.n = static_cast<int>(c.m);
    p.slabs = w.slabs;
    p.m_groups = static_cast<int>(ceil_div(places, S::kRows));
    p.n_tiles = static_cast<int>(ceil_div(c.m, S::kCols));
    p.tiles = p.m_groups * p.n_tiles;
    p.bias = static_cast<const T *>(c.bias);
    p.alpha = 1.0f;
    p.act = AICF_GEMM_ACT_NONE;
    return launch_clusters(
        warpgroups<S, T>, static_cast<unsigned>(std::min(p.tiles, processors)), S::kThreads,
        S::kShared, 1, stream, field, factor, out, p, w);
}

// Clocks of a shape: waves of tiles over the processors, each its slabs and a fixed part. A slab's
// are those of gemm.
template <class S>
int64_t
clocks(const aicf_conv &c, int processors, int slab_clocks)
{
    int64_t places = c.images * c.y.places * c.x.places;
    int64_t tiles = ceil_div(places, S::kRows) * ceil_div(c.m, S::kCols);
    return ceil_div(tiles, processors) * (aicf_conv_depth(&c) / kDepth * slab_clocks + 500);
}

template <typename T>
aicf_status
launch_fitting(const aicf_conv &c, aicf_stream stream)
{
    if (c.images * c.y.places * c.x.places * c.m == 0) {
        return aicf_ok();
    }
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
    return best == for_wide     ? launch_windows<wide, T>(c, processors, stream)
           : best == for_square ? launch_windows<square, T>(c, processors, stream)
           : best == for_low    ? launch_windows<low, T>(c, processors, stream)
           : best == for_narrow ? launch_windows<narrow, T>(c, processors, stream)
                                : launch_windows<small, T>(c, processors, stream);
}

} // namespace aicf::conv

#define LAUNCHER(T, suffix)                                                                        \
    aicf_status aicf_cuda_conv2d_warpgroups_##suffix(                                              \
        const T *x, const T *w, const T *bias, T *out, int64_t N, int64_t C, int64_t H, int64_t W, \
        int64_t O, int64_t D, int64_t R, int64_t S, int64_t P, int64_t Q, const int64_t stride[2], \
        const int64_t pad[2], const int64_t dilation[2], int64_t groups, aicf_stream stream)       \
    {                                                                                              \
        const aicf_view views[3] = {                                                               \
            aicf_conv_channels_last(x, N, C, H, W), aicf_conv_channels_last(w, O, D, R, S),        \
            aicf_conv_channels_last(out, N, O, P, Q)};                                             \
        aicf_conv c = aicf_conv_of(                                                                \
            sizeof(T), &views[0], &views[1], &views[2], stride, pad, dilation, groups);            \
        c.bias = bias;                                                                             \
        return aicf::conv::launch_fitting<aicf::device_t<T>>(c, stream);                           \
    }

LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
