// A copy from a view of any strides to another of the same shape, by the size of an element alone:
// the frame of permute, and of whatever else lays memory out anew.
//
// The host merges dims, then widens elements: where both sides run through memory along the same
// dim, two, four, ... elements of it are one of up to 16 bytes (`plan`). Then
//   tiled: x and out have unit stride along two different dims: tiles through shared memory, so
//   that
//     both sides are read and written along their rows, 16 bytes at a time, from and to any address
//   strips: one of those two dims is shorter than a sector of memory and stands beside the other
//     one (channels of an image): whole strips of the two through shared memory
//   direct: all else, and small ones: by index, in the order of out, in parts of less than 2^31
//     elements
// Views have at most AICF_MAX_RANK dims, and are apart. Bools are written as 0 or 1. Bound by
// bytes.
#ifndef AICF_CUDA_TRANSPOSE_CUH
#define AICF_CUDA_TRANSPOSE_CUH

#include <type_traits>

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/shift.cuh>

namespace aicf::transpose {

constexpr int kBlock = 256;
constexpr int kUnroll = 4; // elements of a thread of `direct`: that many loads are on their way
constexpr int64_t kSmall = 4 * 1024; // bytes that are in the caches whatever the order

template <int kBytes> struct element_type;
template <> struct element_type<1> {
    using type = uint8_t;
};
template <> struct element_type<2> {
    using type = uint16_t;
};
template <> struct element_type<4> {
    using type = uint32_t;
};
template <> struct element_type<8> {
    using type = uint64_t;
};
template <> struct element_type<16> {
    using type = words;
};

// ---- plan ---------------------------------------------------------------------------------------

struct dim {
    int64_t size, x, out; // strides in elements
};

// Innermost dim of out first; sizes above 1.
struct plan {
    const char *x;
    char *out;
    int item; // bytes of an element
    bool truth;
    int rank;
    dim dims[AICF_MAX_RANK];
};

inline int64_t
magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

inline void
merge(plan *p)
{
    int last = 0;
    for (int i = 1; i < p->rank; i++) {
        dim &inner = p->dims[last];
        const dim &outer = p->dims[i];
        if (outer.x == inner.x * inner.size && outer.out == inner.out * inner.size) {
            inner.size *= outer.size;
        } else {
            p->dims[++last] = outer;
        }
    }
    p->rank = p->rank == 0 ? 0 : last + 1;
}

inline bool
widens(const plan &p)
{
    if (p.rank == 0 || p.item == kPackBytes || p.dims[0].x != 1 || p.dims[0].out != 1) {
        return false;
    }
    uint64_t all = reinterpret_cast<uintptr_t>(p.x) | reinterpret_cast<uintptr_t>(p.out);
    bool even = all % (2 * p.item) == 0 && p.dims[0].size % 2 == 0;
    for (int i = 1; i < p.rank; i++) {
        even = even && p.dims[i].x % 2 == 0 && p.dims[i].out % 2 == 0;
    }
    return even;
}

inline void
widen(plan *p)
{
    while (widens(*p)) {
        p->item *= 2;
        p->dims[0].size /= 2;
        for (int i = 1; i < p->rank; i++) {
            p->dims[i].x /= 2;
            p->dims[i].out /= 2;
        }
        if (p->dims[0].size == 1) {
            p->rank--;
            for (int i = 0; i < p->rank; i++) {
                p->dims[i] = p->dims[i + 1];
            }
        }
    }
}

// `truth`: the elements are bools.
inline plan
plan_of(const aicf_view &x, const aicf_view &out, int item, bool truth)
{
    plan p = {static_cast<const char *>(x.data), static_cast<char *>(out.data), item, truth, 0, {}};
    for (int64_t i = out.rank - 1; i >= 0; i--) {
        dim d = {out.sizes[i], x.strides[i], out.strides[i]};
        if (d.size == 1) {
            continue;
        }
        int at = p.rank++;
        for (; at > 0 && magnitude(p.dims[at - 1].out) > magnitude(d.out); at--) {
            p.dims[at] = p.dims[at - 1];
        }
        p.dims[at] = d;
    }
    merge(&p);
    widen(&p);
    return p;
}

// ---- tiled --------------------------------------------------------------------------------------

// A tile is kAcross elements along x's rows by kAlong along out's, 16 KiB or less of shared memory.
template <typename T> struct shape;
template <> struct shape<uint8_t> {
    static constexpr int kAcross = 128, kAlong = 128;
};
template <> struct shape<uint16_t> {
    static constexpr int kAcross = 64, kAlong = 128;
};
template <> struct shape<uint32_t> {
    static constexpr int kAcross = 64, kAlong = 64;
};
template <> struct shape<uint64_t> {
    static constexpr int kAcross = 32, kAlong = 32;
};
template <> struct shape<words> {
    static constexpr int kAcross = 16, kAlong = 16;
};

// Of 16-bit elements also the other way round, where rows of out are short.
struct flat_shape {
    static constexpr int kAcross = 128, kAlong = 64;
};

// Dim `across` has unit stride in x, dim `along` in out; `pitch` is the stride of the other one of
// the two. The rest of the dims, innermost first, count the tiles' slices.
struct tiles {
    const void *x;
    void *out;
    int64_t size_across, size_along;
    int64_t x_pitch, out_pitch;
    divider tiles_across, tiles_along;
    int rank;
    divider sizes[AICF_MAX_RANK];
    int64_t x_strides[AICF_MAX_RANK], out_strides[AICF_MAX_RANK];
    bool x_packs, out_packs; // every row begins on a 16-byte boundary
    const char *low, *high;  // what x's elements lie between
    bool truth;
};

__device__ inline uint32_t
as_truth(uint32_t word)
{
    return __vsetne4(word, 0); // 1 in each byte that is not 0
}

template <typename T>
__device__ inline T
as_written(T x, bool truth)
{
    if (truth) {
        if constexpr (std::is_same_v<T, words>) {
#pragma unroll
            for (uint32_t &word : x.word) {
                word = as_truth(word);
            }
        } else if constexpr (sizeof(T) == 8) {
            return static_cast<uint64_t>(as_truth(static_cast<uint32_t>(x >> 32))) << 32 |
                   as_truth(static_cast<uint32_t>(x));
        } else {
            return static_cast<T>(as_truth(x));
        }
    }
    return x;
}

// Shared memory in chunks of 16 bytes: chunk c of row r stands at c ^ (r >> shift) % 8, so that
// neither a row's chunks nor what stands below each other in 8 rows, or 8 packs of rows, meet in a
// bank.
template <typename T, typename S> struct tile_memory {
    static constexpr unsigned kAcross = S::kAcross;
    static constexpr unsigned kChunks = kAcross * sizeof(T) / kPackBytes; // of a row
    static_assert(kChunks % 8 == 0, "rows of whole groups of 8 chunks");

    words *memory;
    unsigned shift;

    __device__ words *chunk(unsigned row, unsigned c) const
    {
        return memory + row * kChunks + (c ^ (row >> shift & 7));
    }

    // Element `column` of a row, as part of a word of type W.
    template <typename W> __device__ W *at(unsigned row, unsigned column) const
    {
        unsigned byte = column * sizeof(T);
        char *start = reinterpret_cast<char *>(chunk(row, byte / kPackBytes));
        return reinterpret_cast<W *>(start + byte % kPackBytes);
    }
};

// Reads the tile's rows of x, of which `rows` by `columns` elements are there. A thread keeps its
// column and goes down in steps of kStep rows.
template <typename T, typename S>
__device__ inline void
load_packs(
    const tile_memory<T, S> &tile, const T *x, int64_t pitch, unsigned rows, unsigned columns)
{
    constexpr unsigned kSize = kPackSize<T>, kChunks = tile_memory<T, S>::kChunks;
    constexpr unsigned kStep = kBlock / kChunks, kLoads = S::kAlong / kStep;
    static_assert(kBlock % kChunks == 0 && S::kAlong % kStep == 0, "whole rows and steps");
    unsigned chunk = threadIdx.x % kChunks, first = threadIdx.x / kChunks;
    unsigned column = chunk * kSize;
    bool whole = column + kSize <= columns;
    const T *from = x + first * pitch + column;

    words held[kLoads];
#pragma unroll
    for (unsigned u = 0; u < kLoads; u++) {
        if (whole && first + u * kStep < rows) {
            held[u] = load_words(from + u * (kStep * pitch));
        }
    }
#pragma unroll
    for (unsigned u = 0; u < kLoads; u++) {
        if (whole && first + u * kStep < rows) {
            *tile.chunk(first + u * kStep, chunk) = held[u];
        }
    }
    if (!whole) {
        for (unsigned row = first; row < rows; row += kStep, from += kStep * pitch) {
#pragma unroll 1
            for (unsigned i = 0; column + i < columns; i++) {
                *tile.template at<T>(row, column + i) = from[i];
            }
        }
    }
}

// The same of rows that begin anywhere.
template <typename T, typename S>
__device__ inline void
load_shifted(
    const tile_memory<T, S> &tile, const T *x, int64_t pitch, unsigned rows, unsigned columns,
    const char *low, const char *high)
{
    constexpr unsigned kSize = kPackSize<T>, kChunks = tile_memory<T, S>::kChunks;
    constexpr unsigned kStep = kBlock / kChunks, kLoads = S::kAlong / kStep;
    unsigned chunk = threadIdx.x % kChunks, first = threadIdx.x / kChunks;
    unsigned column = chunk * kSize;
    if (column >= columns) {
        return;
    }
    const T *from = x + first * pitch + column;

    two_packs held[kLoads];
    bool whole[kLoads];
#pragma unroll
    for (unsigned u = 0; u < kLoads; u++) {
        const char *at = reinterpret_cast<const char *>(from + u * (kStep * pitch));
        whole[u] = first + u * kStep < rows && held[u].load(at, low, high);
    }
#pragma unroll
    for (unsigned u = 0; u < kLoads; u++) {
        unsigned row = first + u * kStep;
        if (whole[u]) {
            *tile.chunk(row, chunk) = held[u].value();
        } else if (row < rows) {
            const T *at = from + u * (kStep * pitch);
#pragma unroll 1
            for (unsigned i = 0; i < kSize && column + i < columns; i++) {
                *tile.template at<T>(row, column + i) = at[i];
            }
        }
    }
}

// What a thread reads of a row at once: a bank's width or an element. kColumns elements of it.
template <typename T> using column_t = std::conditional_t<(sizeof(T) < 4), uint32_t, T>;
template <typename T> constexpr int kColumns = static_cast<int>(sizeof(column_t<T>) / sizeof(T));

// The columns of `rows`, each a pack of out.
__device__ inline void
turn(const uint8_t *, const uint32_t (&rows)[16], words (&packs)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t low01 = __byte_perm(rows[4 * i], rows[4 * i + 1], 0x5140);
        uint32_t high01 = __byte_perm(rows[4 * i], rows[4 * i + 1], 0x7362);
        uint32_t low23 = __byte_perm(rows[4 * i + 2], rows[4 * i + 3], 0x5140);
        uint32_t high23 = __byte_perm(rows[4 * i + 2], rows[4 * i + 3], 0x7362);
        packs[0].word[i] = __byte_perm(low01, low23, 0x5410);
        packs[1].word[i] = __byte_perm(low01, low23, 0x7632);
        packs[2].word[i] = __byte_perm(high01, high23, 0x5410);
        packs[3].word[i] = __byte_perm(high01, high23, 0x7632);
    }
}

