// gemm in f32 by multiply-adds, for sm_80 and later (see gemm.cuh for the operands, tiles.cuh for
// the tiles): any M, N and K, 0 included, at any address. Asynchronous copies keep slabs ahead of
// the products, of 16 bytes where neighbours along m or n lie on them; else of 4, which turn an
// operand whose k lies together. Bound by multiply-adds.
#ifndef AICF_GEMM_FMA_CUH
#define AICF_GEMM_FMA_CUH

#include "narrow.cuh"
#include "shallow.cuh"
#include "thin_packs.cuh"
#include "tiles.cuh"
#include "wide.cuh"

#include <aicf/cuda/ptx.cuh>

namespace aicf::gemm {

// How an operand is copied.
enum class copying {
    along_k, // an element at a time, turned
    single,  // an element at a time
    quads    // 16 bytes at a time
};

// One thread's copies of a slab of kTile (m or n) by kSlab (k): the same place in the unit-stride
// dim of every kStride-th line along the other.
template <int kTile, copying kHow> struct copier {
    static constexpr bool kAlongK = kHow == copying::along_k;
    static constexpr int kVector = kHow == copying::quads ? kQuad : 1;
    static constexpr int kAcross = (kAlongK ? kSlab : kTile) / kVector; // threads on a line
    static constexpr int kStride = kThreads / kAcross;
    static constexpr int kCount = (kAlongK ? kTile : kSlab) / kStride;
    static constexpr int kPitch = kTile + kPad;
    static constexpr uint32_t kNext = (kAlongK ? kStride : kStride * kPitch) * 4; // in the slab
    static_assert(
        kThreads % kAcross == 0 && kCount * kStride == (kAlongK ? kTile : kSlab), "whole");

    const float *from; // of the thread's first copy in the next slab
    int64_t step;      // to its next one
    int64_t slab_step;
    int x, k;
    uint32_t to;  // in a slab
    int64_t size; // how many x there are from the tile's first on

    __device__ copier(const float *first, int64_t pitch, int64_t size) : size(size)
    {
        int along = static_cast<int>(threadIdx.x) % kAcross * kVector;
        int line = static_cast<int>(threadIdx.x) / kAcross;
        x = kAlongK ? line : along;
        k = kAlongK ? along : line;
        from = first + line * pitch + along;
        step = kStride * pitch;
        slab_step = kAlongK ? kSlab : kSlab * pitch;
        to = static_cast<uint32_t>(k * kPitch + x) * 4;
    }

    __device__ void copy_inside(uint32_t slab) const
    {
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            if constexpr (kVector == kQuad) {
                ptx::copy_async_16(slab + to + i * kNext, from + i * step);
            } else {
                ptx::copy_async_4(slab + to + i * kNext, from + i * step);
            }
        }
    }

    // Of a slab that is not whole, of which `depth` k are left: zeros are what is outside.
    __device__ void copy_edge(uint32_t slab, int64_t depth, const float *valid) const
    {
#pragma unroll 1
        for (int i = 0; i < kCount; i++) {
            int64_t at_x = x + (kAlongK ? i * kStride : 0), at_k = k + (kAlongK ? 0 : i * kStride);
            int64_t left = at_k < depth ? size - at_x : 0;
            left = left < 0 ? 0 : left > kVector ? kVector : left;
            // Nothing is read where all is zeros, but the address has to be a valid one.
            const float *p = left ? from + i * step : valid;
            if constexpr (kVector == kQuad) {
                ptx::copy_async_16(slab + to + i * kNext, p, static_cast<int>(left) * 4);
            } else {
                ptx::copy_async_4(slab + to + i * kNext, p, static_cast<int>(left) * 4);
            }
        }
    }

    __device__ void copy(uint32_t slab, int64_t depth, const float *valid)
    {
        if (depth >= kSlab && size >= kTile) {
            copy_inside(slab);
        } else {
            copy_edge(slab, depth, valid);
        }
        from += slab_step;
    }
};

constexpr int kStagesFma = 4;

