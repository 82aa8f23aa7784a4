// The strips of aicf/cuda/transpose.cuh, and what goes by index; it says when they are taken.
#ifndef AICF_CUDA_TRANSPOSE_STRIPS_CUH
#define AICF_CUDA_TRANSPOSE_STRIPS_CUH

#include <aicf/cuda/transpose_plan.cuh>

namespace aicf::transpose {

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

// n elements of each of `rows` rows, `pitch` apart, to rows of `length` in shared memory: all packs
// of a thread are on their way before the first is put down.
template <typename T>
__device__ inline void
load_strip(
    T *memory, unsigned length, const T *from, int64_t pitch, unsigned rows, unsigned n, bool packs)
{
    constexpr unsigned kSize = kPackSize<T>, kLoads = kStripBytes / kPackBytes / kBlock;
    unsigned whole = packs ? n / kSize : 0, count = whole * rows;
    words held[kLoads];
#pragma unroll
    for (unsigned u = 0; u < kLoads; u++) {
        unsigned i = threadIdx.x + u * kBlock;
        if (i < count) {
            held[u] = load_words(from + i / whole * pitch + i % whole * kSize);
        }
    }
#pragma unroll
    for (unsigned u = 0; u < kLoads; u++) {
        unsigned i = threadIdx.x + u * kBlock;
        if (i < count) {
            store_words(memory + i / whole * length + i % whole * kSize, held[u]);
        }
    }
    for (unsigned row = 0; row < rows; row++) {
#pragma unroll 8
        for (unsigned i = whole * kSize + threadIdx.x; i < n; i += kBlock) {
            memory[row * length + i] = from[row * pitch + i];
        }
    }
}

// Where the elements of a row of out stand in the strip, one after the other.
struct strip_place {
    unsigned at, step;   // of the next; to the one after it
    unsigned left, back; // elements before a step back, 0: none; how far that is
    unsigned few;

    // Element i of row `row`; `apart` as in strips.
    __device__ strip_place(const strips &p, unsigned row, unsigned i)
    {
        few = p.few.divisor;
        unsigned along = divide(i, p.few), first = i - along * few;
        at = p.apart ? first * p.length + along : i * few + row;
        step = p.apart ? p.length : few;
        left = p.apart ? few - first : 0;
        back = few * p.length - 1;
    }

