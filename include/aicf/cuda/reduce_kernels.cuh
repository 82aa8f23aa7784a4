// The device's part of aicf/cuda/reduce.cuh, which says what there is and when: what kernels share,
// and rows.
#ifndef AICF_CUDA_REDUCE_KERNELS_CUH
#define AICF_CUDA_REDUCE_KERNELS_CUH

#include <aicf/cuda/early.cuh>
#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/reduce_ops.cuh>
#include <aicf/cuda/walk.cuh>

namespace aicf::reduce {

constexpr int kUnroll = 4; // independent loads of a thread before the first use

// Short rows that a thread has a part of at once. With eight, a small tensor waits for one long
// block (H200, 32 x 32 f32: 2.6 us, torch 2.0), and a large one gains 2%.
constexpr int kShortRows = 4;

// Threads of a block, at most.
constexpr int kMostThreads = 1024;

// Threads that fill the largest machines: 1024 on each of 132 multiprocessors. Said here and not
// asked for, so that the bits are those of the shape alone.
constexpr int64_t kFill = 132 * 1024;

// ---- kernels' parts -----------------------------------------------------------------------------

// Whether this block is one of those that are there first (early.cuh).
__device__ inline bool
is_early()
{
    return (blockIdx.x + 1) * int64_t{blockDim.x} <= kFill;
}

constexpr int64_t kEarlyBytes = 32 << 10; // that a block of rows asks for: 16 MiB in all
constexpr int kEarlyRows = 2 * kUnroll;   // that a thread of columns asks for

// Where the value of out `o` and of split `s` goes: to the workspace, or, of the only split, to
// out.
struct destination {
    void *out, *partial; // partial, values [splits, outs], NULL: to out
    int64_t outs, count; // elements of an out
    reduce::beside beside;

