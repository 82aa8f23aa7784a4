// A copy from a view of any strides to another of the same shape, by the size of an element alone:
// the frame of permute, and of whatever else lays memory out anew.
//
// The host merges dims, then widens elements: where both sides run through memory along the same
// dim, two, four, ... elements of it are one of up to 16 bytes (`plan`). Then
//   tiled   x and out have unit stride along two different dims: tiles through shared memory, so
//           that both sides are read and written along their rows, 16 bytes at a time, from any
//           address
//   shifted the same, to any address: a tile's part of a row of out begins and ends on the row's
//           own boundaries
//   strips  one of those two dims is shorter than a sector of memory and stands beside the other
//           one (channels of an image): whole strips of the two through shared memory; three
//           channels of 8 and 16 bits in registers (threes)
//   direct  all else, and small ones: by index, in the order of out, in parts of less than 2^31
//           elements
//   few     small ones of one or two dims: the same by one element a thread
// Views have at most AICF_MAX_RANK dims, and are apart. Bools are written as 0 or 1. Bound by
// bytes.
#ifndef AICF_CUDA_TRANSPOSE_CUH
#define AICF_CUDA_TRANSPOSE_CUH

#include <aicf/cuda/transpose_shifted.cuh>
#include <aicf/cuda/transpose_strips.cuh>