template <int kTileM, int kTileN> struct stage {
    slab<kTileM> a;
    slab<kTileN> b;
};

// A product, or parts of k as one more batch dim, the outermost, of which the last is shorter.
struct parted : problem<float> {
    int64_t last, last_K; // the first tile of the last part, and the part's K
};

// 128 registers a thread: two blocks a multiprocessor. (Tiles of 128 x 256 by blocks that are
// alone, which read a quarter less from shared memory, measured 0.98 to 0.66 of the speed on an
// H200.)
template <int kTileM, int kTileN, copying kA, copying kB>
__global__ void
__launch_bounds__(kThreads, 2) fma(const __grid_constant__ parted p)
{
    using mine = share<kTileM, kTileN>;
    using stage_t = stage<kTileM, kTileN>;
    extern __shared__ __align__(128) uint8_t shared[];
    const stage_t *stages = reinterpret_cast<const stage_t *>(shared);
    uint32_t base = ptx::shared_address(shared);
    ptx::let_next_launch_begin();
    job<float> j = job_of<kTileM, kTileN>(p);
    int64_t K = p.first + blockIdx.x < p.last ? p.K : p.last_K;
    copier<kTileM, kA> a(
        j.a + j.m * (kA == copying::along_k ? p.a_pitch : 1), p.a_pitch, p.M - j.m);
    copier<kTileN, kB> b(
        j.b + j.n * (kB == copying::along_k ? p.b_pitch : 1), p.b_pitch, p.N - j.n);

    int64_t ahead = K; // k that is not asked for yet
    auto ask = [&](int to) {
        if (ahead > 0) {
            uint32_t at = base + static_cast<uint32_t>(to) * sizeof(stage_t);
            a.copy(at, ahead, j.a);
            b.copy(at + sizeof(slab<kTileM>), ahead, j.b);
        }
        ahead -= kSlab;
        ptx::copy_async_commit(); // an empty group too: waiting counts groups
    };
    for (int i = 0; i < kStagesFma - 1; i++) {
        ask(i);
    }

    float sums[mine::kM][mine::kN] = {};
    int now = 0, next = kStagesFma - 1;
    for (int64_t k = 0; k < K; k += kSlab) {
        ptx::copy_async_wait<kStagesFma - 2>();
        __syncthreads(); // the slab has come for all, and all have read the one before
        ask(next);
        multiply<kTileM, kTileN>(stages[now].a, stages[now].b, sums);
        next = now;
        now = now + 1 == kStagesFma ? 0 : now + 1;
    }
    store<kTileM, kTileN>(p, j, sums);
}

template <int kTileM, int kTileN, copying kA, copying kB>
aicf_status
launch_fma_kernel(parted p, aicf_stream stream)
{
    constexpr int kShared = kStagesFma * static_cast<int>(sizeof(stage<kTileM, kTileN>));
    aicf_status status = allow_shared(fma<kTileM, kTileN, kA, kB>, kShared);
    // `last` comes as a matrix.
    p.last *= ceil_div(p.M, kTileM) * ceil_div(p.N, kTileN);
    return status.kind
               ? status
               : launch_tiles(
                     fma<kTileM, kTileN, kA, kB>, p, kTileM, kTileN, kThreads, kShared, stream);
}

template <int kTileM, int kTileN, copying kA>
aicf_status
launch_fma_by_b(const parted &p, copying b, aicf_stream stream)
{
    switch (b) {
    case copying::along_k:
        return launch_fma_kernel<kTileM, kTileN, kA, copying::along_k>(p, stream);
    case copying::single: return launch_fma_kernel<kTileM, kTileN, kA, copying::single>(p, stream);
    case copying::quads: break;
    }
    return launch_fma_kernel<kTileM, kTileN, kA, copying::quads>(p, stream);
}