    template <typename Op>
    __device__ void store(int64_t split, int64_t o, const typename Op::value &v) const
    {
        if (partial) {
            static_cast<typename Op::value *>(partial)[split * outs + o] = v;
        } else {
            static_cast<typename Op::result *>(out)[o] = Op::finish(v, count, beside, o);
        }
    }
};

// Lets the next launch begin: at the head of a kernel, or, of splits, when their loads are done.
// Those are one wave, as those of the next call are, and that one let in before the first ones end
// would be more on some multiprocessors than on others. Nor do they ask for anything early, which
// would only keep the loads of those before them waiting. Once a kernel.
__device__ inline void
let_next_begin(const destination &to, bool at_head)
{
    if (at_head != (to.partial != nullptr)) {
        ptx::let_next_launch_begin();
    }
}

// Split s of n units is [s * share, min(n, (s + 1) * share)).
struct cut {
    int64_t splits, share;
};

// What a thread holds of a unit between its load and its use: 16 bytes, or one element.
template <typename T, int kSize> struct unit {
    static_assert(kIsFloat<T> && kSize == kPackSize<T>, "a pack of floats or an element");
    words held;

    __device__ void load(const T *p)
    {
        held = load_words(p);
    }

    __device__ void unpack(float (&x)[kSize]) const
    {
        aicf::unpack(held, x, T{});
    }
};

template <typename T> struct unit<T, 1> {
    T held;

    __device__ void load(const T *p)
    {
        held = *p;
    }

    __device__ void unpack(input_t<T> (&x)[1]) const
    {
        x[0] = input_of(held);
    }
};

template <typename Op> struct combiner {
    using value = typename Op::value;

    __device__ value operator()(const value &a, const value &b) const
    {
        return Op::combine(a, b);
    }
};

// Whether the best of a warp is found at once, without steps.
template <typename Op> constexpr bool kLeads = Op::kOrdered && kIsFloat<typename Op::element>;

// Over a warp, and over the `threads` of a block.
template <typename Op>
__device__ inline typename Op::value
warp_value(const typename Op::value &v)
{
    if constexpr (kLeads<Op>) {
        return Op::best(v);
    } else {
        return warp_reduce(v, combiner<Op>{});
    }
}

template <typename Op>
__device__ inline typename Op::value
block_best(typename Op::value v, int threads, typename Op::value *room)
{
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    v = Op::best(v);
    if (lane == 0) {
        room[threadIdx.x / kWarp] = v;
    }
    __syncthreads();
    return Op::best(lane < threads / kWarp ? room[lane] : Op::identity());
}

// a and b, whose elements stand behind a's.
template <typename Op>
__device__ inline typename Op::value
then(const typename Op::value &a, const typename Op::value &b)
{
    if constexpr (Op::kOrdered) {
        return Op::then(a, b);
    } else {
        return Op::combine(a, b);
    }
}

// The value of a unit whose first element stands at `place`.
template <typename Op, int kSize>
__device__ inline typename Op::value
value_of(
    const unit<typename Op::element, kSize> &u, int64_t place, const typename Op::context &context)
{
    input_t<typename Op::element> x[kSize];
    u.unpack(x);
    typename Op::value v = Op::of(x[0], 0, context);
#pragma unroll
    for (int lane = 1; lane < kSize; lane++) {
        v = then<Op>(v, Op::of(x[lane], lane, context));
    }
    return Op::moved(v, place);
}

// Calls add(u, i, unit i) for i from `begin` on, every `step`-th below `end`, with kLoads loads
// ahead of the first use: u counts them.
template <typename T, int kSize, int kLoads, typename Offsets, typename Add>
__device__ inline void
for_units(const T *x, Offsets offsets, int64_t begin, int64_t end, int step, Add add)
{
    int64_t i = begin;
    unit<T, kSize> held[kLoads];
    for (; i + (kLoads - 1) * step < end; i += int64_t{kLoads} * step) {
#pragma unroll
        for (int u = 0; u < kLoads; u++) {
            held[u].load(x + offsets(i + u * step));
        }
#pragma unroll
        for (int u = 0; u < kLoads; u++) {
            add(u, i + u * step, held[u]);
        }
    }
    // One round more, of those that are left.
#pragma unroll
    for (int u = 0; u < kLoads - 1; u++) {
        if (i + u * step < end) {
            held[u].load(x + offsets(i + u * step));
        }
    }
#pragma unroll
    for (int u = 0; u < kLoads - 1; u++) {
        if (i + u * step < end) {
            add(u, i + u * step, held[u]);
        }
    }
}

// ---- rows ---------------------------------------------------------------------------------------

struct row_operands {
    const void *x;
    destination to;
    walk kept, reduced; // reduced in units
    cut split;
    int64_t units; // of an out
    int64_t work;  // outs * splits
    int team;      // threads an out: a power of two up to a warp, or the block
    bool peel;     // floats, one reduced dim of unit stride at any address: units are elements
};

// As units_value, of packs and by an ordered op.
template <typename Op, int kSize, typename Offsets>
__device__ inline typename Op::value
led_value(
    const typename Op::element *row, Offsets offsets, int64_t begin, int64_t end, int rank,
    int team, int64_t place)
{
    using T = typename Op::element;
    constexpr int kLoads = Offsets::kCheap ? kUnroll : 1;
    typename Op::by_pack all;
    uint32_t number = 0;
    for_units<T, kSize, kLoads>(
        row, offsets, begin + rank, end, team,
        [&](int, int64_t, const unit<T, kSize> &pack) { all.take(pack.held, number++); });
    if (begin + rank >= end) {
        return Op::identity();
    }
    int64_t at = begin + rank + int64_t{all.at} * team;
    return {all.key(), place + at * kSize + all.lane()};
}

// The units [begin, end) of one row, every `team`-th from `begin + rank` on; that at 0 stands at
// `place`.
template <typename Op, int kSize, typename Offsets>
__device__ inline typename Op::value
units_value(
    const typename Op::element *row, Offsets offsets, int64_t begin, int64_t end, int rank,
    int team, int64_t place, const typename Op::context &context)
{
    using T = typename Op::element;
    constexpr int kLoads = Offsets::kCheap ? kUnroll : 1;
    typename Op::value v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        v[u] = Op::identity();
    }
    for_units<T, kSize, kLoads>(
        row, offsets, begin + rank, end, team, [&](int u, int64_t i, const unit<T, kSize> &held) {
            v[u] = then<Op>(v[u], value_of<Op, kSize>(held, place + i * kSize, context));
        });
    if constexpr (Op::kOrdered) {
#pragma unroll
        for (int u = 0; u < kLoads; u++) {
            int64_t first = begin + rank + u * team;
            v[u] = first < end ? Op::settled(v[u], place + first * kSize) : v[u];
        }
    }
    return Op::combine(Op::combine(v[0], v[1]), Op::combine(v[2], v[3]));
}

