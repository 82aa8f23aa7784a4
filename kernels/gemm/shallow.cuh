// gemm in f32 where K is small, for sm_80 and later (see gemm.cuh for the operands): any address
// and pitch; of one batch. All k of a block's rows of a and columns of b lie in shared memory.
// Bound by the bytes of the out where it is large, else by latency.
#ifndef AICF_GEMM_SHALLOW_CUH
#define AICF_GEMM_SHALLOW_CUH

#include "small.cuh"
#include "tiles.cuh"

namespace aicf::gemm {

constexpr int kMostShallow = 16; // k
constexpr int kShallowTile = kLanes * kQuad;
constexpr int kShallowWarps = kThreads / kLanes;

// A lane makes kR rows of a quad of columns; a warp every kShallowWarps-th row of the tile. All
// that a thread carries to shared memory is asked for before the first of it is stored: one wait.
template <int kR>
__global__ void
__launch_bounds__(kThreads)
    shallow(const __grid_constant__ small_problem<float> p, unsigned tiles_n)
{
    constexpr int kRows = kShallowWarps * kR;
    constexpr int kLines = kThreads / kMostShallow; // along k, at once
    constexpr int kCopiesA = (kRows + kLines - 1) / kLines, kCopiesB = kShallowTile / kLines;
    __shared__ __align__(16) float a[kRows][kMostShallow];
    __shared__ __align__(16) float b[kMostShallow][kShallowTile + kPad];
    int thread = static_cast<int>(threadIdx.x);
    unsigned tile_m = blockIdx.x / tiles_n, tile_n = blockIdx.x - tile_m * tiles_n;
    int m0 = static_cast<int>(tile_m) * kRows, n0 = static_cast<int>(tile_n) * kShallowTile;
    int depth = (p.K + kQuad - 1) / kQuad * kQuad; // zeros are what is past K
    int k = thread % kMostShallow, line = thread / kMostShallow;
    bool along_k = p.b_k == 1 && p.K > 1;
    // Of b's element i, where k does not lie together: k and n.
    int row_b = thread / kShallowTile, n_b = thread % kShallowTile;
    constexpr int kRowsB = kThreads / kShallowTile;
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();

    float held_a[kCopiesA], held_b[kCopiesB];
    if (along_k) {
#pragma unroll
        for (int i = 0; i < kCopiesB; i++) {
            int n = n0 + line + i * kLines;
            held_b[i] = k < p.K && n < p.N ? at(p.b, n, p.b_n)[k] : 0.0f;
        }
    } else {
#pragma unroll
        for (int i = 0; i < kCopiesB; i++) {
            int at_k = row_b + i * kRowsB;
            bool inside = at_k < p.K && n0 + n_b < p.N;
            held_b[i] = inside ? *at(at(p.b, at_k, p.b_k), n0 + n_b, p.b_n) : 0.0f;
        }
    }
#pragma unroll
    for (int i = 0; i < kCopiesA; i++) {
        int m = m0 + line + i * kLines;
        held_a[i] = k < p.K && m < p.M ? *at(at(p.a, m, p.a_m), k, p.a_k) : 0.0f;
    }
    int first = thread / kLanes, n = n0 + thread % kLanes * kQuad;
    float bias[kQuad] = {};
    if (p.bias) {
#pragma unroll
        for (int i = 0; i < kQuad; i++) {
            bias[i] = n + i < p.N ? p.bias[n + i] : 0.0f;
        }
    }
    if (along_k) {
#pragma unroll
        for (int i = 0; i < kCopiesB; i++) {
            b[k][line + i * kLines] = held_b[i];
        }
    } else {
#pragma unroll
        for (int i = 0; i < kCopiesB; i++) {
            b[row_b + i * kRowsB][n_b] = held_b[i];
        }
    }
#pragma unroll
    for (int i = 0; i < kCopiesA; i++) {
        if (line + i * kLines < kRows) {
            a[line + i * kLines][k] = held_a[i];
        }
    }
    __syncthreads();

    float sum[kR][kQuad] = {};
    for (int k = 0; k < depth; k += kQuad) {
        pack<float, kQuad> x[kR];
#pragma unroll
        for (int r = 0; r < kR; r++) {
            x[r] = load_pack<float, kQuad>(&a[first + r * kShallowWarps][k]);
        }
#pragma unroll
        for (int i = 0; i < kQuad; i++) {
            pack<float, kQuad> y = load_pack<float, kQuad>(&b[k + i][n - n0]);
#pragma unroll
            for (int r = 0; r < kR; r++) {
#pragma unroll
                for (int j = 0; j < kQuad; j++) {
                    sum[r][j] += x[r].lane[i] * y.lane[j];
                }
            }
        }
    }

    bool packed =
        n + kQuad <= p.N && reinterpret_cast<uintptr_t>(p.out) % 16 == 0 && p.out_m % kQuad == 0;
#pragma unroll
    for (int r = 0; r < kR; r++) {
        int m = m0 + first + r * kShallowWarps;
        if (m >= p.M) {
            continue;
        }
        float *out = at(p.out, m, p.out_m) + n;
        pack<float, kQuad> x;
#pragma unroll
        for (int j = 0; j < kQuad; j++) {
            x.lane[j] = p.alpha * sum[r][j];
            if (p.c && n + j < p.N) {
                x.lane[j] += p.beta * at(p.c, m, p.c_m)[n + j];
            }
            x.lane[j] += bias[j];
        }
        if (p.act != AICF_GEMM_ACT_NONE) { // apart, since the error function is long
#pragma unroll
            for (int j = 0; j < kQuad; j++) {
                x.lane[j] = activate(x.lane[j], p.act);
            }
        }
        if (packed) {
            store_pack(out, x);
            continue;
        }
#pragma unroll
        for (int j = 0; j < kQuad; j++) {
            if (n + j < p.N) {
                out[j] = x.lane[j];
            }
        }
    }
}

inline bool
takes_shallow(const problem<float> &p)
{
    return is_small(p) && p.K <= kMostShallow &&
           ceil_div(p.M, kShallowWarps) * ceil_div(p.N, kShallowTile) <= kMostBlocks;
}

template <int kR>
aicf_status
launch_shallow_rows(const problem<float> &p, aicf_stream stream)
{
    int64_t tiles_n = ceil_div(p.N, kShallowTile);
    int64_t blocks = ceil_div(p.M, kShallowWarps * kR) * tiles_n;
    return launch_waiting(
        shallow<kR>, static_cast<unsigned>(blocks), kThreads, 0, stream, small_of(p),
        static_cast<unsigned>(tiles_n));
}

// More rows a block, which read b once, as soon as the blocks are many; of few k, which are soon
// read, later.
inline aicf_status
launch_shallow(const problem<float> &p, aicf_stream stream)
{
    int64_t few = ceil_div(p.M, kShallowWarps) * ceil_div(p.N, kShallowTile);
    int64_t blocks = p.K > kQuad ? 256 : 528;
    return few > blocks              ? launch_shallow_rows<4>(p, stream)
           : p.K > kQuad && few > 64 ? launch_shallow_rows<2>(p, stream)
                                     : launch_shallow_rows<1>(p, stream);
}

} // namespace aicf::gemm

#endif
