// The rows that concat.cu copies, which says how: chunks, and elements.
#ifndef AICF_CONCAT_ROWS_CUH
#define AICF_CONCAT_ROWS_CUH

#include <aicf/cuda/early.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::concat {

constexpr int kBlock = 256, kWarp = 32, kWarps = kBlock / kWarp;
constexpr int kSector = 32; // bytes that memory reads and writes at once
constexpr int kLoads = 16;  // of a thread that are on their way at once; of 8 bytes half of it

// The rows of one tensor.
struct source {
    const char *x;
    uint32_t width, rows;
};

// Where they go.
struct place {
    char *out;
    int64_t pitch;

    // Chunks of x are chunks of out.
    __host__ __device__ bool whole(const source &s) const
    {
        uint64_t all = reinterpret_cast<uintptr_t>(s.x) | reinterpret_cast<uintptr_t>(out) |
                       s.width | static_cast<uint64_t>(s.rows > 1 ? pitch : 0);
        return all % kPackBytes == 0;
    }
};

// Parts of a row, of kLines elements a lane: it begins up to a sector less an element before its
// first byte.
template <int kLines>
__host__ __device__ uint32_t
parts_of(const source &s, int item)
{
    return (s.width + (kSector - item) + (kLines * kWarp * item - 1)) / (kLines * kWarp * item);
}

// Where in rows of `each` chunks or parts one is, and its way to others.
struct counter {
    uint32_t row, k, each;
    uint32_t rows, rest; // of a step

    __device__ counter(uint32_t each, uint32_t first, uint32_t step) : each(each)
    {
        row = first / each;
        k = first - row * each;
        rows = step / each;
        rest = step - rows * each;
    }

    __device__ void step()
    {
        row += rows;
        k += rest;
        if (k >= each) {
            k -= each;
            row++;
        }
    }
};

// ---- chunks -------------------------------------------------------------------------------------

__device__ inline words
as_truth(words x)
{
#pragma unroll
    for (uint32_t &word : x.word) {
        word = __vsetne4(word, 0); // 1 in each byte that is not 0
    }
    return x;
}

template <int kChunks>
__device__ inline void
copy_whole(const source &s, const place &p, uint32_t block, bool truth)
{
    uint32_t first = block * (kBlock * kChunks) + threadIdx.x;
    counter c(s.width / kPackBytes, first, kBlock);
    words held[kChunks];
    char *to[kChunks];
    bool there[kChunks];
#pragma unroll
    for (int u = 0; u < kChunks; u++, c.step()) {
        there[u] = c.row < s.rows;
        to[u] = p.out + c.row * p.pitch + int64_t{c.k} * kPackBytes;
        if (there[u]) {
            held[u] = load_words(s.x + (int64_t{first} + u * kBlock) * kPackBytes);
        }
    }
#pragma unroll
    for (int u = 0; u < kChunks; u++) {
        if (there[u]) {
            store_bytes<kPackBytes>(to[u], truth ? as_truth(held[u]) : held[u]);
        }
    }
}

// ---- elements -----------------------------------------------------------------------------------

// A lane's elements of a part of a row, between their loads and their stores.
template <typename T, int kLines> struct part {
    T *to;
    int at, left; // the first's place in the row; elements from it on to the row's end
    T held[kLines];

    // Only the first line begins before the row.
    __device__ bool mine(int line) const
    {
        return left > line * kWarp && (line > 0 || at >= 0);
    }

    __device__ void load(const source &s, const place &p, const counter &c)
    {
        constexpr unsigned kItem = sizeof(T);
        char *start = p.out + c.row * p.pitch;
        unsigned before = static_cast<unsigned>(reinterpret_cast<uintptr_t>(start)) % kSector;
        at = static_cast<int>(c.k * (kLines * kWarp) + threadIdx.x % kWarp - before / kItem);
        left = c.row < s.rows ? static_cast<int>(s.width / kItem) - at : 0;
        to = reinterpret_cast<T *>(start) + at;
        const char *x = s.x + static_cast<uint64_t>(c.row) * s.width;
        const T *from = reinterpret_cast<const T *>(x) + at;
#pragma unroll
        for (int i = 0; i < kLines; i++) {
            if (mine(i)) {
                held[i] = from[i * kWarp];
            }
        }
    }

    __device__ void store(bool truth) const
    {
#pragma unroll
        for (int i = 0; i < kLines; i++) {
            if (mine(i)) {
                to[i * kWarp] = truth ? static_cast<T>(held[i] != 0) : held[i];
            }
        }
    }
};

// Parts of a warp at once.
template <int kChunks, int kLines>
__host__ __device__ constexpr int
parts_at_once(int item)
{
    int parts = kLoads / kLines / (item > 4 ? 2 : 1);
    return kChunks == 1 || parts < 1 ? 1 : parts;
}

template <typename T, int kChunks, int kLines>
__device__ inline void
copy_elements(const source &s, const place &p, uint32_t block, int turns, bool truth = false)
{
    constexpr int kParts = parts_at_once<kChunks, kLines>(sizeof(T));
    uint32_t first = block * (kWarps * kParts * turns) + threadIdx.x / kWarp;
    counter c(parts_of<kLines>(s, sizeof(T)), first, kWarps);
#pragma unroll 1
    for (int turn = 0; turn < turns && c.row < s.rows; turn++) {
        part<T, kLines> parts[kParts];
#pragma unroll
        for (int u = 0; u < kParts; u++, c.step()) {
            parts[u].load(s, p, c);
        }
#pragma unroll
        for (int u = 0; u < kParts; u++) {
            parts[u].store(truth);
        }
    }
}

// Has what a block takes of x come to the L2 at once (early.cuh): one turn alone is too little on
// its way. By one thread.
template <int kChunks, int kLines>
__device__ inline void
ask(const source &s, uint32_t block, int turns, int item)
{
    uint32_t each = parts_of<kLines>(s, item);
    uint32_t count = static_cast<uint32_t>(kWarps * parts_at_once<kChunks, kLines>(item) * turns);
    auto begin_of = [&](uint32_t part) {
        uint32_t row = part / each, k = part - row * each;
        return int64_t{row} * s.width + int64_t{k} * (kLines * kWarp * item);
    };
    int64_t all = int64_t{s.rows} * s.width, begin = begin_of(block * count);
    int64_t end = begin_of(block * count + count);
    early::ask(s.x + begin, (end < all ? end : all) - begin);
}

} // namespace aicf::concat

#endif
