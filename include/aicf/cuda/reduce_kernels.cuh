// The device's part of aicf/cuda/reduce.cuh, which says what there is and when.
#ifndef AICF_CUDA_REDUCE_KERNELS_CUH
#define AICF_CUDA_REDUCE_KERNELS_CUH

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/reduce_ops.cuh>
#include <aicf/cuda/walk.cuh>

namespace aicf::reduce {

constexpr int kUnroll = 4; // independent loads of a thread before the first use

// Threads of a block: at most so many that a thread has the registers for its values.
template <typename Op> constexpr int kMostThreads = sizeof(typename Op::value) > 8 ? 512 : 1024;

// ---- kernels' parts -----------------------------------------------------------------------------

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
        typename Op::value next = Op::of(x[lane], lane, context);
        if constexpr (Op::kOrdered) {
            v = Op::then(v, next);
        } else {
            v = Op::combine(v, next);
        }
    }
    return Op::moved(v, place);
}

template <typename Op> struct combiner {
    using value = typename Op::value;

    __device__ value operator()(const value &a, const value &b) const
    {
        return Op::combine(a, b);
    }
};

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

// The units [begin, end) of one row, every `team`-th from `begin + rank` on; that at 0 stands at
// `place`.
template <typename Op, int kSize, typename Offsets>
__device__ inline typename Op::value
units_value(
    const typename Op::element *row, Offsets offsets, int64_t begin, int64_t end, int rank,
    int team, int64_t place, const typename Op::context &context)
{
    typename Op::value v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        v[u] = Op::identity();
    }
    for (int64_t i = begin + rank; i < end; i += int64_t{kUnroll} * team) {
        unit<typename Op::element, kSize> held[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            if (i + u * team < end) {
                held[u].load(row + offsets(i + u * team));
            }
        }
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            if (i + u * team < end) {
                int64_t at = place + (i + u * team) * kSize;
                v[u] = Op::combine(v[u], value_of<Op, kSize>(held[u], at, context));
            }
        }
    }
    return Op::combine(Op::combine(v[0], v[1]), Op::combine(v[2], v[3]));
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
    typename Op::value v = units_value<Op, kSize>(
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
    if (p.to.partial) {
        ptx::let_next_launch_begin();
    }
    int threads = static_cast<int>(blockDim.x), teams = threads / p.team;
    int64_t job = blockIdx.x * int64_t{teams} + static_cast<int>(threadIdx.x) / p.team;
    int rank = static_cast<int>(threadIdx.x) % p.team;
    bool mine = job < p.work; // lanes without a job take part in the shuffles
    int64_t split = mine ? job % p.split.splits : 0;
    int64_t o = mine ? job / p.split.splits : 0;

    const T *row = static_cast<const T *>(p.x) + offset_of(p.kept, o);
    typename Op::context context = Op::context_of(p.to.beside, o);
    int64_t begin = split * p.split.share;
    int64_t end = begin + p.split.share < p.units ? begin + p.split.share : p.units;
    end = mine ? end : begin;

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
            v = units_value<Op, kSize>(row, offsets, begin, end, rank, p.team, 0, context);
        });
    }

    v = p.team > kWarp ? block_reduce(v, threads, combiner<Op>{}, room)
                       : warp_reduce(v, p.team, combiner<Op>{});
    if (mine && rank == 0) {
        p.to.store<Op>(split, o, v);
    }
}

// Rows of no more units than a team has threads: a thread has one unit of each of kUnroll rows, so
// that as many loads are on their way as in a long one.
template <typename Op, int kSize>
__device__ inline void
short_rows_body(const row_operands &p)
{
    using T = typename Op::element;
    int teams = static_cast<int>(blockDim.x) / p.team;
    int rank = static_cast<int>(threadIdx.x) % p.team;
    int64_t first = blockIdx.x * int64_t{teams} * kUnroll + static_cast<int>(threadIdx.x) / p.team;
    const T *x = static_cast<const T *>(p.x);
    bool there = rank < p.units;
    if (there) {
        x += offset_of(p.reduced, rank);
    }

    unit<T, kSize> held[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        int64_t o = first + u * teams;
        if (there && o < p.work) {
            held[u].load(x + offset_of(p.kept, o));
        }
    }
    typename Op::value v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        int64_t o = first + u * teams;
        v[u] = Op::identity();
        if (there && o < p.work) {
            typename Op::context context = Op::context_of(p.to.beside, o);
            v[u] = value_of<Op, kSize>(held[u], int64_t{rank} * kSize, context);
        }
        v[u] = warp_reduce(v[u], p.team, combiner<Op>{});
    }
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        int64_t o = first + u * teams;
        if (rank == 0 && o < p.work) {
            p.to.store<Op>(0, o, v[u]);
        }
    }
}

// ---- columns ------------------------------------------------------------------------------------

struct column_operands {
    const void *x;
    destination to;
    walk kept, reduced; // kept in units
    cut split;
    int64_t units;  // of a line of outs
    int64_t length; // reduced elements
    int64_t column_blocks;
    int width; // threads along the kept units, a power of two up to a warp; the rest take turns
};

