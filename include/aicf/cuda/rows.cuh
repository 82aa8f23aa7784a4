// Rows of a dense matrix, each read once: a team of threads holds a row in its registers from the
// load to the store. For work that reduces a row and then maps it: softmax, norms.
//
//   lanes    16 or 32 lanes a row, 1 to 8 packs of 16 bytes a lane; where that is one pack, two
//   rows
//            a team, so that two loads are on their way
//   block    a block a row, up to kBlockPacks packs
//   cluster  2, 4 or 8 blocks a row (sm_90), which exchange what they reduce through the shared
//            memory of each other
//   stream   no registers to hold a row in: a pass over one of any length, some packs ahead
//
// A row starts at any address. Its whole packs are dealt to the team one by one, so that neighbours
// read neighbouring 16 bytes; what lies before the first boundary and behind the last, its edges,
// are single elements, at most one a thread. So rows of odd length, each of another phase, cost one
// more access and nothing else. A row may be written over: each element is written by the thread
// that has read it, after the team's reduction.
//
// An op writes one body over a team and makes its kernels by AICF_ROWS_KERNELS:
//
//     template <int kPacks, int kRows, typename T, typename Team>
//     __device__ inline void
//     body(const operands<T> &p, Team &team)
//     {
//         rows::held<T, kPacks> x[kRows];
//         rows::span at[kRows];
//         float sum[kRows][1] = {};
//         for r: at[r] = team.span_of(p.x, p.shape, row = team.row(r, kRows));
//                rows::load(x[r], p.x + row * p.shape.n, at[r]);
//         for r: rows::each(at[r], [&](float v) { sum[r][0] += v; }, x[r]);
//         team.reduce(sum, rows::add{});
//         for r: rows::store(p.out + row * p.shape.n, at[r], true,
//                            [&](float v) { return v / sum[r][0]; }, x[r]);
//     }
//
// Reductions are xor-shuffles and sums in a fixed order: the same bits at every run.
#ifndef AICF_CUDA_ROWS_CUH
#define AICF_CUDA_ROWS_CUH

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::rows {

constexpr int kWarp = 32;
constexpr int kBlockPacks = 2048; // of a row, that a block holds: 32 KiB
constexpr int kClusterBlocks = 8; // of a cluster at most: what every sm_90 has room for
constexpr int kMostWarps = 16;    // of a block
// Of a multiprocessor that holds rows in blocks: 64 registers each, 128 KiB on their way.
constexpr int kThreads = 1024;

template <int kValue> struct constant {
    static constexpr int value = kValue;
};

struct shape {
    int64_t count; // rows
    int n;         // elements of one
    int team;      // lanes a row, of the kernels `lanes`
    // Set by the launches: whether packs are dealt from the boundary of a line of 128 bytes on, and
    // how many of them a block of a cluster has at most; 0: all.
    bool lines;
    int share;
};

constexpr int kLineBytes = 128;
constexpr int kLinePacks = kLineBytes / kPackBytes;

// ---- spans --------------------------------------------------------------------------------------

// What a thread has of a row: packs at the elements `first`, `first + step`, ... below `end`, and
// the single element `edge`, -1 if it has none.
struct span {
    static constexpr bool kEdges = true;
    int first, step, end, edge;

    __device__ bool has(int k) const
    {
        return first + k * step < end;
    }

    __device__ bool moves(int k) const
    {
        return has(k);
    }
};

// Of a row that fills its team: aligned, without edges, all packs of all threads. Where there are
// no more rows, a team computes with what it has, and reads and writes nothing.
struct whole_span {
    static constexpr bool kEdges = false;
    static constexpr int edge = -1;
    int first, step;
    bool there;

    __device__ static constexpr bool has(int)
    {
        return true;
    }

    __device__ bool moves(int) const
    {
        return there;
    }
};

__device__ inline span
nothing()
{
    return {0, 1, 0, -1};
}

// Of thread `rank` of `team`, in block `part` of a cluster; edges belong to part 0. The team has at
// least two threads for each element of a pack. Where rows begin at all phases of a line, a warp
// that wrote from a row's first pack on would leave sectors half written at both of its ends, which
// took an eighth of the rate of the card: there the threads before the first pack begin a turn
// later.
template <typename T>
__device__ inline span
span_of(const T *row, const shape &s, int rank, int team, int part = 0)
{
    constexpr int kSize = kPackSize<T>;
    int past = static_cast<int>(reinterpret_cast<uintptr_t>(row) % kPackBytes / sizeof(T));
    int head = past == 0 ? 0 : kSize - past;
    head = head < s.n ? head : s.n;
    int packs = (s.n - head) / kSize;
    int tail = s.n - head - packs * kSize;

    int edge = -1;
    if (part == 0 && rank < head) {
        edge = rank;
    } else if (part == 0 && rank >= kSize && rank < kSize + tail) {
        edge = head + packs * kSize + rank - kSize;
    }
    uintptr_t first = reinterpret_cast<uintptr_t>(row + head);
    int lead = s.lines ? static_cast<int>(first % kLineBytes / kPackBytes) : 0;
    int begin = part * s.share, end = packs + lead;
    end = s.share > 0 && begin + s.share < end ? begin + s.share : end;
    begin += begin + rank < lead ? rank + team : rank;
    int origin = head - lead * kSize;
    return {origin + begin * kSize, team * kSize, origin + end * kSize, edge};
}

// ---- registers ----------------------------------------------------------------------------------

template <typename T, int kPacks> struct held {
    words pack[kPacks];
    T edge;
};

template <typename T> union pack_lanes {
    words whole;
    T lane[kPackSize<T>];

    __device__ pack_lanes()
    {
    }
};

template <typename T>
__device__ inline bool
same_phase(const T *a, const T *b)
{
    return (reinterpret_cast<uintptr_t>(a) - reinterpret_cast<uintptr_t>(b)) % kPackBytes == 0;
}

// 16 bytes from any address.
template <typename T>
__device__ inline words
gather(const T *from)
{
    pack_lanes<T> gathered;
#pragma unroll
    for (int i = 0; i < kPackSize<T>; i++) {
        gathered.lane[i] = from[i];
    }
    return gathered.whole;
}

// `packed`: the address of `row` has the phase of the one that the span was made of; else packs are
// gathered element by element.
template <int kPacks, typename T, typename Span>
__device__ inline void
load(held<T, kPacks> &h, const T *row, const Span &s, bool packed = true)
{
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
        const T *from = row + s.first + k * s.step;
        if (s.moves(k)) {
            h.pack[k] = packed || !Span::kEdges ? load_words(from) : gather(from);
        }
    }
    if (Span::kEdges && s.edge >= 0) {
        h.edge = row[s.edge];
    }
}

