// Instructions for blocks of one launch that hand data to each other, one function an instruction;
// of sm_70 and later.
#ifndef AICF_CUDA_PTX_GRID_CUH
#define AICF_CUDA_PTX_GRID_CUH

#include <cstdint>

namespace aicf::ptx {

// 16 bytes that another block may have written during this launch: never out of the L1.
__device__ inline void
load_shared_by_grid(const void *from, uint32_t (&word)[4])
{
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
}

// A word of such.
__device__ inline uint32_t
load_shared_by_grid(const void *from)
{
    uint32_t word;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                 : "=r"(word)
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
    return word;
}

// A word that other blocks may read during this launch.
__device__ inline void
store_shared_by_grid(void *to, uint32_t word)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)),
                 "r"(word)
                 : "memory");
}

} // namespace aicf::ptx

#endif
