// The chunks of concat.cu, which says what they are: of one tensor's rows, where they go, and the
// ways to copy them.
#ifndef AICF_CONCAT_CHUNKS_CUH
#define AICF_CONCAT_CHUNKS_CUH

#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/shift.cuh>

namespace aicf::concat {

constexpr int kBlock = 256;

// The rows of one tensor.
struct source {
    const char *x;
    uint32_t width, rows;

    // Rows from the second on, to the last but one, have what is read beside them.
    __device__ bool inside(uint32_t row) const
    {
        return row - 1 < (rows > 2 && width >= 2 * kPackBytes ? rows - 2 : 0);
    }

    // Loads the two packs across which the 16 bytes at `from`, of row `row`, lie. False: they reach
    // beyond the tensor.
    __device__ bool load(two_packs *held, const char *from, uint32_t row) const
    {
        return inside(row) ? held->load_inside(from)
                           : held->load(from, x, x + static_cast<uint64_t>(rows) * width);
    }
};

// Where they go.
struct place {
    char *out;
    int64_t pitch;
    bool follows; // its rows' first chunks are those of the tensor before

    // Chunks of x are chunks of out.
    __host__ __device__ bool whole(const source &s) const
    {
        uint64_t all = reinterpret_cast<uintptr_t>(s.x) | reinterpret_cast<uintptr_t>(out) |
                       s.width | static_cast<uint64_t>(s.rows > 1 ? pitch : 0);
        return all % kPackBytes == 0;
    }

    // Of a row; shifted, the most that it can have.
    __host__ __device__ uint32_t chunks(const source &s) const
    {
        uint32_t across = whole(s) ? 0 : follows ? kPackBytes - 1 : 2 * (kPackBytes - 1);
        return (s.width + across) / kPackBytes;
    }
};

// The tensor behind one, of which a chunk may have the first bytes.
struct behind {
    source s;      // no x: there is none
    uint32_t down; // rows: 1 where it is the next row's first
};

// ---- copies -------------------------------------------------------------------------------------

__device__ inline words
as_truth(words x)
{
#pragma unroll
    for (uint32_t &word : x.word) {
        word = __vsetne4(word, 0); // 1 in each byte that is not 0
    }
    return x;
}

// The chunks of a thread, kBlock apart: row and number in the row.
struct counter {
    uint32_t row, end, k, chunks; // rows below `end`
    uint32_t rows, rest;          // of a step

    // Chunk `first` of rows [begin, end) of so many chunks.
    __device__ counter(uint32_t of_row, uint32_t begin, uint32_t end, uint32_t first) : end(end)
    {
        chunks = of_row;
        row = first / chunks;
        k = first - row * chunks;
        row += begin;
        rows = kBlock / chunks;
        rest = kBlock - rows * chunks;
    }

    __device__ void step()
    {
        row += rows;
        k += rest;
        if (k >= chunks) {
            k -= chunks;
            row++;
        }
    }
};

template <int kChunks>
__device__ inline void
copy_whole(const source &s, const place &p, counter c, bool truth)
{
    const char *from = s.x + (static_cast<uint64_t>(c.row) * c.chunks + c.k) * kPackBytes;
    words held[kChunks];
    char *to[kChunks];
    bool there[kChunks];
#pragma unroll
    for (int u = 0; u < kChunks; u++, c.step()) {
        there[u] = c.row < c.end;
        to[u] = p.out + c.row * p.pitch + int64_t{c.k} * kPackBytes;
        if (there[u]) {
            held[u] = load_words(from + u * (kBlock * kPackBytes));
        }
    }
#pragma unroll
    for (int u = 0; u < kChunks; u++) {
        if (there[u]) {
            store_bytes<kPackBytes>(to[u], truth ? as_truth(held[u]) : held[u]);
        }
    }
}

// Elements in bytes [begin, end).
template <typename T>
__device__ inline void
copy_some(char *to, const char *from, int begin, int end, bool truth)
{
#pragma unroll 1
    for (int at = begin; at < end; at += static_cast<int>(sizeof(T))) {
        T x = *reinterpret_cast<const T *>(from + at);
        *reinterpret_cast<T *>(to + at) = truth ? static_cast<T>(x != 0) : x;
    }
}

__device__ inline void
copy_part(char *to, const char *from, int begin, int end, int item, bool truth)
{
    switch (item) {
    case 1: return copy_some<uint8_t>(to, from, begin, end, truth);
    case 2: return copy_some<uint16_t>(to, from, begin, end, truth);
    case 4: return copy_some<uint32_t>(to, from, begin, end, truth);
    default: return copy_some<uint64_t>(to, from, begin, end, truth);
    }
}

// Bytes below `n` of a, the others of b.
__device__ inline words
both(const words &a, const words &b, int n)
{
    words w;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t mask = ptx::low_bits(static_cast<uint32_t>(max(8 * n - 32 * i, 0)));
        w.word[i] = (a.word[i] & mask) | (b.word[i] & ~mask);
    }
    return w;
}

