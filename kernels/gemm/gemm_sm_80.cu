// gemm on the matrix units of sm_80 and later (see gemm.cuh for the operands): f16 and bf16, f32
// sums. Requires a, b and out with addresses, pitches and batch strides on multiples of 16 bytes;
// any M, N and K, 0 included: what lies outside an operand is read as zeros.
//
// Blocks persist. Each makes one tile of the out after another from k-slabs of a and b in shared
// memory, which asynchronous copies keep kStages - 1 slabs ahead, the next tile's too. A warp
// multiplies its part of the tile by mma.sync m16n8k16, with the fragments of the next 16 k on
// their way while the present ones are multiplied. Bound by the matrix units, of which mma.sync
// reaches about two thirds on sm_90.
#include "fma.cuh"
#include "slabs.cuh"

#include <algorithm>

#include <aicf/cuda/activation.cuh>
#include <aicf/cuda/pairs.cuh>

namespace aicf::gemm {

// ---- products -----------------------------------------------------------------------------------

template <typename S> constexpr int kStageShared = S::kStages * S::kStageBytes;

// A block's tiles as one row of slabs: those of the next tile are on their way while the sums of
// this one go out.
template <typename T, typename S, bool kAAlongK, bool kBAlongK> struct pipeline {
    static constexpr int kShared = kStageShared<S>;

    feed<T, S, kAAlongK, kBAlongK> in;
    fragments<S> f[2];          // of a step and the next
    uint32_t base, stage, into; // stages: the first, of the present slab, of the next copies

    // The warp's part of the tile.
    __device__ static int m()
    {
        return static_cast<int>(threadIdx.x) / kWarp / S::kWarpsN * S::kM;
    }

    __device__ static int n()
    {
        return static_cast<int>(threadIdx.x) / kWarp % S::kWarpsN * S::kN;
    }

    __device__ pipeline(const problem<T> &p, uint32_t base)
        : in(p), base(base), stage(base), into(base)
    {
#pragma unroll 1
        for (int i = 0; i < S::kStages - 1; i++) {
            in.template copy<false, 0, 1>(into);
            in.template close<false>();
            into += S::kStageBytes;
        }
        ptx::copy_async_wait<S::kStages - 2>();
        __syncthreads();
        load_fragments(0, f[0]);
    }

    __device__ void load_fragments(int step, fragments<S> &to) const
    {
        load_half<S, kAAlongK, kBAlongK>(stage, m(), n(), step, 0, to);
        load_half<S, kAAlongK, kBAlongK>(stage, m(), n(), step, 1, to);
    }

    __device__ void turn(uint32_t &at) const
    {
        at += S::kStageBytes;
        at = at == base + kShared ? base : at;
    }

    // Multiplies `slabs` slabs, and asks for as many. kInside: those lie inside of the operands.
    template <bool kInside> __device__ void sum(int slabs, float (&sums)[S::kM / 16][S::kN / 8][4])
    {
        constexpr int kAsking = S::kSteps - 1; // steps before the last, at which the slab turns
#pragma unroll 1
        for (; slabs > 0; slabs--) {
#pragma unroll
            for (int step = 0; step < S::kSteps; step++) {
                if (step == kAsking) {
                    in.template close<kInside>();
                    // All warps have read the present slab to registers, the next one has arrived.
                    ptx::copy_async_wait<S::kStages - 2>();
                    __syncthreads();
                    turn(stage);
                    turn(into);
                }
                load_fragments((step + 1) % S::kSteps, f[(step + 1) % 2]);
                // Into the stage of the slab before, which nobody reads any more.
                ask<kInside, kAsking>(step);
                multiply_columns<T, S>(f[step % 2], sums);
            }
        }
    }

    // The copies that go with a step.
    template <bool kInside, int kParts> __device__ void ask(int step)
    {
        static_assert(kParts == 3, "the steps below");
        if (step == 0) {
            in.template copy<kInside, 0, kParts>(into);
        } else if (step == 1) {
            in.template copy<kInside, 1, kParts>(into);
        } else if (step == 2) {
            in.template copy<kInside, 2, kParts>(into);
        }
    }
};

// ---- store --------------------------------------------------------------------------------------

// What c and gelu make of a warp's sums, of which lane 4 g + c has columns 8 j + 2 c and the next
// of rows g and g + 8 of each 16. The sums turn by 16 rows a round, which brings them back:
// unrolled, this would be as long as all else.
template <typename S, typename T>
__device__ inline void
finish_rarely(
    const problem<T> &p, const job<T> &j, int64_t m, int64_t n,
    float (&sums)[S::kM / 16][S::kN / 8][4])
{
#pragma unroll 1
    for (int i = 0; i < S::kM / 16; i++, m += 16) {
#pragma unroll
        for (int k = 0; k < S::kN / 8 * 4; k++) {
            int64_t row = m + k % 4 / 2 * 8, column = n + k / 4 * 8 + k % 2;
            float x = p.alpha * sums[0][k / 4][k % 4];
            if (row < p.M && column < p.N) {
                x += p.c ? p.beta * to_f32(row_of_c(p, j, row)[column]) : 0.0f;
                x += p.bias ? to_f32(p.bias[column]) : 0.0f;
            }
#pragma unroll
            for (int to = 0; to < S::kM / 16 - 1; to++) {
                sums[to][k / 4][k % 4] = sums[to + 1][k / 4][k % 4];
            }
            sums[S::kM / 16 - 1][k / 4][k % 4] =
                p.act == AICF_GEMM_ACT_GELU ? gelu_of<kQuick<T>>(x) : x;
        }
    }
}

// alpha and the bias, of whose values none waits for another.
template <typename S, typename T>
__device__ inline void
finish_often(const problem<T> &p, int64_t n, float (&sums)[S::kM / 16][S::kN / 8][4])
{
    float bias[S::kN / 4] = {};
    if (p.bias) {
#pragma unroll
        for (int k = 0; k < S::kN / 4; k++) {
            bias[k] = to_f32(p.bias[min(n + k / 2 * 8 + k % 2, p.N - 1)]); // beyond N: not stored
        }
    }
#pragma unroll
    for (int k = 0; k < S::kN / 4; k++) {
#pragma unroll
        for (int i = 0; i < S::kM / 16; i++) {
            sums[i][k / 2][k % 2] = p.alpha * sums[i][k / 2][k % 2] + bias[k];
            sums[i][k / 2][k % 2 + 2] = p.alpha * sums[i][k / 2][k % 2 + 2] + bias[k];
        }
    }
}

// Word l of lane c of each four becomes word c of lane l.
__device__ inline void
exchange(uint32_t (&x)[4])
{
    bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        uint32_t got = __shfl_xor_sync(0xffffffff, odd ? x[i] : x[i + 1], 1);
        x[i] = odd ? got : x[i];
        x[i + 1] = odd ? x[i + 1] : got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t got = __shfl_xor_sync(0xffffffff, high ? x[i] : x[i + 2], 2);
        x[i] = high ? got : x[i];
        x[i + 2] = high ? x[i + 2] : got;
    }
}

