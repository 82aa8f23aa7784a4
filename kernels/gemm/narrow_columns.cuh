// Few columns (narrow.cuh) where m lies together in a: lanes have neighbours of m, warps and the
// blocks of a cluster k of their own.
#ifndef AICF_GEMM_NARROW_COLUMNS_CUH
#define AICF_GEMM_NARROW_COLUMNS_CUH

#include "narrow_stage.cuh"
#include "quick.cuh"

#include <aicf/cuda/copy_engine.cuh>

namespace aicf::gemm {

constexpr int kColumnsAcross = 8;                         // lanes that read neighbours of a k
constexpr int kColumnsDeep = kLanes / kColumnsAcross;     // k of a warp
constexpr int kColumnsStep = kColumnsDeep * kNarrowWarps; // k of a block
constexpr int kColumnsAhead = 8;
constexpr int kColumnsLeast = 256; // k of a block of a cluster
constexpr unsigned kColumnsCluster = 8;

// In shared memory: a k's columns lie together on 16 bytes, and the 4 that a warp reads at once in
// different banks. Then the sums of the warps are there.
template <int kN, int kVector, bool kLine> struct column_sums {
    static constexpr int kPitch = kLine ? kN : kN > 12 ? 20 : 12;
    static constexpr int kDepth = kN > kUsualColumns ? 256 : 512; // k that are there at once
    static constexpr int kTile = kColumnsAcross * kVector;
    static constexpr int kOuts = kTile * kN; // n fastest
    union {
        float b[kDepth][kPitch];
        float warps[kNarrowWarps][kOuts];
    };
    float blocks[kColumnsCluster][kOuts]; // sent by the blocks of the cluster to its first one
    static_assert(kPitch >= kN, "all columns");
};

// A cluster makes kTile rows of the out; each block of it its part of k. kVector of 4 requires a on
// 16 bytes, and M a multiple of it; kLine b on them, as one line of kN columns, and parts of k that
// are multiples of 4.
template <int kN, int kVector, bool kLine>
__global__ void
__launch_bounds__(kNarrowThreads)
    narrow_columns(const __grid_constant__ small_problem<float> p, int k_each)
{
    using sums_t = column_sums<kN, kVector, kLine>;
    constexpr int kCount = kVector * kN;
    __shared__ __align__(16) sums_t room;
    int thread = static_cast<int>(threadIdx.x), warp = thread / kLanes, lane = thread % kLanes;
    int rank = 0, size = 1, tile = static_cast<int>(blockIdx.x);
#if __CUDA_ARCH__ >= 900
    rank = static_cast<int>(ptx::cluster_rank());
    size = static_cast<int>(ptx::cluster_size());
    tile = static_cast<int>(ptx::cluster_index());
    if (size > 1) {
        ptx::cluster_arrive();
    }
#endif
    int across = lane % kColumnsAcross * kVector, m = tile * sums_t::kTile + across;
    int k_end = min(p.K, (rank + 1) * k_each), line = warp * kColumnsDeep + lane / kColumnsAcross;
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();

    float sum[kCount] = {};
    for (int first = rank * k_each; first < k_end; first += sums_t::kDepth) {
        int end = min(first + sums_t::kDepth, k_end);
        if constexpr (kLine) {
            stage_line<1, 0>(p.b + first * kN, (end - first) * kN / 4, &room.b[0][0]);
        } else {
            stage_b(p, first, end, &room.b[0][0], 1, sums_t::kPitch);
        }
        pack<float, kVector> ahead[kColumnsAhead];
        int k = first + line, mine = m < p.M ? end : 0;
        const float *from = at(p.a + m, k, p.a_k);
        int64_t step = static_cast<int64_t>(kColumnsStep) * p.a_k;
#pragma unroll
        for (int d = 0; d < kColumnsAhead; d++) {
            if (k + d * kColumnsStep < mine) {
                ahead[d] = load_pack<float, kVector>(from + d * step);
            }
        }
        ptx::copy_async_wait<0>();
        __syncthreads();
        while (k < mine) {
#pragma unroll
            for (int d = 0; d < kColumnsAhead; d++) {
                if (k < mine) {
#pragma unroll
                    for (int n = 0; n < kN; n++) {
                        float y = room.b[k - first][n];
#pragma unroll
                        for (int v = 0; v < kVector; v++) {
                            sum[v * kN + n] += ahead[d].lane[v] * y;
                        }
                    }
                    if (k + kColumnsAhead * kColumnsStep < mine) {
                        ahead[d] = load_pack<float, kVector>(from + kColumnsAhead * step);
                    }
                }
                k += kColumnsStep;
                from += step;
            }
        }
        __syncthreads();
    }

    fold<kColumnsAcross>(sum);
    folded<kCount, kColumnsAcross> held;
#pragma unroll
    for (int i = 0; i < held.kHeld; i++) {
        if (held.first + i < held.end) {
            room.warps[warp][across * kN + held.first + i] = sum[i];
        }
    }
    __syncthreads();
#if __CUDA_ARCH__ >= 900
    if (size > 1) {
        ptx::cluster_wait(); // all blocks have begun
    }
#endif
    for (int i = thread; i < sums_t::kOuts; i += kNarrowThreads) {
        float all = 0.0f;
#pragma unroll
        for (int from = 0; from < kNarrowWarps; from++) {
            all += room.warps[from][i];
        }
        if (rank == 0) {
            room.blocks[0][i] = all;
#if __CUDA_ARCH__ >= 900
        } else {
            ptx::store_cluster(
                ptx::address_in_block(ptx::shared_address(&room.blocks[rank][i]), 0), all);
#endif
        }
    }
#if __CUDA_ARCH__ >= 900
    __syncwarp(); // whole warps arrive
    if (size > 1) {
        ptx::cluster_arrive();
        ptx::cluster_wait();
    }
#endif
    if (rank > 0) {
        return;
    }
    // What a thread of the first block put there itself, or a cluster has waited for.
    for (int i = thread; i < sums_t::kOuts; i += kNarrowThreads) {
        int at_m = tile * sums_t::kTile + i / kN, at_n = i % kN;
        if (at_m < p.M && at_n < p.N) {
            float all = 0.0f;
            for (int from = 0; from < size; from++) {
                all += room.blocks[from][i];
            }
            at(p.out, at_m, p.out_m)[at_n] = finish_small(p, all, addend_at(p, at_m, at_n));
        }
    }
}

// `rows`: of a cluster.
inline aicf_status
launch_narrow_columns(
    void (*kernel)(small_problem<float>, int), int rows, const small_problem<float> &p,
    aicf_stream stream)
{
    int64_t tiles = ceil_div(p.M, rows);
    unsigned size = 1;
    while (launches_overlap() && size < kColumnsCluster && tiles * size * 2 <= kQuickBlocks &&
           p.K > static_cast<int>(size) * kColumnsLeast) {
        size *= 2;
    }
    int k_each = static_cast<int>(ceil_div(ceil_div(p.K, size), 4)) * 4;
    return launch_clusters(
        kernel, static_cast<unsigned>(tiles) * size, kNarrowThreads, 0, size, stream, p, k_each);
}

template <int kN>
aicf_status
launch_narrow_columns(const small_problem<float> &p, bool packs, bool line, aicf_stream stream)
{
    constexpr bool kLine = kN == kUsualColumns;
    if (!packs) {
        return launch_narrow_columns(narrow_columns<kN, 1, false>, kColumnsAcross, p, stream);
    }
    return launch_narrow_columns(
        line && kLine ? narrow_columns<kN, 4, kLine> : narrow_columns<kN, 4, false>,
        4 * kColumnsAcross, p, stream);
}

} // namespace aicf::gemm

#endif
