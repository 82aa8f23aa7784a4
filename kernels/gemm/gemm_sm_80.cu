// gemm on the matrix units of sm_80 and later (see gemm.cuh for the operands): f16 and bf16, f32 sums.
// Requires a, b and out with addresses, pitches and batch strides on multiples of 16 bytes; any M, N
// and K, 0 included: what lies outside an operand is read as zeros.
//
// A block makes a tile of the out from k-slabs of a and b in shared memory, which asynchronous copies
// keep kStages - 1 slabs ahead. A warp multiplies its part of the tile by mma.sync m16n8k16, with the
// fragments of the next 16 k on their way while the present ones are multiplied. Bound by the matrix
// units, of which mma.sync reaches about two thirds on sm_90.
#include "gemm.cuh"

#include <aicf/cuda/ptx.cuh>

namespace aicf::gemm {

constexpr int kWarp = 32;
constexpr int kStepK = 16;   // k of one mma
constexpr int kChunk = 8;    // elements of 16 bytes: one copy, one row of an 8 x 8 block
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
    // A warp's sums on their way to the out: 8 more than a row turn the banks by 8 a row, so that the
    // pairs which 4 rows of fragments store at once lie apart.
    static constexpr int kPitchOut = kN + 8;
    static constexpr int kOutBytes = kWarpsM * kWarpsN * kM * kPitchOut * 4;
    static constexpr int kShared =
        kStages * kStageBytes > kOutBytes ? kStages * kStageBytes : kOutBytes;
    // As many blocks a multiprocessor as leave a thread 255 registers where it holds 128 sums, 128 else.
    static constexpr int kRegisters = kM * kN / kWarp > 64 ? 256 : 128;
    static constexpr int kBlocks = 65536 / (kThreads * kRegisters);
    static_assert(kM % 16 == 0 && kN % 16 == 0, "fragments come 16 by 16");
    static_assert(kStages >= 2, "one slab is multiplied while another arrives");
};

// ---- slabs in shared memory ---------------------------------------------------------------------

// Operand x (m or n) by k. Along k: kTile rows of kSlab elements; else kSlab rows of kTile. The 16-byte
// chunks of a row are permuted by the row's number, so that the 8 rows of a block that ldmatrix reads
// at one chunk lie in 8 different quarters of the banks: by all 3 bits where a row spans all banks (8
// chunks), by the 2 bits above the lowest where two rows do.
template <int kChunks>
__device__ inline uint32_t
chunk_offset(int row, int chunk)
{
    static_assert(kChunks == 4 || kChunks % 8 == 0, "rows of 64 bytes or of whole bank rounds");
    int swizzled = kChunks == 4 ? chunk ^ (row >> 1 & 3) : chunk ^ (row & 7);
    return static_cast<uint32_t>((row * kChunks + swizzled) * kChunkBytes);
}

template <int kTile, int kSlab, bool kAlongK>
constexpr int kRowChunks = (kAlongK ? kSlab : kTile) / kChunk;

// An operand seen from one tile, as in the table of gemm.cuh.
template <typename T>
struct source {
    const T *data;
    int64_t pitch, size, depth; // size: how many x there are from the tile's first on
};

// One thread's copies of a slab: always the same chunk of every kStride-th row.
template <typename T, int kTile, int kSlab, int kThreads, bool kAlongK>
struct loader {
    static constexpr int kChunks = kRowChunks<kTile, kSlab, kAlongK>;
    static constexpr int kRows = kAlongK ? kTile : kSlab;
    static constexpr int kStride = kThreads / kChunks;
    static constexpr int kCount = kRows / kStride;
    static_assert(kThreads % kChunks == 0 && kRows % kStride == 0, "whole rows");

    const T *from; // of the thread's first chunk in the next slab
    int64_t step;  // from one of its rows to the next
    int row, chunk;
    uint32_t inside; // along k: bit i: row i is inside; else the bytes of its chunks that are