// Lets nothing that was computed of h outlive this point: many packs of 16-bit lanes would be kept
// as f32, in twice the registers, rather than unpacked anew.
template <int kPacks, typename T>
__device__ inline void
forget(held<T, kPacks> &h)
{
    if constexpr (kPacks > 2) {
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            for (uint32_t &word : h.pack[k].word) {
                ptx::opaque(word);
            }
        }
    }
}

template <typename T> struct values {
    float x[kPackSize<T>];
};

template <typename T, int kPacks>
__device__ inline values<T>
values_of(const held<T, kPacks> &h, int k)
{
    values<T> v;
    unpack(h.pack[k], v.x, T{});
    return v;
}

template <typename Function, typename First, typename... More>
__device__ inline void
each_of(Function &f, const First &first, const More &...more)
{
#pragma unroll
    for (int lane = 0; lane < static_cast<int>(sizeof(first.x) / sizeof(float)); lane++) {
        f(first.x[lane], more.x[lane]...);
    }
}

template <typename Function, typename First, typename... More>
__device__ inline First
map_of(Function &f, const First &first, const More &...more)
{
    First result;
#pragma unroll
    for (int lane = 0; lane < static_cast<int>(sizeof(first.x) / sizeof(float)); lane++) {
        result.x[lane] = f(first.x[lane], more.x[lane]...);
    }
    return result;
}

// out[0 .. kSize) = x, rounded once; `packed` as in load.
template <typename T, int kSize>
__device__ inline void
store_values(T *out, bool packed, const float (&x)[kSize])
{
    if constexpr (kSize == kPackSize<T>) {
        if (packed) {
            store_words(out, repack(x, T{}));
            return;
        }
    }
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        out[i] = of_f32<T>(x[i]);
    }
}

