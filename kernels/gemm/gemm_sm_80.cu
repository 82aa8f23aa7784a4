// gemm on the matrix units of sm_80 and later (see gemm.cuh for the operands): f16 and bf16, f32
// sums. Requires a, b and out with addresses, pitches and batch strides on multiples of 16 bytes;
// any M, N and K, 0 included: what lies outside an operand is read as zeros.
//
// A block makes a tile of the out from k-slabs of a and b in shared memory, which asynchronous
// copies keep kStages - 1 slabs ahead. A warp multiplies its part of the tile by mma.sync m16n8k16,
// with the fragments of the next 16 k on their way while the present ones are multiplied. Bound by
// the matrix units, of which mma.sync reaches about two thirds on sm_90.
#include "fma.cuh"
#include "slabs.cuh"

namespace aicf::gemm {

// ---- store --------------------------------------------------------------------------------------

// The 8 columns of the out that a lane finishes.
template <typename T> struct columns {
    float bias[kChunk]; // 0 where there is none
    int64_t inside;     // how many of them exist
    int64_t n;          // the first one

    __device__ columns(const problem<T> &p, int64_t n) : bias(), inside(p.N - n), n(n)
    {
        if (p.bias) {
#pragma unroll
            for (int i = 0; i < kChunk; i++) {
                bias[i] = i < inside ? to_f32(p.bias[n + i]) : 0.0f;
            }
        }
    }

    // All of a row at once: one test an option, not one an element.
    __device__ void finish(const problem<T> &p, const T *c, float (&x)[kChunk]) const
    {
#pragma unroll
        for (int i = 0; i < kChunk; i++) {
            x[i] *= p.alpha;
        }
        if (c) {
#pragma unroll
            for (int i = 0; i < kChunk; i++) {
                x[i] += i < inside ? p.beta * to_f32(c[n + i]) : 0.0f;
            }
        }
        if (p.bias) {
#pragma unroll
            for (int i = 0; i < kChunk; i++) {
                x[i] += bias[i];
            }
        }
        if (p.act != AICF_GEMM_ACT_NONE) {
#pragma unroll
            for (int i = 0; i < kChunk; i++) {
                x[i] = activate(x[i], p.act);
            }
        }
    }

    __device__ void store(T *out, const float (&x)[kChunk]) const
    {
        if (inside >= kChunk) {
            store_words(out, repack(x, T{}));
            return;
        }
#pragma unroll
        for (int i = 0; i < kChunk; i++) {
            if (i < inside) {
                out[i] = of_f32<T>(x[i]);
            }
        }
    }
};

// `m` and `n` are the part's first row and column of the out. Unrolled by two alone: the error
// function of each element is long.
template <typename S, typename T>
__device__ inline void
store_sums(const problem<T> &p, const job<T> &j, int64_t m, int64_t n, const float *staged)
{
    constexpr int kChunks = S::kN / kChunk;
    constexpr int kRows = kWarp / kChunks; // that a warp stores at once
    static_assert(kWarp % kChunks == 0 && S::kM % kRows == 0, "a lane's columns stay");
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    int column = lane % kChunks * kChunk, first = lane / kChunks;
    columns<T> mine(p, n + column);
    int rows = p.M - m < S::kM ? static_cast<int>(p.M - m) : S::kM;
    if (mine.inside <= 0) {
        return;
    }

#pragma unroll 2
    for (int row = first; row < rows; row += kRows) {
        pack<float, 4> low = load_pack<float, 4>(staged + row * S::kPitchOut + column);
        pack<float, 4> high = load_pack<float, 4>(staged + row * S::kPitchOut + column + 4);
        float x[kChunk] = {low.lane[0],  low.lane[1],  low.lane[2],  low.lane[3],
                           high.lane[0], high.lane[1], high.lane[2], high.lane[3]};
        mine.finish(p, row_of_c(p, j, m + row), x);
        mine.store(j.out + (m + row) * p.out_pitch + n + column, x);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

template <typename T, typename S, bool kAAlongK, bool kBAlongK>
__global__ void
__launch_bounds__(S::kThreads, S::kBlocks) mma(const __grid_constant__ problem<T> p)
{
    extern __shared__ __align__(128) uint8_t shared[];
    job<T> j = job_of<S::kTileM, S::kTileN>(p);
    int warp = static_cast<int>(threadIdx.x) / kWarp;
    int m = warp / S::kWarpsN * S::kM, n = warp % S::kWarpsN * S::kN;
    float sums[S::kM / 16][S::kN / 8][4] = {};

    if (p.K > 0) {
        source<T> a = {j.a + j.m * (kAAlongK ? p.a_pitch : 1), p.a_pitch, p.M - j.m, p.K};
        source<T> b = {j.b + j.n * (kBAlongK ? p.b_pitch : 1), p.b_pitch, p.N - j.n, p.K};
        uint32_t stages = ptx::shared_address(shared);
        feed<T, S, kAAlongK, kBAlongK> in(a, b, stages);
        sum_slabs<T, S, kAAlongK, kBAlongK>(
            in, (p.K + S::kSlab - 1) / S::kSlab, stages, m, n, sums);
    }

    float *staged = reinterpret_cast<float *>(shared) + warp * S::kM * S::kPitchOut;
    stage_sums<S>(sums, staged);
    __syncwarp();
    store_sums<S>(p, j, j.m + m, j.n + n, staged);
}

template <typename T, typename S, bool kAAlongK, bool kBAlongK>
aicf_status
launch_layout(const problem<T> &p, aicf_stream stream)
{
    aicf_status status = allow_shared(mma<T, S, kAAlongK, kBAlongK>, S::kShared);
    return status.kind ? status
                       : launch_tiles(
                             mma<T, S, kAAlongK, kBAlongK>, p, S::kTileM, S::kTileN, S::kThreads,
                             S::kShared, stream);
}

template <typename T, typename S>
aicf_status
launch_shape(const problem<T> &p, aicf_stream stream)
{
    if (p.a_along_k) {
        return p.b_along_k ? launch_layout<T, S, true, true>(p, stream)
                           : launch_layout<T, S, true, false>(p, stream);
    }
    return p.b_along_k ? launch_layout<T, S, false, true>(p, stream)
                       : launch_layout<T, S, false, false>(p, stream);
}

// Measured on an H200 beside others of 64 x 64 a warp: 0.55 of cuBLAS at 4096^3, where slabs of 64
// k and tiles of 128 x 128 stay at 0.47 and 0.51.
using large = shape<128, 256, 32, 4, 2, 4>;
// Where large tiles would leave half of the machine idle. Six stages, as few blocks hide little
// latency.
using small = shape<64, 64, 64, 6, 2, 2>;

template <typename T>
aicf_status
launch_mma(const problem<T> &p, aicf_stream stream)
{
    bool fills = ceil_div(p.M, large::kTileM) * ceil_div(p.N, large::kTileN) * p.batches >= 64;
    return fills ? launch_shape<T, large>(p, stream) : launch_shape<T, small>(p, stream);
}

} // namespace aicf::gemm

// A matrix times a vector is bound by its bytes: simt has a way for it.
#define LAUNCHER(T, suffix)                                                                        \
    aicf_status aicf_cuda_gemm_mma_##suffix(                                                       \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,                 \
        const aicf_view *out, int64_t A, int64_t M, int64_t K, int64_t B, int64_t N, double alpha, \
        double beta, aicf_gemm_act act, aicf_gemm_precision precision, aicf_stream stream)         \
    {                                                                                              \
        if (M == 1 || N == 1) {                                                                    \
            return aicf_cuda_gemm_simt_##suffix(                                                   \
                a, b, bias, c, out, A, M, K, B, N, alpha, beta, act, precision, stream);           \
        }                                                                                          \
        return aicf::gemm::launch_mma(                                                             \
            aicf::gemm::problem_of(a, b, aicf::device(bias), c, out, M, K, N, alpha, beta, act),   \
            stream);                                                                               \
    }

aicf_status
aicf_cuda_gemm_fma_f32(
    const aicf_view *a, const aicf_view *b, const float *bias, const aicf_view *c,
    const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha,
    double beta, aicf_gemm_act act, aicf_gemm_precision, void *workspace, aicf_stream stream)
{
    return aicf::gemm::launch_fma(
        aicf::gemm::problem_of(a, b, bias, c, out, M, K, N, alpha, beta, act), workspace, stream);
}

LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
