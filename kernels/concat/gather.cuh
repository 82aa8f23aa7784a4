// The chunks of out that concat.cu, which says when, puts together from where they lie in x.
#ifndef AICF_CONCAT_GATHER_CUH
#define AICF_CONCAT_GATHER_CUH

#include <aicf/cuda/shift.cuh>

#include "rows.cuh"

namespace aicf::concat {

constexpr int kGathered = 2; // chunks of a thread
constexpr int kSeams = 2;    // and elements of others, at once

// Tensor i has bytes [start[i], start[i + 1]) of a row of out; a block has `share` chunks of one.
template <int kTensors> struct gathered {
    char *out;
    int64_t pitch;
    uint32_t rows;
    int count, item; // tensors; bytes of an element
    bool truth;
    float density; // tensors a byte
    uint32_t share;
    divider blocks; // of a row
    uint32_t start[kTensors + 1];
    const char *x[kTensors];
};

// The tensor of a byte of a row.
template <int kTensors>
__device__ inline int
tensor_at(const gathered<kTensors> &p, int byte)
{
    uint32_t at = static_cast<uint32_t>(byte);
    int guess = min(static_cast<int>(static_cast<float>(byte) * p.density), p.count - 1);
    if (p.start[guess] <= at && at < p.start[guess + 1]) {
        return guess;
    }
    int low = 0, high = p.count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        bool upper = p.start[middle] <= at;
        low = upper ? middle : low;
        high = upper ? high : middle;
    }
    return low;
}

// What a block has: chunks [begin, end) of a row of out, counted from the boundary that is `past`
// bytes before the row, and `count` tensors from `first` on, in shared memory.
template <int kTensors> struct band {
    uint32_t row, rows;
    char *out;
    int past, begin, end;
    int first, count;
    const uint32_t *start;
    const char *const *x;

    // The place in the row of a chunk.
    __device__ int place(int chunk) const
    {
        return chunk * kPackBytes - past;
    }

    __device__ int start_of(int i) const
    {
        return static_cast<int>(start[i]);
    }

    // The tensor of a place, looked for from `guess` on.
    __device__ int tensor_of(int place, int guess) const
    {
        int i = min(max(guess, 0), count - 1);
        while (start_of(i) > place) {
            i--;
        }
        while (i + 1 < count && start_of(i + 1) <= place) {
            i++;
        }
        return i;
    }

    // Where tensor i has what goes to a place of the row.
    __device__ const char *source(int i, int place) const
    {
        return x[i] + static_cast<uint64_t>(row) * (start[i + 1] - start[i]) +
               (place - start_of(i));
    }
};

// Fills the tensors of a block, whose threads wait for each other here.
template <int kTensors>
__device__ inline band<kTensors>
band_of(const gathered<kTensors> &p, uint32_t (&start)[kTensors + 1], const char *(&x)[kTensors])
{
    band<kTensors> b;
    b.row = divide(blockIdx.x, p.blocks);
    b.rows = p.rows;
    b.out = p.out + b.row * p.pitch;
    b.past = static_cast<int>(reinterpret_cast<uintptr_t>(b.out) % kPackBytes);
    int all = static_cast<int>(p.start[p.count]), share = static_cast<int>(p.share);
    int most = (all + b.past + kPackBytes - 1) / kPackBytes;
    b.begin = min(static_cast<int>(blockIdx.x - b.row * p.blocks.divisor) * share, most);
    b.end = min(b.begin + share, most);
    b.first = tensor_at(p, min(max(b.place(b.begin), 0), all - 1));
    b.count = tensor_at(p, min(b.place(b.end), all) - 1) + 1 - b.first;
    for (int i = static_cast<int>(threadIdx.x); i <= b.count; i += kBlock) {
        start[i] = p.start[b.first + i];
        if (i < b.count) {
            x[i] = p.x[b.first + i];
        }
    }
    __syncthreads();
    b.start = start;
    b.x = x;
    return b;
}

// A chunk that lies in one tensor, between its loads and its store.
struct chunk {
    enum { kNone, kPacks, kElements } how; // none: it lies in several tensors, or there is none
    two_packs held;