// What a thread holds of a chunk between its loads and its store. kAhead: what is of the tensor
// behind is loaded with the rest, for rows so narrow that every warp has such a chunk; else when it
// is stored, so that more threads fit.
template <bool kAhead> struct held_chunk {
    char *to;
    two_packs own, other; // its bytes from `end` on are those of `other`
    uint32_t row;         // of that tensor
    int end;              // 0: there is nothing to store

    // Writes the chunk at once if it is not whole, or near an end of what it is read from.
    __device__ void load(
        const source &s, const place &p, const behind &b, bool around, const counter &c, int item,
        bool truth)
    {
        char *start = p.out + c.row * p.pitch;
        int phase = static_cast<int>(reinterpret_cast<uintptr_t>(start) % kPackBytes);
        bool follows = p.follows || (around && c.row > 0);
        int at = static_cast<int>(c.k) * kPackBytes + (follows ? -phase & 15 : -phase);
        int left = static_cast<int>(s.width) - at;
        end = 0;
        if (c.row >= c.end || left <= 0) {
            return;
        }
        to = start + at;
        end = min(left, kPackBytes);
        const char *from = s.x + static_cast<uint64_t>(c.row) * s.width + at;
        bool packs = at >= 0 && s.load(&own, from, c.row), more = false;
        row = c.row + b.down;
        if (left < kPackBytes) {
            more = b.s.x != nullptr && row < s.rows;
            packs = packs && more && b.s.inside(row);
            if (kAhead && packs) {
                other.load_inside(next(b));
            }
        }
        if (!packs) {
            copy_part(to, from, at < 0 ? -at : 0, end, item, truth);
            if (more) {
                copy_part(to, next(b), end, kPackBytes, item, truth);
            }
            end = 0;
        }
    }

    // Where the chunk's first byte would be in the tensor behind.
    __device__ const char *next(const behind &b) const
    {
        return b.s.x + static_cast<uint64_t>(row) * b.s.width - end;
    }

    __device__ void store(const behind &b, bool truth)
    {
        if (end > 0) {
            words w = own.value();
            if (end < kPackBytes) {
                if (!kAhead) {
                    other.load_inside(next(b));
                }
                w = both(w, other.value(), end);
            }
            store_bytes<kPackBytes>(to, truth ? as_truth(w) : w);
        }
    }
};

template <int kChunks, bool kAhead>
__device__ inline void
copy_shifted(
    const source &s, const place &p, const behind &b, bool around, counter c, int item, bool truth)
{
    held_chunk<kAhead> held[kChunks];
#pragma unroll
    for (int u = 0; u < kChunks; u++, c.step()) {
        held[u].load(s, p, b, around, c, item, truth);
    }
#pragma unroll
    for (int u = 0; u < kChunks; u++) {
        held[u].store(b, truth);
    }
}

} // namespace aicf::concat

#endif
