// The kernel of conv2d_dx_sm_90a.cu for strides: up to four of their phases, each a convolution
// over taps backwards (see ../conv2d/windows.cuh), in one launch, so that those of few taps fill
// the waves that those of many leave. Places of a phase do not lie side by side, so the copy engine
// stores each where it lies.
#ifndef AICF_CONV2D_DX_SCATTERED_CUH
#define AICF_CONV2D_DX_SCATTERED_CUH

#include <utility>

#include "../conv2d/windows.cuh"

namespace aicf::conv2d_dx {

constexpr int kPhases = 4;

struct phase {
    CUtensorMap field, factor, out;
    gemm::plan p;
    windows w;
};

// Those of the most slabs first; those that there are none of have no tiles.
struct phases {
    phase of[kPhases];
    int tiles;

    // The phase of a tile; what is left of `tile` is its number there.
    __device__ const phase &find(int &tile) const
    {
        int k = 0;
        while (tile >= of[k].p.tiles) {
            tile -= of[k++].p.tiles;
        }
        return of[k];
    }
};

// One warpgroup: 64 rows of all of this block's tiles. A tile is stored before the next one is
// multiplied, while that is loaded.
template <class S, typename T>
__device__ inline void
consume(const gemm::shared_memory<S> &shared, const phases &all, int consumer)
{
    ring<S::kStages> place;
    for (int i = static_cast<int>(blockIdx.x); i < all.tiles; i += static_cast<int>(gridDim.x)) {
        int tile = i;
        const phase &f = all.find(tile);
        gemm::corner at = gemm::corner_of<S>(f.p, tile, 0);
        float sums[S::kSums];
        gemm::multiply<S, T, false, true>(sums, shared, place, consumer, 0, f.p.slabs, [] {});
        uint32_t packed[S::kSums / 2];
#pragma unroll
        for (int k = 0; k < S::kSums / 2; k++) {
            packed[k] = pair_of(sums[2 * k], sums[2 * k + 1], T{});
        }
        int first = at.m + consumer * kConsumerRows;
        int line = first / f.w.columns, column = first - line * f.w.columns;
        int image = line / f.w.rows, row = line - image * f.w.rows;
#pragma unroll
        for (int panel = 0; panel < S::kPanels; panel++) {
            uint32_t from = shared.out(consumer, panel);
            store_panel<S::kOutPanels - 1>(packed + panel * (kPanel / 4), from, 1 + consumer, [&] {
                if (first < f.p.m) {
                    ptx::places_store(&f.out, at.n + panel * kPanel, column, row, image, from);
                }
            });
        }
    }
    if (threadIdx.x % kWarpgroup == 0) {
        ptx::box_store_wait_read<0>(); // shared memory outlives the stores' reads
    }
}

template <class S, typename T>
__global__ void
__launch_bounds__(S::kThreads, 1) scattered(const __grid_constant__ phases all)
{
    extern __shared__ __align__(kSwizzleBytes) uint8_t bytes[];
    gemm::shared_memory<S> shared = {ptx::shared_address(bytes)};
    if (threadIdx.x == 0) {
        for (int k = 0; k < kPhases && all.of[k].p.tiles > 0; k++) {
            ptx::map_prefetch(&all.of[k].field);
            ptx::map_prefetch(&all.of[k].factor);
            ptx::map_prefetch(&all.of[k].out);
        }
        shared.barriers().init(S::kConsumers * (kWarpgroup / 32));
        ptx::barrier_init_fence();
    }
    __syncthreads();
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before(); // nothing above reads or writes what another launch may

    int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
    if (warpgroup > 0) {
        consume<S, T>(shared, all, warpgroup - 1);
    } else if (threadIdx.x == 0) {
        ring<S::kStages> place;
        for (int i = static_cast<int>(blockIdx.x); i < all.tiles;
             i += static_cast<int>(gridDim.x)) {
            int tile = i;
            const phase &f = all.find(tile);
            gemm::corner at = gemm::corner_of<S>(f.p, tile, 0);
            produce_tile<S, true>(shared, place, &f.field, &f.factor, at, f.w);
        }
    }
    __syncwarp();
}

// ---- launching ----------------------------------------------------------------------------------

template <class S, typename T>
aicf_status
launch_scattered_shape(const aicf_conv *convs, int count, int processors, aicf_stream stream)
{
    phases all = {};
    aicf_status status = aicf_ok();
    for (int k = 0; k < count && !status.kind; k++) {
        phase &f = all.of[k];
        f.w = windows_of<true>(convs[k]);
        f.p = plan_of<S>(convs[k]);
        all.tiles += f.p.tiles;
        status = encode_operands<S, true, T>(&f.field, &f.factor, convs[k], f.w);
        if (!status.kind) {
            status = encode_places(&f.out, convs[k], kMapType<T>, kConsumerRows);
        }
    }
    if (status.kind) {
        return status;
    }
    return launch_clusters(
        scattered<S, T>, static_cast<unsigned>(std::min(all.tiles, processors)), S::kThreads,
        S::kShared, 1, stream, all);
}

// Clocks of a shape: a processor's share of all tiles, each its slabs and a fixed part, and the
// largest of them, which the last one may be.
template <class S>
int64_t
clocks(const aicf_conv *convs, int count, int processors, int64_t slab_clocks)
{
    int64_t sum = 0, largest = 0;
    for (int k = 0; k < count; k++) {
        const gemm::plan p = plan_of<S>(convs[k]);
        const int64_t tile = p.slabs * slab_clocks + 1000;
        sum += p.tiles * tile;
        largest = std::max(largest, tile);
    }
    return sum / processors + largest;
}

// At most kPhases of them.
template <typename T>
aicf_status
launch_scattered(aicf_conv *convs, int count, aicf_stream stream)
{
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind || count == 0) {
        return status;
    }
    for (int k = 1; k < count; k++) { // by insertion: what std sorts by needs a C++ library
        for (int i = k; i > 0 && aicf_conv_depth(&convs[i - 1]) < aicf_conv_depth(&convs[i]); i--) {
            std::swap(convs[i - 1], convs[i]);
        }
    }
    const int64_t for_square = clocks<square>(convs, count, processors, 1000);
    const int64_t for_low = clocks<low>(convs, count, processors, 750);
    const int64_t for_narrow = clocks<narrow>(convs, count, processors, 750);
    const int64_t least = std::min({for_square, for_low, for_narrow});
    return least == for_square ? launch_scattered_shape<square, T>(convs, count, processors, stream)
           : least == for_low  ? launch_scattered_shape<low, T>(convs, count, processors, stream)
                              : launch_scattered_shape<narrow, T>(convs, count, processors, stream);
}

} // namespace aicf::conv2d_dx

#endif
