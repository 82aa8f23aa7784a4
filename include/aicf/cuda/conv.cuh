// What the CUDA kernels of 2-D convolutions share (see aicf/conv.h): the convolution as a product
// of two matrices, of which one is gathered from the field.
//
//   over taps:    out[m][n] = sum over k of field[m, k] * factor[n, k], m: images and places,
//                 n: outputs, k: channels and taps
//   over places:  factor[m][n] = sum over k of field[m, k] * out[n, k], m: channels and taps,
//                 n: outputs, k: images and places
//
// Element (m, k) of the field is where the offsets of m and of k add up to; outside of it a zero.
//
// Kernels, and what launches them, lie in the namespace of the op that they are compiled for, which
// its source defines as AICF_OP before it includes this.
#ifndef AICF_CUDA_CONV_CUH
#define AICF_CUDA_CONV_CUH

#include <aicf/conv.h>

#include <aicf/cuda/digits.cuh>
#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::conv {

// What an index adds to an element's place in the field.
struct alignas(16) spot {
    int64_t at;
    int y, x;
};

// The y of an index that there is none of: with any other spot's it is outside of every field,
// whose sides with their padding the table's guards keep below half of it.
constexpr int kNowhere = 1 << 30;

// Indices of places or of taps as three digits, the innermost first: what each adds to the place in
// the field and in the other tensor that has the dim.
struct walk {
    int64_t count;
    digits inner, middle;
    int64_t at, field[3], other[3];
    int y, x, step_y[3], step_x[3];

    // Requires i < count.
    __device__ spot find(int64_t i, int64_t &where) const
    {
        int64_t digit[3];
        digit[0] = inner.take(i);
        digit[1] = middle.take(i);
        digit[2] = i;
        spot s = {at, y, x};
        where = 0;
#pragma unroll
        for (int d = 0; d < 3; d++) {
            s.at += digit[d] * field[d];
            s.y += static_cast<int>(digit[d]) * step_y[d];
            s.x += static_cast<int>(digit[d]) * step_x[d];
            where += digit[d] * other[d];
        }
        return s;
    }
};

inline walk
walk_of(int64_t inner, int64_t middle, int64_t outer)
{
    walk w = {};
    w.count = inner * middle * outer;
    w.inner = digits_of(inner > 0 ? inner : 1, w.count);
    w.middle = digits_of(middle > 0 ? middle : 1, w.count);
    return w;
}

// Images and places; the other tensor is out.
inline walk
walk_places(const aicf_conv &c)
{
    walk w = walk_of(c.x.places, c.y.places, c.images);
    int64_t step_x = c.x.places > 1 ? c.x.step : 0, step_y = c.y.places > 1 ? c.y.step : 0;
    w.at = c.y.first * c.field_strides[2] + c.x.first * c.field_strides[3];
    w.y = static_cast<int>(c.y.first);
    w.x = static_cast<int>(c.x.first);
    w.field[0] = step_x * c.field_strides[3];
    w.field[1] = step_y * c.field_strides[2];
    w.field[2] = c.field_strides[0];
    w.step_x[0] = static_cast<int>(step_x);
    w.step_y[1] = static_cast<int>(step_y);
    w.other[0] = c.out_strides[3];
    w.other[1] = c.out_strides[2];
    w.other[2] = c.out_strides[0];
    return w;
}

inline bool
channels_inside(const aicf_conv &c)
{
    return c.field_strides[1] == 1;
}

// Channels and taps, in that order or, where they lie side by side, channels innermost; the other
// tensor is the factor.
inline walk
walk_taps(const aicf_conv &c)
{
    bool inside = channels_inside(c);
    int channel = inside ? 0 : 2, x = inside ? 1 : 0, y = inside ? 2 : 1;
    int64_t sizes[3];
    sizes[channel] = c.channels;
    sizes[y] = c.y.taps;
    sizes[x] = c.x.taps;
    walk w = walk_of(sizes[0], sizes[1], sizes[2]);
    w.field[channel] = c.field_strides[1];
    w.field[y] = c.y.taps > 1 ? c.y.tap_step * c.field_strides[2] : 0;
    w.field[x] = c.x.taps > 1 ? c.x.tap_step * c.field_strides[3] : 0;
    w.step_y[y] = static_cast<int>(c.y.taps > 1 ? c.y.tap_step : 0);
    w.step_x[x] = static_cast<int>(c.x.taps > 1 ? c.x.tap_step : 0);
    w.other[channel] = c.factor_strides[1];
    w.other[y] = c.factor_strides[2];
    w.other[x] = c.factor_strides[3];
    return w;
}