namespace aicf::transpose {

constexpr int64_t kSmall = 4 * 1024; // bytes that are in the caches whatever the order

// The kernels of an op, for one size of elements.
struct kernels {
    void (*tiled)(tiles), (*shifted)(tiles);
    void (*flat)(tiles), (*flat_shifted)(tiles); // of flat_shape; NULL: there are none
    void (*strips)(transpose::strips);
    void (*threes[2])(transpose::strips); // out's rows apart, x's; NULL: there are none
    void (*direct)(elements<AICF_MAX_RANK>);
    void (*few)(elements<kFewDims>);
    int across, along; // of a tile
    int shifted_across, shifted_along, lead;
};

inline bool
whole_packs(const void *address, int64_t pitch, const int64_t *strides, int rank, int item)
{
    bool whole = phase_of(address) == 0 && pitch * item % kPackBytes == 0;
    for (int i = 0; i < rank; i++) {
        whole = whole && strides[i] * item % kPackBytes == 0;
    }
    return whole;
}

// Fills `t` and the number of tiles if tiling is worth it: x has unit stride along another dim than
// out, and rows of both are at least a sector of memory long.
inline bool
tiles_of(const plan &p, const kernels &k, tiles *t, int64_t *count, bool *flat)
{
    constexpr int64_t kSector = 32;
    int across = -1;
    for (int i = 1; i < p.rank; i++) {
        if (p.dims[i].x == 1 && (across < 0 || p.dims[i].size > p.dims[across].size)) {
            across = i;
        }
    }
    if (across < 0 || p.dims[0].out != 1 || p.dims[0].x == 1 ||
        p.dims[across].size * p.item < kSector || p.dims[0].size * p.item < kSector) {
        return false;
    }
    const dim &wide = p.dims[across], &tall = p.dims[0];
    *t = {};
    t->x = p.x;
    t->out = p.out;
    t->size_across = wide.size;
    t->size_along = tall.size;
    t->x_pitch = tall.x;
    t->out_pitch = wide.out;
    int64_t slices = 1;
    for (int i = 1; i < p.rank; i++) {
        if (i != across) {
            t->sizes[t->rank] = divider_of(p.dims[i].size);
            t->x_strides[t->rank] = p.dims[i].x;
            t->out_strides[t->rank] = p.dims[i].out;
            t->rank++;
            slices *= p.dims[i].size;
        }
    }
    t->x_packs = whole_packs(p.x, t->x_pitch, t->x_strides, t->rank, p.item);
    t->out_packs = whole_packs(p.out, t->out_pitch, t->out_strides, t->rank, p.item);
    bool packs = t->out_packs;
    // A row of out may begin `lead` rows into a tile's.
    int64_t flat_lead = packs ? 0 : flat_shifted_shape::kLead, lead = packs ? 0 : k.lead;
    *flat = k.flat && tall.size + (packs ? 0 : flat_lead - 1) <= flat_shape::kAlong - flat_lead;
    lead = *flat ? flat_lead : lead;
    t->step = (*flat ? flat_shape::kAlong : packs ? k.along : k.shifted_along) - lead;
    int64_t columns = *flat ? flat_shape::kAcross : packs ? k.across : k.shifted_across;
    int64_t wide_tiles = ceil_div(wide.size, columns);
    int64_t tall_tiles = ceil_div(tall.size + (packs ? 0 : lead - 1), t->step);
    *count = wide_tiles * tall_tiles * slices;
    if (*count > kMostBlocks) {
        return false;
    }
    t->tiles_across = divider_of(wide_tiles);
    t->tiles_along = divider_of(tall_tiles);
    t->low = p.x;
    t->high = p.x + p.item;
    for (int i = 0; i < p.rank; i++) {
        int64_t reach = (p.dims[i].size - 1) * p.dims[i].x * p.item;
        (reach < 0 ? t->low : t->high) += reach;
    }
    t->truth = p.truth;
    return true;
}

// Fills `s` and the number of strips if there are such two dims.
inline bool
strips_of(const plan &p, const kernels &k, strips *s, int64_t *count, bool *threes)
{
    int other = -1; // the dim of x's rows
    for (int i = 1; i < p.rank; i++) {
        other = p.dims[i].x == 1 ? i : other;
    }
    if (other < 0 || p.dims[0].out != 1) {
        return false;
    }
    *s = {};
    s->apart = p.dims[0].size <= p.dims[other].size;
    const dim &few = s->apart ? p.dims[0] : p.dims[other];
    const dim &many = s->apart ? p.dims[other] : p.dims[0];
    if (few.size > kPackBytes || (s->apart ? many.out : many.x) != few.size) {
        return false;
    }
    s->x = p.x;
    s->out = p.out;
    s->size = many.size;
    s->pitch = s->apart ? few.x : few.out;
    s->few = divider_of(few.size);
    *count = 1;
    for (int i = 1; i < p.rank; i++) {
        if (i != other) {
            s->sizes[s->rank] = divider_of(p.dims[i].size);
            s->x_strides[s->rank] = p.dims[i].x;
            s->out_strides[s->rank] = p.dims[i].out;
            s->rank++;
            *count *= p.dims[i].size;
        }
    }
    s->x_packs = whole_packs(p.x, s->apart ? s->pitch : 0, s->x_strides, s->rank, p.item);
    s->out_packs = whole_packs(p.out, s->apart ? 0 : s->pitch, s->out_strides, s->rank, p.item);
    s->truth = p.truth;
    int64_t pack = kPackBytes / p.item;
    *threes = k.threes[0] && few.size == 3 && many.size % pack == 0 && s->x_packs && s->out_packs;
    // A multiple of 16 elements, so that a strip's rows lie as the whole ones do.
    s->length = static_cast<int>(
        *threes ? kBlock * pack : kStripBytes / (few.size * p.item) / kPackBytes * kPackBytes);
    s->count = divider_of(ceil_div(many.size, s->length));
    *count *= s->count.divisor;
    return *count <= kMostBlocks;
}

template <int kDims>
elements<kDims>
elements_of(const plan &p, int64_t n)
{
    elements<kDims> e = {p.x, p.out, static_cast<uint32_t>(n), p.rank, p.truth, {}};
    for (int i = 0; i < p.rank; i++) {
        e.dims[i] = {divider_of(p.dims[i].size), p.dims[i].x, p.dims[i].out};
    }
    return e;
}

// Halves the longest dim until a part has less than 2^31 elements: each is one launch.
inline aicf_status
launch_direct(const kernels &k, const plan &p, aicf_stream stream)
{
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;
    int64_t n = 1;
    int longest = 0;
    for (int i = 0; i < p.rank; i++) {
        n *= p.dims[i].size;
        longest = p.dims[i].size > p.dims[longest].size ? i : longest;
    }
    if (n > kMost) {
        plan low = p, high = p;
        int64_t middle = p.dims[longest].size / 2;
        low.dims[longest].size = middle;
        high.dims[longest].size -= middle;
        high.x += middle * p.dims[longest].x * p.item;
        high.out += middle * p.dims[longest].out * p.item;
        aicf_status status = launch_direct(k, low, stream);
        return status.kind ? status : launch_direct(k, high, stream);
    }
    if (n * p.item <= kSmall && p.rank <= kFewDims) {
        unsigned blocks = static_cast<unsigned>(ceil_div(n, kBlock));
        return launch_waiting(k.few, blocks, kBlock, 0, stream, elements_of<kFewDims>(p, n));
    }
    unsigned blocks = static_cast<unsigned>(ceil_div(n, kBlock * kUnroll));
    return aicf::launch(k.direct, blocks, kBlock, 0, stream, elements_of<AICF_MAX_RANK>(p, n));
}

// x to out, of one shape. `table` has the kernels for elements of 1, 2, 4, 8 and 16 bytes.
inline aicf_status
launch(
    const kernels (&table)[5], const aicf_view &x, const aicf_view &out, int item, bool truth,
    aicf_stream stream)
{
    if (numel(&out) == 0) {
        return aicf_ok();
    }
    plan p = plan_of(x, out, item, truth);
    int size = 0;
    while (1 << size < p.item) {
        size++;
    }
    const kernels &k = table[size];
    tiles t;
    strips s;
    int64_t count;
    bool flat, threes;
    if (numel(&out) * item > kSmall && tiles_of(p, k, &t, &count, &flat)) {
        auto kernel =
            flat ? (t.out_packs ? k.flat : k.flat_shifted) : (t.out_packs ? k.tiled : k.shifted);
        return launch_waiting(kernel, static_cast<unsigned>(count), kBlock, 0, stream, t);
    }
    if (numel(&out) * item > kSmall && strips_of(p, k, &s, &count, &threes)) {
        auto kernel = threes ? k.threes[s.apart] : k.strips;
        return aicf::launch(kernel, static_cast<unsigned>(count), kBlock, 0, stream, s);
    }
    return launch_direct(k, p, stream);
}

} // namespace aicf::transpose