    __device__
    loader(const source<T> &s)
    {
        row = static_cast<int>(threadIdx.x) / kChunks;
        chunk = static_cast<int>(threadIdx.x) % kChunks;
        from = s.data + row * s.pitch + chunk * kChunk;
        step = kStride * s.pitch;
        inside = 0;
        if (kAlongK) {
#pragma unroll
            for (int i = 0; i < kCount; i++) {
                inside |= static_cast<uint32_t>(row + i * kStride < s.size) << i;
            }
        } else {
            inside = bytes_of(s.size - chunk * kChunk);
        }
    }

    __device__ static uint32_t
    bytes_of(int64_t elements)
    {
        return elements >= kChunk ? kChunkBytes
                                  : elements <= 0 ? 0 : static_cast<uint32_t>(elements) * 2;
    }

    // Copy number i of kCount of a slab that lies inside the operand.
    __device__ void
    copy(int i, uint32_t to) const
    {
        ptx::copy_async_16(to + chunk_offset<kChunks>(row + i * kStride, chunk), from + i * step);
    }

    // The same of any slab; `k` is its first k.
    __device__ void
    copy_edge(const source<T> &s, int64_t k, int i, uint32_t to) const
    {
        static_assert(kCount <= 32, "a bit a row");
        uint32_t bytes = kAlongK ? bytes_of(s.depth - k - chunk * kChunk) : inside;
        bool whole = kAlongK ? inside >> i & 1 : k + row + i * kStride < s.depth;
        uint32_t size = whole ? bytes : 0;
        // Nothing is read of a chunk of no bytes, but its address has to be a valid one.
        ptx::copy_async_16(
            to + chunk_offset<kChunks>(row + i * kStride, chunk), size ? from + i * step : s.data,
            static_cast<int>(size));
    }

    __device__ void
    advance(const source<T> &s)
    {
        from += kAlongK ? kSlab : kSlab * s.pitch;
    }
};

// The slabs of a tile on their way into the stages, in order. Those beyond the operands' depth are
// zeros, so that every slab has its group of copies: waiting counts groups.
template <typename T, typename S, bool kAAlongK, bool kBAlongK>
struct feed {
    using loader_a = loader<T, S::kTileM, S::kSlab, S::kThreads, kAAlongK>;
    using loader_b = loader<T, S::kTileN, S::kSlab, S::kThreads, kBAlongK>;
    static constexpr int kCount = loader_a::kCount + loader_b::kCount; // copies of a thread a slab

    const source<T> &a, &b;
    loader_a load_a;
    loader_b load_b;
    int64_t k = 0;       // of the slab on its way
    uint32_t into, base; // its stage

    bool tile_inside; // as to m and n

    __device__
    feed(const source<T> &a, const source<T> &b, uint32_t shared)
        : a(a), b(b), load_a(a), load_b(b), into(shared), base(shared),
          tile_inside(a.size >= S::kTileM && b.size >= S::kTileN)
    {
    }

    __device__ bool
    slab_inside() const
    {
        return tile_inside && k + S::kSlab <= a.depth;
    }

    // Copies [begin, end) of a slab that lies inside the operands: a's, then b's.
    template <int kBegin, int kEnd>
    __device__ void
    copy() const
    {
#pragma unroll
        for (int i = kBegin; i < kEnd; i++) {
            if (i < loader_a::kCount) {
                load_a.copy(i, into);
            } else {
                load_b.copy(i - loader_a::kCount, into + S::kBytesA);
            }
        }
    }

    // All copies of any slab. Not unrolled: it is the rare case, and would hold registers.
    __device__ void
    copy_edge() const
    {
#pragma unroll 1
        for (int i = 0; i < loader_a::kCount; i++) {
            load_a.copy_edge(a, k, i, into);
        }
#pragma unroll 1
        for (int i = 0; i < loader_b::kCount; i++) {
            load_b.copy_edge(b, k, i, into + S::kBytesA);
        }
    }

    __device__ void
    close()
    {
        ptx::copy_async_commit();
        load_a.advance(a);
        load_b.advance(b);
        k += S::kSlab;
        into += S::kStageBytes;
        into = into == base + S::kStages * S::kStageBytes ? base : into;
    }
};

// ---- fragments ----------------------------------------------------------------------------------

