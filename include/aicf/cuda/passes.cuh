// Lines along one axis of a dense tensor [L, N, R] that no registers hold: each is reduced to a
// pair of floats in one pass and mapped in a second one. For R = 1 a line is a row, which a block
// reads by packs (rows::stream); else it is a column, with threads side by side along R and, in
// turns, along N.
//
// Long lines are cut into `splits`, so that few of them still fill the machine: then one launch
// reduces the parts into a workspace, 8 bytes a part, and a second one combines and maps. The order
// of all sums follows from the shape: the same bits at every run. The out may be exactly an input.
//
// An op says what it computes by a struct:
//
//     struct math {
//         static constexpr int kIn = 1;                     // tensors read
//         using combine = soft::total;                      // of float[2], as rows::add
//         template <int kSize>                              // takes elements x[j] of tensor j in
//         __device__ static void take(float (&v)[2], const float (&x)[kIn][kSize]);
//         struct map { map(float, float); operator()(float...) };   // made of a line's pair
//     };
#ifndef AICF_CUDA_PASSES_CUH
#define AICF_CUDA_PASSES_CUH

#include <aicf/cuda/rows.cuh>

namespace aicf::passes {

constexpr int kBlock = 256;
constexpr int kAhead = 4;
// A part has at least so many elements, and a line at most so many parts: said in the rows'
// workspaces too.
constexpr int64_t kLeastPart = 16384;
constexpr int64_t kMostSplits = 512;

enum stage { kWhole, kReduce, kMap };

struct shape {
    int64_t L, N, R;
    int64_t splits, share; // part s of a line is [s * share, min(N, (s + 1) * share))
    int64_t tiles;         // blocks along R, of columns
    int width;             // threads along R, a power of two
    stage what;
};

template <typename T, int kIn> struct operands {
    const T *in[kIn];
    T *out;
    float *partial; // [L, splits, R, 2]
    shape s;
};

template <typename Map, int kSize>
__device__ inline float
map_at(const Map &map, const float (&x)[1][kSize], int i)
{
    return map(x[0][i]);
}

template <typename Map, int kSize>
__device__ inline float
map_at(const Map &map, const float (&x)[2][kSize], int i)
{
    return map(x[0][i], x[1][i]);
}

template <typename Combine>
__device__ inline void
clear(float (&v)[2])
{
    v[0] = Combine::identity(0);
    v[1] = Combine::identity(1);
}

template <typename Combine>
__device__ inline void
combine_with(float (&v)[2], const float *pair)
{
    float other[2] = {pair[0], pair[1]};
    Combine{}(v, other);
}

// ---- rows ---------------------------------------------------------------------------------------

template <typename Math, typename T>
__device__ inline void
rows_body(const operands<T, Math::kIn> &p)
{
    using combine = typename Math::combine;
    int64_t row = blockIdx.x / p.s.splits, split = blockIdx.x % p.s.splits;
    int64_t begin = split * p.s.share;
    int64_t end = begin + p.s.share < p.s.N ? begin + p.s.share : p.s.N;
    int rank = static_cast<int>(threadIdx.x);
    float *partial = p.partial + row * p.s.splits * 2;
    const T *in[Math::kIn];
#pragma unroll
    for (int j = 0; j < Math::kIn; j++) {
        in[j] = p.in[j] + row * p.s.N;
    }

    float v[1][2];
    clear<combine>(v[0]);
    if (p.s.what == kMap) {
        for (int64_t i = rank; i < p.s.splits; i += kBlock) {
            combine_with<combine>(v[0], partial + i * 2);
        }
    } else {
        rows::stream<kAhead>(
            in, begin, end, rank, kBlock, [&](int64_t, const auto &x) { Math::take(v[0], x); });
    }
    rows::block_team team;
    team.reduce(v, combine{});
    if (p.s.what == kReduce) {
        if (rank == 0) {
            partial[split * 2] = v[0][0];
            partial[split * 2 + 1] = v[0][1];
        }
        return;
    }

    typename Math::map map(v[0][0], v[0][1]);
    T *out = p.out + row * p.s.N;
    bool packed = rows::same_phase(in[0], static_cast<const T *>(out));
    rows::stream<kAhead>(in, begin, end, rank, kBlock, [&](int64_t i, const auto &x) {
        constexpr int kSize = static_cast<int>(sizeof(x[0]) / sizeof(float));
        float y[kSize];
#pragma unroll
        for (int lane = 0; lane < kSize; lane++) {
            y[lane] = map_at(map, x, lane);
        }
        rows::store_values(out + i, packed, y);
    });
}

// ---- columns ------------------------------------------------------------------------------------

// Calls f(n, x) for the n of [begin, end) in steps, kAhead loads at a time: x[j] is an array of
// tensor j's elements n, n + step, ...
template <int kIn, typename T, typename Function>
__device__ inline void
for_column(
    const T *const (&in)[kIn], int64_t pitch, int64_t begin, int64_t end, int step, Function f)
{
    auto some = [&](int64_t n, auto count) {
        float x[kIn][decltype(count)::value];
#pragma unroll
        for (int k = 0; k < decltype(count)::value; k++) {
#pragma unroll
            for (int j = 0; j < kIn; j++) {
                x[j][k] = to_f32(in[j][(n + k * step) * pitch]);
            }
        }
        f(n, x);
    };
    int64_t n = begin;
    for (; n + (kAhead - 1) * step < end; n += kAhead * step) {
        some(n, rows::constant<kAhead>{});
    }
#pragma unroll 1
    for (; n < end; n += step) {
        some(n, rows::constant<1>{});
    }
}

// v over the threads of a column, to all of them.
template <typename Combine>
__device__ inline void
reduce_column(float (&v)[2], int width)
{
    __shared__ float sums[kBlock][2];
    int at = static_cast<int>(threadIdx.x);
    sums[at][0] = v[0];
    sums[at][1] = v[1];
    for (int half = kBlock / 2; half >= width; half /= 2) {
        __syncthreads();
        if (at < half) {
            combine_with<Combine>(v, sums[at + half]);
            sums[at][0] = v[0];
            sums[at][1] = v[1];
        }
    }
    __syncthreads();
    v[0] = sums[at % width][0];
    v[1] = sums[at % width][1];
    __syncthreads();
}

// One tile of columns: part `split` of the columns of `l` from the tile's first on.
template <typename Math, typename T>
__device__ inline void
columns_tile(const operands<T, Math::kIn> &p, int64_t l, int64_t split, int64_t tile)
{
    using combine = typename Math::combine;
    int column = static_cast<int>(threadIdx.x) % p.s.width;
    int turn = static_cast<int>(threadIdx.x) / p.s.width, turns = kBlock / p.s.width;
    int64_t r = tile * p.s.width + column;
    bool mine = r < p.s.R;
    int64_t begin = split * p.s.share + turn;
    int64_t end = (split + 1) * p.s.share < p.s.N ? (split + 1) * p.s.share : p.s.N;
    float *partial = p.partial + (l * p.s.splits * p.s.R + r) * 2;
    const T *in[Math::kIn];
#pragma unroll
    for (int j = 0; j < Math::kIn; j++) {
        in[j] = p.in[j] + l * p.s.N * p.s.R + r;
    }

    float v[2];
    clear<combine>(v);
    if (mine && p.s.what == kMap) {
        for (int64_t i = turn; i < p.s.splits; i += turns) {
            combine_with<combine>(v, partial + i * p.s.R * 2);
        }
    } else if (mine) {
        for_column(in, p.s.R, begin, end, turns, [&](int64_t, const auto &x) { Math::take(v, x); });
    }
    reduce_column<combine>(v, p.s.width);
    if (!mine) {
        return;
    }
    if (p.s.what == kReduce) {
        if (turn == 0) {
            partial[split * p.s.R * 2] = v[0];
            partial[split * p.s.R * 2 + 1] = v[1];
        }
        return;
    }

    typename Math::map map(v[0], v[1]);
    T *out = p.out + l * p.s.N * p.s.R + r;
    for_column(in, p.s.R, begin, end, turns, [&](int64_t n, const auto &x) {
#pragma unroll
        for (int k = 0; k < static_cast<int>(sizeof(x[0]) / sizeof(float)); k++) {
            out[(n + k * turns) * p.s.R] = of_f32<T>(map_at(map, x, k));
        }
    });
}

template <typename Math, typename T>
__device__ inline void
columns_body(const operands<T, Math::kIn> &p)
{
    int64_t tiles = p.s.L * p.s.splits * p.s.tiles;
    for (int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        int64_t part = i / p.s.tiles;
        columns_tile<Math>(p, part / p.s.splits, part % p.s.splits, i % p.s.tiles);
    }
}

// ---- launches -----------------------------------------------------------------------------------

// Threads along R, a power of two: short columns have a thread each where there are many.
inline int
width_for(int64_t N, int64_t R)
{
    int most = N <= 64 && R >= kBlock ? kBlock : rows::kWarp, width = 1;
    while (width < R && width < most) {
        width *= 2;
    }
    return width;
}

inline shape
shape_of(int64_t L, int64_t N, int64_t R)
{
    shape s = {L, N, R, 1, N, 1, 1, kWhole};
    int64_t splits = N / kLeastPart < kMostSplits ? N / kLeastPart : kMostSplits;
    s.splits = splits > 1 ? splits : 1;
    s.share = ceil_div(N, s.splits);
    s.width = width_for(N, R);
    s.tiles = ceil_div(R, s.width);
    return s;
}

// `workspace` holds 8 * L * R * min(N / kLeastPart, kMostSplits) bytes.
template <typename P>
aicf_status
launch(
    void (*of_rows)(P), void (*of_columns)(P), P p, int64_t L, int64_t N, int64_t R,
    void *workspace, aicf_stream stream)
{
    if (L == 0 || N == 0 || R == 0) {
        return aicf_ok();
    }
    p.s = shape_of(L, N, R);
    p.partial = static_cast<float *>(workspace);
    int64_t blocks = L * p.s.splits * p.s.tiles;
    if (R > 1 && blocks > kMostBlocks) {
        blocks = kMostBlocks;
    }
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    void (*kernel)(P) = R == 1 ? of_rows : of_columns;
    if (p.s.splits > 1) {
        p.s.what = kReduce;
        aicf_status status =
            aicf::launch(kernel, static_cast<unsigned>(blocks), kBlock, 0, stream, p);
        if (status.kind) {
            return status;
        }
        p.s.what = kMap;
    }
    return aicf::launch(kernel, static_cast<unsigned>(blocks), kBlock, 0, stream, p);
}

} // namespace aicf::passes

// The kernels of an op in two passes, in its own namespace, made of its `math`.
#define AICF_PASSES_KERNELS                                   \
    template <typename T>                                     \
    __global__ void __launch_bounds__(passes::kBlock)         \
        row_passes(const passes::operands<T, math::kIn> p)    \
    {                                                         \
        passes::rows_body<math>(p);                           \
    }                                                         \
    template <typename T>                                     \
    __global__ void __launch_bounds__(passes::kBlock)         \
        column_passes(const passes::operands<T, math::kIn> p) \
    {                                                         \
        passes::columns_body<math>(p);                        \
    }

#endif
