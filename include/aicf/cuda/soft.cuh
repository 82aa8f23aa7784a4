// Sums of exponentials that do not overflow: a pair (largest, sum) stands for the sum of e**x,
// which is taken relative to the largest. Of nothing, and of -inf alone, it is (-inf, 0); with NaN
// or +inf the sum is NaN.
#ifndef AICF_CUDA_SOFT_CUH
#define AICF_CUDA_SOFT_CUH

#include <aicf/cuda/ptx.cuh>

namespace aicf::soft {

constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kLn2 = 0.69314718055994530942f;

// e**x for what does not overflow; NaN stays NaN.
__device__ inline float
exp(float x)
{
    return ptx::exp2_approx(x * kLog2E);
}

// e**(x - top) as 2**(x * by - less), one fused operation and one exponential. `less` is top * by,
// rounded once: what that is off by is a factor of all terms alike, up to 2**64, which a quotient
// of terms does not see and log_sum takes out again. From 2**30 on, where it would be more, powers
// are of 2: two floats there are equal or so far apart that either power is 0.
struct scale {
    float by, less;

    // Of -inf and +inf itself the differences are NaN, as they must be.
    __device__ explicit scale(float top)
    {
        by = fabsf(top) > 0x1p30f ? 1.0f : kLog2E;
        less = __fmul_rn(top, by); // not to be fused with a sum, which would not round it
    }

    __device__ float operator()(float x) const
    {
        return ptx::exp2_approx(fmaf(x, by, -less));
    }
};

// What to subtract where `top` may be that of nothing: then e**(-inf - 0) is 0, not NaN.
__device__ inline float
base_of(float top)
{
    return top == -INFINITY ? 0.0f : top;
}

// ln of the sum of e**(x - top), from the sum of what scale(top) gives.
__device__ inline float
log_sum(float top, float sum)
{
    float base = base_of(top);
    scale by_top(base);
    return logf(sum) - fmaf(base, by_top.by, -by_top.less) * kLn2;
}

// ---- combines, as rows::add is one --------------------------------------------------------------

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

    // `sum` by its own scale, as a part of one by `to`. Where the powers differ, the tops are so
    // far apart that nothing is left of the smaller; of nothing there never was.
    __device__ static float moved(float top, float sum, const scale &to)
    {
        scale from(top);
        return sum * (from.by == to.by ? ptx::exp2_approx(from.less - to.less) : 0.0f);
    }

    __device__ void operator()(float (&a)[2], const float (&b)[2]) const
    {
        float top = fmaxf(a[0], b[0]);
        scale to(base_of(top));
        a[1] = moved(a[0], a[1], to) + moved(b[0], b[1], to);
        a[0] = top;
    }
};

// As rows::reduce_lanes, which it is found instead of: by the largest of all, one power a lane.
__device__ inline void
reduce_lanes(float (&v)[1][2], int width, total)
{
    float top = v[0][0];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        if (distance < width) {
            top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, distance));
        }
    }
    scale to(base_of(top));
    float sum = total::moved(v[0][0], v[0][1], to);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        if (distance < width) {
            sum += __shfl_xor_sync(0xffffffff, sum, distance);
        }
    }
    v[0][0] = top;
    v[0][1] = sum;
}

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
    scale to(base_of(top));
    float sum = total::moved(v[0], v[1], to);
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        sum += to(x[i]);
    }
    v[0] = top;
    v[1] = sum;
}

} // namespace aicf::soft

#endif
