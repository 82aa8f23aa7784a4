// The kernel of conv2d_sm_90a.cu and conv2d_dx_sm_90a.cu: a convolution over taps by warpgroups of
// sm_90a, in f16 or bf16 with f32 sums. Dense tensors with the channels innermost, one group,
// channels in 64s, outputs in eights, addresses on multiples of 16 bytes; for the rest see
// conv_windows.cuh.
//
// gemm's kernel (warpgroups.cuh) with another producer: a is the field, whose slabs are 64 channels
// at one tap and come by way of a map of windows; b is the factor at that tap. Backwards, the
// factor has its outputs innermost and its taps in reverse, of a phase of strides some of them.
// Bound by the matrix units, where windows are of one element by bytes.
#ifndef AICF_CONV2D_WINDOWS_CUH
#define AICF_CONV2D_WINDOWS_CUH

#include <algorithm>

#include <aicf/cuda/conv_windows.cuh>

#include "../gemm/warpgroups.cuh"

namespace aicf::AICF_OP {

using namespace conv;
using namespace wgmma;

// ---- the producer -------------------------------------------------------------------------------

// What the producer knows of windows.
struct windows {
    int rows, columns; // of places
    int first_y, first_x, step_y, step_x;
    int taps_x, dilation_y, dilation_x;
    int last_tap, factor_y, factor_x; // of the factor, backwards: from tap to tap
    int channels, slabs;
};

// One thread: the slabs of a tile into the stages.
template <class S, bool kBackwards>
__device__ inline void
produce_tile(
    const gemm::shared_memory<S> &shared, ring<S::kStages> &place, const CUtensorMap *field,
    const CUtensorMap *factor, const gemm::corner &at, const windows &w)
{
    int line = at.m / w.columns, column = at.m - line * w.columns;
    int image = line / w.rows, row = line - image * w.rows;
    int y = w.first_y + row * w.step_y, x = w.first_x + column * w.step_x;
    int channel = 0, tap_y = 0, tap_x = 0;
    for (int slab = 0; slab < w.slabs; slab++, place.next()) {
        ptx::barrier_wait(shared.barriers().empty(place.stage), place.parity ^ 1);
        uint32_t full = shared.barriers().full(place.stage);
        ptx::barrier_expect(full, S::kABytes + S::kBBytes);
        ptx::windows_load(
            shared.a(place.stage), field, channel, x, y, image,
            static_cast<uint16_t>(tap_x * w.dilation_x),
            static_cast<uint16_t>(tap_y * w.dilation_y), full);
        if constexpr (kBackwards) {
            int tap = w.last_tap - tap_y * w.factor_y - tap_x * w.factor_x;
#pragma unroll
            for (int n = 0; n < S::kCols; n += kPanel) {
                ptx::box_load(
                    shared.b(place.stage) + n * kRowBytes, factor, at.n + n, channel, tap, full);
            }
        } else {
            ptx::box_load(
                shared.b(place.stage), factor, channel, at.n, tap_y * w.taps_x + tap_x, full);
        }
        channel += kDepth;
        if (channel == w.channels) {
            channel = 0;
            if (++tap_x == w.taps_x) {
                tap_x = 0;
                tap_y++;
            }
        }
    }
}

// Of all of this block's tiles.
template <class S, bool kBackwards>
__device__ inline void
produce(
    const gemm::shared_memory<S> &shared, const CUtensorMap *field, const CUtensorMap *factor,
    const gemm::plan &p, const windows &w)
{
    ring<S::kStages> place;
    for (int i = static_cast<int>(blockIdx.x); i < p.tiles; i += static_cast<int>(gridDim.x)) {
        gemm::corner at = gemm::corner_of<S>(p, i, 0);
        produce_tile<S, kBackwards>(shared, place, field, factor, at, w);
    }
}

// Blocks a multiprocessor: of most shapes one fills it.
template <class S> constexpr int kResident = 1;

template <class S, bool kBackwards, typename T>
__global__ void
__launch_bounds__(S::kThreads, kResident<S>) warpgroups(
    const __grid_constant__ CUtensorMap field, const __grid_constant__ CUtensorMap factor,
    const __grid_constant__ CUtensorMap out, const __grid_constant__ gemm::plan p,
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
            produce<S, kBackwards>(shared, &field, &factor, p, w);
        }
        __syncwarp();
    } else {
        if constexpr (kMoveRegisters) {
            ptx::registers_take<232>();
        }
        gemm::consume<S, T, false, kBackwards>(shared, &out, p, warpgroup - 1, 0);
        __syncwarp();
    }
}

// ---- launching ----------------------------------------------------------------------------------

using wide = gemm::tile_shape<2, 256, 4, 2>;
using square = gemm::tile_shape<2, 128, 6, 2>;
using low = gemm::tile_shape<1, 128, 8, 2>;
using narrow = gemm::tile_shape<2, 64, 8, 1>;
using small = gemm::tile_shape<1, 64, 12, 1>;
// For windows and outputs of 64 channels, that are bound by bytes: while blocks end, others begin.
using streamed = gemm::tile_shape<1, 64, 4, 1>;
template <> constexpr int kResident<streamed> = 3;

template <typename T> constexpr CUtensorMapDataType kMapType = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <>
constexpr CUtensorMapDataType kMapType<__nv_bfloat16> = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

