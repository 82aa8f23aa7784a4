// Tiles of matrix products on the matrix units of sm_80 and later: how k-slabs of a and b lie in
// shared memory, are read as the fragments of mma.sync and multiplied, and how sums come back.
// What brings the slabs is the kernel's own.
#ifndef AICF_CUDA_MMA_CUH
#define AICF_CUDA_MMA_CUH

#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::units {

constexpr int kWarp = 32;
constexpr int kStepK = 16; // k of one mma
constexpr int kChunk = 8;  // elements of 16 bytes: one copy, one row of an 8 x 8 block
constexpr int kChunkBytes = 16;

// A shape of tiles. Each warp makes kM x kN of the out.
template <int kTileM_, int kTileN_, int kSlab_, int kStages_, int kWarpsM_, int kWarpsN_>
struct shape {
    static constexpr int kTileM = kTileM_, kTileN = kTileN_, kSlab = kSlab_, kStages = kStages_;
    static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
    static constexpr int kThreads = kWarpsM * kWarpsN * kWarp;
    static constexpr int kM = kTileM / kWarpsM, kN = kTileN / kWarpsN;
    static constexpr int kSteps = kSlab / kStepK;
    static constexpr int kBytesA = kTileM * kSlab * 2, kBytesB = kTileN * kSlab * 2;
    static constexpr int kStageBytes = kBytesA + kBytesB;
    // A warp's sums on their way to the out: 8 more than a row turn the banks by 8 a row, so that
    // the pairs which 4 rows of fragments store at once lie apart.
    static constexpr int kPitchOut = kN + 8;
    static constexpr int kOutBytes = kWarpsM * kWarpsN * kM * kPitchOut * 4;
    static constexpr int kShared =
        kStages * kStageBytes > kOutBytes ? kStages *kStageBytes : kOutBytes;
    // As many blocks a multiprocessor as leave a thread 255 registers where it holds 128 sums, 128
    // else.
    static constexpr int kRegisters = kM * kN / kWarp > 64 ? 256 : 128;
    static constexpr int kBlocks = 65536 / (kThreads * kRegisters);
    static_assert(kM % 16 == 0 && kN % 16 == 0, "fragments come 16 by 16");
    static_assert(kStages >= 2, "one slab is multiplied while another arrives");
};

// ---- slabs in shared memory ---------------------------------------------------------------------

// Operand x (m or n) by k. Along k: kTile rows of kSlab elements; else kSlab rows of kTile. The
// 16-byte chunks of a row are permuted by the row's number, so that the 8 rows of a block that
// ldmatrix reads at one chunk lie in 8 different quarters of the banks: by all 3 bits where a row
// spans all banks (8 chunks), by the 2 bits above the lowest where two rows do.
template <int kChunks>
__device__ inline uint32_t
chunk_offset(int row, int chunk)
{
    static_assert(kChunks == 4 || kChunks % 8 == 0, "rows of 64 bytes or of whole bank rounds");
    int swizzled = kChunks == 4 ? chunk ^ (row >> 1 & 3) : chunk ^ (row & 7);
    return static_cast<uint32_t>((row * kChunks + swizzled) * kChunkBytes);
}

// From the rows of the first step to those of another, which are swizzled as they are: apart from
// chunk_offset's sum, so that all steps are read from one register.
template <int kChunks>
__device__ inline uint32_t
step_offset(int step)
{
    static_assert(kChunks % 8 == 0, "rows of whole bank rounds");
    return static_cast<uint32_t>(step * kStepK * kChunks * kChunkBytes);
}

template <int kTile, int kSlab, bool kAlongK>
constexpr int kRowChunks = (kAlongK ? kSlab : kTile) / kChunk;

// ---- fragments ----------------------------------------------------------------------------------

