// Sums over some dims of a strided tensor, accumulated in f32, without atomics: the same bits at every
// run on the same shape, strides and address phase.
//
// The host sorts the dims into kept and reduced ones and merges neighbours (`problem`), then picks:
//   rows     threads side by side along the reduced elements; a power of two up to a warp, or a block,
//            makes one sum
//   columns  threads side by side along the kept elements, each summing every so-many-th reduced one;
//            taken where a kept dim lies closer than any reduced one
// Where there are fewer sums than fill the machine, each is cut into `splits`, whose sums go to the
// workspace, f32 [splits, outs], and `columns` sums those. Bound by the bytes of x.
//
// An op's file instantiates the kernels by AICF_REDUCE_KERNELS in its own namespace.
#ifndef AICF_CUDA_REDUCE_CUH
#define AICF_CUDA_REDUCE_CUH

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::reduce {

constexpr int kBlock = 256;
constexpr int kWarp = 32;
constexpr int kUnroll = 4; // independent loads of a thread before the first sum

// A split sums at least this many elements, so that the workspace stays below a hundredth of x.
// The row's workspace expression says the same two numbers.
constexpr int64_t kLeastSplit = 512;
constexpr int64_t kMostSplits = 1024;

// Blocks that fill the largest machines at 8 a multiprocessor; more splits bring nothing.
constexpr int64_t kEnoughBlocks = 2048;

// ---- problem ------------------------------------------------------------------------------------

// Innermost dim first; sizes above 1; rank 0 is one element.
struct dims {
    int rank;
    int64_t sizes[AICF_MAX_RANK];
    int64_t strides[AICF_MAX_RANK];
};

// `kept` in the order of the out, which is dense; `reduced` by stride, the smallest innermost.
struct problem {
    dims kept, reduced;
    int64_t outs, length; // products of the sizes
};

inline void
dims_append(dims *d, int64_t size, int64_t stride)
{
    if (size == 1) {
        return;
    }
    int last = d->rank - 1;
    if (last >= 0 && stride == d->strides[last] * d->sizes[last]) {
        d->sizes[last] *= size;
        return;
    }
    d->sizes[d->rank] = size;
    d->strides[d->rank] = stride;
    d->rank++;
}

inline int64_t
magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

// Merges the dims of `x` whose bit in `axes` is as `wanted`; those that are reduced may be summed in
// any order, so they are sorted by stride first.
inline dims
dims_of(const aicf_view &x, uint32_t axes, bool reduced)
{
    int order[AICF_MAX_RANK], count = 0;
    for (int dim = static_cast<int>(x.rank) - 1; dim >= 0; dim--) {
        if ((axes >> dim & 1) != static_cast<uint32_t>(reduced)) {
            continue;
        }
        int at = count++;
        while (reduced && at > 0 &&
               magnitude(x.strides[order[at - 1]]) > magnitude(x.strides[dim])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = dim;
    }
    dims d = {};
    for (int i = 0; i < count; i++) {
        dims_append(&d, x.sizes[order[i]], x.strides[order[i]]);
    }
    return d;
}

// `axes`: a bit for each reduced dim of x.
inline problem
problem_of(const aicf_view &x, uint32_t axes)
{
    problem p = {dims_of(x, axes, false), dims_of(x, axes, true), 1, 1};
    for (int64_t dim = 0; dim < x.rank; dim++) {
        (axes >> dim & 1 ? p.length : p.outs) *= x.sizes[dim];
    }
    return p;
}

// ---- indexes ------------------------------------------------------------------------------------

// A dims in units of a pack of elements of its innermost dim, for the device. Where all indexes are
// below 2^31, dividers are used; else the 64-bit sizes.
struct walk {
    int rank;
    bool narrow;
    divider dividers[AICF_MAX_RANK];
    int64_t sizes[AICF_MAX_RANK];
    int64_t strides[AICF_MAX_RANK]; // in elements of x
};

inline walk
walk_of(const dims &d, int unit)
{
    walk w = {};
    int64_t count = 1;
    w.rank = d.rank;
    for (int dim = 0; dim < d.rank; dim++) {
        w.sizes[dim] = dim == 0 ? d.sizes[0] / unit : d.sizes[dim];
        w.strides[dim] = dim == 0 ? d.strides[0] * unit : d.strides[dim];
        count *= w.sizes[dim];
    }
    w.narrow = count < int64_t{1} << 31;
    for (int dim = 0; dim < d.rank && w.narrow; dim++) {
        w.dividers[dim] = divider_of(w.sizes[dim] > 0 ? w.sizes[dim] : 1);
    }
    return w;
}

// Offsets of units, one functor for each way to find them, so that loops hold one alone.
struct straight {
    int64_t stride;

    __device__ int64_t
    operator()(int64_t i) const
    {
        return i * stride;
    }
};

struct narrow_walk {
    const walk &w;

    __device__ int64_t
    operator()(int64_t i) const
    {
        int64_t offset = 0;
        uint32_t rest = static_cast<uint32_t>(i);
        for (int dim = 0; dim < w.rank - 1; dim++) {
            uint32_t next = divide(rest, w.dividers[dim]);
            offset += (rest - next * w.dividers[dim].divisor) * w.strides[dim];
            rest = next;
        }
        return offset + rest * w.strides[w.rank - 1];
    }
};

struct wide_walk {
    const walk &w;

    __device__ int64_t
    operator()(int64_t i) const
    {
        int64_t offset = 0;
#pragma unroll 1
        for (int dim = 0; dim < w.rank - 1; dim++) {
            int64_t next = i / w.sizes[dim];
            offset += (i - next * w.sizes[dim]) * w.strides[dim];
            i = next;
        }
        return offset + i * w.strides[w.rank - 1];
    }
};

// body(offsets of w)
template <typename Body>
__device__ inline void
with_offsets(const walk &w, Body body)
{
    if (w.rank <= 1) {
        body(straight{w.strides[0]});
    } else if (w.narrow) {
        body(narrow_walk{w});
    } else {
        body(wide_walk{w});
    }
}

__device__ inline int64_t
offset_of(const walk &w, int64_t i)
{
    int64_t offset;
    with_offsets(w, [&](auto offsets) { offset = offsets(i); });
    return offset;
}

// ---- kernels' parts -----------------------------------------------------------------------------

// Where the sum of out `o` and of split `s` goes: to the workspace, or, of the only split, to out.
template <typename T>
struct destination {
    T *out;
    float *partial; // NULL: to out
    int64_t outs;

    __device__ void
    store(int64_t split, int64_t o, float sum) const
    {
        if (partial) {
            partial[split * outs + o] = sum;
        } else {
            out[o] = of_f32<T>(sum);
        }
    }
};

// Split s of n units is [s * share, min(n, (s + 1) * share)).
struct cut {
    int64_t splits, share;
};

// A multiple of `grain` units a split; fewer splits if that leaves some empty.
inline cut
cut_of(int64_t units, int64_t splits, int64_t grain)
{
    int64_t share = units == 0 ? grain : ceil_div(ceil_div(units, splits), grain) * grain;
    return {units == 0 ? 1 : ceil_div(units, share), share};
}

// What a thread holds of a unit between its load and its use: 16 bytes, or one element.
template <typename T, int kSize>
struct unit {
    static_assert(kSize == kPackSize<T>, "a pack or an element");
    words held;

    __device__ void
    load(const T *p)
    {
        held = load_words(p);
    }

    __device__ void
    unpack(float (&x)[kSize]) const
    {
        aicf::unpack(held, x, T{});
    }
};

template <typename T>
struct unit<T, 1> {
    T held;

    __device__ void
    load(const T *p)
    {
        held = *p;
    }

    __device__ void
    unpack(float (&x)[1]) const
    {
        x[0] = to_f32(held);
    }
};

// Calls add(i, floats of unit i) for i from `begin` on, every `step`-th up to `end`, kUnroll loads ahead.
template <typename T, int kSize, typename Offsets, typename Add>
__device__ inline void
for_units(const T *x, Offsets offsets, int64_t begin, int64_t end, int step, Add add)
{
    int64_t i = begin;
    float y[kSize];
    for (; i + (kUnroll - 1) * step < end; i += int64_t{kUnroll} * step) {
        unit<T, kSize> held[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            held[u].load(x + offsets(i + u * step));
        }
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            held[u].unpack(y);
            add(u, y);
        }
    }
#pragma unroll 1
    for (; i < end; i += step) {
        unit<T, kSize> held;
        held.load(x + offsets(i));
        held.unpack(y);
        add(0, y);
    }
}

// Sum over groups of `width` neighbouring lanes, a power of two; every lane of a group has it.
__device__ inline float
lanes_sum(float x, int width)
{
    for (int distance = width / 2; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(0xffffffff, x, distance);
    }
    return x;
}

// Sum over the block; thread 0 has it.
__device__ inline float
block_sum(float x)
{
    __shared__ float warps[kBlock / kWarp];
    x = lanes_sum(x, kWarp);
    if (threadIdx.x % kWarp == 0) {
        warps[threadIdx.x / kWarp] = x;
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
        x = threadIdx.x < kBlock / kWarp ? warps[threadIdx.x] : 0.0f;
        x = lanes_sum(x, kBlock / kWarp);
    }
    return x;
}

// ---- rows ---------------------------------------------------------------------------------------

template <typename T>
struct row_operands {
    const T *x;
    destination<T> to;
    walk kept, reduced; // reduced in units of packs
    cut split;
    int64_t units; // packs a sum
    int64_t work;  // outs * splits
    int team;      // threads a sum: a power of two up to a warp, or the block
    bool peel;     // one reduced dim of unit stride at any address: units are elements
};

template <int kSize>
__device__ inline float
lanes_of(const float (&x)[kSize])
{
    float sum = x[0];
#pragma unroll
    for (int lane = 1; lane < kSize; lane++) {
        sum += x[lane];
    }
    return sum;
}

// The units [begin, end) of one row, every `team`-th from `begin + rank` on.
template <int kSize, typename T, typename Offsets>
__device__ inline float
units_sum(const T *row, Offsets offsets, int64_t begin, int64_t end, int rank, int team)
{
    float sum[kUnroll] = {};
    for_units<T, kSize>(
        row, offsets, begin + rank, end, team,
        [&](int u, const float(&x)[kSize]) { sum[u] += lanes_of(x); });
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The elements [begin, end) of one row of unit stride: packs between a peeled head and tail.
template <typename T>
__device__ inline float
peeled_sum(const T *row, int64_t begin, int64_t end, int rank, int team)
{
    constexpr int kSize = kPackSize<T>;
    const T *p = row + begin;
    int64_t n = end - begin;
    int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % kPackBytes);
    int64_t head = past == 0 ? 0 : (kPackBytes - past) / static_cast<int64_t>(sizeof(T));
    head = head < n ? head : n;
    int64_t packs = (n - head) / kSize;
    int64_t tail = head + packs * kSize;

    float sum = units_sum<kSize>(p + head, straight{kSize}, 0, packs, rank, team);
    for (int64_t i = rank; i < head; i += team) {
        sum += to_f32(p[i]);
    }
    for (int64_t i = tail + rank; i < n; i += team) {
        sum += to_f32(p[i]);
    }
    return sum;
}

template <typename T, int kSize>
__device__ inline void
rows_body(const row_operands<T> &p)
{
    int64_t teams = kBlock / p.team;
    int64_t job = blockIdx.x * teams + threadIdx.x / p.team;
    int rank = static_cast<int>(threadIdx.x) % p.team;
    bool mine = job < p.work; // lanes without a job take part in the shuffles
    int64_t split = mine ? job % p.split.splits : 0;
    int64_t o = mine ? job / p.split.splits : 0;

    const T *row = p.x + offset_of(p.kept, o);
    int64_t begin = split * p.split.share;
    int64_t end = begin + p.split.share < p.units ? begin + p.split.share : p.units;
    end = mine ? end : begin;

    float sum = 0.0f;
    bool peel = false;
    if constexpr (kSize == 1) {
        peel = p.peel;
        if (peel) {
            sum = peeled_sum(row, begin, end, rank, p.team);
        }
    }
    if (!peel) {
        with_offsets(p.reduced, [&](auto offsets) {
            sum = units_sum<kSize>(row, offsets, begin, end, rank, p.team);
        });
    }

    sum = p.team == kBlock ? block_sum(sum) : lanes_sum(sum, p.team);
    if (mine && rank == 0) {
        p.to.store(split, o, sum);
    }
}

// ---- columns ------------------------------------------------------------------------------------

template <typename X, typename T>
struct column_operands {
    const X *x;
    destination<T> to;
    walk kept, reduced; // kept in units of packs
    cut split;
    int64_t units;  // packs over all outs
    int64_t length; // reduced elements
    int64_t column_blocks;
    int width; // threads along the kept units, a power of two up to a warp; the rest take turns
};

template <typename X, typename T, int kSize>
__device__ inline void
columns_body(const column_operands<X, T> &p)
{
    __shared__ float sums[kBlock * kSize];
    int height = kBlock / p.width;
    int column = static_cast<int>(threadIdx.x) % p.width;
    int row = static_cast<int>(threadIdx.x) / p.width;
    int64_t mine = blockIdx.x % p.column_blocks * p.width + column;
    int64_t split = blockIdx.x / p.column_blocks;
    int64_t end = (split + 1) * p.split.share < p.length ? (split + 1) * p.split.share : p.length;

    float sum[kSize] = {};
    if (mine < p.units) {
        const X *x = p.x + offset_of(p.kept, mine);
        with_offsets(p.reduced, [&](auto offsets) {
            for_units<X, kSize>(
                x, offsets, split * p.split.share + row, end, height,
                [&](int, const float(&y)[kSize]) {
#pragma unroll
                    for (int lane = 0; lane < kSize; lane++) {
                        sum[lane] += y[lane];
                    }
                });
        });
    }

    // Lane l of thread t lies at l * kBlock + t: neighbours in different banks.
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        sums[lane * kBlock + threadIdx.x] = sum[lane];
    }
    for (int half = height / 2; half > 0; half /= 2) {
        __syncthreads();
        if (row < half) {
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                int at = lane * kBlock + static_cast<int>(threadIdx.x);
                sums[at] += sums[at + half * p.width];
            }
        }
    }
    if (row == 0 && mine < p.units) {
#pragma unroll
        for (int lane = 0; lane < kSize; lane++) {
            p.to.store(split, mine * kSize + lane, sums[lane * kBlock + threadIdx.x]);
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

// The kernels of an op, for one dtype.
template <typename T>
struct kernels {
    void (*rows)(row_operands<T>);      // element by element, or peeled
    void (*row_packs)(row_operands<T>); // 16 bytes at a time
    void (*columns)(column_operands<T, T>);
    void (*column_packs)(column_operands<T, T>);
    void (*combine)(column_operands<float, T>);
};

inline int
power_of_two(int64_t least, int most)
{
    int power = 1;
    while (power < least && power < most) {
        power *= 2;
    }
    return power;
}

// Whether packs of the innermost dim of `inner` can be read at once wherever they stand.
template <typename T>
bool
packs(const T *x, const dims &inner, const dims &other)
{
    bool whole = phase_of(x) == 0 && inner.rank > 0 && inner.strides[0] == 1 &&
                 inner.sizes[0] % kPackSize<T> == 0;
    for (int dim = 1; dim < inner.rank; dim++) {
        whole = whole && inner.strides[dim] % kPackSize<T> == 0;
    }
    for (int dim = 0; dim < other.rank; dim++) {
        whole = whole && other.strides[dim] % kPackSize<T> == 0;
    }
    return whole;
}

// The most splits that the workspace has room for.
inline int64_t
most_splits(const problem &p)
{
    int64_t most = ceil_div(p.length, kLeastSplit);
    return most < kMostSplits ? most : kMostSplits;
}

template <typename X, typename T>
aicf_status
launch_columns(
    void (*kernel)(column_operands<X, T>), const X *x, const destination<T> &to, const problem &p,
    int size, int64_t most, aicf_stream stream, int64_t *splits)
{
    column_operands<X, T> c = {};
    c.x = x;
    c.to = to;
    c.kept = walk_of(p.kept, size);
    c.reduced = walk_of(p.reduced, 1);
    c.units = p.outs / size;
    c.length = p.length;
    c.width = power_of_two(c.units, kWarp);
    c.column_blocks = ceil_div(c.units, c.width);
    int64_t want = ceil_div(kEnoughBlocks, c.column_blocks);
    c.split = cut_of(p.length, want < most ? want : most, kBlock / c.width * kUnroll);
    if (c.split.splits == 1) {
        c.to.partial = nullptr;
    }
    *splits = c.split.splits;
    if (c.column_blocks > kMostBlocks / c.split.splits) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return aicf::launch(
        kernel, static_cast<unsigned>(c.column_blocks * c.split.splits), kBlock, 0, stream, c);
}

template <typename T>
aicf_status
launch_rows(
    void (*kernel)(row_operands<T>), const T *x, const destination<T> &to, const problem &p,
    int size, int64_t most, aicf_stream stream, int64_t *splits)
{
    row_operands<T> r = {};
    r.x = x;
    r.to = to;
    r.kept = walk_of(p.kept, 1);
    r.reduced = walk_of(p.reduced, size);
    r.units = p.length / size;
    r.peel = size == 1 && p.reduced.rank == 1 && p.reduced.strides[0] == 1;
    int64_t loads = r.peel ? ceil_div(r.units, kPackSize<T>) : r.units;
    // A warp makes sums of up to 32 loads a lane; from there on a block has the shorter tail.
    r.team = loads > kWarp * 32 ? kBlock : power_of_two(ceil_div(loads, kUnroll), kWarp);
    int64_t teams = kBlock / r.team;
    int64_t want = ceil_div(kEnoughBlocks * teams, p.outs);
    int64_t grain = r.team * kUnroll * (r.peel ? kPackSize<T> : 1);
    r.split = cut_of(r.units, want < most ? want : most, grain);
    if (r.split.splits == 1) {
        r.to.partial = nullptr;
    }
    *splits = r.split.splits;
    r.work = p.outs * r.split.splits;
    if (ceil_div(r.work, teams) > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return aicf::launch(
        kernel, static_cast<unsigned>(ceil_div(r.work, teams)), kBlock, 0, stream, r);
}

// out[o] = the sum over s of partial[s, o]; of none of them, 0.
template <typename T>
aicf_status
launch_combine(
    const kernels<T> &k, const float *partial, int64_t splits, int64_t outs, T *out,
    aicf_stream stream)
{
    problem p = {{}, {}, outs, splits};
    dims_append(&p.kept, outs, 1);
    dims_append(&p.reduced, splits, outs);
    destination<T> to = {out, nullptr, outs};
    int64_t whole;
    return launch_columns(k.combine, partial, to, p, 1, 1, stream, &whole);
}

// Sums over the dims of `axes`, a bit each. `workspace` holds 4 * outs * most_splits bytes.
template <typename T>
aicf_status
launch(
    const kernels<T> &k, const aicf_view &x, uint32_t axes, T *out, void *workspace,
    aicf_stream stream)
{
    problem p = problem_of(x, axes);
    const T *data = static_cast<const T *>(x.data);
    float *partial = static_cast<float *>(workspace);
    if (p.outs == 0) {
        return aicf_ok();
    }
    if (p.length == 0) {
        return launch_combine(k, nullptr, 0, p.outs, out, stream);
    }

    destination<T> to = {out, partial, p.outs};
    int64_t most = most_splits(p), splits = 1;
    bool along_kept =
        p.kept.rank > 0 && (p.reduced.rank == 0 ||
                            magnitude(p.kept.strides[0]) < magnitude(p.reduced.strides[0]));
    aicf_status status;
    if (along_kept) {
        bool wide = packs(data, p.kept, p.reduced);
        status = launch_columns(
            wide ? k.column_packs : k.columns, data, to, p, wide ? kPackSize<T> : 1, most, stream,
            &splits);
    } else {
        bool wide = packs(data, p.reduced, p.kept);
        status = launch_rows(
            wide ? k.row_packs : k.rows, data, to, p, wide ? kPackSize<T> : 1, most, stream,
            &splits);
    }
    if (status.kind || splits == 1) {
        return status;
    }
    return launch_combine(k, partial, splits, p.outs, out, stream);
}

} // namespace aicf::reduce

// The kernels of a sum, in the op's own namespace, and the table of them for a dtype.
#define AICF_REDUCE_KERNELS                                                                         \
    template <typename T, int kSize>                                                                \
    __global__ void __launch_bounds__(reduce::kBlock)                                               \
        rows(const __grid_constant__ reduce::row_operands<T> p)                                     \
    {                                                                                               \
        reduce::rows_body<T, kSize>(p);                                                             \
    }                                                                                               \
    template <typename X, typename T, int kSize>                                                    \
    __global__ void __launch_bounds__(reduce::kBlock)                                               \
        columns(const __grid_constant__ reduce::column_operands<X, T> p)                            \
    {                                                                                               \
        reduce::columns_body<X, T, kSize>(p);                                                       \
    }                                                                                               \
    template <typename T>                                                                           \
    reduce::kernels<T> kernels_of()                                                                 \
    {                                                                                               \
        return {                                                                                    \
            rows<T, 1>, rows<T, kPackSize<T>>, columns<T, T, 1>, columns<T, T, kPackSize<T>>,       \
            columns<float, T, 1>};                                                                  \
    }

#endif
