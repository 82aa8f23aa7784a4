// Coefficients along a row, weights and biases: 16 bytes of them from any address, of tensors that
// the kernel never writes, so that their loads may go ahead of its stores.
#ifndef AICF_CUDA_COEFFICIENTS_CUH
#define AICF_CUDA_COEFFICIENTS_CUH

#include <cstring>

#include <aicf/cuda/shift.cuh>

namespace aicf::coefficients {

// Of an address on a 16-byte boundary.
__device__ inline words
load_pack(const void *from)
{
    words w;
    ptx::load_often(from, w.word);
    return w;
}

// Not __ldg of a __half: that is an asm without effects, which compilers take out of the condition
// that its address hangs on.
template <typename T>
__device__ inline float
load_one(const T *from)
{
    if constexpr (sizeof(T) == sizeof(unsigned short)) {
        T value;
        unsigned short bits = __ldg(reinterpret_cast<const unsigned short *>(from));
        memcpy(&value, &bits, sizeof(T));
        return to_f32(value);
    } else {
        return to_f32(__ldg(from));
    }
}

// Element by element; rolled up, as it is for the ends of a row alone.
template <typename T>
__device__ inline words
gather(const T *from)
{
    words w = {};
#pragma unroll 1
    for (int i = 0; i < kPackSize<T>; i++) {
        if constexpr (sizeof(T) == sizeof(uint32_t)) {
            w = {
                {w.word[1], w.word[2], w.word[3],
                 __ldg(reinterpret_cast<const uint32_t *>(from) + i)}};
        } else {
            uint32_t bits = __ldg(reinterpret_cast<const unsigned short *>(from) + i);
            w = {
                {__funnelshift_r(w.word[0], w.word[1], 16),
                 __funnelshift_r(w.word[1], w.word[2], 16),
                 __funnelshift_r(w.word[2], w.word[3], 16), __funnelshift_r(w.word[3], bits, 16)}};
        }
    }
    return w;
}

// From any address, by the two packs that it lies across; nothing is read outside of [first, end).
template <typename T>
__device__ inline words
load(const T *from, const T *first, const T *end)
{
    constexpr int kSize = kPackSize<T>;
    int by = static_cast<int>(reinterpret_cast<uintptr_t>(from) % kPackBytes);
    const T *begin = from - by / static_cast<int>(sizeof(T));
    if (by == 0) {
        return load_pack(from);
    }
    if (begin < first || end - begin < 2 * kSize) {
        return gather(from);
    }
    return two_packs{load_pack(begin), load_pack(begin + kSize), by}.value();
}

} // namespace aicf::coefficients

#endif