// Bytes of shared memory of a block whose threads end with `size` values of `bytes` each.
constexpr int
columns_room(int threads, int width, int size, int bytes)
{
    return threads / kWarp * size * (width + 1) * bytes;
}

// Ends a block of columns: the rows of a warp by shuffles, the warps' through shared memory. Unit
// `base + column` ends with the outs kSize * that and on.
template <typename Op, int kSize>
__device__ inline void
columns_end(
    typename Op::value (&v)[kSize], int width, int64_t base, int64_t units, int64_t split,
    const destination &to)
{
    using value = typename Op::value;
    extern __shared__ uint4 columns_shared[];
    value *room = reinterpret_cast<value *>(columns_shared);
    int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    int warps = static_cast<int>(blockDim.x) / kWarp;
    int pitch = width + 1; // neighbouring outs of a column then lie in different banks

    for (int distance = kWarp / 2; distance >= width; distance /= 2) {
#pragma unroll
        for (value &one : v) {
            one = Op::combine(one, shuffle_xor(one, distance));
        }
    }
    if (lane < width) {
#pragma unroll
        for (int k = 0; k < kSize; k++) {
            room[(warp * kSize + k) * pitch + lane] = v[k];
        }
    }
    __syncthreads();

    for (int out = static_cast<int>(threadIdx.x); out < width * kSize;
         out += static_cast<int>(blockDim.x)) {
        int column = out / kSize, k = out % kSize;
        value all = room[k * pitch + column];
        for (int w = 1; w < warps; w++) {
            all = Op::combine(all, room[(w * kSize + k) * pitch + column]);
        }
        if (base + column < units) {
            to.store<Op>(split, base * kSize + out, all);
        }
    }
}

template <typename Op, int kSize>
__device__ inline void
columns_body(const column_operands &p)
{
    using T = typename Op::element;
    constexpr int kLoads = kSize == 1 ? 2 * kUnroll : kUnroll; // small ones: more of them
    if (p.to.partial) {
        ptx::let_next_launch_begin();
    }
    int height = static_cast<int>(blockDim.x) / p.width;
    int column = static_cast<int>(threadIdx.x) % p.width;
    int row = static_cast<int>(threadIdx.x) / p.width;
    int64_t base = blockIdx.x % p.column_blocks * p.width, mine = base + column;
    int64_t split = blockIdx.x / p.column_blocks;
    int64_t end = (split + 1) * p.split.share < p.length ? (split + 1) * p.split.share : p.length;

    typename Op::value v[kSize];
    typename Op::context context[kSize];
#pragma unroll
    for (int k = 0; k < kSize; k++) {
        v[k] = Op::identity();
    }
    if (mine < p.units) {
        const T *x = static_cast<const T *>(p.x) + offset_of(p.kept, mine);
#pragma unroll
        for (int k = 0; k < kSize; k++) {
            context[k] = Op::context_of(p.to.beside, mine * kSize + k);
        }
        with_offsets(p.reduced, [&](auto offsets) {
            for (int64_t i = split * p.split.share + row; i < end; i += int64_t{kLoads} * height) {
                unit<T, kSize> held[kLoads];
#pragma unroll
                for (int u = 0; u < kLoads; u++) {
                    if (i + u * height < end) {
                        held[u].load(x + offsets(i + u * height));
                    }
                }
#pragma unroll
                for (int u = 0; u < kLoads; u++) {
                    if (i + u * height < end) {
                        input_t<T> y[kSize];
                        held[u].unpack(y);
#pragma unroll
                        for (int k = 0; k < kSize; k++) {
                            v[k] = Op::combine(v[k], Op::of(y[k], i + u * height, context[k]));
                        }
                    }
                }
            }
        });
    }
    columns_end<Op, kSize>(v, p.width, base, p.units, split, p.to);
}

// ---- the second stage ---------------------------------------------------------------------------

struct partial_operands {
    const void *partial; // values [splits, outs]
    destination to;
    int64_t splits;
    int width; // as in columns
};

// Of no splits, the identity's result. Its blocks may start while the first stage runs.
template <typename Op>
__device__ inline void
combine_body(const partial_operands &p)
{
    using value = typename Op::value;
    int height = static_cast<int>(blockDim.x) / p.width;
    int row = static_cast<int>(threadIdx.x) / p.width;
    int64_t base = blockIdx.x * int64_t{p.width};
    int64_t mine = base + static_cast<int>(threadIdx.x) % p.width;
    const value *partial = static_cast<const value *>(p.partial) + mine;

    ptx::wait_for_launch_before();

    value v[1] = {Op::identity()};
    if (mine < p.to.outs) {
        for (int64_t i = row; i < p.splits; i += int64_t{kUnroll} * height) {
            value held[kUnroll];
#pragma unroll
            for (int u = 0; u < kUnroll; u++) {
                held[u] = Op::identity();
                if (i + u * height < p.splits) {
                    held[u] = partial[(i + u * height) * p.to.outs];
                }
            }
#pragma unroll
            for (int u = 0; u < kUnroll; u++) {
                v[0] = Op::combine(v[0], held[u]);
            }
        }
    }
    columns_end<Op, 1>(v, p.width, base, p.to.outs, 0, p.to);
}

} // namespace aicf::reduce

#endif