// a: 16 x 16 at row m of the slab and step `step`: blocks (m, k), (m + 8, k), (m, k + 8), (m + 8, k
// + 8).
template <int kTile, int kSlab, bool kAlongK>
__device__ inline void
load_a(uint32_t slab, int m, int step, uint32_t (&r)[4])
{
    constexpr int kChunks = kRowChunks<kTile, kSlab, kAlongK>;
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    if constexpr (kAlongK) {
        ptx::ldmatrix_x4(slab + chunk_offset<kChunks>(m + lane % 16, step * 2 + lane / 16), r);
    } else {
        ptx::ldmatrix_x4_trans(
            slab + step_offset<kChunks>(step) +
                chunk_offset<kChunks>(lane / 16 * 8 + lane % 8, m / kChunk + lane / 8 % 2),
            r);
    }
}

// b: 16 x 16 at column n: blocks (k, n), (k + 8, n), (k, n + 8), (k + 8, n + 8): two fragments of 8
// columns.
template <int kTile, int kSlab, bool kAlongK>
__device__ inline void
load_b(uint32_t slab, int n, int step, uint32_t (&r)[4])
{
    constexpr int kChunks = kRowChunks<kTile, kSlab, kAlongK>;
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    if constexpr (kAlongK) {
        ptx::ldmatrix_x4(
            slab + chunk_offset<kChunks>(n + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2), r);
    } else {
        ptx::ldmatrix_x4_trans(
            slab + step_offset<kChunks>(step) +
                chunk_offset<kChunks>(lane / 8 % 2 * 8 + lane % 8, n / kChunk + lane / 16),
            r);
    }
}

template <typename S> struct fragments {
    uint32_t a[S::kM / 16][4];
    uint32_t b[S::kN / 16][4];
};

// Half of the fragments of a step.
template <typename S, bool kAAlongK, bool kBAlongK>
__device__ inline void
load_half(uint32_t stage, int m, int n, int step, int half, fragments<S> &f)
{
    constexpr int kRows = S::kM / 16, kColumns = S::kN / 16;
#pragma unroll
    for (int i = half * kRows / 2; i < (half + 1) * kRows / 2; i++) {
        load_a<S::kTileM, S::kSlab, kAAlongK>(stage, m + i * 16, step, f.a[i]);
    }
#pragma unroll
    for (int j = half * kColumns / 2; j < (half + 1) * kColumns / 2; j++) {
        load_b<S::kTileN, S::kSlab, kBAlongK>(stage + S::kBytesA, n + j * 16, step, f.b[j]);
    }
}

template <typename T, typename S>
__device__ inline void
multiply_row(const fragments<S> &f, int i, float (&sums)[S::kM / 16][S::kN / 8][4])
{
#pragma unroll
    for (int j = 0; j < S::kN / 8; j++) {
        ptx::mma_m16n8k16(
            sums[i][j], f.a[i], f.b[j / 2][j % 2 * 2], f.b[j / 2][j % 2 * 2 + 1], T{});
    }
}

// All products of a step, column by column, to and fro: each begins with the rows that the one
// before ends with, which the operands' cache still has.
template <typename T, typename S>
__device__ inline void
multiply_columns(const fragments<S> &f, float (&sums)[S::kM / 16][S::kN / 8][4])
{
    constexpr int kRows = S::kM / 16;
#pragma unroll
    for (int j = 0; j < S::kN / 8; j++) {
#pragma unroll
        for (int k = 0; k < kRows; k++) {
            int i = j % 2 ? kRows - 1 - k : k;
            ptx::mma_m16n8k16(
                sums[i][j], f.a[i], f.b[j / 2][j % 2 * 2], f.b[j / 2][j % 2 * 2 + 1], T{});
        }
    }
}

// ---- products -----------------------------------------------------------------------------------