// Whichever of the two it is.
template <typename Op, int kSize, typename Offsets>
__device__ inline typename Op::value
value_of_units(
    const typename Op::element *row, Offsets offsets, int64_t begin, int64_t end, int rank,
    int team, int64_t place, const typename Op::context &context)
{
    if constexpr (Op::kOrdered && kSize > 1) {
        return led_value<Op, kSize>(row, offsets, begin, end, rank, team, place);
    } else {
        return units_value<Op, kSize>(row, offsets, begin, end, rank, team, place, context);
    }
}

// The elements [begin, end) of one row of unit stride: packs between a peeled head and tail, whose
// loads are on their way with the packs'. Requires a team of at least a pack's elements.
template <typename Op, int kSize>
__device__ inline typename Op::value
peeled_value(
    const typename Op::element *row, int64_t begin, int64_t end, int rank, int team,
    const typename Op::context &context)
{
    using T = typename Op::element;
    const T *p = row + begin;
    int64_t n = end - begin;
    int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % (sizeof(T) * kSize));
    int64_t head = past == 0 ? 0 : kSize - past / static_cast<int64_t>(sizeof(T));
    head = head < n ? head : n;
    int64_t packs = (n - head) / kSize;
    int64_t tail = head + packs * kSize;

    unit<T, 1> first, last;
    if (rank < head) {
        first.load(p + rank);
    }
    if (tail + rank < n) {
        last.load(p + tail + rank);
    }
    typename Op::value v = value_of_units<Op, kSize>(
        p + head, straight{kSize}, 0, packs, rank, team, begin + head, context);
    if (rank < head) {
        v = Op::combine(v, value_of<Op, 1>(first, begin + rank, context));
    }
    if (tail + rank < n) {
        v = Op::combine(v, value_of<Op, 1>(last, begin + tail + rank, context));
    }
    return v;
}

// A team makes one value after the other's shuffles: rows longer than a warp's units.
template <typename Op, int kSize>
__device__ inline void
rows_body(const row_operands &p)
{
    using T = typename Op::element;
    __shared__ typename Op::value room[kWarp];
    let_next_begin(p.to, true);
    int threads = static_cast<int>(blockDim.x), teams = threads / p.team;
    int64_t job = blockIdx.x * int64_t{teams} + static_cast<int>(threadIdx.x) / p.team;
    int rank = static_cast<int>(threadIdx.x) % p.team;
    bool mine = job < p.work; // lanes without a job take part in the shuffles
    int64_t split = mine ? job % p.split.splits : 0;
    int64_t o = mine ? job / p.split.splits : 0;

    const T *row = static_cast<const T *>(p.x) + offset_of(p.kept, o);
    int64_t begin = split * p.split.share;
    int64_t end = begin + p.split.share < p.units ? begin + p.split.share : p.units;
    end = mine ? end : begin;
    bool whole = p.reduced.rank == 1 && p.reduced.strides[0] == kSize; // without gaps
    if (threadIdx.x == 0 && p.team > kWarp && whole && !p.to.partial && is_early()) {
        constexpr int64_t kMost = kEarlyBytes / static_cast<int64_t>(sizeof(T));
        int64_t there = (end - begin) * kSize;
        early::ask(row + begin * kSize, there < kMost ? there : kMost);
    }
    ptx::wait_for_launch_before();
    typename Op::context context = Op::context_of(p.to.beside, o);

    typename Op::value v;
    bool peel = false;
    if constexpr (kSize == 1 && kIsFloat<T>) {
        peel = p.peel;
        if (peel) {
            v = peeled_value<Op, kPackSize<T>>(row, begin, end, rank, p.team, context);
        }
    }
    if (!peel) {
        with_offsets(p.reduced, [&](auto offsets) {
            v = value_of_units<Op, kSize>(row, offsets, begin, end, rank, p.team, 0, context);
        });
    }

    let_next_begin(p.to, false);
    if constexpr (kLeads<Op>) {
        v = p.team > kWarp ? block_best<Op>(v, threads, room) : Op::best(v);
    } else {
        v = p.team > kWarp ? block_reduce(v, threads, combiner<Op>{}, room)
                           : warp_reduce(v, p.team, combiner<Op>{});
    }
    if (mine && rank == 0) {
        p.to.store<Op>(split, o, v);
    }
}

