// Indexes taken apart into the digits of some sizes, the last one first.
#ifndef AICF_CUDA_DIGITS_CUH
#define AICF_CUDA_DIGITS_CUH

#include <aicf/cuda/numeric.cuh>

namespace aicf {

constexpr int64_t kNarrow = (int64_t{1} << 31) - 1; // what dividers are for

// Takes the last digit off an index. Where all indexes are below 2^31 by a divider.
struct digits {
    int64_t size;
    divider by;
    bool narrow;

    __device__ int64_t quotient(int64_t i) const
    {
        return narrow ? divide(static_cast<uint32_t>(i), by) : i / size;
    }

    __device__ int64_t take(int64_t &i) const
    {
        int64_t next = quotient(i), digit = i - next * size;
        i = next;
        return digit;
    }
};

// For indexes below n.
[[gnu::always_inline]] inline digits
digits_of(int64_t size, int64_t n)
{
    digits d = {size, {}, n <= kNarrow && size <= kNarrow};
    if (d.narrow) {
        d.by = divider_of(size);
    }
    return d;
}

__device__ inline uint32_t
take_digit(uint32_t &i, const divider &by)
{
    uint32_t next = divide(i, by), digit = i - next * by.divisor;
    i = next;
    return digit;
}

} // namespace aicf

#endif
