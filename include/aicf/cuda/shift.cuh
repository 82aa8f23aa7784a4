// Reads of 16 bytes from any address, by the two packs on boundaries that they lie across.
#ifndef AICF_CUDA_SHIFT_CUH
#define AICF_CUDA_SHIFT_CUH

#include <aicf/cuda/numeric.cuh>

namespace aicf {

// The 16 bytes from byte `by` of the two on, by below 16.
__device__ inline words
shifted(const words &a, const words &b, int by)
{
    uint32_t w[8] = {a.word[0], a.word[1], a.word[2], a.word[3],
                     b.word[0], b.word[1], b.word[2], b.word[3]};
#pragma unroll
    for (int i = 0; i < 6; i++) {
        w[i] = by & 8 ? w[i + 2] : w[i];
    }
#pragma unroll
    for (int i = 0; i < 5; i++) {
        w[i] = by & 4 ? w[i + 1] : w[i];
    }
    words result;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        result.word[i] = __funnelshift_r(w[i], w[i + 1], 8 * (by & 3));
    }
    return result;
}

// The two packs, and where in them it begins. Nothing is read outside of [low, high).
struct two_packs {
    words first, second;
    int by;

    __device__ bool load(const char *from, const char *low, const char *high)
    {
        by = static_cast<int>(reinterpret_cast<uintptr_t>(from) % kPackBytes);
        const char *begin = from - by, *next = by ? begin + kPackBytes : begin;
        if (begin < low || next + kPackBytes > high) {
            return false;
        }
        first = load_words(begin);
        second = load_words(next);
        return true;
    }

    __device__ words value() const
    {
        return shifted(first, second, by);
    }
};

} // namespace aicf

#endif
