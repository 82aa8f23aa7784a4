// More of ptx.cuh, for clusters (sm_90): apart, since few sources have a use for it.
#ifndef AICF_CUDA_PTX_CLUSTER_CUH
#define AICF_CUDA_PTX_CLUSTER_CUH

#include <aicf/cuda/ptx.cuh>

namespace aicf::ptx {

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)

// As ptx::send_cluster, of 16 bytes to a 16-byte boundary.
__device__ inline void
send_cluster(uint32_t there, const float4 &x, uint32_t barrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32"
                 " [%0], {%1, %2, %3, %4}, [%5];" ::"r"(there),
                 "r"(__float_as_uint(x.x)), "r"(__float_as_uint(x.y)), "r"(__float_as_uint(x.z)),
                 "r"(__float_as_uint(x.w)), "r"(barrier)
                 : "memory");
}

#endif

} // namespace aicf::ptx

#endif
