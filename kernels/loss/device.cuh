// The functions that formulas of losses call, on the device: exact to the last bits for f32, and,
// for 16-bit types, whose rounding hides an error of 1e-7, of few instructions: else f16 and bf16
// would be bound by arithmetic.
#ifndef AICF_LOSS_DEVICE_CUH
#define AICF_LOSS_DEVICE_CUH

namespace aicf::loss {

__device__ inline float
exp_of_exact(float x)
{
    return expf(x);
}

__device__ inline float
log1p_of_exact(float x)
{
    return log1pf(x);
}

__device__ inline float
exp_of_quick(float x)
{
    return __expf(x);
}

__device__ inline float
log1p_of_quick(float x)
{
    return __logf(1.0f + x);
}

} // namespace aicf::loss

#endif