__device__ inline void
turn(const uint16_t *, const uint32_t (&rows)[8], words (&packs)[2])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        packs[0].word[i] = __byte_perm(rows[2 * i], rows[2 * i + 1], 0x5410);
        packs[1].word[i] = __byte_perm(rows[2 * i], rows[2 * i + 1], 0x7632);
    }
}

__device__ inline void
turn(const uint32_t *, const uint32_t (&rows)[4], words (&packs)[1])
{
    packs[0] = {{rows[0], rows[1], rows[2], rows[3]}};
}

__device__ inline void
turn(const uint64_t *, const uint64_t (&rows)[2], words (&packs)[1])
{
    packs[0] = {
        {static_cast<uint32_t>(rows[0]), static_cast<uint32_t>(rows[0] >> 32),
         static_cast<uint32_t>(rows[1]), static_cast<uint32_t>(rows[1] >> 32)}};
}

__device__ inline void
turn(const words *, const words (&rows)[1], words (&packs)[1])
{
    packs[0] = rows[0];
}

// Writes the tile's columns as rows of out. A thread takes a pack's worth of rows and as many
// columns as lie in a bank; 8 threads side by side write 8 packs side by side.
template <typename T, typename S>
__device__ inline void
store_packs(
    const tile_memory<T, S> &tile, T *out, int64_t pitch, unsigned rows, unsigned columns,
    bool truth)
{
    constexpr unsigned kSize = kPackSize<T>, kGroups = S::kAlong / kSize;
    constexpr unsigned kWide = kColumns<T>, kInChunk = kSize / kWide;
    constexpr unsigned kUnits = kGroups * S::kAcross / kWide;
    static_assert(kGroups % 8 == 0 && kUnits % kBlock == 0, "whole groups and rounds");
#pragma unroll
    for (unsigned u = 0; u < kUnits / kBlock; u++) {
        unsigned unit = threadIdx.x + u * kBlock;
        unsigned group = unit % 8 + unit / (8 * kInChunk) % (kGroups / 8) * 8;
        unsigned column = (unit / (kGroups * kInChunk) * kInChunk + unit / 8 % kInChunk) * kWide;
        unsigned row = group * kSize;
        column_t<T> held[kSize];
        words packs[kWide];
#pragma unroll
        for (unsigned k = 0; k < kSize; k++) {
            held[k] = *tile.template at<column_t<T>>(row + k, column);
        }
        turn(static_cast<const T *>(nullptr), held, packs);
#pragma unroll
        for (unsigned c = 0; c < kWide; c++) {
            T *to = out + (column + c) * pitch + row;
            words pack = as_written(packs[c], truth);
            if (column + c < columns && row + kSize <= rows) {
                store_words(to, pack);
            } else if (column + c < columns) {
#pragma unroll
                for (unsigned k = 0; k < kSize; k++) {
                    if (row + k < rows) {
                        to[k] = as_written(*tile.template at<T>(row + k, column + c), truth);
                    }
                }
            }
        }
    }
}

