// The tiles of aicf/cuda/transpose.cuh, which says when they are taken; those whose rows of out
// begin anywhere are in aicf/cuda/transpose_shifted.cuh.
#ifndef AICF_CUDA_TRANSPOSE_TILES_CUH
#define AICF_CUDA_TRANSPOSE_TILES_CUH

#include <aicf/cuda/shift.cuh>
#include <aicf/cuda/transpose_plan.cuh>

namespace aicf::transpose {

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
    int64_t step; // rows from tile to tile
    divider tiles_across, tiles_along;
    int rank;
    divider sizes[AICF_MAX_RANK];
    int64_t x_strides[AICF_MAX_RANK], out_strides[AICF_MAX_RANK];
    bool x_packs, out_packs; // every row begins on a 16-byte boundary
    const char *low, *high;  // what x's elements lie between
    bool truth;
};

// Shared memory in chunks of 16 bytes: chunk c of row r stands at c ^ r / kPackSize % 8, so that
// neither a row's chunks nor what stands below each other in 8 packs of rows meet in a bank.
template <typename T, typename S> struct tile_memory {
    static constexpr unsigned kAcross = S::kAcross;
    static constexpr unsigned kChunks = kAcross * sizeof(T) / kPackBytes; // of a row
    static_assert(kChunks % 8 == 0, "rows of whole groups of 8 chunks");

    words *memory;

    __device__ words *chunk(unsigned row, unsigned c) const
    {
        return memory + row * kChunks + (c ^ (row / kPackSize<T> & 7));
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

// What of a tile there is: rows [begin, end) and columns [0, columns) of it.
struct tile_place {
    unsigned begin, end, columns;
};

// Of this block's tile, to whose first row and column x and out are moved; that is `before` rows
// before the place that its number is for. Tiles follow each other along x's rows, or
// along out's.
template <typename S, typename T>
__device__ inline tile_place
place_of(const tiles &p, const T *&x, T *&out, unsigned before, bool out_first = false)
{
    divider first = out_first ? p.tiles_along : p.tiles_across;
    divider second = out_first ? p.tiles_across : p.tiles_along;
    uint32_t line = divide(blockIdx.x, first), in_line = blockIdx.x - line * first.divisor;
    uint32_t slice = divide(line, second), number = line - slice * second.divisor;
    int64_t across = int64_t{out_first ? number : in_line} * S::kAcross;
    int64_t along = int64_t{out_first ? in_line : number} * p.step - before;
    x += across + along * p.x_pitch;
    out += along + across * p.out_pitch;
    for (int i = 0; i < p.rank; i++) {
        uint32_t next = divide(slice, p.sizes[i]);
        uint32_t digit = slice - next * p.sizes[i].divisor;
        slice = next;
        x += digit * p.x_strides[i];
        out += digit * p.out_strides[i];
    }
    return {
        along < 0 ? before : 0, least(p.size_along - along, S::kAlong),
        least(p.size_across - across, S::kAcross)};
}

constexpr unsigned kEarlyTiles = 512; // that are there first

// Before the wait for the launch before: has those tiles' rows of x come to the L2 (early.cuh), by
// the ends of each row, since they are no longer than a line or two.
template <typename T, typename S>
__device__ inline void
ask_early(const T *x, int64_t pitch, const tile_place &part)
{
    for (unsigned i = threadIdx.x; blockIdx.x < kEarlyTiles && i < 2 * S::kAlong; i += kBlock) {
        unsigned row = i % S::kAlong, column = i < S::kAlong ? 0 : part.columns - 1;
        if (row >= part.begin && row < part.end) {
            ptx::prefetch_l2(x + row * pitch + column);
        }
    }
}

template <typename T, typename S>
__device__ inline void
tiled_body(const tiles &p)
{
    __shared__ words memory[S::kAlong * tile_memory<T, S>::kChunks];
    tile_memory<T, S> tile = {memory};
    const T *x = static_cast<const T *>(p.x);
    T *out = static_cast<T *>(p.out);
    ptx::let_next_launch_begin();
    tile_place place = place_of<S>(p, x, out, 0);
    ask_early<T, S>(x, p.x_pitch, place);
    ptx::wait_for_launch_before();
    if (p.x_packs) {
        load_packs(tile, x, p.x_pitch, place.end, place.columns);
    } else {
        load_shifted(tile, x, p.x_pitch, place.end, place.columns, p.low, p.high);
    }
    __syncthreads();
    store_packs(tile, out, p.out_pitch, place.end, place.columns, p.truth);
}

} // namespace aicf::transpose

#endif
