// Part of rows.cuh: what a thread has of a row, in registers from its load to its store.
#ifndef AICF_CUDA_ROWS_HELD_CUH
#define AICF_CUDA_ROWS_HELD_CUH

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
    int first; // clusters that are there at once, about
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

// A row of n elements: so many before the first boundary of 16 bytes, whole packs, and so many
// behind them. `lead`: packs from the boundary of a line to the first one, 0 unless `lines`.
struct cut {
    int head, packs, tail, lead;

    // Of packs alone, dealt from the first one on.
    __device__ explicit cut(int whole) : head(0), packs(whole), tail(0), lead(0)
    {
    }

    template <typename T> __device__ cut(const T *row, int n, bool lines)
    {
        constexpr int kSize = kPackSize<T>;
        int past = static_cast<int>(reinterpret_cast<uintptr_t>(row) % kPackBytes / sizeof(T));
        head = past == 0 ? 0 : kSize - past;
        head = head < n ? head : n;
        packs = (n - head) / kSize;
        tail = n - head - packs * kSize;
        uintptr_t first = reinterpret_cast<uintptr_t>(row + head);
        lead = lines ? static_cast<int>(first % kLineBytes / kPackBytes) : 0;
    }

    // The single element of thread `rank`, -1: none.
    template <typename T> __device__ int edge(int rank) const
    {
        constexpr int kSize = kPackSize<T>;
        if (rank < head) {
            return rank;
        }
        int behind = rank - kSize;
        return behind >= 0 && behind < tail ? head + packs * kSize + behind : -1;
    }
};

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
    cut c(row, s.n, s.lines);
    int edge = part == 0 ? c.edge<T>(rank) : -1;
    int begin = part * s.share, end = c.packs + c.lead;
    end = s.share > 0 && begin + s.share < end ? begin + s.share : end;
    begin += begin + rank < c.lead ? rank + team : rank;
    int origin = c.head - c.lead * kSize;
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

// The thread's single element of a row, if it has one.
template <typename T>
__device__ inline T
edge_of(const T *row, const span &s)
{
    T edge = T();
    if (s.edge >= 0) {
        edge = row[s.edge];
    }
    return edge;
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
            store_bytes<kPackBytes>(out, repack(x, T{}));
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

} // namespace aicf::rows

#endif
