// gemm of f32 operands on the matrix units of sm_80 and later, where the caller allows tf32 (see
// gemm.cuh for the operands): operands are rounded to 11 bits, ties away from 0, as fragments are
// read; sums are f32. Any M, N and K, 0 included, at any address. A matrix times a vector is bound
// by bytes, and is made in f32.
//
// A block makes a tile of the out from k-slabs of a and b that asynchronous copies keep kStages - 1
// ahead, and that lie in shared memory as they do in global memory: a slab is read where it was
// written, whichever dim lies together. A warp multiplies its part by mma.sync m16n8k8. Bound by
// the matrix units.
#include "tiles.cuh"

#include <aicf/cuda/mma.cuh>

namespace aicf::gemm {

using units::kWarp;

constexpr int kStepTf32 = 8; // k of one mma

template <int kTileM_, int kTileN_, int kSlab_, int kStages_, int kWarpsM_, int kWarpsN_>
struct tf32_shape {
    static constexpr int kTileM = kTileM_, kTileN = kTileN_, kSlab = kSlab_, kStages = kStages_;
    static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
    static constexpr int kThreads = kWarpsM * kWarpsN * kWarp;
    static constexpr int kM = kTileM / kWarpsM, kN = kTileN / kWarpsN; // of a warp
    // As shape of mma.cuh has it.
    static constexpr int kPitchOut = kN + 8;
    static constexpr int kOutBytes = kWarpsM * kWarpsN * kM * kPitchOut * 4;
    static constexpr int kBlocks = kM * kN / kWarp > 64 ? 1 : 3;
    static_assert(kM % 16 == 0 && kN % 16 == 0 && kSlab % kStepTf32 == 0, "whole fragments");
};

// ---- slabs --------------------------------------------------------------------------------------

// An operand's part of a slab, x (m or n) by k. Along k: a row an x, 4 elements longer than the
// slab, so that the 8 rows of 16 bytes which ldmatrix reads at once lie in different banks. Else a
// row a k, 8 longer than the tile, so that the 4 rows by 8 of a fragment do.
template <typename S, int kTile_, bool kAlongK> struct slab_of {
    static constexpr int kTile = kTile_;
    static constexpr int kLine = kAlongK ? S::kSlab : kTile; // elements that lie together
    static constexpr int kLines = kAlongK ? kTile : S::kSlab;
    static constexpr int kPitch = kLine + (kAlongK ? 4 : 8);
    static constexpr int kSize = kLines * kPitch;
};

// One thread's copies of a slab, kVector elements each: the same place of every kStride-th line.
template <typename S, int kTile, bool kAlongK, int kVector> struct tf32_copier {
    using slab = slab_of<S, kTile, kAlongK>;
    static constexpr int kAcross = slab::kLine / kVector; // threads on a line
    static constexpr int kStride = S::kThreads / kAcross;
    static constexpr int kCount = slab::kLines / kStride;
    static_assert(kAcross * kStride == S::kThreads && kCount * kStride == slab::kLines, "whole");

    const float *from; // of the thread's first copy in the next slab
    int64_t step;      // to its next one
    int64_t slab_step;
    int64_t size; // how many x there are from the tile's first on
    int along, line;

    __device__ tf32_copier(const float *first, int64_t pitch, int64_t size) : size(size)
    {
        along = static_cast<int>(threadIdx.x) % kAcross * kVector;
        line = static_cast<int>(threadIdx.x) / kAcross;
        from = first + line * pitch + along;
        step = kStride * pitch;
        slab_step = kAlongK ? S::kSlab : S::kSlab * pitch;
    }

    __device__ static void copy_one(uint32_t to, const float *p)
    {
        if constexpr (kVector == kQuad) {
            ptx::copy_async_16(to, p);
        } else {
            ptx::copy_async_4(to, p);
        }
    }

    __device__ static void copy_one(uint32_t to, const float *p, int bytes)
    {
        if constexpr (kVector == kQuad) {
            ptx::copy_async_16(to, p, bytes);
        } else {
            ptx::copy_async_4(to, p, bytes);
        }
    }

    // Of a slab that is not whole, of which `depth` k are left: zeros are what is outside.
    __device__ void copy_edge(uint32_t to, int64_t depth, const float *valid) const
    {
        int64_t length = kAlongK ? depth : size, lines = kAlongK ? size : depth;
#pragma unroll 1
        for (int i = 0; i < kCount; i++) {
            int64_t left = line + i * kStride < lines ? length - along : 0;
            left = left < 0 ? 0 : left > kVector ? kVector : left;
            // Nothing is read where all is zeros, but the address has to be a valid one.
            copy_one(
                to + i * (kStride * slab::kPitch * 4), left ? from + i * step : valid,
                static_cast<int>(left) * 4);
        }
    }

    __device__ void copy(uint32_t to, int64_t depth, const float *valid)
    {
        to += static_cast<uint32_t>(line * slab::kPitch + along) * 4;
        if (depth >= S::kSlab && size >= kTile) {
#pragma unroll
            for (int i = 0; i < kCount; i++) {
                copy_one(to + i * (kStride * slab::kPitch * 4), from + i * step);
            }
        } else {
            copy_edge(to, depth, valid);
        }
        from += slab_step;
    }
};

// ---- products -----------------------------------------------------------------------------------

// The matrix units read the upper 19 bits: half of the last one is added. NaN and infinity stay.
__device__ inline uint32_t
round_tf32(float x)
{
    uint32_t bits = __float_as_uint(x);
    return fabsf(x) < INFINITY ? bits + 0x1000 : bits;
}

// 16 x by 8 k at (x, step): words (g, c), (g + 8, c), (g, c + 4), (g + 8, c + 4) for lane 4 g + c.
template <typename Slab, bool kAlongK>
__device__ inline void
load_fragment(const float *slab, int x, int step, uint32_t (&r)[4])
{
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    if constexpr (kAlongK) {
        const float *row = slab + (x + lane % 16) * Slab::kPitch + step * kStepTf32 + lane / 16 * 4;
        ptx::ldmatrix_x4(ptx::shared_address(row), r);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            r[i] = round_tf32(__uint_as_float(r[i]));
        }
    } else {
        const float *first = slab + (step * kStepTf32 + lane % 4) * Slab::kPitch + x + lane / 4;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            r[i] = round_tf32(first[i / 2 * 4 * Slab::kPitch + i % 2 * 8]);
        }
    }
}