// Calls f(x, ...) for each element that the thread has of the rows held.
template <typename Span, typename Function, typename T, int kPacks, typename... More>
__device__ inline void
each(const Span &s, Function f, const held<T, kPacks> &h, const More &...more)
{
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
        if (s.has(k)) {
            each_of(f, values_of(h, k), values_of(more, k)...);
        }
    }
    if (Span::kEdges && s.edge >= 0) {
        f(to_f32(h.edge), to_f32(more.edge)...);
    }
}

template <typename T> struct two_of {
    using type = __half2;
};
template <> struct two_of<__nv_bfloat16> {
    using type = __nv_bfloat162;
};

// The largest of what the thread has of a row, -inf of nothing; NaN is passed over. Lanes of 16
// bits are compared two at a time and not unpacked: a quarter of the instructions.
template <typename Span, typename T, int kPacks>
__device__ inline float
largest(const Span &s, const held<T, kPacks> &h)
{
    float top = -INFINITY;
    if constexpr (sizeof(T) == sizeof(float)) {
        each(s, [&](float x) { top = fmaxf(top, x); }, h);
    } else {
        using two = typename two_of<T>::type;
        two tops = {of_f32<T>(-INFINITY), of_f32<T>(-INFINITY)};
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            if (s.has(k)) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    tops = __hmax2(tops, *reinterpret_cast<const two *>(&h.pack[k].word[i]));
                }
            }
        }
        top = fmaxf(to_f32(tops.x), to_f32(tops.y));
        if (Span::kEdges && s.edge >= 0) {
            top = fmaxf(top, to_f32(h.edge));
        }
    }
    return top;
}

// The same with the index of the element in its row first.
template <typename Function, typename T, int kPacks>
__device__ inline void
each_at(const span &s, Function f, const held<T, kPacks> &h)
{
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
        int i = s.first + k * s.step;
        if (i < s.end) {
            values<T> v = values_of(h, k);
#pragma unroll
            for (int lane = 0; lane < kPackSize<T>; lane++) {
                f(i + lane, v.x[lane]);
            }
        }
    }
    if (s.edge >= 0) {
        f(s.edge, to_f32(h.edge));
    }
}

// out = f(x, ...), rounded once; `packed` as in load.
template <typename Span, typename Function, typename T, int kPacks, typename... More>
__device__ inline void
store(T *out, const Span &s, bool packed, Function f, const held<T, kPacks> &h, const More &...more)
{
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
        if (s.moves(k)) {
            store_values(
                out + s.first + k * s.step, packed || !Span::kEdges,
                map_of(f, values_of(h, k), values_of(more, k)...).x);
        }
    }
    if (Span::kEdges && s.edge >= 0) {
        out[s.edge] = of_f32<T>(f(to_f32(h.edge), to_f32(more.edge)...));
    }
}

// The same with the index of the element in its row first.
template <typename Function, typename T, int kPacks>
__device__ inline void
store_at(T *out, const span &s, bool packed, Function f, const held<T, kPacks> &h)
{
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
        int i = s.first + k * s.step;
        if (i < s.end) {
            values<T> v = values_of(h, k);
#pragma unroll
            for (int lane = 0; lane < kPackSize<T>; lane++) {
                v.x[lane] = f(i + lane, v.x[lane]);
            }
            store_values(out + i, packed, v.x);
        }
    }
    if (s.edge >= 0) {
        out[s.edge] = of_f32<T>(f(s.edge, to_f32(h.edge)));
    }
}

// ---- reductions ---------------------------------------------------------------------------------

// What is reduced: kCount floats that are combined as one, in an order that only the shape sets.
struct add {
    __device__ static float identity(int)
    {
        return 0.0f;
    }

    template <int kCount>
    __device__ void operator()(float (&a)[kCount], const float (&b)[kCount]) const
    {
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            a[i] += b[i];
        }
    }
};

// Over groups of `width` neighbouring lanes, a power of two; every lane has the result. Rows go
// side by side, so that their shuffles overlap.
template <int kRows, int kCount, typename Combine>
__device__ inline void
reduce_lanes(float (&v)[kRows][kCount], int width, Combine combine)
{
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        if (distance < width) {
            float other[kRows][kCount];
#pragma unroll
            for (int r = 0; r < kRows; r++) {
#pragma unroll
                for (int i = 0; i < kCount; i++) {
                    other[r][i] = __shfl_xor_sync(0xffffffff, v[r][i], distance);
                }
            }
#pragma unroll
            for (int r = 0; r < kRows; r++) {
                combine(v[r], other[r]);
            }
        }
    }
}

