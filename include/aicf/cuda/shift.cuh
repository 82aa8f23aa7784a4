// Reads of 16 bytes from any address, by the two packs on boundaries that they lie across.
#ifndef AICF_CUDA_SHIFT_CUH
#define AICF_CUDA_SHIFT_CUH

#include <aicf/cuda/numeric.cuh>

namespace aicf {

// The packs from byte `by` of the first on, by below 16 and a multiple of kItem.
template <int kPacks, int kItem>
__device__ inline void
shift_packs(const words (&from)[kPacks + 1], int by, words (&to)[kPacks])
{
    constexpr int kWords = 4 * kPacks;
    uint32_t w[kWords + 4];
#pragma unroll
    for (int i = 0; i < kWords + 4; i++) {
        w[i] = from[i / 4].word[i % 4];
    }
#pragma unroll
    for (int i = 0; i < kWords + 2; i++) {
        w[i] = by & 8 ? w[i + 2] : w[i];
    }
#pragma unroll
    for (int i = 0; kItem < 8 && i < kWords + 1; i++) {
        w[i] = by & 4 ? w[i + 1] : w[i];
    }
#pragma unroll
    for (int i = 0; i < kWords; i++) {
        to[i / 4].word[i % 4] = kItem < 4 ? __funnelshift_r(w[i], w[i + 1], 8 * (by & 3)) : w[i];
    }
}

// The two packs, and where in them it begins. Nothing is read outside of [low, high).
struct two_packs {
    words first, second;
    int by;

    // Requires that the packs before and behind `from` are there.
    __device__ bool load_inside(const char *from)
    {
        by = static_cast<int>(reinterpret_cast<uintptr_t>(from) % kPackBytes);
        first = load_words(from - by);
        second = load_words(from - by + kPackBytes);
        return true;
    }

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
        words result[1];
        shift_packs<1, 1>({first, second}, by, result);
        return result[0];
    }
};

} // namespace aicf

#endif
