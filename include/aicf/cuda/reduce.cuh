// Sums over some dims of a strided tensor, accumulated in f32, without atomics: the same bits at
// every run on the same shape, strides and address phase.
//
// The host sorts the dims into kept and reduced ones and merges neighbours (`problem`), then picks:
//   rows: threads side by side along the reduced elements; a power of two up to a warp, or a block,
//     makes one sum
//   columns: threads side by side along the kept elements, each summing every so-many-th reduced
//     one; taken where a kept dim lies closer than any reduced one
// Where there are fewer sums than fill the machine, each is cut into `splits`, whose sums go to the
// workspace, f32 [splits, outs], and `columns` sums those. Bound by the bytes of x.
//
// An op's file instantiates the kernels by AICF_REDUCE_KERNELS in its own namespace.
#ifndef AICF_CUDA_REDUCE_CUH
#define AICF_CUDA_REDUCE_CUH

#include <aicf/cuda/reduce_kernels.cuh>

namespace aicf::reduce {

// A split sums at least this many elements, so that the workspace stays below a hundredth of x.
// The row's workspace expression says the same two numbers.
constexpr int64_t kLeastSplit = 512;
constexpr int64_t kMostSplits = 1024;

// Blocks that fill the largest machines at 8 a multiprocessor; more splits bring nothing.
constexpr int64_t kEnoughBlocks = 2048;

// ---- problem ------------------------------------------------------------------------------------

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

// Merges the dims of `x` whose bit in `axes` is as `wanted`; those that are reduced may be summed
// in any order, so they are sorted by stride first.
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

// ---- launches -----------------------------------------------------------------------------------

// The kernels of an op, for one dtype. What plans their launches knows that by the size of an
// element alone, and so is compiled once for all.
struct kernels {
    int item;                        // bytes of an element
    void (*rows)(row_operands);      // element by element, or peeled
    void (*row_packs)(row_operands); // 16 bytes at a time
    void (*columns)(column_operands);
    void (*column_packs)(column_operands);
    void (*combine)(column_operands); // of f32
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

// Whether packs of `size` elements of the innermost dim of `inner` can be read at once wherever
// they stand.
inline bool
packs(const void *x, const dims &inner, const dims &other, int size)
{
    bool whole =
        phase_of(x) == 0 && inner.rank > 0 && inner.strides[0] == 1 && inner.sizes[0] % size == 0;
    for (int dim = 1; dim < inner.rank; dim++) {
        whole = whole && inner.strides[dim] % size == 0;
    }
    for (int dim = 0; dim < other.rank; dim++) {
        whole = whole && other.strides[dim] % size == 0;
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

// `size`: elements that a thread reads at once.
inline aicf_status
launch_columns(
    void (*kernel)(column_operands), const void *x, const destination &to, const problem &p,
    int size, int64_t most, aicf_stream stream, int64_t *splits)
{
    column_operands c = {};
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

// The same; `pack`: elements that it could.
inline aicf_status
launch_rows(
    void (*kernel)(row_operands), const void *x, const destination &to, const problem &p, int size,
    int pack, int64_t most, aicf_stream stream, int64_t *splits)
{
    row_operands r = {};
    r.x = x;
    r.to = to;
    r.kept = walk_of(p.kept, 1);
    r.reduced = walk_of(p.reduced, size);
    r.units = p.length / size;
    r.peel = size == 1 && p.reduced.rank == 1 && p.reduced.strides[0] == 1;
    int64_t loads = r.peel ? ceil_div(r.units, pack) : r.units;
    // A warp makes sums of up to 32 loads a lane; from there on a block has the shorter tail.
    r.team = loads > kWarp * 32 ? kBlock : power_of_two(ceil_div(loads, kUnroll), kWarp);
    int64_t teams = kBlock / r.team;
    int64_t want = ceil_div(kEnoughBlocks * teams, p.outs);
    int64_t grain = r.team * kUnroll * (r.peel ? pack : 1);
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
inline aicf_status
launch_combine(
    const kernels &k, const float *partial, int64_t splits, int64_t outs, void *out,
    aicf_stream stream)
{
    problem p = {{}, {}, outs, splits};
    dims_append(&p.kept, outs, 1);
    dims_append(&p.reduced, splits, outs);
    destination to = {out, nullptr, outs};
    int64_t whole;
    return launch_columns(k.combine, partial, to, p, 1, 1, stream, &whole);
}

// Sums over the dims of `axes`, a bit each. `workspace` holds 4 * outs * most_splits bytes.
inline aicf_status
launch(
    const kernels &k, const aicf_view &x, uint32_t axes, void *out, void *workspace,
    aicf_stream stream)
{
    problem p = problem_of(x, axes);
    int pack = kPackBytes / k.item;
    float *partial = static_cast<float *>(workspace);
    if (p.outs == 0) {
        return aicf_ok();
    }
    if (p.length == 0) {
        return launch_combine(k, nullptr, 0, p.outs, out, stream);
    }

    destination to = {out, partial, p.outs};
    int64_t most = most_splits(p), splits = 1;
    bool along_kept =
        p.kept.rank > 0 &&
        (p.reduced.rank == 0 || magnitude(p.kept.strides[0]) < magnitude(p.reduced.strides[0]));
    aicf_status status;
    if (along_kept) {
        bool wide = packs(x.data, p.kept, p.reduced, pack);
        status = launch_columns(
            wide ? k.column_packs : k.columns, x.data, to, p, wide ? pack : 1, most, stream,
            &splits);
    } else {
        bool wide = packs(x.data, p.reduced, p.kept, pack);
        status = launch_rows(
            wide ? k.row_packs : k.rows, x.data, to, p, wide ? pack : 1, pack, most, stream,
            &splits);
    }
    if (status.kind || splits == 1) {
        return status;
    }
    return launch_combine(k, partial, splits, p.outs, out, stream);
}

} // namespace aicf::reduce

// The kernels of a sum, in the op's own namespace, and the table of them for a dtype.
#define AICF_REDUCE_KERNELS                                                    \
    template <typename T, int kSize>                                           \
    __global__ void __launch_bounds__(reduce::kBlock)                          \
        rows(const __grid_constant__ reduce::row_operands p)                   \
    {                                                                          \
        reduce::rows_body<T, kSize>(p);                                        \
    }                                                                          \
    template <typename X, typename T, int kSize>                               \
    __global__ void __launch_bounds__(reduce::kBlock)                          \
        columns(const __grid_constant__ reduce::column_operands p)             \
    {                                                                          \
        reduce::columns_body<X, T, kSize>(p);                                  \
    }                                                                          \
    template <typename T> reduce::kernels kernels_of()                         \
    {                                                                          \
        constexpr int kSize = kPackSize<T>;                                    \
        return {sizeof(T),        rows<T, 1>,           rows<T, kSize>,        \
                columns<T, T, 1>, columns<T, T, kSize>, columns<float, T, 1>}; \
    }

#endif