template <typename S, bool kAAlongK, bool kBAlongK>
__device__ inline void
multiply_tf32(const float *a, const float *b, int m, int n, float (&sums)[S::kM / 16][S::kN / 8][4])
{
#pragma unroll
    for (int step = 0; step < S::kSlab / kStepTf32; step++) {
        uint32_t x[S::kM / 16][4], y[S::kN / 16][4];
#pragma unroll
        for (int i = 0; i < S::kM / 16; i++) {
            load_fragment<slab_of<S, S::kTileM, kAAlongK>, kAAlongK>(a, m + i * 16, step, x[i]);
        }
#pragma unroll
        for (int j = 0; j < S::kN / 16; j++) {
            load_fragment<slab_of<S, S::kTileN, kBAlongK>, kBAlongK>(b, n + j * 16, step, y[j]);
        }
#pragma unroll
        for (int i = 0; i < S::kM / 16; i++) {
#pragma unroll
            for (int j = 0; j < S::kN / 8; j++) {
                ptx::mma_m16n8k8_tf32(sums[i][j], x[i], y[j / 2][j % 2], y[j / 2][j % 2 + 2]);
            }
        }
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

// A warp's sums, staged row by row, finished and stored a quad a lane. `m` and `n` are its part's
// first row and column of the out. Not unrolled: the error function of each element is long.
template <typename S>
__device__ inline void
store_staged(
    const problem<float> &p, const job<float> &j, int64_t m, int64_t n, const float *staged)
{
    constexpr int kAcross = S::kN / kQuad; // lanes on a row
    static_assert(kWarp % kAcross == 0, "a lane's columns stay");
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    int column = lane % kAcross * kQuad;
    int64_t left = p.N - n - column;
    int rows = p.M - m < S::kM ? static_cast<int>(p.M - m) : S::kM;
    bool packed =
        left >= kQuad && (reinterpret_cast<uintptr_t>(j.out) % 16 == 0 && p.out_pitch % kQuad == 0);
#pragma unroll 1
    for (int row = lane / kAcross; row < rows; row += kWarp / kAcross) {
        pack<float, kQuad> x = load_pack<float, kQuad>(staged + row * S::kPitchOut + column);
        const float *c = row_of_c(p, j, m + row);
        float *out = j.out + (m + row) * p.out_pitch + n + column;
#pragma unroll
        for (int i = 0; i < kQuad; i++) {
            if (i < left) {
                x.lane[i] = finish(p, x.lane[i], c, n + column + i);
            }
        }
        if (packed) {
            store_pack(out, x);
            continue;
        }
#pragma unroll
        for (int i = 0; i < kQuad; i++) {
            if (i < left) {
                out[i] = x.lane[i];
            }
        }
    }
}

template <typename S, bool kAAlongK, bool kBAlongK> struct tf32_stages {
    static constexpr int kSizeA = slab_of<S, S::kTileM, kAAlongK>::kSize;
    static constexpr int kSize = kSizeA + slab_of<S, S::kTileN, kBAlongK>::kSize;
    static constexpr int kBytes =
        S::kStages * kSize * 4 > S::kOutBytes ? S::kStages *kSize * 4 : S::kOutBytes;
};

// kVector: elements of a copy; all of a's and b's have to lie on their size.
template <typename S, bool kAAlongK, bool kBAlongK, int kVector>
__global__ void
__launch_bounds__(S::kThreads, S::kBlocks) mma_tf32(const __grid_constant__ problem<float> p)
{
    using stages = tf32_stages<S, kAAlongK, kBAlongK>;
    extern __shared__ __align__(128) uint8_t bytes[];
    float *shared = reinterpret_cast<float *>(bytes);
    uint32_t base = ptx::shared_address(bytes);
    job<float> j = job_of<S::kTileM, S::kTileN>(p);
    tf32_copier<S, S::kTileM, kAAlongK, kVector> a(
        j.a + j.m * (kAAlongK ? p.a_pitch : 1), p.a_pitch, p.M - j.m);
    tf32_copier<S, S::kTileN, kBAlongK, kVector> b(
        j.b + j.n * (kBAlongK ? p.b_pitch : 1), p.b_pitch, p.N - j.n);

    int64_t ahead = p.K; // k that is not asked for yet
    auto ask = [&](int to) {
        if (ahead > 0) {
            uint32_t at = base + static_cast<uint32_t>(to * stages::kSize) * 4;
            a.copy(at, ahead, j.a);
            b.copy(at + stages::kSizeA * 4, ahead, j.b);
        }
        ahead -= S::kSlab;
        ptx::copy_async_commit(); // an empty group too: waiting counts groups
    };
    for (int i = 0; i < S::kStages - 1; i++) {
        ask(i);
    }

    int warp = static_cast<int>(threadIdx.x) / kWarp;
    int m = warp / S::kWarpsN * S::kM, n = warp % S::kWarpsN * S::kN;
    float sums[S::kM / 16][S::kN / 8][4] = {};
    int now = 0, next = S::kStages - 1;
    for (int64_t k = 0; k < p.K; k += S::kSlab) {
        ptx::copy_async_wait<S::kStages - 2>();
        __syncthreads(); // the slab has come for all, and all have read the one before
        ask(next);
        const float *slab = shared + now * stages::kSize;
        multiply_tf32<S, kAAlongK, kBAlongK>(slab, slab + stages::kSizeA, m, n, sums);
        next = now;
        now = now + 1 == S::kStages ? 0 : now + 1;
    }
    ptx::copy_async_wait<0>();
    __syncthreads();

    float *staged = shared + warp * S::kM * S::kPitchOut;
    units::stage_sums<S>(sums, staged);
    __syncwarp();
    store_staged<S>(p, j, j.m + m, j.n + n, staged);
}

template <typename S, bool kAAlongK, bool kBAlongK>
aicf_status
launch_layout(const problem<float> &p, bool quads, aicf_stream stream)
{
    constexpr int kShared = tf32_stages<S, kAAlongK, kBAlongK>::kBytes;
    void (*kernel)(problem<float>) =
        quads ? mma_tf32<S, kAAlongK, kBAlongK, kQuad> : mma_tf32<S, kAAlongK, kBAlongK, 1>;
    aicf_status status = allow_shared(kernel, kShared);
    return status.kind
               ? status
               : launch_tiles(kernel, p, S::kTileM, S::kTileN, S::kThreads, kShared, stream);
}

template <typename S>
aicf_status
launch_shape(const problem<float> &p, bool quads, aicf_stream stream)
{
    if (p.a_along_k) {
        return p.b_along_k ? launch_layout<S, true, true>(p, quads, stream)
                           : launch_layout<S, true, false>(p, quads, stream);
    }
    return p.b_along_k ? launch_layout<S, false, true>(p, quads, stream)
                       : launch_layout<S, false, false>(p, quads, stream);
}

// Parts of 64 x 64 a warp read a word of shared memory a product; 32 x 32 two, where large tiles
// would leave half of the machine idle.
using large = tf32_shape<128, 256, 32, 3, 2, 4>;
using small = tf32_shape<64, 64, 32, 4, 2, 2>;

inline aicf_status
launch_mma_tf32(const problem<float> &p, aicf_stream stream)
{
    bool quads = aligned(p.a, p.a_pitch, p.a_batch, p.batch_rank, kQuad) &&
                 aligned(p.b, p.b_pitch, p.b_batch, p.batch_rank, kQuad);
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    int64_t tiles = ceil_div(p.M, large::kTileM) * ceil_div(p.N, large::kTileN) * p.batches;
    bool fills = tiles * 2 > processors;
    if (fills) { // the more of the two ways that a slab may lie
        status = can_share(tf32_stages<large, true, true>::kBytes, &fills);
    }
    return status.kind ? status
           : fills     ? launch_shape<large>(p, quads, stream)
                       : launch_shape<small>(p, quads, stream);
}

} // namespace aicf::gemm

aicf_status
aicf_cuda_gemm_mma_tf32_f32(
    const aicf_view *a, const aicf_view *b, const float *bias, const aicf_view *c,
    const aicf_view *out, int64_t A, int64_t M, int64_t K, int64_t B, int64_t N, double alpha,
    double beta, aicf_gemm_act act, aicf_gemm_precision precision, aicf_stream stream)
{
    if (M == 1 || N == 1) { // without a need of the workspace
        return aicf_cuda_gemm_fma_f32(
            a, b, bias, c, out, A, M, K, B, N, alpha, beta, act, precision, nullptr, stream);
    }
    return aicf::gemm::launch_mma_tf32(
        aicf::gemm::problem_of(a, b, bias, c, out, M, K, N, alpha, beta, act), stream);
}
