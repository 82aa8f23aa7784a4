// Tiles that are made by multiply-adds of f32: slabs of the operands in shared memory, k outermost,
// a thread's share of the sums, and the way out.
#ifndef AICF_GEMM_TILES_CUH
#define AICF_GEMM_TILES_CUH

#include "gemm.cuh"

namespace aicf::gemm {

constexpr int kThreads = 256;
constexpr int kSlab = 16; // k
constexpr int kQuad = 4;  // elements that a thread reads from shared memory at once
// Two float4 more than a row would leave the columns that a k-contiguous operand stores into in the
// same banks; one quad keeps rows on 16 bytes and halves the conflicts.
constexpr int kPad = 4;

template <int kTile> struct slab {
    float rows[kSlab][kTile + kPad];
};

// A lane's place among 8 along one dim of the tile and 4 along the other. It shares the one with
// its neighbour and the other with the lane two from it.
__device__ inline int
place_of_lane(int lanes)
{
    int lane = static_cast<int>(threadIdx.x) % 32;
    return lanes == 8 ? lane / 2 % 8 : lane % 2 + lane / 16 * 2;
}

// A thread's share of the tile: sums[i][j] is at row(i), column(j) of it. The threads are 2 x 4
// warps of 8 x 4 lanes or, of a tile of few rows, 1 x 8 of 4 x 8; each makes quads x quads of 4
// x 4.
template <int kTileM, int kTileN> struct share {
    static constexpr bool kFewRows = kTileM < 64;
    static constexpr int kWarpsM = kFewRows ? 1 : 2, kWarpsN = kFewRows ? 8 : 4;
    static constexpr int kLanesM = kFewRows ? 4 : 8, kLanesN = kFewRows ? 8 : 4;
    static constexpr int kM = kTileM / (kWarpsM * kLanesM), kN = kTileN / (kWarpsN * kLanesN);
    static_assert(kWarpsM * kWarpsN * kLanesM * kLanesN == kThreads, "every thread has its place");
    static_assert(kM % kQuad == 0 && kN % kQuad == 0, "whole quads");

    __device__ static int row(int i)
    {
        int warp = static_cast<int>(threadIdx.x) / 32 / kWarpsN, lane = place_of_lane(kLanesM);
        return warp * (kTileM / kWarpsM) + i / kQuad * (kLanesM * kQuad) + lane * kQuad + i % kQuad;
    }

    __device__ static int column(int j)
    {
        int warp = static_cast<int>(threadIdx.x) / 32 % kWarpsN, lane = place_of_lane(kLanesN);
        return warp * (kTileN / kWarpsN) + j / kQuad * (kLanesN * kQuad) + lane * kQuad + j % kQuad;
    }
};

template <int kTileM, int kTileN, int kM, int kN>
__device__ inline void
multiply(const slab<kTileM> &a, const slab<kTileN> &b, float (&sums)[kM][kN])
{
    using mine = share<kTileM, kTileN>;
#pragma unroll
    for (int k = 0; k < kSlab; k++) {
        pack<float, kQuad> x[kM / kQuad], y[kN / kQuad];
#pragma unroll
        for (int i = 0; i < kM; i += kQuad) {
            x[i / kQuad] = load_pack<float, kQuad>(&a.rows[k][mine::row(i)]);
        }
#pragma unroll
        for (int j = 0; j < kN; j += kQuad) {
            y[j / kQuad] = load_pack<float, kQuad>(&b.rows[k][mine::column(j)]);
        }
#pragma unroll
        for (int i = 0; i < kM; i++) {
#pragma unroll
            for (int j = 0; j < kN; j++) {
                sums[i][j] += x[i / kQuad].lane[i % kQuad] * y[j / kQuad].lane[j % kQuad];
            }
        }
    }
}

// Four neighbours of the out from their sums, `inside` of them: one test an option. kGelu: the act
// may be gelu, whose error function is long.
template <bool kGelu, typename T>
__device__ inline void
finish_quad(
    const problem<T> &p, const T *c, int64_t n, int64_t inside, const float *bias,
    float (&x)[kQuad])
{
#pragma unroll
    for (int lane = 0; lane < kQuad; lane++) {
        x[lane] *= p.alpha;
    }
    if (c) {
#pragma unroll
        for (int lane = 0; lane < kQuad; lane++) {
            x[lane] += lane < inside ? p.beta * to_f32(c[n + lane]) : 0.0f;
        }
    }
    if (p.bias) {
#pragma unroll
        for (int lane = 0; lane < kQuad; lane++) {
            x[lane] += bias[lane];
        }
    }
    if (p.act == AICF_GEMM_ACT_RELU || (kGelu && p.act == AICF_GEMM_ACT_GELU)) {
#pragma unroll
        for (int lane = 0; lane < kQuad; lane++) {
            x[lane] = activate(x[lane], kGelu ? p.act : AICF_GEMM_ACT_RELU);
        }
    }
}

template <int kTileM, int kTileN, typename T, int kM, int kN>
__device__ inline void
store(const problem<T> &p, const job<T> &j, const float (&sums)[kM][kN])
{
    using mine = share<kTileM, kTileN>;
    bool packed =
        (reinterpret_cast<uintptr_t>(j.out) | static_cast<uint64_t>(p.out_pitch) * sizeof(T)) %
            (kQuad * sizeof(T)) ==
        0;
#pragma unroll
    for (int i = 0; i < kM; i++) {
        int64_t m = j.m + mine::row(i);
        if (m >= p.M) {
            continue;
        }
        const T *c = row_of_c(p, j, m);
        T *out = j.out + m * p.out_pitch;
#pragma unroll
        for (int quad = 0; quad < kN; quad += kQuad) {
            int64_t n = j.n + mine::column(quad);
            pack<T, kQuad> x;
#pragma unroll
            for (int lane = 0; lane < kQuad; lane++) {
                if (n + lane < p.N) {
                    x.lane[lane] = of_f32<T>(finish(p, sums[i][quad + lane], c, n + lane));
                }
            }
            if (packed && n + kQuad <= p.N) {
                store_pack(out + n, x);
                continue;
            }
#pragma unroll
            for (int lane = 0; lane < kQuad; lane++) {
                if (n + lane < p.N) {
                    out[n + lane] = x.lane[lane];
                }
            }
        }
    }
}

// Whether all vectors of an operand lie on multiples of their size: the base, and every stride.
template <typename T>
bool
aligned(const T *data, int64_t pitch, const int64_t *batch, int rank, int vector)
{
    bool whole =
        reinterpret_cast<uintptr_t>(data) % (vector * sizeof(T)) == 0 && pitch % vector == 0;
    for (int dim = 0; dim < rank; dim++) {
        whole = whole && batch[dim] % vector == 0;
    }
    return whole;
}

// Large tiles once they give every multiprocessor of a large machine about one.
template <typename T>
bool
fills_large_tiles(const problem<T> &p)
{
    return ceil_div(p.M, 128) * ceil_div(p.N, 128) * p.batches >= 128 && p.M > 64 && p.N > 64;
}

} // namespace aicf::gemm

#endif