// Few rows are too few for quads of them: a is the lesser operand there.
template <int kTileM, int kTileN>
aicf_status
launch_fma_tiles(const parted &p, copying a, copying b, aicf_stream stream)
{
    if (a == copying::along_k) {
        return launch_fma_by_b<kTileM, kTileN, copying::along_k>(p, b, stream);
    }
    if constexpr (kTileM >= 64) {
        if (a == copying::quads) {
            return launch_fma_by_b<kTileM, kTileN, copying::quads>(p, b, stream);
        }
    }
    return launch_fma_by_b<kTileM, kTileN, copying::single>(p, b, stream);
}

inline copying
copying_of(
    const problem<float> &p, const float *data, bool along_k, int64_t pitch, const int64_t *batch)
{
    return along_k                                            ? copying::along_k
           : aligned(data, pitch, batch, p.batch_rank, kQuad) ? copying::quads
                                                              : copying::single;
}

// ---- sums of parts ------------------------------------------------------------------------------

// Where tiles are too few for the machine, parts of k are products of their own, as one more batch
// dim, whose outs lie in the workspace and are added in order.
constexpr int kMostParts = 16;
constexpr int64_t kMostAtOnce = 264; // blocks of 128 x 128 that the row's workspace is for
constexpr int kAddThreads = 128;

struct parts {
    const float *data; // [count][batches][M][N]
    int64_t count, step;
};

// kVector: columns of a thread, which lie on their size in the workspace.
template <int kVector>
__global__ void
__launch_bounds__(kAddThreads) add_parts(const __grid_constant__ problem<float> p, parts from)
{
    job<float> j = job_of<1, kAddThreads * kVector>(p);
    int64_t n = j.n + threadIdx.x * kVector,
            matrix = (static_cast<int64_t>(blockIdx.x) + p.first) / (p.tiles_m * p.tiles_n);
    ptx::wait_for_launch_before();
    if (n >= p.N) {
        return;
    }
    const float *part = from.data + (matrix * p.M + j.m) * p.N + n;
    pack<float, kVector> sum = {};
#pragma unroll 8
    for (int64_t i = 0; i < from.count; i++) {
        pack<float, kVector> x = load_pack<float, kVector>(part + i * from.step);
#pragma unroll
        for (int lane = 0; lane < kVector; lane++) {
            sum.lane[lane] += x.lane[lane];
        }
    }
    const float *c = row_of_c(p, j, j.m);
    float *out = j.out + j.m * p.out_pitch + n;
#pragma unroll
    for (int lane = 0; lane < kVector; lane++) {
        sum.lane[lane] = finish(p, sum.lane[lane], c, n + lane);
    }
    if (reinterpret_cast<uintptr_t>(out) % (kVector * sizeof(float)) == 0) {
        store_pack(out, sum);
        return;
    }
#pragma unroll
    for (int lane = 0; lane < kVector; lane++) {
        out[lane] = sum.lane[lane];
    }
}

// Blocks that run at once, of those that the row's workspace is for.
inline int64_t
at_once(int processors)
{
    return 2 * processors < kMostAtOnce ? 2 * processors : kMostAtOnce;
}

// k of each of so many parts, but the last: whole slabs.
inline int64_t
part_of(const problem<float> &p, int64_t count)
{
    return ceil_div(ceil_div(p.K, count), kSlab) * kSlab;
}

// The most parts that run at once and are worth it.
inline int64_t
parts_of(const problem<float> &p, int64_t tiles, int processors)
{
    constexpr int64_t kLeast = 128; // k of a part
    int64_t best = 1;
    for (int64_t count = 2; count <= kMostParts && p.batch_rank < kMostBatchDims; count++) {
        if (p.K / count >= kLeast && count * tiles <= at_once(processors)) {
            best = ceil_div(p.K, part_of(p, count));
        }
    }
    return best;
}