// One convolution. `dense`: the matrix that is not gathered.
template <typename T> struct problem {
    const T *field, *dense, *bias; // bias may be NULL
    T *out;
    walk m, k;
    int64_t M, N, K; // of a group
    int64_t dense_n, out_n;
    int64_t field_group, dense_group, out_group;
    int rows, columns; // of the field
    int taps_y;        // the outermost digit of k over taps, where channels are innermost
    int groups;
    bool over_places, channels_inside;
    // Made at the launch. Where the depth is split, `parts` takes f32 sums, [split][group][n][m].
    float *parts;
    int64_t tiles_m, tiles_n, first, depth; // depth: of a split
    int splits;
    bool narrow; // 32 bits count the blocks
};

template <typename T>
problem<T>
problem_of(const aicf_conv &c, bool over_places)
{
    problem<T> p = {};
    walk places = walk_places(c), taps = walk_taps(c);
    const T *factor = reinterpret_cast<const T *>(c.factor);
    p.field = reinterpret_cast<const T *>(c.field);
    p.dense = over_places ? reinterpret_cast<const T *>(c.out) : factor;
    p.bias = static_cast<const T *>(c.bias);
    p.out = reinterpret_cast<T *>(over_places ? c.factor : c.out);
    p.m = over_places ? taps : places;
    p.k = over_places ? places : taps;
    p.M = p.m.count;
    p.N = c.m;
    p.K = p.k.count;
    int64_t out_group = c.m * c.out_strides[1];
    p.dense_n = over_places ? c.out_strides[1] : c.factor_strides[0];
    p.out_n = over_places ? c.factor_strides[0] : c.out_strides[1];
    p.field_group = c.channels * c.field_strides[1];
    p.dense_group = over_places ? out_group : c.factor_group;
    p.out_group = over_places ? c.factor_group : out_group;
    p.rows = static_cast<int>(c.y.size);
    p.columns = static_cast<int>(c.x.size);
    p.taps_y = static_cast<int>(c.y.taps);
    p.groups = static_cast<int>(c.groups);
    p.over_places = over_places;
    p.channels_inside = channels_inside(c);
    p.splits = 1;
    p.depth = p.K;
    return p;
}

// ---- tiles --------------------------------------------------------------------------------------

// What a block computes: a tile of group and split, over the indices [k, end).
struct job {
    int64_t m, n, k, end, group, split;
};

template <int kTileM, int kTileN, typename Index, typename T>
__device__ inline job
job_at(const problem<T> &p, Index index)
{
    Index tiles_m = static_cast<Index>(p.tiles_m), tiles_n = static_cast<Index>(p.tiles_n);
    Index groups = static_cast<Index>(p.groups);
    job j;
    Index next = index / tiles_n;
    j.n = static_cast<int64_t>(index - next * tiles_n) * kTileN;
    index = next;
    next = index / tiles_m;
    j.m = static_cast<int64_t>(index - next * tiles_m) * kTileM;
    index = next;
    next = index / groups;
    j.group = static_cast<int64_t>(index - next * groups);
    j.split = static_cast<int64_t>(next);
    j.k = j.split * p.depth;
    j.end = p.K - j.k < p.depth ? p.K : j.k + p.depth;
    return j;
}

template <int kTileM, int kTileN, typename T>
__device__ inline job
job_of(const problem<T> &p)
{
    if (p.narrow) {
        return job_at<kTileM, kTileN, uint32_t>(p, blockIdx.x);
    }
    return job_at<kTileM, kTileN, uint64_t>(p, static_cast<uint64_t>(p.first) + blockIdx.x);
}

// One block a tile, all along grid.x; launches of at most kMostBlocks.
template <typename T, typename... More>
aicf_status
launch_tiles(
    void (*kernel)(problem<T>, More...), problem<T> p, int tile_m, int tile_n, int threads,
    size_t shared, aicf_stream stream, typename exactly<More>::type... more)
{
    p.tiles_m = ceil_div(p.M, tile_m);
    p.tiles_n = ceil_div(p.N, tile_n);
    int64_t count = p.tiles_m * p.tiles_n * p.groups * p.splits;
    p.narrow = count <= kMostBlocks;
    for (p.first = 0; p.first < count; p.first += kMostBlocks) {
        int64_t left = count - p.first;
        aicf_status status = aicf::launch(
            kernel, static_cast<unsigned>(left < kMostBlocks ? left : kMostBlocks), threads, shared,
            stream, p, more...);
        if (status.kind) {
            return status;
        }
    }
    return aicf_ok();
}

} // namespace aicf::conv

