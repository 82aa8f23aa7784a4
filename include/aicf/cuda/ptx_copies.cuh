// Asynchronous copies that are made if a condition holds, one function an instruction; of sm_80 and
// later. Unlike a branch they leave what is around them in one piece, which ptxas then orders.
#ifndef AICF_CUDA_PTX_COPIES_CUH
#define AICF_CUDA_PTX_COPIES_CUH

#include <cstdint>

namespace aicf::ptx {

// 16 bytes to shared memory, past the L1.
__device__ inline void
copy_async_16_if(bool yes, uint32_t to, const void *from)
{
    asm volatile("{\n"
                 ".reg .pred yes;\n"
                 "setp.ne.b32 yes, %2, 0;\n"
                 "@yes cp.async.cg.shared.global [%0], [%1], 16;\n"
                 "}" ::"r"(to),
                 "l"(from), "r"(static_cast<int>(yes))
                 : "memory");
}

// 4 bytes.
__device__ inline void
copy_async_4_if(bool yes, uint32_t to, const void *from)
{
    asm volatile("{\n"
                 ".reg .pred yes;\n"
                 "setp.ne.b32 yes, %2, 0;\n"
                 "@yes cp.async.ca.shared.global [%0], [%1], 4;\n"
                 "}" ::"r"(to),
                 "l"(from), "r"(static_cast<int>(yes))
                 : "memory");
}

} // namespace aicf::ptx

#endif