    __device__ unsigned next()
    {
        unsigned now = at;
        at += step;
        left--;
        if (left == 0) {
            at -= back;
            left = few;
        }
        return now;
    }
};

template <typename T>
__device__ inline void
store_strip(const T *memory, const strips &p, unsigned row, T *to, unsigned n)
{
    constexpr unsigned kSize = kPackSize<T>;
    unsigned whole = p.out_packs ? n / kSize * kSize : 0;
#pragma unroll 2
    for (unsigned i = threadIdx.x * kSize; i < whole; i += kBlock * kSize) {
        strip_place place(p, row, i);
        pack<T> held;
#pragma unroll
        for (unsigned k = 0; k < kSize; k++) {
            held.lane[k] = as_written(memory[place.next()], p.truth);
        }
        store_pack(to + i, held);
    }
    for (unsigned i = whole + threadIdx.x; i < n; i += kBlock) {
        to[i] = as_written(memory[strip_place(p, row, i).at], p.truth);
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
    load_strip(strip, p.length, x, p.pitch, p.apart ? few : 1, p.apart ? n : n * few, p.x_packs);
    __syncthreads();
    for (unsigned row = 0; row < (p.apart ? 1 : few); row++) {
        store_strip(strip, p, row, out + row * p.pitch, p.apart ? n * few : n);
    }
}

// ---- threes -------------------------------------------------------------------------------------

// Strips of a `few` of 3, of elements below 4 bytes that all lie in whole packs: a thread turns a
// pack of each of three rows into three neighbouring ones, or back, in registers; a warp exchanges
// them through shared memory, so that it reads and writes packs side by side.

// Elements of word k, of which element i is the one at place(i) of `from`.
template <typename T, typename Place>
__device__ inline uint32_t
gather_word(const words (&from)[3], int k, Place place)
{
    auto word = [&](int at) {
        int i = at * static_cast<int>(sizeof(T)) / 4;
        return from[i / 4].word[i % 4];
    };
    if constexpr (sizeof(T) == 2) {
        int a = place(2 * k), b = place(2 * k + 1);
        return __byte_perm(word(a), word(b), (a % 2 ? 0x32 : 0x10) | (b % 2 ? 0x7600 : 0x5400));
    } else {
        int a = place(4 * k), b = place(4 * k + 1), c = place(4 * k + 2), d = place(4 * k + 3);
        uint32_t low = __byte_perm(word(a), word(b), a % 4 | (4 + b % 4) << 4);
        uint32_t high = __byte_perm(word(c), word(d), c % 4 | (4 + d % 4) << 4);
        return __byte_perm(low, high, 0x5410);
    }
}

// Three packs apart to three side by side, or back.
template <typename T, bool kApart>
__device__ inline void
turn_threes(const words (&from)[3], words (&to)[3])
{
    constexpr int kSize = kPackSize<T>;
#pragma unroll
    for (int k = 0; k < 12; k++) {
        to[k / 4].word[k % 4] = gather_word<T>(from, k, [](int i) {
            return kApart ? i % 3 * kSize + i / 3 : i % kSize * 3 + i / kSize;
        });
    }
}

template <typename T, bool kApart>
__device__ inline void
threes_body(const strips &p)
{
    constexpr int kSize = kPackSize<T>, kWarp = 32;
    __shared__ words memory[3 * kBlock];
    uint32_t slice = divide(blockIdx.x, p.count);
    int64_t first = int64_t{blockIdx.x - slice * p.count.divisor} * kBlock;
    const T *x = static_cast<const T *>(p.x);
    T *out = static_cast<T *>(p.out);
    for (int i = 0; i < p.rank; i++) {
        uint32_t next = divide(slice, p.sizes[i]);
        uint32_t digit = slice - next * p.sizes[i].divisor;
        slice = next;
        x += digit * p.x_strides[i];
        out += digit * p.out_strides[i];
    }

    unsigned lane = threadIdx.x % kWarp, begin = threadIdx.x - lane;
    words *exchange = memory + 3 * begin;
    int64_t warp = first + begin, left = p.size / kSize - warp; // packs of a row
    unsigned packs = left < 0 ? 0 : least(left, kWarp);
    bool there = lane < packs;
    const T *apart = kApart ? x + (warp + lane) * kSize : nullptr;
    words held[3] = {}, turned[3];
#pragma unroll
    for (unsigned c = 0; c < 3; c++) {
        if (kApart ? there : c * kWarp + lane < 3 * packs) {
            held[c] = kApart ? load_words(apart + c * p.pitch)
                             : load_words(x + (3 * warp + c * kWarp + lane) * kSize);
        }
    }
    if (!kApart) {
#pragma unroll
        for (unsigned c = 0; c < 3; c++) {
            exchange[c * kWarp + lane] = held[c];
        }
        __syncwarp();
#pragma unroll
        for (unsigned c = 0; c < 3; c++) {
            held[c] = exchange[3 * lane + c];
        }
    }
    turn_threes<T, kApart>(held, turned);
    if (kApart) {
#pragma unroll
        for (unsigned c = 0; c < 3; c++) {
            exchange[3 * lane + c] = turned[c];
        }
        __syncwarp();
#pragma unroll
        for (unsigned c = 0; c < 3; c++) {
            turned[c] = exchange[c * kWarp + lane];
        }
    }
#pragma unroll
    for (unsigned c = 0; c < 3; c++) {
        T *to = kApart ? out + (3 * warp + c * kWarp + lane) * kSize
                       : out + (warp + lane) * kSize + c * p.pitch;
        if (kApart ? c * kWarp + lane < 3 * packs : there) {
            store_bytes<kPackBytes>(to, as_written(turned[c], p.truth));
        }
    }
}

// ---- direct -------------------------------------------------------------------------------------

constexpr int kUnroll = 4;  // elements of a thread: that many loads are on their way at once
constexpr int kFewDims = 2; // those of `few`, whose parameters cost less

template <int kDims> struct elements {
    const void *x;
    void *out;
    uint32_t n;
    int rank;
    bool truth;
    struct { // of one dim together: a line of the constants' cache or two are waited for, not six
        divider size;
        int64_t x, out;
    } dims[kDims];
};

// Where element i of out lies in x and in out.
template <int kDims>
__device__ inline void
find(const elements<kDims> &p, uint32_t i, int64_t &from, int64_t &to)
{
    from = to = 0;
#pragma unroll
    for (int d = 0; d < kDims; d++) {
        if (d == p.rank) {
            break;
        }
        uint32_t next = divide(i, p.dims[d].size);
        uint32_t digit = i - next * p.dims[d].size.divisor;
        i = next;
        from += digit * p.dims[d].x;
        to += digit * p.dims[d].out;
    }
}

template <typename T>
__device__ inline void
direct_body(const elements<AICF_MAX_RANK> &p)
{
    uint32_t first = blockIdx.x * uint32_t{kBlock * kUnroll} + threadIdx.x;
    int64_t to[kUnroll];
    T held[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        uint32_t i = first + u * kBlock;
        if (i < p.n) {
            int64_t from;
            find(p, i, from, to[u]);
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

// An element a thread. The launch may begin while the one before it ends.
template <typename T>
__device__ inline void
few_body(const elements<kFewDims> &p)
{
    ptx::let_next_launch_begin();
    uint32_t i = blockIdx.x * uint32_t{kBlock} + threadIdx.x;
    int64_t from, to;
    find(p, i, from, to);
    ptx::wait_for_launch_before();
    if (i < p.n) {
        T x = static_cast<const T *>(p.x)[from];
        static_cast<T *>(p.out)[to] = as_written(x, p.truth);
    }
}

} // namespace aicf::transpose

#endif