// The same to rows that begin anywhere: packs of out on its boundaries, of which a column has one
// more than of its own. The first and last are written element by element.
template <typename T, typename S>
__device__ inline void
store_shifted(
    const tile_memory<T, S> &tile, T *out, int64_t pitch, unsigned rows, unsigned columns,
    bool truth)
{
    constexpr int kSize = kPackSize<T>, kGroups = S::kAlong / kSize + 1;
#pragma unroll 2
    for (unsigned unit = threadIdx.x; unit < kGroups * columns; unit += kBlock) {
        unsigned column = unit / kGroups;
        T *to = out + column * pitch;
        int phase = static_cast<int>(reinterpret_cast<uintptr_t>(to) % kPackBytes / sizeof(T));
        int row = static_cast<int>(unit % kGroups) * kSize - phase, end = static_cast<int>(rows);
        pack<T> held;
#pragma unroll
        for (int k = 0; k < kSize; k++) {
            int at = min(max(row + k, 0), end - 1);
            held.lane[k] = as_written(*tile.template at<T>(at, column), truth);
        }
        if (row >= 0 && row + kSize <= end) {
            store_pack(to + row, held);
        } else {
#pragma unroll
            for (int k = 0; k < kSize; k++) {
                if (row + k >= 0 && row + k < end) {
                    to[row + k] = held.lane[k];
                }
            }
        }
    }
}