namespace aicf::AICF_OP {

using namespace conv;

// ---- splits -------------------------------------------------------------------------------------

constexpr int kSumThreads = 256;

// The out of sum i.
template <typename T>
__device__ inline T *
out_of_part(const problem<T> &p, digits by_m, digits by_n, int64_t i)
{
    int64_t m = by_m.take(i), n = by_n.take(i), where;
    p.m.find(m, where);
    return p.out + where + n * p.out_n + i * p.out_group;
}

// Sum i of the parts from `first` on, every kStep-th, in their order; eight are asked for at once.
template <int kStep, typename T>
__device__ inline float
add_parts(const problem<T> &p, int first, int64_t i, int64_t count)
{
    constexpr int kAtOnce = 8;
    float sum = 0.0f;
    for (int split = first; split < p.splits; split += kAtOnce * kStep) {
        float x[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; k++) {
            int at = split + k * kStep;
            x[k] = at < p.splits ? p.parts[at * count + i] : 0.0f;
        }
#pragma unroll
        for (int k = 0; k < kAtOnce; k++) {
            sum += x[k];
        }
    }
    return sum;
}

// The sums of the splits' parts, in their order. kEarly: waits for the launch that made them.
template <bool kEarly, typename T>
__global__ void
sum_parts(const __grid_constant__ problem<T> p, digits by_m, digits by_n)
{
    if constexpr (kEarly) {
        ptx::wait_for_launch_before();
    }
    int64_t count = p.M * p.N * p.groups;
    int64_t i = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
    if (i >= count) {
        return;
    }
    *out_of_part(p, by_m, by_n, i) = of_f32<T>(add_parts<1>(p, 0, i, count));
}

// Of many parts of few sums: a warp has each kWarps-th part of 32 sums, then the warps' are added
// in order.
constexpr int kSumLanes = 32;

template <int kWarps, bool kEarly, typename T>
__global__ void
__launch_bounds__(kWarps *kSumLanes)
    sum_many_parts(const __grid_constant__ problem<T> p, digits by_m, digits by_n)
{
    __shared__ float room[kWarps][kSumLanes];
    if constexpr (kEarly) {
        ptx::wait_for_launch_before();
    }
    int lane = static_cast<int>(threadIdx.x) % kSumLanes;
    int warp = static_cast<int>(threadIdx.x) / kSumLanes;
    int64_t count = p.M * p.N * p.groups;
    int64_t i = static_cast<int64_t>(blockIdx.x) * kSumLanes + lane;
    room[warp][lane] = i < count ? add_parts<kWarps>(p, warp, i, count) : 0.0f;
    __syncthreads();
    if (warp > 0 || i >= count) {
        return;
    }
    float sum = 0.0f;
#pragma unroll
    for (int other = 0; other < kWarps; other++) {
        sum += room[other][lane];
    }
    *out_of_part(p, by_m, by_n, i) = of_f32<T>(sum);
}

template <typename T>
aicf_status
launch_sum_parts(const problem<T> &p, aicf_stream stream)
{
    constexpr int kMany = 64, kWarps = 32;
    int64_t count = p.M * p.N * p.groups;
    bool many = p.splits > kMany;
    return aicf::launch(
        many ? sum_many_parts<kWarps, false, T> : sum_parts<false, T>,
        static_cast<unsigned>(ceil_div(count, many ? kSumLanes : kSumThreads)),
        many ? kWarps * kSumLanes : kSumThreads, 0, stream, p, digits_of(p.M, count),
        digits_of(p.N, count));
}

// Of at most a few tens of parts, behind a launch that lets the next one begin. Eight warps share
// the parts of sums that are too few for a thread each to ask for enough at once.
template <typename T>
aicf_status
launch_sum_parts_early(const problem<T> &p, aicf_stream stream)
{
    constexpr int kMany = 16, kWarps = 8;
    constexpr int64_t kFew = 65536;
    static_assert(kWarps * kSumLanes == kSumThreads, "one size of blocks");
    int64_t count = p.M * p.N * p.groups;
    bool many = p.splits > kMany && count <= kFew;
    auto kernel = many ? sum_many_parts<kWarps, true, T> : sum_parts<true, T>;
    return launch_waiting(
        kernel, static_cast<unsigned>(ceil_div(count, many ? kSumLanes : kSumThreads)), kSumThreads,
        0, stream, p, digits_of(p.M, count), digits_of(p.N, count));
}

// As many as the table's workspace is for.
template <typename T>
int64_t
most_splits(const problem<T> &p)
{
    constexpr int64_t kLeast = 512, kOuts = 2162688, kMost = 64;
    int64_t outs = p.M * p.N * p.groups;
    int64_t splits = ceil_div(p.K, kLeast);
    int64_t filling = outs > 0 ? kOuts / outs : 1;
    splits = splits < filling ? splits : filling;
    return splits < kMost ? splits : kMost;
}

// As many as that, each a multiple of `slab` deep.
template <typename T>
void
split(problem<T> &p, void *workspace, int64_t slab)
{
    int64_t splits = most_splits(p);
    if (splits < 2) {
        return;
    }
    p.depth = ceil_div(ceil_div(p.K, splits), slab) * slab;
    p.splits = static_cast<int>(ceil_div(p.K, p.depth));
    p.parts = static_cast<float *>(workspace);
}

} // namespace aicf::AICF_OP

#endif
