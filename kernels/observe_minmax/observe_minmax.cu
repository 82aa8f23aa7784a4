// lo = min(lo, x), hi = max(hi, x), of all of x or of each channel of [L, C, R] (cuda): dense, f32,
// f16 and bf16, lo and hi f32. A NaN makes both NaN, and they stay it.
//   rows: threads side by side along runs of R, each run cut into as many pieces as fill the
//     machine; heads and tails peeled
//   columns: short runs: threads side by side along [C, R], each going down L
// A block, or a warp of a run, then merges what it found into lo and hi by integer atomics on the
// bits of the f32, whose order they have: least and greatest do not depend on who comes first, so
// the same bits come out at every run. Bound by the bytes of x.
#include <aicf_ops/observe_minmax.h>

#include <cmath>

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::observe_minmax {

constexpr int kBlock = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kBlock / kWarp;
constexpr int kUnroll = 4;              // loads of a thread before the first is used
constexpr int64_t kEnoughBlocks = 4224; // fill the largest machines some times over: a short tail

// NaN of either wins and stays; -0 is below 0.
struct range {
    float least, most;

    __device__ void add(float low, float high)
    {
        least = ptx::min_nan(least, low);
        most = ptx::max_nan(most, high);
    }
};

__device__ inline range
of_nothing()
{
    return {INFINITY, -INFINITY};
}

template <typename T>
__device__ inline void
add_words(range &r, const words &held, T type)
{
    float x[kPackSize<T>];
    unpack(held, x, type);
#pragma unroll
    for (int lane = 0; lane < kPackSize<T>; lane++) {
        r.add(x[lane], x[lane]);
    }
}

__device__ inline range
over_warp(range r)
{
#pragma unroll
    for (int lane = kWarp / 2; lane > 0; lane /= 2) {
        r.add(
            __shfl_xor_sync(0xffffffff, r.least, lane), __shfl_xor_sync(0xffffffff, r.most, lane));
    }
    return r;
}

// ---- merging ------------------------------------------------------------------------------------

// Of floats of one sign the bits are in their order, of negative ones in the reverse. A NaN is put
// in as the bits that win against all others. One that stood there before is seen by everybody, who
// then do nothing.
__device__ inline void
merge_least(float *to, float x)
{
    float held = *static_cast<volatile float *>(to);
    uint32_t bits = isnan(x) ? 0xffffffff : __float_as_uint(x);
    if (isnan(held) || (x > held) || bits == __float_as_uint(held)) {
        return;
    }
    if (bits >> 31) {
        atomicMax(reinterpret_cast<unsigned *>(to), bits);
    } else {
        atomicMin(reinterpret_cast<int *>(to), static_cast<int>(bits));
    }
}

__device__ inline void
merge_most(float *to, float x)
{
    float held = *static_cast<volatile float *>(to);
    uint32_t bits = isnan(x) ? 0x7fffffff : __float_as_uint(x);
    if (isnan(held) || (x < held) || bits == __float_as_uint(held)) {
        return;
    }
    if (bits >> 31) {
        atomicMin(reinterpret_cast<unsigned *>(to), bits);
    } else {
        atomicMax(reinterpret_cast<int *>(to), static_cast<int>(bits));
    }
}

// ---- rows ---------------------------------------------------------------------------------------

template <typename T> struct operands {
    const T *x;
    float *lo, *hi;
    int64_t L, C, R;
    int64_t pieces, piece; // rows: of a run, and elements in each; columns: of L, and rows in each
    int64_t work;          // rows: pieces of all runs; columns: groups of columns
};

// Of the elements [first, end) those of one of `lanes` threads side by side.
template <typename T>
__device__ inline range
range_of(const T *x, int64_t n, int lane, int lanes)
{
    constexpr int kSize = kPackSize<T>;
    range r = of_nothing();
    int64_t phase = reinterpret_cast<uintptr_t>(x) % kPackBytes / sizeof(T);
    int64_t head = phase == 0 ? 0 : kSize - phase;
    head = head < n ? head : n;
    int64_t packs = (n - head) / kSize;

    int64_t i = lane;
    for (; i + (kUnroll - 1) * lanes < packs; i += kUnroll * lanes) {
        words held[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            held[u] = load_words(x + head + (i + u * lanes) * kSize);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            add_words(r, held[u], T{});
        }
    }
    for (; i < packs; i += lanes) {
        add_words(r, load_words(x + head + i * kSize), T{});
    }

    int64_t tail = head + packs * kSize + lane;
    if (lane < head) {
        r.add(to_f32(x[lane]), to_f32(x[lane]));
    }
    if (tail < n) {
        r.add(to_f32(x[tail]), to_f32(x[tail]));
    }
    return r;
}

// A piece a block or, kTeam 32, a warp.
template <typename T, int kTeam>
__global__ void
__launch_bounds__(kBlock) rows(operands<T> p)
{
    constexpr int kTeams = kBlock / kTeam;
    int lane = threadIdx.x % kTeam;
    int64_t item = blockIdx.x * int64_t{kTeams} + threadIdx.x / kTeam;
    if (item >= p.work) {
        return;
    }
    int64_t run = item / p.pieces, first = (item - run * p.pieces) * p.piece;
    int64_t left = p.R - first;
    const T *x = p.x + run * p.R + first;
    range r = over_warp(range_of(x, left < p.piece ? left : p.piece, lane, kTeam));

    if constexpr (kTeam == kBlock) {
        __shared__ range found[kWarps];
        if (threadIdx.x % kWarp == 0) {
            found[threadIdx.x / kWarp] = r;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
#pragma unroll
            for (int warp = 1; warp < kWarps; warp++) {
                r.add(found[warp].least, found[warp].most);
            }
        }
    }
    if (lane == 0) {
        merge_least(p.lo + run % p.C, r.least);
        merge_most(p.hi + run % p.C, r.most);
    }
}

// ---- columns ------------------------------------------------------------------------------------

// A warp's lanes hold kSize columns each, side by side, and the block's warps go down L in turn.
template <typename T, int kSize>
__global__ void
__launch_bounds__(kBlock) columns(operands<T> p)
{
    __shared__ range found[kWarps][kWarp][kSize];
    int64_t width = p.C * p.R;
    int64_t piece = blockIdx.x / p.work;
    int64_t column = ((blockIdx.x - piece * p.work) * kWarp + threadIdx.x % kWarp) * kSize;
    int warp = threadIdx.x / kWarp;
    int64_t end = (piece + 1) * p.piece < p.L ? (piece + 1) * p.piece : p.L;

    range r[kSize];
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        r[i] = of_nothing();
    }
    for (int64_t row = piece * p.piece + warp; row < end && column < width; row += kWarps) {
        const T *x = p.x + row * width + column;
        float lanes[kSize];
        if constexpr (kSize == 1) {
            lanes[0] = to_f32(*x);
        } else {
            unpack(load_words(x), lanes, T{});
        }
#pragma unroll
        for (int i = 0; i < kSize; i++) {
            r[i].add(lanes[i], lanes[i]);
        }
    }

#pragma unroll
    for (int i = 0; i < kSize; i++) {
        found[warp][threadIdx.x % kWarp][i] = r[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kWarp * kSize; i += kBlock) {
        int64_t at = (blockIdx.x - piece * p.work) * (kWarp * kSize) + i;
        if (at >= width) {
            break;
        }
        range all = of_nothing();
#pragma unroll
        for (int w = 0; w < kWarps; w++) {
            range one = found[w][i / kSize][i % kSize];
            all.add(one.least, one.most);
        }
        merge_least(p.lo + at / p.R, all.least);
        merge_most(p.hi + at / p.R, all.most);
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T>
aicf_status
launch_rows(operands<T> p, aicf_stream stream)
{
    constexpr int64_t kLeast = int64_t{kBlock} * kPackSize<T> * kUnroll; // elements worth a block
    int64_t runs = p.L * p.C;
    int64_t want = ceil_div(kEnoughBlocks, runs), most = ceil_div(p.R, kLeast);
    p.pieces = want < most ? want : most;
    p.piece = ceil_div(ceil_div(p.R, p.pieces), kPackSize<T>) * kPackSize<T>;
    p.pieces = ceil_div(p.R, p.piece);
    p.work = runs * p.pieces;
    // A warp takes up to 32 loads a lane; a block has the longer end, but the shorter way to it.
    bool wide =
        p.piece > kWarp * kPackSize<T> * 32 || (p.work < kEnoughBlocks / 4 && p.piece > kLeast / 4);
    int64_t blocks = wide ? p.work : ceil_div(p.work, kWarps);
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return aicf::launch(
        wide ? rows<T, kBlock> : rows<T, kWarp>, static_cast<unsigned>(blocks), kBlock, 0, stream,
        p);
}

template <typename T>
aicf_status
launch_columns(operands<T> p, aicf_stream stream)
{
    constexpr int kSize = kPackSize<T>;
    int64_t width = p.C * p.R;
    bool packs = width % kSize == 0 && phase_of(p.x) == 0;
    p.work = ceil_div(width, int64_t{kWarp} * (packs ? kSize : 1));
    int64_t want = ceil_div(kEnoughBlocks, p.work), most = ceil_div(p.L, kWarps * kUnroll);
    p.piece = ceil_div(p.L, want < most ? want : most);
    p.pieces = ceil_div(p.L, p.piece);
    if (p.work > kMostBlocks / p.pieces) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return aicf::launch(
        packs ? columns<T, kSize> : columns<T, 1>, static_cast<unsigned>(p.work * p.pieces), kBlock,
        0, stream, p);
}

template <typename T>
aicf_status
launch(
    const T *x, float *lo, float *hi, int64_t L, int64_t C, int64_t R, int64_t S,
    aicf_stream stream)
{
    constexpr int64_t kShort = kWarp * kPackSize<T> / 2; // a warp's worth of a run, by half
    if (L * C * R == 0) {
        return aicf_ok();
    }
    if (S == 1) {
        R *= L * C;
        L = C = 1;
    }
    operands<T> p = {x, lo, hi, L, C, R, 1, 0, 0};
    return R >= kShort || L * C == 1 ? launch_rows(p, stream) : launch_columns(p, stream);
}

} // namespace aicf::observe_minmax

#define LAUNCHER(T, suffix)                                                                    \
    aicf_status aicf_cuda_observe_minmax_merge_##suffix(                                       \
        const T *x, float *lo, float *hi, int64_t L, int64_t C, int64_t R, int64_t S, int64_t, \
        aicf_stream stream)                                                                    \
    {                                                                                          \
        return aicf::observe_minmax::launch(aicf::device(x), lo, hi, L, C, R, S, stream);      \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