__device__ inline unsigned
least(int64_t left, unsigned most)
{
    return left < most ? static_cast<unsigned>(left) : most;
}

template <typename T, typename S>
__device__ inline void
tiled_body(const tiles &p)
{
    constexpr unsigned kAcross = S::kAcross, kAlong = S::kAlong;
    __shared__ words memory[kAlong * tile_memory<T, S>::kChunks];
    constexpr unsigned kShift = kPackSize<T> == 16  ? 4
                                : kPackSize<T> == 8 ? 3
                                : kPackSize<T> == 4 ? 2
                                : kPackSize<T> == 2 ? 1
                                                    : 0;
    tile_memory<T, S> tile = {memory, kShift};

    uint32_t row = divide(blockIdx.x, p.tiles_across);
    int64_t across = int64_t{blockIdx.x - row * p.tiles_across.divisor} * kAcross;
    uint32_t slice = divide(row, p.tiles_along);
    int64_t along = int64_t{row - slice * p.tiles_along.divisor} * kAlong;
    const T *x = static_cast<const T *>(p.x) + across + along * p.x_pitch;
    T *out = static_cast<T *>(p.out) + along + across * p.out_pitch;
    for (int i = 0; i < p.rank; i++) {
        uint32_t next = divide(slice, p.sizes[i]);
        uint32_t digit = slice - next * p.sizes[i].divisor;
        slice = next;
        x += digit * p.x_strides[i];
        out += digit * p.out_strides[i];
    }

    unsigned rows = least(p.size_along - along, kAlong);
    unsigned columns = least(p.size_across - across, kAcross);
    if (p.x_packs) {
        load_packs(tile, x, p.x_pitch, rows, columns);
    } else {
        load_shifted(tile, x, p.x_pitch, rows, columns, p.low, p.high);
    }
    __syncthreads();
    if (p.out_packs) {
        store_packs(tile, out, p.out_pitch, rows, columns, p.truth);
    } else {
        store_shifted(tile, out, p.out_pitch, rows, columns, p.truth);
    }
}