// a: 16 x 16 at row m of the slab and step `step`: blocks (m, k), (m + 8, k), (m, k + 8), (m + 8, k + 8).
template <int kTile, int kSlab, bool kAlongK>
__device__ inline void
load_a(uint32_t slab, int m, int step, uint32_t (&r)[4])
{
    constexpr int kChunks = kRowChunks<kTile, kSlab, kAlongK>;
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    if constexpr (kAlongK) {
        ptx::ldmatrix_x4(
            slab + chunk_offset<kChunks>(m + lane % 16, step * 2 + lane / 16), r);
    } else {
        ptx::ldmatrix_x4_trans(
            slab + chunk_offset<kChunks>(
                       step * kStepK + lane / 16 * 8 + lane % 8, m / kChunk + lane / 8 % 2),
            r);
    }
}

// b: 16 x 16 at column n: blocks (k, n), (k + 8, n), (k, n + 8), (k + 8, n + 8): two fragments of 8 columns.
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
            slab + chunk_offset<kChunks>(
                       step * kStepK + lane / 8 % 2 * 8 + lane % 8, n / kChunk + lane / 16),
            r);
    }
}

template <typename S>
struct fragments {
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

// ---- store --------------------------------------------------------------------------------------

// Fragments hold two columns a thread, rows of the out want 16 bytes: a warp's sums pass through its
// own part of the shared memory.
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

// `m` and `n` are the part's first row and column of the out. A lane keeps to 8 columns. Not unrolled:
// the error function of each element is long.
template <typename S, typename T>
__device__ inline void
store_sums(const problem<T> &p, const job<T> &j, int64_t m, int64_t n, const float *staged)
{
    constexpr int kChunks = S::kN / kChunk;
    static_assert(kWarp % kChunks == 0, "a lane's column stays");
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    int column = lane % kChunks * kChunk;
    int64_t inside = p.N - n - column; // columns of this lane that exist

#pragma unroll 1
    for (int row = lane / kChunks; row < S::kM && m + row < p.M && inside > 0;
         row += kWarp / kChunks) {
        const T *c = row_of_c(p, j, m + row);
        T *out = j.out + (m + row) * p.out_pitch + n + column;
        pack<float, 8> sum = load_pack<float, 8>(staged + row * S::kPitchOut + column);
        pack<T> x;
#pragma unroll
        for (int i = 0; i < kChunk; i++) {
            if (i < inside) {
                x.lane[i] = of_f32<T>(finish(p, sum.lane[i], c, n + column + i));
            }
        }
        if (inside >= kChunk) {
            store_pack(out, x);
            continue;
        }
#pragma unroll
        for (int i = 0; i < kChunk; i++) {
            if (i < inside) {
                out[i] = x.lane[i];
            }
        }
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

// One step: the products of `now` while `next` is read from `stage` and the slab's share of copies is
// asked for. They take turns: a burst of reads would fill the queue to shared memory and hold back the
// products behind it, and reads late in a step would be waited for at the start of the next.
template <typename S, bool kAAlongK, bool kBAlongK, int kStep, typename T>
__device__ inline void
do_step(
    const feed<T, S, kAAlongK, kBAlongK> &in, uint32_t stage, int m, int n, const fragments<S> &now,
    fragments<S> &next, float (&sums)[S::kM / 16][S::kN / 8][4])
{
    constexpr int kRows = S::kM / 16, kCount = feed<T, S, kAAlongK, kBAlongK>::kCount;
    constexpr int kAsking = S::kSteps - 1; // steps before the last, after which the slab is waited for
    load_half<S, kAAlongK, kBAlongK>(stage, m, n, (kStep + 1) % S::kSteps, 0, next);
    multiply_row<T, S>(now, 0, sums);
    load_half<S, kAAlongK, kBAlongK>(stage, m, n, (kStep + 1) % S::kSteps, 1, next);
    // Copies go into the stage of the slab before, which nobody reads any more.
    if (kStep < kAsking && in.slab_inside()) {
        in.template copy<kStep * kCount / kAsking, (kStep + 1) * kCount / kAsking>();
    } else if (kStep == 0) {
        in.copy_edge();
    }
#pragma unroll
    for (int i = 1; i < kRows; i++) {
        multiply_row<T, S>(now, i, sums);
    }
}

// The sums of a warp's part of the tile over all k.
template <typename S, bool kAAlongK, bool kBAlongK, typename T>
__device__ inline void
sum_slabs(
    const source<T> &a, const source<T> &b, uint32_t shared, int m, int n,
    float (&sums)[S::kM / 16][S::kN / 8][4])
{
    static_assert(S::kSteps == 2 || S::kSteps == 4, "the steps below");
    feed<T, S, kAAlongK, kBAlongK> in(a, b, shared);
    for (int stage = 0; stage < S::kStages - 1; stage++) {
        in.copy_edge();
        in.close();
    }
    ptx::copy_async_wait<S::kStages - 2>();
    __syncthreads();

    fragments<S> f[2];
    uint32_t stage = shared;
    load_half<S, kAAlongK, kBAlongK>(stage, m, n, 0, 0, f[0]);
    load_half<S, kAAlongK, kBAlongK>(stage, m, n, 0, 1, f[0]);
    for (int64_t k = 0; k < a.depth; k += S::kSlab) {
        do_step<S, kAAlongK, kBAlongK, 0>(in, stage, m, n, f[0], f[1], sums);
        if constexpr (S::kSteps == 4) {
            do_step<S, kAAlongK, kBAlongK, 1>(in, stage, m, n, f[1], f[0], sums);
            do_step<S, kAAlongK, kBAlongK, 2>(in, stage, m, n, f[0], f[1], sums);
        }
        // All warps have read the present slab into registers, the next one has arrived.
        in.close();
        ptx::copy_async_wait<S::kStages - 2>();
        __syncthreads();
        stage += S::kStageBytes;
        stage = stage == shared + S::kStages * S::kStageBytes ? shared : stage;
        do_step<S, kAAlongK, kBAlongK, S::kSteps - 1>(in, stage, m, n, f[1], f[0], sums);
    }
    // The last fragments asked for are never multiplied; what follows may write over all stages.
    ptx::copy_async_wait<0>();
    __syncthreads();
}

template <typename T, typename S, bool kAAlongK, bool kBAlongK>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
mma(const __grid_constant__ problem<T> p)
{
    extern __shared__ __align__(128) uint8_t shared[];
    job<T> j = job_of<S::kTileM, S::kTileN>(p);
    int warp = static_cast<int>(threadIdx.x) / kWarp;
    int m = warp / S::kWarpsN * S::kM, n = warp % S::kWarpsN * S::kN;
    float sums[S::kM / 16][S::kN / 8][4] = {};

    if (p.K > 0) {
        source<T> a = {j.a + j.m * (kAAlongK ? p.a_pitch : 1), p.a_pitch, p.M - j.m, p.K};
        source<T> b = {j.b + j.n * (kBAlongK ? p.b_pitch : 1), p.b_pitch, p.N - j.n, p.K};
        sum_slabs<S, kAAlongK, kBAlongK>(a, b, ptx::shared_address(shared), m, n, sums);
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

using large = shape<128, 256, 64, 3, 2, 4>;
using small = shape<64, 64, 64, 3, 2, 2>;

template <typename T>
aicf_status
launch(const problem<T> &p, aicf_stream stream)
{
    bool fills = ceil_div(p.M, large::kTileM) * ceil_div(p.N, large::kTileN) * p.batches >= 64;
    return fills ? launch_shape<T, large>(p, stream) : launch_shape<T, small>(p, stream);
}

} // namespace aicf::gemm

#define LAUNCHER(T, suffix)                                                                         \
    aicf_status aicf_cuda_gemm_mma_##suffix(                                                        \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,                  \
        const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha,      \
        double beta, aicf_gemm_act act, aicf_stream stream)                                         \
    {                                                                                               \
        return aicf::gemm::launch(                                                                  \
            aicf::gemm::problem_of(                                                                 \
                a, b, aicf::device(bias), c, out, M, K, N, alpha, beta, act),                       \
            stream);                                                                                \
    }

LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
