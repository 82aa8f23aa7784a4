// Few columns (narrow.cuh) where k lies together in a: lanes have neighbours of k, and a block all
// of b.
#ifndef AICF_GEMM_NARROW_ROWS_CUH
#define AICF_GEMM_NARROW_ROWS_CUH

#include "narrow_stage.cuh"
#include "quick.cuh"

namespace aicf::gemm {

constexpr int kNarrowShared = 100 << 10; // most of b, of which a block has all
constexpr int kRowsTogether = 2;         // that all warps of a block make
constexpr int kRowsApart = 4;            // that a warp makes alone
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

// Bytes of b in shared memory; `columns` are those that the kernel has room for.
inline int
shared_of_rows(int K, int columns, bool line)
{
    return line ? K * (columns + 1) * 4 : columns * pitch_of_k(K) * 4;
}

// `rows`: of a block.
inline aicf_status
launch_narrow_rows(
    void (*kernel)(small_problem<float>), int columns, int rows, bool line,
    const small_problem<float> &p, aicf_stream stream)
{
    aicf_status status = allow_shared(kernel, kNarrowShared);
    if (status.kind) {
        return status;
    }
    int shared = shared_of_rows(p.K, columns, line);
    int sums = kRowsTogether * columns * kNarrowWarps * 4;
    return launch_waiting(
        kernel, static_cast<unsigned>(ceil_div(p.M, rows)), kNarrowThreads,
        static_cast<size_t>(shared > sums ? shared : sums), stream, p);
}

// All warps of a block for few rows, as long as that is not too many blocks.
template <int kN>
aicf_status
launch_narrow_rows(const small_problem<float> &p, bool packs, bool line, aicf_stream stream)
{
    constexpr bool kLine = kN == kUsualColumns;
    constexpr int kR = kRowsApart, kRows = kR * kNarrowWarps;
    line = line && packs && kLine;
    if (!packs) {
        return launch_narrow_rows(
            narrow_rows<kN, 1, kR, false, false>, kN, kRows, false, p, stream);
    }
    if (p.M > 2 * kQuickBlocks) {
        return launch_narrow_rows(
            line ? narrow_rows<kN, 4, kR, false, kLine> : narrow_rows<kN, 4, kR, false, false>, kN,
            kRows, line, p, stream);
    }
    return launch_narrow_rows(
        line ? narrow_rows<kN, 4, kRowsTogether, true, kLine>
             : narrow_rows<kN, 4, kRowsTogether, true, false>,
        kN, kRowsTogether, line, p, stream);
}

} // namespace aicf::gemm

#endif
