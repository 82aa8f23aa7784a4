// The device's part of aicf/cuda/reduce.cuh, which says what there is and when: columns, and the
// second stage.
#ifndef AICF_CUDA_REDUCE_COLUMNS_CUH
#define AICF_CUDA_REDUCE_COLUMNS_CUH

#include <aicf/cuda/reduce_kernels.cuh>

namespace aicf::reduce {

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

    int most = kWarp / 2;
    if constexpr (kLeads<Op> && kSize == 1) {
        if (width == 1) {
            v[0] = Op::best(v[0]);
            most = 0;
        }
    }
    for (int distance = most; distance >= width; distance /= 2) {
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

    if (warps > 8) { // a lane for each of them
        for (int out = warp; out < width * kSize; out += warps) {
            int column = out / kSize, k = out % kSize;
            value all = lane < warps ? room[(lane * kSize + k) * pitch + column] : Op::identity();
            all = warp_value<Op>(all);
            if (lane == 0 && base + column < units) {
                to.store<Op>(split, base * kSize + out, all);
            }
        }
        return;
    }
    for (int out = static_cast<int>(threadIdx.x); out < width * kSize;
         out += static_cast<int>(blockDim.x)) {
        int column = out / kSize, k = out % kSize;
        value all = room[k * pitch + column];
#pragma unroll
        for (int w = 1; w < 8; w++) {
            if (w < warps) {
                all = Op::combine(all, room[(w * kSize + k) * pitch + column]);
            }
        }
        if (base + column < units) {
            to.store<Op>(split, base * kSize + out, all);
        }
    }
}

// As take_column, of packs and by an ordered op: ranks of values and of rows, which are counted
// from `row`, that of `begin`. Of nothing they are 0.
template <typename Op, int kSize, typename Offsets>
__device__ inline void
lead_column(
    const typename Op::element *x, Offsets offsets, int64_t begin, int64_t end, int step, int row,
    uint64_t (&v)[kSize])
{
    using T = typename Op::element;
    constexpr int kLoads = Offsets::kCheap ? kUnroll : 1;
    typename Op::by_lane all;
    uint32_t number = 0;
    for_units<T, kSize, kLoads>(
        x, offsets, begin, end, step,
        [&](int, int64_t, const unit<T, kSize> &pack) { all.take(pack.held, number++); });
    uint32_t open = 0; // columns whose first NaN is to be found yet
#pragma unroll
    for (int k = 0; k < kSize; k++) {
        float key = all.key(k);
        open |= uint32_t{key != key} << k;
        v[k] = begin < end ? rank_of(key, row + all.at[k] * step) : 0;
    }
    uint32_t at = row;
#pragma unroll 1
    for (int64_t i = begin; open && i < end; i += step) {
        unit<T, kSize> pack;
        float y[kSize];
        pack.load(x + offsets(i));
        pack.unpack(y);
#pragma unroll
        for (int k = 0; k < kSize; k++) {
            if (open >> k & 1 && y[k] != y[k]) {
                v[k] = rank_of(y[k], at);
                open &= ~(1u << k);
            }
        }
        at += step;
    }
}

// As columns_end, of ranks; `first` is the split's first row.
template <typename Op, int kSize>
__device__ inline void
lead_end(
    uint64_t (&v)[kSize], int width, int64_t base, int64_t units, int64_t split, int64_t first,
    const destination &to)
{
    extern __shared__ uint4 columns_shared[];
    uint64_t *room = reinterpret_cast<uint64_t *>(columns_shared);
    int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    int warps = static_cast<int>(blockDim.x) / kWarp, pitch = warps + 1, shift = __ffs(width) - 1;
    auto store = [&](int at, uint64_t rank) {
        int column = at & (width - 1), k = at >> shift;
        if (base + column < units) {
            int64_t place = first + static_cast<uint32_t>(~rank);
            to.store<Op>(
                split, (base + column) * kSize + k,
                {ranked(static_cast<uint32_t>(rank >> 32)), place});
        }
    };

    for (int distance = kWarp / 2; distance >= width; distance /= 2) {
#pragma unroll
        for (uint64_t &one : v) {
            uint64_t other = shuffle_xor(one, distance);
            one = other > one ? other : one;
        }
    }
    if (lane < width) {
#pragma unroll
        for (int k = 0; k < kSize; k++) {
            room[(k * width + lane) * pitch + warp] = v[k];
        }
    }
    __syncthreads();

    if (warps > 8) { // a lane for each of them
        for (int at = warp; at < width * kSize; at += warps) {
            uint64_t all = best_rank(lane < warps ? room[at * pitch + lane] : 0);
            if (lane == 0) {
                store(at, all);
            }
        }
        return;
    }
    for (int at = static_cast<int>(threadIdx.x); at < width * kSize;
         at += static_cast<int>(blockDim.x)) {
        uint64_t all = room[at * pitch];
#pragma unroll
        for (int w = 1; w < 8; w++) {
            uint64_t other = w < warps ? room[at * pitch + w] : 0;
            all = other > all ? other : all;
        }
        store(at, all);
    }
}

// Takes the units [begin, end), every `step`-th, of kSize columns of which the first is that of out
// `o`; some may lie outside of the outs, and then count for nothing.
template <typename Op, int kSize, typename Offsets>
__device__ inline void
take_column(
    const typename Op::element *x, Offsets offsets, int64_t begin, int64_t end, int step, int64_t o,
    const destination &to, typename Op::value (&v)[kSize])
{
    using T = typename Op::element;
    constexpr int kLoads = !Offsets::kCheap ? 1 : kSize == 1 ? 2 * kUnroll : kUnroll;
    typename Op::context context[kSize];
#pragma unroll
    for (int k = 0; k < kSize; k++) {
        int64_t out = o + k < 0 ? 0 : o + k < to.outs ? o + k : to.outs - 1;
        context[k] = Op::context_of(to.beside, out);
    }
    for_units<T, kSize, kLoads>(
        x, offsets, begin, end, step, [&](int, int64_t i, const unit<T, kSize> &held) {
            input_t<T> y[kSize];
            held.unpack(y);
#pragma unroll
            for (int k = 0; k < kSize; k++) {
                v[k] = then<Op>(v[k], Op::of(y[k], i, context[k]));
            }
        });
    if constexpr (Op::kOrdered) {
#pragma unroll
        for (int k = 0; k < kSize; k++) {
            v[k] = begin < end ? Op::settled(v[k], begin) : v[k];
        }
    }
}

// Has the thread's first units come to the L2 (early.cuh): where they are equally far apart.
template <typename T>
__device__ inline void
ask_column(const column_operands &p, int64_t column, int64_t begin, int64_t end, int step)
{
    if (is_early() && column < p.units && p.reduced.rank <= 1) {
        const T *x = static_cast<const T *>(p.x) + offset_of(p.kept, column);
#pragma unroll 1
        for (int64_t i = begin; i < end && i < begin + kEarlyRows * step; i += step) {
            ptx::prefetch_l2(x + i * p.reduced.strides[0]);
        }
    }
}

template <typename Op, int kSize>
__device__ inline void
columns_body(const column_operands &p)
{
    using T = typename Op::element;
    ptx::let_next_launch_begin();
    int height = static_cast<int>(blockDim.x) / p.width;
    int column = static_cast<int>(threadIdx.x) % p.width;
    int row = static_cast<int>(threadIdx.x) / p.width;
    int64_t base = blockIdx.x % p.column_blocks * p.width, mine = base + column;
    int64_t split = blockIdx.x / p.column_blocks;
    int64_t begin = split * p.split.share + row;
    int64_t end = (split + 1) * p.split.share < p.length ? (split + 1) * p.split.share : p.length;

    ask_column<T>(p, mine, begin, end, height);
    if constexpr (kLeads<Op> && kSize > 1) {
        uint64_t v[kSize] = {};
        ptx::wait_for_launch_before();
        if (mine < p.units) {
            const T *x = static_cast<const T *>(p.x) + offset_of(p.kept, mine);
            with_offsets(p.reduced, [&](auto offsets) {
                lead_column<Op, kSize>(x, offsets, begin, end, height, row, v);
            });
        }
        lead_end<Op, kSize>(v, p.width, base, p.units, split, begin - row, p.to);
    } else {
        typename Op::value v[kSize];
#pragma unroll
        for (int k = 0; k < kSize; k++) {
            v[k] = Op::identity();
        }
        ptx::wait_for_launch_before();
        if (mine < p.units) {
            const T *x = static_cast<const T *>(p.x) + offset_of(p.kept, mine);
            with_offsets(p.reduced, [&](auto offsets) {
                take_column<Op, kSize>(x, offsets, begin, end, height, mine * kSize, p.to, v);
            });
        }
        columns_end<Op, kSize>(v, p.width, base, p.units, split, p.to);
    }
}

// ---- columns of rows at any address -------------------------------------------------------------

// Rows without gaps whose length is no multiple of a pack: a row's packs start up to a pack before
// the block's first column, by how far the row is past a 16-byte boundary. Rows that are a multiple
// of kSize apart are equally far, and a thread takes no others.
struct shifted_operands {
    const void *x;
    destination to;
    cut split;
    int64_t columns, length;
    int64_t column_blocks;
};

// Columns of a block of kShiftedBlock threads, a row a warp at once.
constexpr int kShiftedBlock = 256;
template <typename T> constexpr int kShiftedColumns = (kWarp - 1) * kPackSize<T>;

// A warp's values in shared memory: one left out behind each kWarp of them, so that lanes, which
// write every kSize-th, meet in no bank.
template <typename T> constexpr int kShiftedPitch = kWarp * kPackSize<T> + kPackSize<T>;

// The element of row `row` at column `column`, where it is one of x's columns.
template <typename Op, int kSize>
__device__ inline void
take_alone(const shifted_operands &p, int64_t row, int64_t first, typename Op::value (&v)[kSize])
{
    using T = typename Op::element;
    const T *x = static_cast<const T *>(p.x) + row * p.columns;
#pragma unroll
    for (int k = 0; k < kSize; k++) {
        if (first + k >= 0 && first + k < p.columns) {
            typename Op::context context = Op::context_of(p.to.beside, first + k);
            v[k] = Op::combine(v[k], Op::of(input_of(x[first + k]), row, context));
        }
    }
}

template <typename Op>
__device__ inline void
shifted_body(const shifted_operands &p)
{
    using T = typename Op::element;
    using value = typename Op::value;
    constexpr int kSize = kPackSize<T>, kWarps = kShiftedBlock / kWarp;
    static_assert(kWarps % kSize == 0, "the rows of a thread are equally far past a boundary");
    __shared__ value room[kWarps][kShiftedPitch<T>];
    ptx::let_next_launch_begin();
    int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    int64_t base = blockIdx.x % p.column_blocks * kShiftedColumns<T>;
    int64_t split = blockIdx.x / p.column_blocks;
    int64_t begin = split * p.split.share + warp;
    int64_t end = (split + 1) * p.split.share < p.length ? (split + 1) * p.split.share : p.length;
    const T *x = static_cast<const T *>(p.x);
    uintptr_t start = reinterpret_cast<uintptr_t>(x + begin * p.columns + base);
    int past = static_cast<int>(start % kPackBytes / sizeof(T));
    int64_t first = base - past + lane * kSize;

    value v[kSize];
#pragma unroll
    for (int k = 0; k < kSize; k++) {
        v[k] = Op::identity();
    }
    ptx::wait_for_launch_before();
    if (first < p.columns && begin < end) {
        // Packs of the first and the last row may begin before x and end behind it.
        int64_t last = begin + (end - 1 - begin) / kWarps * kWarps;
        if (begin == 0 && first < 0) {
            take_alone<Op>(p, begin, first, v);
            begin += kWarps;
        }
        bool beyond = last == p.length - 1 && first + kSize > p.columns && begin <= last;
        take_column<Op, kSize>(
            x + first, straight{p.columns}, begin, beyond ? last : end, kWarps, first, p.to, v);
        if (beyond) {
            take_alone<Op>(p, last, first, v);
        }
    }

#pragma unroll
    for (int k = 0; k < kSize; k++) {
        int out = lane * kSize + k - past;
        if (out >= 0 && out < kShiftedColumns<T>) {
            room[warp][out + out / kWarp] = v[k];
        }
    }
    __syncthreads();
    int out = static_cast<int>(threadIdx.x);
    if (out < kShiftedColumns<T> && base + out < p.columns) {
        value all = room[0][out + out / kWarp];
#pragma unroll
        for (int w = 1; w < kWarps; w++) {
            all = Op::combine(all, room[w][out + out / kWarp]);
        }
        p.to.store<Op>(split, base + out, all);
    }
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

    ptx::let_next_launch_begin();
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
