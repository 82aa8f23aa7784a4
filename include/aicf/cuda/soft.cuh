// Sums of exponentials that do not overflow: a pair (largest, sum of e**(x - largest)) stands for
// the sum of e**x. Of nothing, and of -inf alone, it is (-inf, 0); with NaN or +inf the sum is NaN.
#ifndef AICF_CUDA_SOFT_CUH
#define AICF_CUDA_SOFT_CUH

#include <aicf/cuda/ptx.cuh>

namespace aicf::soft {

// e**x for x <= 0, within 2e-7 of its value and 1.2e-38; NaN stays NaN. The difference that x is
// was rounded before: folding the factor into it would lose all digits of large logits.
__device__ inline float
exp(float x)
{
    constexpr float kLog2E = 1.44269504088896340736f;
    return ptx::exp2_approx(x * kLog2E);
}

// What to subtract where `largest` may be that of nothing: e**(-inf - 0) is 0, not NaN.
__device__ inline float
base_of(float largest)
{
    return largest == -INFINITY ? 0.0f : largest;
}

// Combines, as rows::add is one.
struct largest {
    __device__ static float identity(int)
    {
        return -INFINITY;
    }

    __device__ void operator()(float (&a)[1], const float (&b)[1]) const
    {
        a[0] = fmaxf(a[0], b[0]);
    }
};

struct total {
    __device__ static float identity(int i)
    {
        return i == 0 ? -INFINITY : 0.0f;
    }

    __device__ void operator()(float (&a)[2], const float (&b)[2]) const
    {
        float top = fmaxf(a[0], b[0]);
        float base = base_of(top);
        a[1] = a[1] * exp(a[0] - base) + b[1] * exp(b[0] - base);
        a[0] = top;
    }
};

// Takes more elements into a total, which is rescaled once for all of them.
template <int kSize>
__device__ inline void
take(float (&v)[2], const float (&x)[kSize])
{
    float top = v[0];
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        top = fmaxf(top, x[i]);
    }
    float base = base_of(top);
    float sum = v[1] * exp(v[0] - base);
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        sum += exp(x[i] - base);
    }
    v[0] = top;
    v[1] = sum;
}

} // namespace aicf::soft

#endif