// ---- teams --------------------------------------------------------------------------------------

// Each has: row(r, kRows), the index of the r-th of the rows that this thread takes part in, which
// may be past the last one; span_of(x, shape, row), what it has of it; lanes(v, combine), which
// reduces over those of the team that are in one warp; across(v, combine), over its warps, of which
// each has one value in all lanes; reduce(v, combine), both. All threads of a block go through
// these together.

struct lanes_team {
    using place = span;
    int width;  // 16 or 32
    int64_t at; // index of the block

    __device__ lanes_team(int threads, int64_t block = blockIdx.x) : width(threads), at(block)
    {
    }

    __device__ int64_t row(int r, int rows) const
    {
        unsigned shift = width == kWarp ? 5 : 4;
        return (at * (blockDim.x >> shift) + (threadIdx.x >> shift)) * rows + r;
    }

    template <typename T> __device__ span span_of(const T *x, const shape &s, int64_t row) const
    {
        int rank = static_cast<int>(threadIdx.x) & (width - 1);
        return row < s.count ? rows::span_of(x + row * s.n, s, rank, width) : nothing();
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void lanes(float (&v)[kRows][kCount], Combine combine)
    {
        reduce_lanes(v, width, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void across(float (&)[kRows][kCount], Combine)
    {
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void reduce(float (&v)[kRows][kCount], Combine combine)
    {
        lanes(v, combine);
    }
};

struct block_team {
    using place = span;
    int round = 0; // two buffers take turns, so that one barrier a reduction is enough

    __device__ int64_t row(int, int) const
    {
        return blockIdx.x;
    }

    template <typename T> __device__ span span_of(const T *x, const shape &s, int64_t row) const
    {
        int rank = static_cast<int>(threadIdx.x), team = static_cast<int>(blockDim.x);
        return rows::span_of(x + row * s.n, s, rank, team);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void lanes(float (&v)[kRows][kCount], Combine combine)
    {
        reduce_lanes(v, kWarp, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void reduce(float (&v)[kRows][kCount], Combine combine)
    {
        lanes(v, combine);
        across(v, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void across(float (&v)[kRows][kCount], Combine combine)
    {
        static_assert(kRows == 1, "a block has one row");
        __shared__ float warps[2][kCount][kMostWarps];
        int lane = static_cast<int>(threadIdx.x) % kWarp;
        int count = static_cast<int>(blockDim.x) / kWarp;

        if (lane == 0) {
            for (int i = 0; i < kCount; i++) {
                warps[round][i][threadIdx.x / kWarp] = v[0][i];
            }
        }
        __syncthreads();
        int from = lane % kMostWarps;
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            v[0][i] = from < count ? warps[round][i][from] : Combine::identity(i);
        }
        reduce_lanes(v, kMostWarps, combine);
        round ^= 1;
    }
};

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
struct cluster_team {
    using place = span;
    int round = 0;
    bool met = false; // whether the blocks of the cluster are known to have started

    __device__ cluster_team()
    {
        ptx::cluster_arrive();
    }

    __device__ int64_t row(int, int) const
    {
        return ptx::cluster_index();
    }

    template <typename T> __device__ span span_of(const T *x, const shape &s, int64_t row) const
    {
        int rank = static_cast<int>(threadIdx.x), team = static_cast<int>(blockDim.x);
        int part = static_cast<int>(ptx::cluster_rank());
        return rows::span_of(x + row * s.n, s, rank, team, part);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void lanes(float (&v)[kRows][kCount], Combine combine)
    {
        reduce_lanes(v, kWarp, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void reduce(float (&v)[kRows][kCount], Combine combine)
    {
        lanes(v, combine);
        across(v, combine);
    }

    // Each warp writes what it has into every block of the cluster.
    template <int kRows, int kCount, typename Combine>
    __device__ void across(float (&v)[kRows][kCount], Combine combine)
    {
        static_assert(kRows == 1, "a cluster has one row");
        constexpr int kEntries = kClusterBlocks * kMostWarps;
        __shared__ float warps[2][kCount][kEntries];
        int lane = static_cast<int>(threadIdx.x) % kWarp;
        int count = static_cast<int>(blockDim.x) / kWarp;
        int blocks = static_cast<int>(ptx::cluster_size());
        int mine =
            static_cast<int>(ptx::cluster_rank()) * count + static_cast<int>(threadIdx.x) / kWarp;

        if (!met) {
            ptx::cluster_wait();
            met = true;
        }
        if (lane < blocks) {
#pragma unroll
            for (int i = 0; i < kCount; i++) {
                uint32_t here = ptx::shared_address(&warps[round][i][mine]);
                ptx::store_cluster(
                    ptx::address_in_block(here, static_cast<uint32_t>(lane)), v[0][i]);
            }
        }
        ptx::cluster_arrive();
        ptx::cluster_wait();

#pragma unroll
        for (int i = 0; i < kCount; i++) {
            v[0][i] = Combine::identity(i);
        }
        for (int from = lane; from < count * blocks; from += kWarp) {
            float other[kCount];
#pragma unroll
            for (int i = 0; i < kCount; i++) {
                other[i] = warps[round][i][from];
            }
            combine(v[0], other);
        }
        reduce_lanes(v, kWarp, combine);
        round ^= 1;
    }
};
#endif

// Of rows that fill their lanes: `whole_span` says when. Wider ones gain nothing by that: without
// the branches between packs the compiler holds too many of them unpacked at once.

template <int kWidth> struct whole_lanes_team {
    using place = whole_span;

    __device__ int64_t row(int r, int rows) const
    {
        int64_t team = blockIdx.x * int64_t{blockDim.x / kWidth} + threadIdx.x / kWidth;
        return team * rows + r;
    }

    template <typename T>
    __device__ whole_span span_of(const T *, const shape &s, int64_t row) const
    {
        constexpr int kSize = kPackSize<T>;
        return {static_cast<int>(threadIdx.x) % kWidth * kSize, kWidth * kSize, row < s.count};
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void lanes(float (&v)[kRows][kCount], Combine combine)
    {
        reduce_lanes(v, kWidth, combine);
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void across(float (&)[kRows][kCount], Combine)
    {
    }

    template <int kRows, int kCount, typename Combine>
    __device__ void reduce(float (&v)[kRows][kCount], Combine combine)
    {
        lanes(v, combine);
    }
};

// ---- streams ------------------------------------------------------------------------------------

// Calls f(i, x) for the elements [begin, end) of kIn rows, those that are thread `rank`'s of
// `team`: x[j] is an array of row j, of the pack that starts at element i or of one element. kAhead
// packs of a row are loaded before the first of them is used, from the boundary of a line on.
template <int kAhead, int kIn, typename T, typename Function>
__device__ inline void
stream(const T *const (&row)[kIn], int64_t begin, int64_t end, int rank, int team, Function f)
{
    constexpr int kSize = kPackSize<T>;
    uintptr_t address = reinterpret_cast<uintptr_t>(row[0] + begin);
    int64_t past = static_cast<int64_t>(address % kPackBytes / sizeof(T));
    int64_t head = past == 0 ? begin : begin + kSize - past;
    head = head < end ? head : end;
    int64_t tail = head + (end - head) / kSize * kSize;
    int step = team * kSize;

    int64_t edge = begin + rank < head ? begin + rank : -1;
    if (rank >= kSize && rank < kSize + end - tail) {
        edge = tail + rank - kSize;
    }
    T single[kIn];
#pragma unroll
    for (int j = 0; j < kIn && edge >= 0; j++) {
        single[j] = row[j][edge];
    }

    address = reinterpret_cast<uintptr_t>(row[0] + head);
    int64_t lead = static_cast<int64_t>(address % kLineBytes / kPackBytes);
    int64_t i = head + (rank - lead + (rank < lead ? team : 0)) * kSize;
#pragma unroll 1
    for (; i < tail; i += kAhead * step) {
        words held[kAhead][kIn];
        int room = tail - i < kAhead * step ? static_cast<int>(tail - i) : kAhead * step;
#pragma unroll
        for (int j = 0; j < kIn; j++) {
            const T *from = row[j] + i;
            bool packed = j == 0 || same_phase(row[0], row[j]);
#pragma unroll
            for (int k = 0; k < kAhead; k++) {
                if (k * step < room) {
                    held[k][j] = packed ? load_words(from + k * step) : gather(from + k * step);
                }
            }
        }
#pragma unroll
        for (int k = 0; k < kAhead; k++) {
            if (k * step < room) {
                float x[kIn][kSize];
#pragma unroll
                for (int j = 0; j < kIn; j++) {
                    unpack(held[k][j], x[j], T{});
                }
                f(i + k * step, x);
            }
        }
    }
    if (edge >= 0) {
        float x[kIn][1];
#pragma unroll
        for (int j = 0; j < kIn; j++) {
            x[j][0] = to_f32(single[j]);
        }
        f(edge, x);
    }
}

// ---- launches -----------------------------------------------------------------------------------

// Rows of a team of lanes that hold so many packs of each.
template <int kPacks> constexpr int kRowsOf = kPacks == 1 ? 2 : 1;

// The kernels of an op for one dtype; P has a member `shape`. `packs`: how many of a row a thread
// holds at most, in `lanes` by powers of two.
template <typename P> struct kernels {
    int item; // bytes of an element
    int packs;
    void (*lanes[4])(P); // 1, 2, 4, 8 packs a thread
    void (*block)(P);
    void (*whole_lanes[4])(P); // of rows that fill 16 lanes, a warp by 1, 2, 4 packs; or NULL
};

constexpr int kLanesBlock = 128;
constexpr int64_t kEnoughBlocks = 264; // two a multiprocessor of the largest machines

inline unsigned
threads_for(int64_t packs, int each)
{
    int64_t warps = ceil_div(ceil_div(packs, each), kWarp);
    return static_cast<unsigned>((warps < 2 ? 2 : warps) * kWarp);
}

// A row of so many packs in lanes: those of each lane are 1 << power.
inline int
power_for(int64_t packs)
{
    int power = 0;
    while (packs > int64_t{kWarp} << power) {
        power++;
    }
    return power;
}

inline int
team_for(int64_t packs)
{
    return packs <= kWarp / 2 ? kWarp / 2 : kWarp;
}

template <typename... P>
bool
all_aligned(const P *...p)
{
    return ((phase_of(p) == 0) && ...);
}

// Whether rows begin at several phases of a line, and `packs` may be a line more at most.
inline bool
deal_by_lines(const shape &s, int item, int64_t packs, int64_t most)
{
    return int64_t{s.n} * item % kLineBytes != 0 && packs + kLinePacks - 1 <= most;
}

// Requires n * item <= 16 * kBlockPacks. `aligned`: all addresses are on 16-byte boundaries.
template <typename P>
aicf_status
launch(const kernels<P> &k, P p, aicf_stream stream, bool aligned = false)
{
    int64_t packs = int64_t{p.shape.n} * k.item / kPackBytes;
    bool whole = aligned && p.shape.n * int64_t{k.item} % kPackBytes == 0;
    if (p.shape.count == 0 || p.shape.n == 0) {
        return aicf_ok();
    }
    if (packs > int64_t{kWarp} * k.packs) {
        if (p.shape.count > kMostBlocks) {
            return status_of(cudaErrorInvalidConfiguration);
        }
        unsigned blocks = static_cast<unsigned>(p.shape.count);
        p.shape.lines = deal_by_lines(p.shape, k.item, packs, kBlockPacks);
        packs += p.shape.lines ? kLinePacks - 1 : 0;
        return aicf::launch(k.block, blocks, threads_for(packs, k.packs), 0, stream, p);
    }
    int power = power_for(packs);
    p.shape.team = team_for(packs);
    p.shape.lines = deal_by_lines(p.shape, k.item, packs, int64_t{p.shape.team} << power);
    int64_t teams = ceil_div(p.shape.count, power == 0 ? kRowsOf<1> : 1);
    int64_t threads = ceil_div(teams * p.shape.team, kWarp) * kWarp;
    int block = threads / kLanesBlock < kEnoughBlocks ? kWarp : kLanesBlock;
    if (ceil_div(threads, block) > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    unsigned blocks = static_cast<unsigned>(ceil_div(threads, block));
    void (*kernel)(P) = k.lanes[power];
    int fills = packs == kWarp / 2                              ? 0
                : packs == int64_t{kWarp} << power && power < 3 ? power + 1
                                                                : -1;
    if (whole && fills >= 0 && k.whole_lanes[fills]) {
        kernel = k.whole_lanes[fills];
    }
    return aicf::launch(kernel, blocks, block, 0, stream, p);
}

// The same by clusters. Requires n * item <= 16 * kBlockPacks * kClusterBlocks.
template <typename P>
aicf_status
launch_cluster(void (*kernel)(P), int item, int each, P p, aicf_stream stream)
{
    int64_t packs = int64_t{p.shape.n} * item / kPackBytes;
    if (p.shape.count == 0 || p.shape.n == 0) {
        return aicf_ok();
    }
    p.shape.lines = deal_by_lines(p.shape, item, packs, kBlockPacks * kClusterBlocks);
    packs += p.shape.lines ? kLinePacks - 1 : 0;
    int parts = 1;
    while (parts < kClusterBlocks && packs > int64_t{parts} * kBlockPacks) {
        parts *= 2;
    }
    if (p.shape.count > kMostBlocks / parts) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    p.shape.share = static_cast<int>(ceil_div(ceil_div(packs, parts), kLinePacks) * kLinePacks);
    unsigned blocks = static_cast<unsigned>(p.shape.count * parts);
    unsigned threads = threads_for(p.shape.share, each);
    return aicf::launch_cluster(kernel, blocks, threads, parts, stream, p);
}

} // namespace aicf::rows

// The kernels of an op, in its own namespace, made of its `body`; `most`: packs of a row that a
// thread holds at most, 4 or 8.
#define AICF_ROWS_KERNELS(operands, most)                                                     \
    template <typename T, int kPacks>                                                         \
    __global__ void __launch_bounds__(rows::kLanesBlock) lanes(const operands<T> p)           \
    {                                                                                         \
        rows::lanes_team team(p.shape.team);                                                  \
        body<kPacks, rows::kRowsOf<kPacks>>(p, team);                                         \
    }                                                                                         \
    template <typename T>                                                                     \
    __global__ void __launch_bounds__(                                                        \
        rows::kBlockPacks / most, rows::kThreads * most / rows::kBlockPacks)                  \
        block(const operands<T> p)                                                            \
    {                                                                                         \
        rows::block_team team;                                                                \
        body<most, 1>(p, team);                                                               \
    }                                                                                         \
    template <typename T> rows::kernels<operands<T>> kernels_of()                             \
    {                                                                                         \
        rows::kernels<operands<T>> k = {                                                      \
            sizeof(T), most, {lanes<T, 1>, lanes<T, 2>, lanes<T, 4>, nullptr}, block<T>, {}}; \
        if constexpr (most == 8) {                                                            \
            k.lanes[3] = lanes<T, 8>;                                                         \
        }                                                                                     \
        return k;                                                                             \
    }

// The same and those for rows that fill their teams, of a `body` that takes Team::place for spans.
#define AICF_ROWS_ALL_KERNELS(operands, most)                                             \
    AICF_ROWS_KERNELS(operands, most)                                                     \
    template <typename T, int kPacks, int kWidth>                                         \
    __global__ void __launch_bounds__(rows::kLanesBlock) whole_lanes(const operands<T> p) \
    {                                                                                     \
        rows::whole_lanes_team<kWidth> team;                                              \
        body<kPacks, rows::kRowsOf<kPacks>>(p, team);                                     \
    }                                                                                     \
    template <typename T> rows::kernels<operands<T>> all_kernels_of()                     \
    {                                                                                     \
        rows::kernels<operands<T>> k = kernels_of<T>();                                   \
        k.whole_lanes[0] = whole_lanes<T, 1, rows::kWarp / 2>;                            \
        k.whole_lanes[1] = whole_lanes<T, 1, rows::kWarp>;                                \
        k.whole_lanes[2] = whole_lanes<T, 2, rows::kWarp>;                                \
        k.whole_lanes[3] = whole_lanes<T, 4, rows::kWarp>;                                \
        return k;                                                                         \
    }

// The one for sm_90 and later, in a source of its own.
#define AICF_ROWS_CLUSTER_KERNEL(operands, most)                             \
    template <typename T>                                                    \
    __global__ void __launch_bounds__(                                       \
        rows::kBlockPacks / most, rows::kThreads * most / rows::kBlockPacks) \
        cluster(const operands<T> p)                                         \
    {                                                                        \
        rows::cluster_team team;                                             \
        body<most, 1>(p, team);                                              \
    }

#endif
