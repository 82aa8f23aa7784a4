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

// kCount elements a thread. kEarly: the launch may begin while the one before it ends.
template <typename T, int kDims, int kCount, bool kEarly = false>
__device__ inline void
direct_body(const elements<kDims> &p)
{
    uint32_t first = blockIdx.x * uint32_t{kBlock * kCount} + threadIdx.x;
    int64_t to[kCount];
    T held[kCount];
#pragma unroll
    for (int u = 0; u < kCount; u++) {
        uint32_t i = first + u * kBlock;
        if (i < p.n) {
            int64_t from = 0;
            to[u] = 0;
#pragma unroll
            for (int d = 0; d < kDims; d++) {
                if (d == p.rank) {
                    break;
                }
                uint32_t next = divide(i, p.dims[d].size);
                uint32_t digit = i - next * p.dims[d].size.divisor;
                i = next;
                from += digit * p.dims[d].x;
                to[u] += digit * p.dims[d].out;
            }
            if constexpr (kEarly) {
                ptx::wait_for_launch_before();
            }
            held[u] = static_cast<const T *>(p.x)[from];
        }
    }
#pragma unroll
    for (int u = 0; u < kCount; u++) {
        if (first + u * kBlock < p.n) {
            static_cast<T *>(p.out)[to[u]] = as_written(held[u], p.truth);
        }
    }
}

template <typename T>
__device__ inline void
few_body(const elements<kFewDims> &p)
{
    ptx::let_next_launch_begin();
    direct_body<T, kFewDims, 1, true>(p);
}

} // namespace aicf::transpose

#endif
