// More of ptx.cuh: products of 8-bit integers, one function an instruction. The last argument says
// whether the first operand has a sign; the second one has. Sums are 32-bit integers and wrap.
#ifndef AICF_CUDA_PTX_I8_CUH
#define AICF_CUDA_PTX_I8_CUH

#include <cstdint>

#include <aicf/cuda/ptx.cuh>

namespace aicf {

// Two 8-bit integers as one element of 16 bits, which tiles of 16-bit elements are made of: along k
// the bytes of an operand lie in shared memory and in fragments as such pairs do.
struct pair_i8 {
    uint16_t bits;
};
struct pair_u8 {
    uint16_t bits;
};

template <typename Pair> struct byte_of;
template <> struct byte_of<pair_i8> {
    using type = int8_t;
};
template <> struct byte_of<pair_u8> {
    using type = uint8_t;
};

} // namespace aicf

namespace aicf::ptx {

// sum + the four products of the bytes of a and b.
__device__ inline int
dp4a(uint32_t a, uint32_t b, int sum, int8_t)
{
    return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
}

__device__ inline int
dp4a(uint32_t a, uint32_t b, int sum, uint8_t)
{
    int total;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(total) : "r"(a), "r"(b), "r"(sum));
    return total;
}

// mma_m16n8k16 of ptx.cuh on pairs, which is m16n8k32 on their bytes: fragments are laid out alike.
// d are the bits of sums in 32-bit integers, kept in registers that are called floats so that the
// tiles of mma.cuh serve; no arithmetic is done on them there.
#define AICF_MMA_I8(pair, type)                                                \
    __device__ inline void mma_m16n8k16(                                       \
        float(&d)[4], const uint32_t(&a)[4], uint32_t b0, uint32_t b1, pair)   \
    {                                                                          \
        int s[4] = {                                                           \
            __float_as_int(d[0]), __float_as_int(d[1]), __float_as_int(d[2]),  \
            __float_as_int(d[3])};                                             \
        asm("mma.sync.aligned.m16n8k32.row.col.s32." type ".s8.s32"            \
            " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
            : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])                   \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));   \
        d[0] = __int_as_float(s[0]);                                           \
        d[1] = __int_as_float(s[1]);                                           \
        d[2] = __int_as_float(s[2]);                                           \
        d[3] = __int_as_float(s[3]);                                           \
    }

AICF_MMA_I8(pair_i8, "s8")
AICF_MMA_I8(pair_u8, "u8")

#undef AICF_MMA_I8

} // namespace aicf::ptx

#endif