template <bool kBackwards>
windows
windows_of(const aicf_conv &c)
{
    const int64_t length = kBackwards ? c.m : c.channels; // neighbours in the factor
    windows w = {};
    w.rows = static_cast<int>(c.y.places);
    w.columns = static_cast<int>(c.x.places);
    w.first_y = static_cast<int>(c.y.first);
    w.first_x = static_cast<int>(c.x.first);
    w.step_y = static_cast<int>(c.y.places > 1 ? c.y.step : 0);
    w.step_x = static_cast<int>(c.x.places > 1 ? c.x.step : 0);
    w.taps_x = static_cast<int>(c.x.taps);
    w.dilation_y = static_cast<int>(c.y.taps > 1 ? c.y.tap_step : 0);
    w.dilation_x = static_cast<int>(c.x.taps > 1 ? c.x.tap_step : 0);
    w.factor_y = static_cast<int>(c.y.taps > 1 ? c.factor_strides[2] / length : 0);
    w.factor_x = static_cast<int>(c.x.taps > 1 ? c.factor_strides[3] / length : 0);
    w.last_tap = static_cast<int>((c.y.taps - 1) * w.factor_y + (c.x.taps - 1) * w.factor_x);
    w.channels = static_cast<int>(c.channels);
    w.slabs = static_cast<int>(aicf_conv_depth(&c) / kDepth);
    return w;
}

template <class S>
gemm::plan
plan_of(const aicf_conv &c)
{
    const int64_t places = c.images * c.y.places * c.x.places;
    gemm::plan p = {};
    p.m = static_cast<int>(places);
    p.n = static_cast<int>(c.m);
    p.slabs = static_cast<int>(aicf_conv_depth(&c) / kDepth);
    p.m_groups = static_cast<int>(ceil_div(places, S::kRows));
    p.n_tiles = static_cast<int>(ceil_div(c.m, S::kCols));
    p.tiles = p.m_groups * p.n_tiles;
    p.bias = c.bias;
    p.alpha = 1.0f;
    p.act = AICF_GEMM_ACT_NONE;
    return p;
}

// The maps of both operands.
template <class S, bool kBackwards, typename T>
aicf_status
encode_operands(CUtensorMap *field, CUtensorMap *factor, const aicf_conv &c, const windows &w)
{
    aicf_status status = encode_windows(field, c, kMapType<T>, S::kRows);
    if (status.kind) {
        return status;
    }
    matrices m = {};
    m.data = c.factor;
    m.length = kBackwards ? c.m : c.channels;
    m.lines = kBackwards ? c.channels : c.m;
    m.count = w.last_tap + 1;
    m.step = m.length;
    m.pitch = c.factor_strides[kBackwards ? 1 : 0];
    m.size = sizeof(T);
    m.type = kMapType<T>;
    return encode_map(factor, m, kBackwards ? kDepth : S::kCols);
}

template <class S, bool kBackwards, typename T>
aicf_status
launch_windows(const aicf_conv &c, int processors, aicf_stream stream)
{
    CUtensorMap field, factor, out;
    const windows w = windows_of<kBackwards>(c);
    const gemm::plan p = plan_of<S>(c);
    aicf_status status = encode_operands<S, kBackwards, T>(&field, &factor, c, w);
    if (!status.kind) {
        matrices m = {c.out, c.m, p.m, 1, c.m, 0, sizeof(T), kMapType<T>};
        status = encode_map(&out, m, kConsumerRows);
    }
    if (status.kind) {
        return status;
    }
    int blocks = std::min(p.tiles, processors * kResident<S>);
    return launch_clusters(
        warpgroups<S, kBackwards, T>, static_cast<unsigned>(blocks), S::kThreads, S::kShared, 1,
        stream, field, factor, out, p, w);
}

// Clocks of a shape: waves of tiles over the processors, each its slabs and a fixed part. A slab's
// are those of gemm; narrow tiles' are more here (512-512/7 k3 on an H200: 20.4 us, low ones 17.0).
template <class S>
int64_t
clocks(const aicf_conv &c, int processors, int slab_clocks)
{
    int64_t places = c.images * c.y.places * c.x.places;
    int64_t tiles = ceil_div(places, S::kRows) * ceil_div(c.m, S::kCols);
    return ceil_div(tiles, processors) * (aicf_conv_depth(&c) / kDepth * slab_clocks + 500);
}

template <bool kBackwards, typename T>
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
    if (aicf_conv_depth(&c) == kDepth && c.m <= streamed::kCols) {
        return launch_windows<streamed, kBackwards, T>(c, processors, stream);
    }
    int64_t for_wide = clocks<wide>(c, processors, 1060);
    int64_t for_square = clocks<square>(c, processors, 545);
    int64_t for_low = clocks<low>(c, processors, 400);
    int64_t for_narrow = clocks<narrow>(c, processors, 480);
    int64_t for_small = clocks<small>(c, processors, 330);
    int64_t best = std::min({for_wide, for_square, for_low, for_narrow, for_small});
    return best == for_wide     ? launch_windows<wide, kBackwards, T>(c, processors, stream)
           : best == for_square ? launch_windows<square, kBackwards, T>(c, processors, stream)
           : best == for_low    ? launch_windows<low, kBackwards, T>(c, processors, stream)
           : best == for_narrow ? launch_windows<narrow, kBackwards, T>(c, processors, stream)
                                : launch_windows<small, kBackwards, T>(c, processors, stream);
}

} // namespace aicf::AICF_OP

#endif
