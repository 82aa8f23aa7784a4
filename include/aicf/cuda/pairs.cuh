// Two 16-bit floats in a word, the lower half first.
#ifndef AICF_CUDA_PAIRS_CUH
#define AICF_CUDA_PAIRS_CUH

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace aicf {

__device__ inline uint32_t
pair_of(float low, float high, __nv_bfloat16)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&pair);
}

__device__ inline uint32_t
pair_of(float low, float high, __half)
{
    __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&pair);
}

__device__ inline float2
of_pair(uint32_t word, __nv_bfloat16)
{
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162 *>(&word));
}

__device__ inline float2
of_pair(uint32_t word, __half)
{
    return __half22float2(*reinterpret_cast<const __half2 *>(&word));
}

// The larger of each and 0; NaN stays.
__device__ inline uint32_t
relu_pair(uint32_t word, __nv_bfloat16)
{
    __nv_bfloat162 pair =
        __hmax2_nan(*reinterpret_cast<const __nv_bfloat162 *>(&word), __float2bfloat162_rn(0.0f));
    return *reinterpret_cast<const uint32_t *>(&pair);
}

__device__ inline uint32_t
relu_pair(uint32_t word, __half)
{
    __half2 pair = __hmax2_nan(*reinterpret_cast<const __half2 *>(&word), __float2half2_rn(0.0f));
    return *reinterpret_cast<const uint32_t *>(&pair);
}

} // namespace aicf

#endif