// A unit of each of kShortRows rows from `first` on, every `teams`-th.
template <typename T, int kSize, typename Offsets>
__device__ inline void
load_rows(
    unit<T, kSize> (&held)[kShortRows], const T *x, Offsets offsets, int64_t first, int teams,
    int64_t end)
{
#pragma unroll
    for (int u = 0; u < kShortRows; u++) {
        if (first + u * teams < end) {
            held[u].load(x + offsets(first + u * teams));
        }
    }
}

// Ends those rows: `there`, whether the thread has a unit of them.
template <typename Op, int kSize>
__device__ inline void
end_rows(
    const row_operands &p, const unit<typename Op::element, kSize> (&held)[kShortRows],
    int64_t first, int teams, int rank, bool there)
{
    typename Op::value v[kShortRows];
#pragma unroll
    for (int u = 0; u < kShortRows; u++) {
        int64_t o = first + u * teams;
        v[u] = Op::identity();
        if (there && o < p.work) {
            typename Op::context context = Op::context_of(p.to.beside, o);
            v[u] = value_of<Op, kSize>(held[u], int64_t{rank} * kSize, context);
        }
    }
    for (int distance = p.team / 2; distance > 0; distance /= 2) {
#pragma unroll
        for (typename Op::value &one : v) {
            one = Op::combine(one, shuffle_xor(one, distance));
        }
    }
#pragma unroll
    for (int u = 0; u < kShortRows; u++) {
        int64_t o = first + u * teams;
        if (rank == 0 && o < p.work) {
            p.to.store<Op>(0, o, v[u]);
        }
    }
}

// Rows of no more units than a team has threads: a thread has one unit of each of kShortRows, so
// that as many loads are on their way as in a long one. Rows that are equally far apart may be more
// than blocks take at once: the next ones are then on their way while they end some.
template <typename Op, int kSize>
__device__ inline void
short_rows_body(const row_operands &p)
{
    using T = typename Op::element;
    ptx::let_next_launch_begin();
    int teams = static_cast<int>(blockDim.x) / p.team;
    int rank = static_cast<int>(threadIdx.x) % p.team;
    int64_t base = blockIdx.x * int64_t{teams} * kShortRows;
    int64_t step = gridDim.x * int64_t{teams} * kShortRows;
    int mine = static_cast<int>(threadIdx.x) / p.team;
    const T *x = static_cast<const T *>(p.x);
    bool there = rank < p.units;
    int64_t end = there ? p.work : 0;
    if (there) {
        x += offset_of(p.reduced, rank);
    }

    ptx::wait_for_launch_before();
    unit<T, kSize> held[kShortRows], next[kShortRows];
    if (p.kept.rank > 1) {
        with_offsets(
            p.kept, [&](auto offsets) { load_rows(held, x, offsets, base + mine, teams, end); });
        end_rows<Op, kSize>(p, held, base + mine, teams, rank, there);
        return;
    }
    straight offsets{p.kept.strides[0]};
    load_rows(held, x, offsets, base + mine, teams, end);
    for (; base + step < p.work; base += step) {
        load_rows(next, x, offsets, base + step + mine, teams, end);
        end_rows<Op, kSize>(p, held, base + mine, teams, rank, there);
#pragma unroll
        for (int u = 0; u < kShortRows; u++) {
            held[u] = next[u];
        }
    }
    end_rows<Op, kSize>(p, held, base + mine, teams, rank, there);
}

} // namespace aicf::reduce

#endif