// The product of each part of k, into the workspace.
inline parted
part_problem(const problem<float> &p, int64_t count, void *workspace)
{
    parted part = {p, p.batches * (count - 1), 0};
    part.K = part_of(p, count);
    part.last_K = p.K - (count - 1) * part.K;
    part.bias = part.c = nullptr;
    part.alpha = 1.0f;
    part.beta = 0.0f;
    part.act = AICF_GEMM_ACT_NONE;
    part.out = static_cast<float *>(workspace);
    part.out_pitch = p.N;
    int64_t step = p.M * p.N;
    for (int dim = 0; dim < p.batch_rank; dim++) {
        part.out_batch[dim] = step;
        part.c_batch[dim] = 0;
        step *= p.batch_sizes[dim];
    }
    int dim = part.batch_rank++;
    part.batch_sizes[dim] = count;
    part.a_batch[dim] = part.K * (p.a_along_k ? 1 : p.a_pitch);
    part.b_batch[dim] = part.K * (p.b_along_k ? 1 : p.b_pitch);
    part.c_batch[dim] = 0;
    part.out_batch[dim] = step;
    part.batches *= count;
    return part;
}

template <int kVector>
aicf_status
launch_add_parts(problem<float> p, const parts &from, aicf_stream stream)
{
    p.tiles_m = p.M;
    p.tiles_n = ceil_div(p.N, kAddThreads * kVector);
    p.narrow = true;
    int64_t blocks = p.tiles_m * p.tiles_n * p.batches; // of few tiles: far below 2^31
    return launch_waiting(
        add_parts<kVector>, static_cast<unsigned>(blocks), kAddThreads, 0, stream, p, from);
}

template <int kTileM, int kTileN>
aicf_status
launch_fma_parts(const problem<float> &p, int processors, void *workspace, aicf_stream stream)
{
    copying a = copying_of(p, p.a, p.a_along_k, p.a_pitch, p.a_batch);
    copying b = copying_of(p, p.b, p.b_along_k, p.b_pitch, p.b_batch);
    int64_t tiles = ceil_div(p.M, kTileM) * ceil_div(p.N, kTileN) * p.batches;
    int64_t count = parts_of(p, tiles, processors);
    if (count == 1) {
        return launch_fma_tiles<kTileM, kTileN>({p, p.batches, p.K}, a, b, stream);
    }
    parted part = part_problem(p, count, workspace);
    int last = part.batch_rank - 1;
    a = a == copying::quads && part.a_batch[last] % kQuad ? copying::single : a;
    b = b == copying::quads && part.b_batch[last] % kQuad ? copying::single : b;
    aicf_status status = launch_fma_tiles<kTileM, kTileN>(part, a, b, stream);
    if (status.kind) {
        return status;
    }
    parts from = {part.out, count, p.M * p.N * p.batches};
    return p.N % kQuad == 0 ? launch_add_parts<kQuad>(p, from, stream)
                            : launch_add_parts<1>(p, from, stream);
}

// Whether tiles of 128 x 64 fill the machine twice, and nearly, and so need no parts.
inline bool
fills_halves(const problem<float> &p, int processors)
{
    int64_t tiles = ceil_div(p.M, 128) * ceil_div(p.N, 64) * p.batches;
    return tiles <= 2 * processors && tiles >= 2 * processors - processors / 4;
}

inline aicf_status
launch_fma(const problem<float> &p, void *workspace, aicf_stream stream)
{
    if (is_thin(p)) {
        return launch_thin_packs(p, stream);
    }
    if (takes_narrow(p)) {
        return launch_narrow(p, stream);
    }
    if (takes_shallow(p)) {
        return launch_shallow(p, stream);
    }
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    if (p.M <= 16) {
        return launch_fma_parts<16, 256>(p, processors, workspace, stream);
    }
    int64_t large = ceil_div(p.M, 128) * ceil_div(p.N, 128) * p.batches;
    bool fills = p.M > 64 && p.N > 64 &&
                 large * parts_of(p, large, processors) >= processors - processors / 32;
    if (p.M > 64 && fills_halves(p, processors)) {
        return takes_wide(p) ? launch_wide(p, stream)
                             : launch_fma_parts<128, 64>(p, processors, workspace, stream);
    }
    return fills ? launch_fma_parts<128, 128>(p, processors, workspace, stream)
                 : launch_fma_parts<64, 64>(p, processors, workspace, stream);
}

} // namespace aicf::gemm

#endif
