// gemm in f32 where N is small, for sm_80 and later (see gemm.cuh for the operands): a thread has a
// sum for every column. Any address and pitch; of one batch. A sum is split among the lanes, and
// the warps of a block or the blocks of a cluster where there are few of them, and added in the
// order of their numbers.
//
// narrow_rows: k lies together in a. narrow_columns: m does. Bound by the bytes of a where M is
// large, else by latency.
#ifndef AICF_GEMM_NARROW_CUH
#define AICF_GEMM_NARROW_CUH

#include "quick.cuh"

#include <aicf/cuda/copy_engine.cuh>

namespace aicf::gemm {

constexpr int kMostNarrow = 16; // columns
constexpr int kNarrowThreads = 256;
constexpr int kNarrowWarps = kNarrowThreads / kLanes;

// Has k from `first` to `end` of b come to shared memory, column n of k to n * n_step + (k - first)
// * k_step, as one group of this thread's copies.
__device__ inline void
stage_b(const small_problem<float> &p, int first, int end, float *to, int n_step, int k_step)
{
    int thread = static_cast<int>(threadIdx.x);
    uint32_t shared = ptx::shared_address(to);
    if (p.b_k == 1) { // k lies together
        for (int n = 0; n < p.N; n++) {
            const float *from = at(p.b, n, p.b_n);
            for (int k = first + thread; k < end; k += kNarrowThreads) {
                ptx::copy_async_4(shared + (n * n_step + (k - first) * k_step) * 4, from + k);
            }
        }
    } else {
        constexpr int kStep = kNarrowThreads / kMostNarrow;
        int n = thread % kMostNarrow, line = first + thread / kMostNarrow;
        const float *from = at(p.b + n, line, p.b_k);
        uint32_t here = shared + (n * n_step + (line - first) * k_step) * 4;
        int lines = n < p.N ? end : 0;
#pragma unroll 4
        for (int k = line; k < lines; k += kStep) {
            ptx::copy_async_4(here, from);
            from = at(from, kStep, p.b_k);
            here += kStep * k_step * 4;
        }
    }
    ptx::copy_async_commit();
}

// The same of a b that is one line, by 16 bytes: `count` quads from `from` on. In shared memory
// kGap quads are left out after each kGroup.
template <int kGroup, int kGap>
__device__ inline void
stage_line(const float *from, int count, float *to)
{
    uint32_t shared = ptx::shared_address(to);
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kNarrowThreads) {
        ptx::copy_async_16(shared + (i + i / kGroup * kGap) * 16, from + i * 4);
    }
    ptx::copy_async_commit();
}

// ---- k lies together in a -----------------------------------------------------------------------

constexpr int kNarrowShared = 100 << 10; // most of b, of which a block has all
constexpr int kNarrowAhead = 2;          // loads of a row on their way, a lane

// Neighbours of k in the same column, so that lanes meet no bank twice.
__host__ __device__ inline int
pitch_of_k(int K)
{
    return (K + 3) / 4 * 4 + 4;
}

// The columns of kVector neighbours of k, of which the first is k.
template <int kN, int kVector, bool kLine>
__device__ inline void
load_columns(const float *b, int pitch, int k, float (&y)[kN][kVector])
{
    if constexpr (kLine) {
        const float *from =
            b + k * (kN + 1); // 4 k, then a quad that keeps lanes in different banks
#pragma unroll
        for (int i = 0; i < kN * kVector; i += 4) {
            pack<float, 4> came = load_pack<float, 4>(from + i);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                y[(i + j) % kN][(i + j) / kN] = came.lane[j];
            }
        }
    } else {
#pragma unroll
        for (int n = 0; n < kN; n++) {
            pack<float, kVector> came = load_pack<float, kVector>(b + n * pitch + k);
#pragma unroll
            for (int v = 0; v < kVector; v++) {
                y[n][v] = came.lane[v];
            }
        }
    }
}

