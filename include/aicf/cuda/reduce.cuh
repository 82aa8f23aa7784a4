// Reductions over some dims of a strided tensor, without atomics: the same bits at every run on the
// same shape, strides and address phase. What is computed is an op of aicf/cuda/reduce_ops.cuh;
// floats are computed in f32.
//
// The host sorts the dims into kept and reduced ones and merges neighbours (`problem`), then picks:
//   rows: threads side by side along the reduced elements; a power of two up to a warp, or a block,
//     makes one value. short_rows: the same for rows of at most a warp's units, several at once
//   columns: threads side by side along the kept elements, each taking every so-many-th reduced
//     one; taken where a kept dim lies closer than any reduced one. shifted: the same for a matrix
//     whose rows start at any address
// Where outs are too few to fill the machine, each is cut into `splits`, whose values go to the
// workspace, and `combine` makes the outs of those: a second launch, so only where it pays. Bound
// by the bytes of x.
//
// An op's file instantiates the kernels by AICF_REDUCE_KERNELS in its own namespace.
#ifndef AICF_CUDA_REDUCE_CUH
#define AICF_CUDA_REDUCE_CUH

#include <aicf/cuda/reduce_columns.cuh>

namespace aicf::reduce {

// A split has at least so many elements, and splits make at most so many values together: so the
// workspace stays small beside x. The rows' workspace expressions say the same numbers.
constexpr int64_t kLeastSplit = 64;
constexpr int64_t kMostSplits = 1024;
constexpr int64_t kMostPartials = 524288;

// Blocks of 256 threads, where there are splits: one wave; two where each is long enough for the
// second to even out what the first left.
constexpr int64_t kWave = kFill / 256;
constexpr int64_t kLongSplit = 1 << 20; // bytes
// Turns from which on blocks of short rows stay, one wave of them: few would end unevenly.
constexpr int64_t kManyTurns = 8;

// ---- plans --------------------------------------------------------------------------------------

using shifted_kernel = void(shifted_operands);

// The kernels of an op, for one dtype. What plans their launches knows that by the size of an
// element and of a value alone, and so is compiled once for all.
struct kernels {
    int item, value;            // bytes
    int pack;                   // elements that are read at once
    bool ordered;               // places count
    void (*rows)(row_operands); // element by element, or peeled
    void (*row_packs)(row_operands);
    void (*short_rows)(row_operands);
    void (*short_row_packs)(row_operands);
    void (*columns)(column_operands);
    void (*column_packs)(column_operands);
    shifted_kernel *shifted; // NULL of integers
    void (*combine)(partial_operands);
};

// What one call is about: the launches' own arguments apart.
struct job {
    const kernels &k;
    const void *x;
    void *workspace;
    destination to;
    problem p;
    aicf_stream stream;
};

// The least power of two that is not below `n`, at most `most`.
inline int
power_from(int64_t n, int most)
{
    int power = 1;
    while (power < n && power < most) {
        power *= 2;
    }
    return power;
}

// The largest power of two that is not above `n`, between `least` and `most`.
inline int
power_to(int64_t n, int least, int most)
{
    int power = least;
    while (power * 2 <= n && power < most) {
        power *= 2;
    }
    return power;
}

// Whether packs of `size` elements of the innermost dim of `inner` can be read at once wherever
// they stand.
inline bool
packs(const void *x, const dims &inner, const dims &other, int size)
{
    bool whole = size > 1 && phase_of(x) == 0 && inner.rank > 0 && inner.strides[0] == 1 &&
                 inner.sizes[0] % size == 0;
    for (int dim = 1; dim < inner.rank; dim++) {
        whole = whole && inner.strides[dim] % size == 0;
    }
    for (int dim = 0; dim < other.rank; dim++) {
        whole = whole && other.strides[dim] % size == 0;
    }
    return whole;
}

// The splits to aim at where there are `blocks` that are cut, of `bytes` in all: as many as fill
// the machine, and as the workspace has room for.
inline int64_t
splits_for(const problem &p, int64_t blocks, int64_t bytes)
{
    int64_t wave = bytes / kWave > kLongSplit ? 2 * kWave : kWave;
    int64_t want = wave / blocks, room = kMostPartials / p.outs;
    want = want < room ? want : room;
    want = want < kMostSplits ? want : kMostSplits;
    want = want < p.length / kLeastSplit ? want : p.length / kLeastSplit;
    return want < 1 ? 1 : want;
}

// A multiple of `grain` units a split; fewer splits if that leaves some empty.
inline cut
cut_of(int64_t units, int64_t splits, int64_t grain)
{
    int64_t share = units == 0 ? grain : ceil_div(ceil_div(units, splits), grain) * grain;
    return {units == 0 ? 1 : ceil_div(units, share), share};
}

// Nanoseconds, about, of `blocks` blocks of `threads` with `units` reads of `bytes` each: a thread
// has kUnroll reads on their way in some 1300, the machine, where it is full, reads 4000 bytes in
// one.
inline double
time_of(int64_t blocks, int threads, int64_t units, int bytes)
{
    double whole = static_cast<double>(blocks) * static_cast<double>(units) * bytes / 4000;
    double full = static_cast<double>(blocks) * threads / static_cast<double>(kFill);
    double block = static_cast<double>(ceil_div(units, int64_t{threads} * kUnroll)) * 1300;
    whole /= full < 1 ? full : 1;
    return block > whole ? block : whole;
}

// What a second launch adds to that, and how much longer it is where a block has parts of lines.
constexpr double kSecondLaunch = 1300;
constexpr double kHalfLines = 1.1;
constexpr int kLine = 128; // bytes

// ---- launches -----------------------------------------------------------------------------------

// The outs of `splits` values each; of none, the identity's.
inline aicf_status
launch_combine(const job &j, int64_t splits)
{
    partial_operands c = {j.workspace, j.to, splits, 1};
    c.to.partial = nullptr;
    c.width = power_from(j.to.outs, splits > kWarp ? 8 : kWarp);
    int64_t want = ceil_div(splits, kUnroll) * c.width;
    int threads = power_to(want, 128, kMostThreads);
    int64_t blocks = ceil_div(j.to.outs, c.width);
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return aicf::launch_waiting(
        j.k.combine, static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
        static_cast<size_t>(columns_room(threads, c.width, 1, j.k.value)), j.stream, c);
}

// `size`: elements that a thread reads at once.
inline aicf_status
launch_columns(const job &j, int size, int64_t *splits)
{
    const problem &p = j.p;
    int bytes = size * j.k.item, loads = size == 1 ? 2 * kUnroll : kUnroll;
    column_operands c = {};
    c.x = j.x;
    c.to = j.to;
    c.kept = walk_of(p.kept, size);
    c.reduced = walk_of(p.reduced, 1);
    c.units = p.outs / size;
    c.length = p.length;

    // Without splits: narrow and high blocks if that is what fills the machine. Of packs, 64 bytes
    // side by side are few, and taken where they alone are enough: a second launch costs more.
    auto fills = [&](int width) { return ceil_div(c.units, width) * kMostThreads >= kFill / 2; };
    int narrowest = size == 1                               ? kWarp / 2
                    : !fills(kWarp / 4) && fills(kWarp / 8) ? kWarp / 8
                                                            : kWarp / 4;
    c.width = power_from(c.units, kWarp);
    while (c.width > narrowest && !fills(c.width)) {
        c.width /= 2;
    }
    c.column_blocks = ceil_div(c.units, c.width);
    int useful = power_from(ceil_div(p.length, loads) * c.width, kMostThreads);
    int threads = power_to(kFill / c.column_blocks, 256, kMostThreads);
    threads = power_to(useful < threads ? useful : threads, 64, kMostThreads);
    while (columns_room(threads, c.width, size, j.k.value) > 48 << 10) {
        threads /= 2;
    }
    c.split = {1, p.length};
    double alone = time_of(c.column_blocks, threads, p.length * c.width, bytes);
    alone *= c.width * bytes < kLine && c.column_blocks > 1 ? kHalfLines : 1;

    // With splits: blocks as wide as they can be.
    int width = power_from(c.units, kWarp);
    int64_t blocks = ceil_div(c.units, width), all = p.outs * p.length * j.k.item;
    cut split = cut_of(p.length, splits_for(p, blocks, all), 256 / width * loads);
    double both = time_of(blocks * split.splits, 256, split.share * width, bytes) + kSecondLaunch;
    if (split.splits > 1 && both < alone) {
        threads = 256;
        c.width = width;
        c.column_blocks = blocks;
        c.split = split;
    }
    if (c.split.splits == 1) {
        c.to.partial = nullptr;
    }
    *splits = c.split.splits;
    if (c.column_blocks > kMostBlocks / c.split.splits) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return aicf::launch_waiting(
        size == 1 ? j.k.columns : j.k.column_packs,
        static_cast<unsigned>(c.column_blocks * c.split.splits), static_cast<unsigned>(threads),
        static_cast<size_t>(columns_room(threads, c.width, size, j.k.value)), j.stream, c);
}

// Whether x is a matrix without gaps, reduced along its columns, of which at least a pack is in
// each row.
inline bool
is_shifted(const job &j)
{
    const problem &p = j.p;
    return j.k.shifted && p.kept.rank == 1 && p.kept.strides[0] == 1 && p.reduced.rank == 1 &&
           p.reduced.strides[0] == p.outs && p.outs >= kWarp * j.k.pack;
}

inline aicf_status
launch_shifted(const job &j, int64_t *splits)
{
    const problem &p = j.p;
    shifted_operands s = {j.x, j.to, {}, p.outs, p.length, 0};
    s.column_blocks = ceil_div(p.outs, (kWarp - 1) * j.k.pack);
    int64_t want = splits_for(p, s.column_blocks, p.outs * p.length * j.k.item);
    s.split = cut_of(p.length, want, kShiftedBlock / kWarp * kUnroll);
    if (s.split.splits == 1) {
        s.to.partial = nullptr;
    }
    *splits = s.split.splits;
    if (s.column_blocks > kMostBlocks / s.split.splits) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return aicf::launch_waiting(
        j.k.shifted, static_cast<unsigned>(s.column_blocks * s.split.splits), kShiftedBlock, 0,
        j.stream, s);
}

// Threads for a row of `loads` reads, of `outs` such rows. Long rows have a block, so large that
// all of them fill the machine, but not larger than two reads a thread ask for.
inline int
team_of(int64_t loads, int64_t outs, int most)
{
    if (loads <= kWarp * kUnroll || (loads <= 1024 && outs >= 2048)) {
        return kWarp;
    }
    int team = power_to(kFill / outs, loads < 2048 ? 128 : 256, most);
    return power_from(ceil_div(loads, 2), team) < 128 ? 128 : power_from(ceil_div(loads, 2), team);
}

inline aicf_status
launch_rows(const job &j, int size, int64_t *splits)
{
    const problem &p = j.p;
    row_operands r = {};
    r.x = j.x;
    r.to = j.to;
    r.kept = walk_of(p.kept, 1);
    r.reduced = walk_of(p.reduced, size);
    r.units = p.length / size;
    r.split = {1, r.units};
    r.work = p.outs;
    *splits = 1;

    if (r.units <= kWarp) {
        r.team = power_from(r.units, kWarp);
        r.to.partial = nullptr;
        int64_t blocks = ceil_div(r.work, int64_t{256} / r.team * kShortRows);
        blocks = p.kept.rank <= 1 && blocks >= kManyTurns * kWave ? kWave : blocks;
        if (blocks > kMostBlocks) {
            return status_of(cudaErrorInvalidConfiguration);
        }
        return aicf::launch(
            size == 1 ? j.k.short_rows : j.k.short_row_packs, static_cast<unsigned>(blocks), 256, 0,
            j.stream, r);
    }

    r.peel = size == 1 && j.k.pack > 1 && p.reduced.rank == 1 && p.reduced.strides[0] == 1;
    int pack = r.peel ? j.k.pack : 1;
    int64_t loads = ceil_div(r.units, pack);
    r.team = team_of(loads, p.outs, kMostThreads);
    if (r.team > kWarp) {
        int bytes = size * pack * j.k.item;
        int64_t want = splits_for(p, p.outs, p.outs * p.length * j.k.item);
        cut split = cut_of(r.units, want, int64_t{256} * kUnroll * pack);
        double both = time_of(p.outs * split.splits, 256, split.share / pack, bytes);
        if (split.splits > 1 && both + kSecondLaunch < time_of(p.outs, r.team, loads, bytes)) {
            r.team = 256;
            r.split = split;
            r.work = p.outs * split.splits;
            *splits = split.splits;
        }
    }
    if (r.split.splits == 1) {
        r.to.partial = nullptr;
    }
    int threads = r.team > kWarp ? r.team : r.work * kWarp < kFill ? 128 : 256;
    int64_t blocks = ceil_div(r.work, threads / r.team);
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return aicf::launch_waiting(
        size == 1 ? j.k.rows : j.k.row_packs, static_cast<unsigned>(blocks),
        static_cast<unsigned>(threads), 0, j.stream, r);
}

// Reduces over the dims of `axes`, a bit each. `workspace` holds the values of all splits.
inline aicf_status
launch(
    const kernels &k, const aicf_view &x, uint32_t axes, void *out, const beside &beside,
    void *workspace, aicf_stream stream)
{
    problem p = problem_of(x, axes, k.ordered);
    job j = {k, x.data, workspace, {out, workspace, p.outs, p.length, beside}, p, stream};
    if (p.outs == 0) {
        return aicf_ok();
    }
    if (p.length == 0) {
        return launch_combine(j, 0);
    }

    int64_t splits = 1;
    bool along_kept = p.kept.rank > 0 && p.reduced.rank > 0 &&
                      magnitude(p.kept.strides[0]) < magnitude(p.reduced.strides[0]);
    aicf_status status;
    if (along_kept) {
        bool wide = packs(x.data, p.kept, p.reduced, k.pack);
        wide = wide && !(k.ordered && p.length > UINT32_MAX); // rows of packs have 32-bit numbers
        status = !wide && is_shifted(j) ? launch_shifted(j, &splits)
                                        : launch_columns(j, wide ? k.pack : 1, &splits);
    } else {
        status = launch_rows(j, packs(x.data, p.reduced, p.kept, k.pack) ? k.pack : 1, &splits);
    }
    return status.kind || splits == 1 ? status : launch_combine(j, splits);
}

} // namespace aicf::reduce

