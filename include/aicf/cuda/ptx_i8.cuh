// More of ptx.cuh: products of 8-bit integers, one function an instruction. The last argument says
// whether the first operand has a sign; the second one has. Sums are 32-bit integers and wrap.
#ifndef AICF_CUDA_PTX_I8_CUH
#define AICF_CUDA_PTX_I8_CUH

#include <cstdint>

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

} // namespace aicf::ptx

#endif