    template <int kTensors> __device__ void load(const band<kTensors> &b, int number, float density)
    {
        int place = b.place(number);
        how = kNone;
        if (number >= b.end || place < 0) {
            return;
        }
        int i = b.tensor_of(place, static_cast<int>(static_cast<float>(place) * density) - b.first);
        if (place + kPackBytes <= b.start_of(i + 1)) {
            uint64_t all = static_cast<uint64_t>(b.rows) * (b.start[i + 1] - b.start[i]);
            bool inside = held.load(b.source(i, place), b.x[i], b.x[i] + all);
            how = inside ? kPacks : kElements;
        }
    }

    template <typename T, int kTensors>
    __device__ void store(const band<kTensors> &b, int number, bool truth) const
    {
        int place = b.place(number);
        if (how == kPacks) {
            words value[1];
            shift_packs<1, static_cast<int>(sizeof(T))>({held.first, held.second}, held.by, value);
            store_bytes<kPackBytes>(b.out + place, truth ? as_truth(value[0]) : value[0]);
        } else if (how == kElements) { // at the ends of x
            const T *from = reinterpret_cast<const T *>(b.source(b.tensor_of(place, 0), place));
            T *to = reinterpret_cast<T *>(b.out + place);
#pragma unroll 1
            for (int e = 0; e < kPackBytes / static_cast<int>(sizeof(T)); e++) {
                to[e] = truth ? static_cast<T>(from[e] != 0) : from[e];
            }
        }
    }
};

// An element of a chunk within which a tensor begins, between its load and its store. Of such a
// start, what is behind it up to the next one belongs to it; what is before it, if no other start
// is.
template <typename T> struct seam {
    T held;
    int at; // its place in the row; negative: none

    // Element `element` of the chunk of tensor i's start, which is the end of the one before.
    template <int kTensors> __device__ void load(const band<kTensors> &b, int i, int element)
    {
        at = -1;
        if (i > b.count) {
            return;
        }
        int start = b.start_of(i), number = (start + b.past) / kPackBytes;
        int first = b.place(number), place = first + element * static_cast<int>(sizeof(T));
        bool behind = place >= start;
        bool mine =
            behind ? i < b.count && place < b.start_of(i + 1) : i > 0 && b.start_of(i - 1) <= first;
        if (mine && first < start && number >= b.begin && number < b.end) {
            held = *reinterpret_cast<const T *>(b.source(behind ? i : i - 1, place));
            at = place;
        }
    }

    __device__ void store(char *row, bool truth) const
    {
        if (at >= 0) {
            *reinterpret_cast<T *>(row + at) = truth ? static_cast<T>(held != 0) : held;
        }
    }
};

template <typename T, int kTensors>
__device__ inline void
gather_band(const band<kTensors> &b, float density, bool truth)
{
    constexpr int kElements = kPackBytes / static_cast<int>(sizeof(T));
    constexpr int kStep = kBlock / kElements; // starts of a block at once
    int first = b.begin + static_cast<int>(threadIdx.x);
    int start = static_cast<int>(threadIdx.x) / kElements;
    int element = static_cast<int>(threadIdx.x) % kElements;
    chunk chunks[kGathered];
    seam<T> seams[kSeams];
#pragma unroll
    for (int u = 0; u < kGathered; u++) {
        chunks[u].load(b, first + u * kBlock, density);
    }
#pragma unroll
    for (int u = 0; u < kSeams; u++) {
        seams[u].load(b, start + u * kStep, element);
    }
#pragma unroll
    for (int u = 0; u < kGathered; u++) {
        chunks[u].template store<T>(b, first + u * kBlock, truth);
    }
#pragma unroll
    for (int u = 0; u < kSeams; u++) {
        seams[u].store(b.out, truth);
    }
    for (start += kSeams * kStep; start <= b.count; start += kStep) { // of tensors of few bytes
        seams[0].load(b, start, element);
        seams[0].store(b.out, truth);
    }
}

} // namespace aicf::concat

#endif