// ---- strips -------------------------------------------------------------------------------------

constexpr int kStripBytes = 16 * 1024; // of shared memory

// Of a long dim and a short one of `few`, that stand beside each other on one side and apart on the
// other: there is one row of size * few elements there, and `few` rows of `size`, `pitch` apart,
// here. A strip is `length` indexes of the long dim, by all of the short one.
struct strips {
    const void *x;
    void *out;
    bool apart; // in x; else in out
    int64_t size, pitch;
    int length;         // indexes of a strip
    divider few, count; // strips of a slice
    int rank;
    divider sizes[AICF_MAX_RANK];
    int64_t x_strides[AICF_MAX_RANK], out_strides[AICF_MAX_RANK];
    bool x_packs, out_packs;
    bool truth;
};

// n elements from `from` to shared memory.
template <typename T>
__device__ inline void
load_strip(T *memory, const T *from, unsigned n, bool packs)
{
    constexpr unsigned kSize = kPackSize<T>;
    unsigned whole = packs ? n / kSize * kSize : 0;
#pragma unroll 4
    for (unsigned i = threadIdx.x * kSize; i < whole; i += kBlock * kSize) {
        store_words(memory + i, load_words(from + i));
    }
#pragma unroll 4
    for (unsigned i = whole + threadIdx.x; i < n; i += kBlock) {
        memory[i] = from[i];
    }
}

// Element i of a row of out: where it stands in the strip.
struct strip_places {
    bool apart;
    unsigned pitch, row; // elements of a row of the strip; of out
    divider few;

    __device__ unsigned operator()(unsigned i) const
    {
        if (!apart) {
            return i * few.divisor + row;
        }
        unsigned along = divide(i, few);
        return (i - along * few.divisor) * pitch + along;
    }
};

