// The functions that formulas of losses call, on the device, for the arguments that they call them
// with: to the last bits for f32, and, for 16-bit types, whose rounding hides an error of 1e-7, of
// an instruction or two. Else a loss would be bound by arithmetic.
#ifndef AICF_LOSS_DEVICE_CUH
#define AICF_LOSS_DEVICE_CUH

#include <aicf/cuda/ptx.cuh>

#include "formula.h"

namespace aicf::loss {

__device__ inline float
exp_of_exact(float x)
{
    return expf(x);
}

// For 0 <= x <= 1, at a third of log1pf's instructions.
__device__ inline float
log1p_of_exact(float x)
{
    return log1p_of_quotient(__fdividef(x, 2.0f + x));
}

__device__ inline float
exp_of_quick(float x)
{
    constexpr float kLog2E = 1.44269504f;
    return ptx::exp2_approx(x * kLog2E);
}

// For 1 + x above the subnormal numbers.
__device__ inline float
log1p_of_quick(float x)
{
    constexpr float kLn2 = 0.693147181f;
    return ptx::log2_approx(1.0f + x) * kLn2;
}

} // namespace aicf::loss

#endif