// Eight neighbours, `inside` of them.
template <typename T>
__device__ inline void
store_eight(T *out, const uint32_t (&x)[4], int64_t inside)
{
    if (inside >= kChunk) {
        store_words(out, words{{x[0], x[1], x[2], x[3]}});
        return;
    }
#pragma unroll
    for (int i = 0; i < kChunk; i++) {
        if (i < inside) {
            reinterpret_cast<uint16_t *>(out)[i] = static_cast<uint16_t>(x[i / 2] >> i % 2 * 16);
        }
    }
}

// A warp's part of the tile, whose first row and column are m and n. Of four blocks of 8 columns
// each lane gets one whole. The warp has read all of c before it stores, which may be there.
template <typename S, typename T>
__device__ inline void
store_sums(
    const problem<T> &p, const job<T> &j, int64_t m, int64_t n,
    float (&sums)[S::kM / 16][S::kN / 8][4])
{
    static_assert(S::kN % 32 == 0, "blocks by fours");
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    m += lane / 4;
    if (p.c || p.act == AICF_GEMM_ACT_GELU) {
        finish_rarely<S>(p, j, m, n + lane % 4 * 2, sums);
    } else {
        finish_often<S>(p, n + lane % 4 * 2, sums);
    }
    n += lane % 4 * kChunk;
#pragma unroll
    for (int i = 0; i < S::kM / 8; i++, m += 8) {
#pragma unroll
        for (int k = 0; k < S::kN / 8; k += 4) {
            uint32_t x[4];
#pragma unroll
            for (int l = 0; l < 4; l++) {
                const float *pair = &sums[i / 2][k + l][i % 2 * 2];
                x[l] = pair_of(pair[0], pair[1], T{});
                x[l] = p.act == AICF_GEMM_ACT_RELU ? relu_pair(x[l], T{}) : x[l];
            }
            exchange(x);
            if (m < p.M) {
                store_eight(j.out + m * p.out_pitch + n + k * 8, x, p.N - n - k * 8);
            }
        }
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

template <typename T, typename S, bool kAAlongK, bool kBAlongK>
__global__ void
__launch_bounds__(S::kThreads, S::kBlocks) mma(const __grid_constant__ problem<T> p)
{
    extern __shared__ __align__(128) uint8_t shared[];
    pipeline<T, S, kAAlongK, kBAlongK> line(p, ptx::shared_address(shared));
    for (int64_t tile = blockIdx.x; tile < line.in.tiles(); tile += gridDim.x) {
        float sums[S::kM / 16][S::kN / 8][4] = {};
        int slabs = line.in.slabs(), inside = min(slabs, line.in.inside());
        line.template sum<true>(inside, sums);
        line.template sum<false>(slabs - inside, sums);
        job<T> j = tile_of<S>(p, tile);
        store_sums<S>(p, j, j.m + line.m(), j.n + line.n(), sums);
    }
    ptx::copy_async_wait<0>();
}

template <typename T, typename S, bool kAAlongK, bool kBAlongK>
aicf_status
launch_layout(problem<T> p, int processors, aicf_stream stream)
{
    constexpr int kShared = pipeline<T, S, kAAlongK, kBAlongK>::kShared;
    void (*kernel)(problem<T>) = mma<T, S, kAAlongK, kBAlongK>;
    aicf_status status = allow_shared(kernel, kShared);
    if (status.kind) {
        return status;
    }
    p.tiles_m = ceil_div(p.M, S::kTileM);
    p.tiles_n = ceil_div(p.N, S::kTileN);
    int64_t tiles = p.tiles_m * p.tiles_n * p.batches;
    p.narrow = tiles <= kMostBlocks;
    int64_t blocks = std::min<int64_t>(tiles, processors * S::kResident);
    return blocks == 0
               ? aicf_ok()
               : launch(kernel, static_cast<unsigned>(blocks), S::kThreads, kShared, stream, p);
}

template <typename T, typename S>
aicf_status
launch_shape(const problem<T> &p, int processors, aicf_stream stream)
{
    if (p.a_along_k) {
        return p.b_along_k ? launch_layout<T, S, true, true>(p, processors, stream)
                           : launch_layout<T, S, true, false>(p, processors, stream);
    }
    return p.b_along_k ? launch_layout<T, S, false, true>(p, processors, stream)
                       : launch_layout<T, S, false, false>(p, processors, stream);
}

// Parts of 64 x 64 a warp read least of shared memory that the registers let: it is busy for nine
// tenths of the products' time.
struct large : shape<128, 256, 64, 3, 2, 4> {
    static constexpr int kResident = 1; // blocks a multiprocessor
};
// Where large tiles would leave half of the machine idle. Six stages, as few blocks hide little
// latency.
struct small : shape<64, 64, 64, 6, 2, 2> {
    static constexpr int kResident = 2;
};

template <typename T>
aicf_status
launch_mma(const problem<T> &p, aicf_stream stream)
{
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    bool fills = ceil_div(p.M, large::kTileM) * ceil_div(p.N, large::kTileN) * p.batches >= 64;
    if (fills) {
        status = can_share(kStageShared<large>, &fills);
    }
    return status.kind ? status
           : fills     ? launch_shape<T, large>(p, processors, stream)
                       : launch_shape<T, small>(p, processors, stream);
}

} // namespace aicf::gemm

// A matrix times a vector is bound by its bytes: simt has a way for it. So many k are of one
// element again and again: slabs are counted by 32 bits.
#define LAUNCHER(T, suffix)                                                                        \
    aicf_status aicf_cuda_gemm_mma_##suffix(                                                       \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,                 \
        const aicf_view *out, int64_t A, int64_t M, int64_t K, int64_t B, int64_t N, double alpha, \
        double beta, aicf_gemm_act act, aicf_gemm_precision precision, aicf_stream stream)         \
    {                                                                                              \
        if (M == 1 || N == 1 || K >= (int64_t{1} << 36)) {                                         \
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