template <typename T>
__device__ inline void
store_strip(const T *memory, const strip_places &at, T *to, unsigned n, bool packs, bool truth)
{
    constexpr unsigned kSize = kPackSize<T>;
    unsigned whole = packs ? n / kSize * kSize : 0;
#pragma unroll 2
    for (unsigned i = threadIdx.x * kSize; i < whole; i += kBlock * kSize) {
        pack<T> p;
#pragma unroll
        for (unsigned k = 0; k < kSize; k++) {
            p.lane[k] = as_written(memory[at(i + k)], truth);
        }
        store_pack(to + i, p);
    }
    for (unsigned i = whole + threadIdx.x; i < n; i += kBlock) {
        to[i] = as_written(memory[at(i)], truth);
    }
}

template <typename T>
__device__ inline void
strips_body(const strips &p)
{
    __shared__ words memory[kStripBytes / kPackBytes];
    T *strip = reinterpret_cast<T *>(memory);
    uint32_t slice = divide(blockIdx.x, p.count);
    int64_t first = int64_t{blockIdx.x - slice * p.count.divisor} * p.length;
    const T *x = static_cast<const T *>(p.x) + first * (p.apart ? 1 : p.few.divisor);
    T *out = static_cast<T *>(p.out) + first * (p.apart ? p.few.divisor : 1);
    for (int i = 0; i < p.rank; i++) {
        uint32_t next = divide(slice, p.sizes[i]);
        uint32_t digit = slice - next * p.sizes[i].divisor;
        slice = next;
        x += digit * p.x_strides[i];
        out += digit * p.out_strides[i];
    }

    unsigned n = least(p.size - first, p.length), few = p.few.divisor;
    unsigned loads = p.apart ? few : 1, stores = p.apart ? 1 : few;
    for (unsigned row = 0; row < loads; row++) {
        load_strip(strip + row * p.length, x + row * p.pitch, p.apart ? n : n * few, p.x_packs);
    }
    __syncthreads();
    for (unsigned row = 0; row < stores; row++) {
        strip_places at = {p.apart, static_cast<unsigned>(p.length), row, p.few};
        store_strip(strip, at, out + row * p.pitch, p.apart ? n * few : n, p.out_packs, p.truth);
    }
}

// ---- direct -------------------------------------------------------------------------------------

struct elements {
    const void *x;
    void *out;
    uint32_t n;
    int rank;
    divider sizes[AICF_MAX_RANK];
    int64_t x_strides[AICF_MAX_RANK], out_strides[AICF_MAX_RANK];
    bool truth;
};

