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

constexpr int kUnroll = 4; // elements of a thread: that many loads are on their way at once

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

} // namespace aicf::transpose

#endif