// A warp makes kR rows, or all warps of a block the same kR ones. kVector of 4 requires a on 16
// bytes, and K a multiple of it; kLine also b on them, as one line of kN columns.
template <int kN, int kVector, int kR, bool kTogether, bool kLine>
__global__ void
__launch_bounds__(kNarrowThreads) narrow_rows(const __grid_constant__ small_problem<float> p)
{
    constexpr int kCount = kR * kN, kStep = (kTogether ? kNarrowThreads : kLanes) * kVector;
    extern __shared__ __align__(16) float columns_of_b[];
    float *b = columns_of_b;
    int thread = static_cast<int>(threadIdx.x), warp = thread / kLanes, pitch = pitch_of_k(p.K);
    int group = static_cast<int>(blockIdx.x);
    int m = (kTogether ? group : group * kNarrowWarps + warp) * kR;
    int k = (kTogether ? thread : thread % kLanes) * kVector;
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();

    if constexpr (kLine) {
        stage_line<kN, 1>(p.b, p.K / 4 * kN, b);
    } else {
        stage_b(p, 0, p.K, b, pitch, 1);
    }
    const float *row[kR];
    pack<float, kVector> ahead[kNarrowAhead][kR];
#pragma unroll
    for (int r = 0; r < kR; r++) {
        row[r] = at(p.a, min(m + r, p.M - 1), p.a_m); // what is past the last one is not stored
    }
    auto ask = [&](int k, pack<float, kVector>(&to)[kR]) {
        if (k < p.K) {
#pragma unroll
            for (int r = 0; r < kR; r++) {
                to[r] = load_pack<float, kVector>(row[r] + k);
            }
        }
    };
#pragma unroll
    for (int d = 0; d < kNarrowAhead; d++) {
        ask(k + d * kStep, ahead[d]);
    }
    folded<kCount, 1> mine;
    addend more[mine.kHeld] = {};
    auto element = [&](int i, int &at_m, int &at_n) { // whether it is there, and this lane's
        int which = mine.first + i;
        at_m = m + which / kN;
        at_n = which % kN;
        return which < mine.end && at_m < p.M && at_n < p.N;
    };
#pragma unroll
    for (int i = 0; i < mine.kHeld; i++) {
        int at_m, at_n;
        if (element(i, at_m, at_n)) {
            more[i] = addend_at(p, at_m, at_n);
        }
    }
    ptx::copy_async_wait<0>();
    __syncthreads();

    float sum[kCount] = {};
    while (k < p.K) {
#pragma unroll
        for (int d = 0; d < kNarrowAhead; d++) {
            if (k < p.K) {
                float y[kN][kVector];
                load_columns<kN, kVector, kLine>(b, pitch, k, y);
#pragma unroll
                for (int n = 0; n < kN; n++) {
#pragma unroll
                    for (int r = 0; r < kR; r++) {
#pragma unroll
                        for (int v = 0; v < kVector; v++) {
                            sum[r * kN + n] += ahead[d][r].lane[v] * y[n][v];
                        }
                    }
                }
                ask(k + kNarrowAhead * kStep, ahead[d]);
            }
            k += kStep;
        }
    }

    fold<1>(sum);
    if constexpr (kTogether) {
        __syncthreads(); // what follows writes over b
#pragma unroll
        for (int i = 0; i < mine.kHeld; i++) {
            if (mine.first + i < mine.end) {
                b[(mine.first + i) * kNarrowWarps + warp] = sum[i];
            }
        }
        __syncthreads();
        if (warp > 0) {
            return;
        }
#pragma unroll
        for (int i = 0; i < mine.kHeld; i++) {
            sum[i] = 0.0f;
            if (mine.first + i < mine.end) {
#pragma unroll
                for (int from = 0; from < kNarrowWarps; from++) {
                    sum[i] += b[(mine.first + i) * kNarrowWarps + from];
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < mine.kHeld; i++) {
        int at_m, at_n;
        if (element(i, at_m, at_n)) {
            at(p.out, at_m, p.out_m)[at_n] = finish_small(p, sum[i], more[i]);
        }
    }
}

// ---- m lies together in a -----------------------------------------------------------------------

constexpr int kColumnsAcross = 8;                         // lanes that read neighbours of a k
constexpr int kColumnsDeep = kLanes / kColumnsAcross;     // k of a warp
constexpr int kColumnsStep = kColumnsDeep * kNarrowWarps; // k of a block
constexpr int kColumnsAhead = 4;
constexpr int kColumnsLeast = 256; // k of a block of a cluster
constexpr unsigned kColumnsCluster = 8;

// In shared memory: a k's columns lie together on 16 bytes, and the 4 that a warp reads at once in
// different banks. Then the sums of the warps are there.
template <int kN, int kVector, bool kLine> struct column_sums {
    static constexpr int kPitch = kLine ? kN : kN == 16 ? 20 : kN == 4 ? 4 : 12;
    static constexpr int kDepth = kN > 10 ? 256 : 512; // k that are there at once
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

// ---- launches -----------------------------------------------------------------------------------

inline bool
takes_narrow(const problem<float> &p)
{
    if (!is_small(p) || p.N > kMostNarrow) {
        return false;
    }
    int n = p.N > 10 ? 16 : p.N > 8 ? 10 : p.N > 4 ? 8 : 4;
    if (p.a_along_k) {
        return p.K <= 8192 && n * pitch_of_k(static_cast<int>(p.K)) * 4 <= kNarrowShared &&
               static_cast<int>(p.K) * (n + 1) * 4 <= kNarrowShared;
    }
    return p.K <= 8192 && p.M <= 65536;
}

inline bool
on_packs(const problem<float> &p, int64_t length)
{
    return reinterpret_cast<uintptr_t>(p.a) % kPackBytes == 0 && p.a_pitch % 4 == 0 &&
           length % 4 == 0;
}

// Whether b is one line of kN columns, in quads.
inline bool
is_line(const small_problem<float> &p, int columns)
{
    return p.N == columns && p.b_n == 1 && p.b_k == columns && p.K % 4 == 0 &&
           reinterpret_cast<uintptr_t>(p.b) % kPackBytes == 0;
}

template <int kN, int kVector, int kR, bool kTogether, bool kLine>
aicf_status
launch_narrow_rows(const small_problem<float> &p, aicf_stream stream)
{
    void (*kernel)(small_problem<float>) = narrow_rows<kN, kVector, kR, kTogether, kLine>;
    aicf_status status = allow_shared(kernel, kNarrowShared);
    if (status.kind) {
        return status;
    }
    int shared = kLine ? p.K * (kN + 1) * 4 : kN * pitch_of_k(p.K) * 4;
    int sums = kTogether ? kR * kN * kNarrowWarps * 4 : 0;
    int64_t blocks = ceil_div(p.M, kTogether ? kR : kR * kNarrowWarps);
    return launch_waiting(
        kernel, static_cast<unsigned>(blocks), kNarrowThreads,
        static_cast<size_t>(shared > sums ? shared : sums), stream, p);
}

// All warps of a block for two rows, as long as that is not too many blocks.
template <int kN, int kVector, bool kLine>
aicf_status
launch_narrow_rows(const small_problem<float> &p, aicf_stream stream)
{
    return p.M <= 2 * kQuickBlocks ? launch_narrow_rows<kN, kVector, 2, true, kLine>(p, stream)
                                   : launch_narrow_rows<kN, kVector, 4, false, kLine>(p, stream);
}

template <int kN, int kVector, bool kLine>
aicf_status
launch_narrow_columns(const small_problem<float> &p, aicf_stream stream)
{
    int64_t tiles = ceil_div(p.M, column_sums<kN, kVector, kLine>::kTile);
    unsigned size = 1;
    while (launches_overlap() && size < kColumnsCluster && tiles * size * 2 <= kQuickBlocks &&
           p.K > static_cast<int>(size) * kColumnsLeast) {
        size *= 2;
    }
    int k_each = static_cast<int>(ceil_div(ceil_div(p.K, size), 4)) * 4;
    return launch_clusters(
        narrow_columns<kN, kVector, kLine>, static_cast<unsigned>(tiles) * size, kNarrowThreads, 0,
        size, stream, p, k_each);
}

template <int kN>
aicf_status
launch_narrow_of(const problem<float> &p, aicf_stream stream)
{
    small_problem<float> s = small_of(p);
    bool line = is_line(s, kN);
    if (p.a_along_k) {
        return !on_packs(p, p.K) ? launch_narrow_rows<kN, 1, false>(s, stream)
               : line            ? launch_narrow_rows<kN, 4, true>(s, stream)
                                 : launch_narrow_rows<kN, 4, false>(s, stream);
    }
    return !on_packs(p, p.M) ? launch_narrow_columns<kN, 1, false>(s, stream)
           : line            ? launch_narrow_columns<kN, 4, true>(s, stream)
                             : launch_narrow_columns<kN, 4, false>(s, stream);
}

inline aicf_status
launch_narrow(const problem<float> &p, aicf_stream stream)
{
    return p.N > 10  ? launch_narrow_of<16>(p, stream)
           : p.N > 8 ? launch_narrow_of<10>(p, stream)
           : p.N > 4 ? launch_narrow_of<8>(p, stream)
                     : launch_narrow_of<4>(p, stream);
}

} // namespace aicf::gemm

#endif