// The kernels of an op, in the op's own namespace, and the table of them.
#define AICF_TRANSPOSE_KERNELS                                                           \
    template <typename T, typename S>                                                    \
    __global__ void __launch_bounds__(transpose::kBlock)                                 \
        tiled(const __grid_constant__ transpose::tiles p)                                \
    {                                                                                    \
        transpose::tiled_body<T, S>(p);                                                  \
    }                                                                                    \
    template <typename T, typename S>                                                    \
    __global__ void __launch_bounds__(transpose::kBlock)                                 \
        shifted(const __grid_constant__ transpose::tiles p)                              \
    {                                                                                    \
        transpose::shifted_body<T, S>(p);                                                \
    }                                                                                    \
    template <typename T>                                                                \
    __global__ void __launch_bounds__(transpose::kBlock)                                 \
        strips(const __grid_constant__ transpose::strips p)                              \
    {                                                                                    \
        transpose::strips_body<T>(p);                                                    \
    }                                                                                    \
    template <typename T, bool kApart>                                                   \
    __global__ void __launch_bounds__(transpose::kBlock)                                 \
        threes(const __grid_constant__ transpose::strips p)                              \
    {                                                                                    \
        transpose::threes_body<T, kApart>(p);                                            \
    }                                                                                    \
    template <typename T>                                                                \
    __global__ void __launch_bounds__(transpose::kBlock)                                 \
        direct(const __grid_constant__ transpose::elements<AICF_MAX_RANK> p)             \
    {                                                                                    \
        transpose::direct_body<T>(p);                                                    \
    }                                                                                    \
    template <typename T>                                                                \
    __global__ void __launch_bounds__(transpose::kBlock)                                 \
        few(const __grid_constant__ transpose::elements<transpose::kFewDims> p)          \
    {                                                                                    \
        transpose::few_body<T>(p);                                                       \
    }                                                                                    \
    template <typename T> static constexpr transpose::kernels kernels_of()               \
    {                                                                                    \
        using S = transpose::shape<T>;                                                   \
        transpose::kernels k = {};                                                       \
        k.tiled = tiled<T, S>;                                                           \
        k.strips = strips<T>;                                                            \
        k.direct = direct<T>;                                                            \
        k.few = few<T>;                                                                  \
        k.across = S::kAcross;                                                           \
        k.along = S::kAlong;                                                             \
        if constexpr (sizeof(T) < kPackBytes) { /* elements of 16 bytes are on theirs */ \
            using H = transpose::shifted_shape<T>;                                       \
            k.shifted = shifted<T, H>;                                                   \
            k.shifted_across = H::kAcross;                                               \
            k.shifted_along = H::kAlong;                                                 \
            k.lead = H::kLead;                                                           \
        }                                                                                \
        if constexpr (sizeof(T) < 4) {                                                   \
            k.threes[0] = threes<T, false>;                                              \
            k.threes[1] = threes<T, true>;                                               \
        }                                                                                \
        if constexpr (sizeof(T) == 2) {                                                  \
            k.flat = tiled<T, transpose::flat_shape>;                                    \
            k.flat_shifted = shifted<T, transpose::flat_shifted_shape>;                  \
        }                                                                                \
        return k;                                                                        \
    }                                                                                    \
    static const transpose::kernels table[] = {                                          \
        kernels_of<uint8_t>(), kernels_of<uint16_t>(), kernels_of<uint32_t>(),           \
        kernels_of<uint64_t>(), kernels_of<words>()};

#endif