template <typename T>
__device__ inline void
direct_body(const elements &p)
{
    uint32_t first = blockIdx.x * uint32_t{kBlock * kUnroll} + threadIdx.x;
    int64_t to[kUnroll];
    T held[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        uint32_t i = first + u * kBlock;
        if (i < p.n) {
            int64_t from = 0;
            to[u] = 0;
#pragma unroll
            for (int d = 0; d < AICF_MAX_RANK; d++) {
                if (d == p.rank) {
                    break;
                }
                uint32_t next = divide(i, p.sizes[d]);
                uint32_t digit = i - next * p.sizes[d].divisor;
                i = next;
                from += digit * p.x_strides[d];
                to[u] += digit * p.out_strides[d];
            }
            held[u] = static_cast<const T *>(p.x)[from];
        }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < p.n) {
            static_cast<T *>(p.out)[to[u]] = as_written(held[u], p.truth);
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

// The kernels of an op, for one size of elements.
struct kernels {
    void (*tiled)(tiles);
    void (*flat)(tiles); // of flat_shape; NULL: there is none
    void (*strips)(transpose::strips);
    void (*direct)(elements);
    int across, along; // of a tile
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
tiles_of(const plan &p, bool flat, const kernels &k, tiles *t, int64_t *count)
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
    int64_t wide_tiles = ceil_div(wide.size, flat ? flat_shape::kAcross : k.across);
    int64_t tall_tiles = ceil_div(tall.size, flat ? flat_shape::kAlong : k.along);
    *t = {};
    t->x = p.x;
    t->out = p.out;
    t->size_across = wide.size;
    t->size_along = tall.size;
    t->x_pitch = tall.x;
    t->out_pitch = wide.out;
    *count = wide_tiles * tall_tiles;
    for (int i = 1; i < p.rank; i++) {
        if (i != across) {
            t->sizes[t->rank] = divider_of(p.dims[i].size);
            t->x_strides[t->rank] = p.dims[i].x;
            t->out_strides[t->rank] = p.dims[i].out;
            t->rank++;
            *count *= p.dims[i].size;
        }
    }
    if (*count > kMostBlocks) {
        return false;
    }
    t->tiles_across = divider_of(wide_tiles);
    t->tiles_along = divider_of(tall_tiles);
    t->x_packs = whole_packs(p.x, t->x_pitch, t->x_strides, t->rank, p.item);
    t->out_packs = whole_packs(p.out, t->out_pitch, t->out_strides, t->rank, p.item);
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
strips_of(const plan &p, strips *s, int64_t *count)
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
    // A multiple of 16 elements, so that a strip's rows lie as the whole ones do.
    s->length = static_cast<int>(kStripBytes / (few.size * p.item) / kPackBytes * kPackBytes);
    s->count = divider_of(ceil_div(many.size, s->length));
    *count = s->count.divisor;
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
    return *count <= kMostBlocks;
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
    elements e = {};
    e.x = p.x;
    e.out = p.out;
    e.n = static_cast<uint32_t>(n);
    e.rank = p.rank;
    e.truth = p.truth;
    for (int i = 0; i < p.rank; i++) {
        e.sizes[i] = divider_of(p.dims[i].size);
        e.x_strides[i] = p.dims[i].x;
        e.out_strides[i] = p.dims[i].out;
    }
    unsigned blocks = static_cast<unsigned>(ceil_div(n, kBlock * kUnroll));
    return aicf::launch(k.direct, blocks, kBlock, 0, stream, e);
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
    bool flat = k.flat && p.rank > 0 && p.dims[0].size <= flat_shape::kAlong;
    if (numel(&out) * item > kSmall && tiles_of(p, flat, k, &t, &count)) {
        return aicf::launch(
            flat ? k.flat : k.tiled, static_cast<unsigned>(count), kBlock, 0, stream, t);
    }
    if (numel(&out) * item > kSmall && strips_of(p, &s, &count)) {
        return aicf::launch(k.strips, static_cast<unsigned>(count), kBlock, 0, stream, s);
    }
    return launch_direct(k, p, stream);
}

} // namespace aicf::transpose

// The kernels of an op, in the op's own namespace, and the table of them.
#define AICF_TRANSPOSE_KERNELS                                                               \
    template <typename T, typename S>                                                        \
    __global__ void __launch_bounds__(transpose::kBlock)                                     \
        tiled(const __grid_constant__ transpose::tiles p)                                    \
    {                                                                                        \
        transpose::tiled_body<T, S>(p);                                                      \
    }                                                                                        \
    template <typename T>                                                                    \
    __global__ void __launch_bounds__(transpose::kBlock)                                     \
        strips(const __grid_constant__ transpose::strips p)                                  \
    {                                                                                        \
        transpose::strips_body<T>(p);                                                        \
    }                                                                                        \
    template <typename T>                                                                    \
    __global__ void __launch_bounds__(transpose::kBlock)                                     \
        direct(const __grid_constant__ transpose::elements p)                                \
    {                                                                                        \
        transpose::direct_body<T>(p);                                                        \
    }                                                                                        \
    template <typename T>                                                                    \
    static constexpr transpose::kernels kernels_of(void (*flat)(transpose::tiles) = nullptr) \
    {                                                                                        \
        using S = transpose::shape<T>;                                                       \
        return {tiled<T, S>, flat, strips<T>, direct<T>, S::kAcross, S::kAlong};             \
    }                                                                                        \
    static const transpose::kernels table[] = {                                              \
        kernels_of<uint8_t>(), kernels_of<uint16_t>(tiled<uint16_t, transpose::flat_shape>), \
        kernels_of<uint32_t>(), kernels_of<uint64_t>(), kernels_of<words>()};

#endif