// The kernels of an op in its own namespace, and the table of them for a dtype. `Op` is a template
// of aicf/cuda/reduce_ops.cuh. Integers are read one by one.
#define AICF_REDUCE_KERNELS(Op)                                       \
    template <typename T, int kSize>                                  \
    __global__ void __launch_bounds__(reduce::kMostThreads)           \
        rows(const __grid_constant__ reduce::row_operands p)          \
    {                                                                 \
        reduce::rows_body<Op<T>, kSize>(p);                           \
    }                                                                 \
    template <typename T, int kSize>                                  \
    __global__ void __launch_bounds__(reduce::kMostThreads)           \
        short_rows(const __grid_constant__ reduce::row_operands p)    \
    {                                                                 \
        reduce::short_rows_body<Op<T>, kSize>(p);                     \
    }                                                                 \
    template <typename T, int kSize>                                  \
    __global__ void __launch_bounds__(reduce::kMostThreads)           \
        columns(const __grid_constant__ reduce::column_operands p)    \
    {                                                                 \
        reduce::columns_body<Op<T>, kSize>(p);                        \
    }                                                                 \
    template <typename T>                                             \
    __global__ void __launch_bounds__(reduce::kShiftedBlock)          \
        shifted(const __grid_constant__ reduce::shifted_operands p)   \
    {                                                                 \
        reduce::shifted_body<Op<T>>(p);                               \
    }                                                                 \
    template <typename T> reduce::shifted_kernel *shifted_of()        \
    {                                                                 \
        if constexpr (reduce::kIsFloat<T>) {                          \
            return shifted<T>;                                        \
        } else {                                                      \
            return nullptr;                                           \
        }                                                             \
    }                                                                 \
    template <typename T>                                             \
    __global__ void __launch_bounds__(reduce::kMostThreads)           \
        combine(const __grid_constant__ reduce::partial_operands p)   \
    {                                                                 \
        reduce::combine_body<Op<T>>(p);                               \
    }                                                                 \
    template <typename T> reduce::kernels kernels_of()                \
    {                                                                 \
        constexpr int kSize = reduce::kIsFloat<T> ? kPackSize<T> : 1; \
        return {                                                      \
            sizeof(T),                                                \
            sizeof(typename Op<T>::value),                            \
            kSize,                                                    \
            Op<T>::kOrdered,                                          \
            rows<T, 1>,                                               \
            rows<T, kSize>,                                           \
            short_rows<T, 1>,                                         \
            short_rows<T, kSize>,                                     \
            columns<T, 1>,                                            \
            columns<T, kSize>,                                        \
            shifted_of<T>(),                                          \
            combine<T>};                                              \
    }

#endif