// One step: the products of `now` while `next` is read from `stage` and the slab's share of copies
// is asked for. They take turns: a burst of reads would fill the queue to shared memory and hold
// back the products behind it, and reads late in a step would be waited for at the start of the
// next.
template <typename T, typename S, bool kAAlongK, bool kBAlongK, int kStep, typename Feed>
__device__ inline void
do_step(
    const Feed &in, uint32_t stage, int m, int n, const fragments<S> &now, fragments<S> &next,
    float (&sums)[S::kM / 16][S::kN / 8][4])
{
    constexpr int kRows = S::kM / 16;
    constexpr int kAsking =
        S::kSteps - 1; // steps before the last, after which the slab is waited for
    load_half<S, kAAlongK, kBAlongK>(stage, m, n, (kStep + 1) % S::kSteps, 0, next);
    multiply_row<T, S>(now, 0, sums);
    load_half<S, kAAlongK, kBAlongK>(stage, m, n, (kStep + 1) % S::kSteps, 1, next);
    if constexpr (kStep < kAsking) {
        // Into the stage of the slab before, which nobody reads any more.
        in.template copy<kStep, kAsking>();
    }
#pragma unroll
    for (int i = 1; i < kRows; i++) {
        multiply_row<T, S>(now, i, sums);
    }
}

// The sums of a warp's part of the tile over `slabs` slabs. `in` brings them into the stages, in
// order, each as one group of copies: copy<part, parts>() asks for a part of the next one, close()
// ends it. Slabs beyond the last are asked for too, and have to be of memory that is there.
template <typename T, typename S, bool kAAlongK, bool kBAlongK, typename Feed>
__device__ inline void
sum_slabs(
    Feed &in, int64_t slabs, uint32_t shared, int m, int n, float (&sums)[S::kM / 16][S::kN / 8][4])
{
    static_assert(S::kSteps == 2 || S::kSteps == 4, "the steps below");
    for (int stage = 0; stage < S::kStages - 1; stage++) {
        in.template copy<0, 1>();
        in.close();
    }
    ptx::copy_async_wait<S::kStages - 2>();
    __syncthreads();

    fragments<S> f[2];
    uint32_t stage = shared;
    load_half<S, kAAlongK, kBAlongK>(stage, m, n, 0, 0, f[0]);
    load_half<S, kAAlongK, kBAlongK>(stage, m, n, 0, 1, f[0]);
    for (int64_t slab = 0; slab < slabs; slab++) {
        do_step<T, S, kAAlongK, kBAlongK, 0>(in, stage, m, n, f[0], f[1], sums);
        if constexpr (S::kSteps == 4) {
            do_step<T, S, kAAlongK, kBAlongK, 1>(in, stage, m, n, f[1], f[0], sums);
            do_step<T, S, kAAlongK, kBAlongK, 2>(in, stage, m, n, f[0], f[1], sums);
        }
        // All warps have read the present slab into registers, the next one has arrived.
        in.close();
        ptx::copy_async_wait<S::kStages - 2>();
        __syncthreads();
        stage += S::kStageBytes;
        stage = stage == shared + S::kStages * S::kStageBytes ? shared : stage;
        do_step<T, S, kAAlongK, kBAlongK, S::kSteps - 1>(in, stage, m, n, f[1], f[0], sums);
    }
    // The last fragments asked for are never multiplied; what follows may write over all stages.
    ptx::copy_async_wait<0>();
    __syncthreads();
}

// ---- sums ---------------------------------------------------------------------------------------

// Fragments hold two columns a thread, rows of the out want 16 bytes: a warp's sums pass through
// its own part of the shared memory.
template <typename S>
__device__ inline void
stage_sums(const float (&sums)[S::kM / 16][S::kN / 8][4], float *staged)
{
    int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int i = 0; i < S::kM / 16 * 2; i++) {
        float *row = staged + (i * 8 + lane / 4) * S::kPitchOut + lane % 4 * 2;
#pragma unroll
        for (int k = 0; k < S::kN / 8; k++) {
            const float *pair = &sums[i / 2][k][i % 2 * 2];
            store_pack(row + k * 8, pack<float, 2>{{pair[0], pair[1]}});
        }
    }
}

} // namespace aicf::units

#endif
