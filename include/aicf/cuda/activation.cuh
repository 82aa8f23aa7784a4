// What activations are made of, in f32: right to the last place but a few, and a Quick version of
// each for values that are then rounded to 16 bits, which hides an error of 1e-5 of the value. The
// accurate ones would make 16-bit kernels bound by arithmetic: at 4 bytes an element an H200 has
// some 25 instructions for each.
#ifndef AICF_CUDA_ACTIVATION_CUH
#define AICF_CUDA_ACTIVATION_CUH

#include <aicf/cuda/numeric.cuh>

namespace aicf {

// Whether values of T may be computed by the quick versions.
template <typename T> constexpr bool kQuick = sizeof(T) == 2;

template <bool kIsQuick>
__device__ inline float
exponential(float x)
{
    return kIsQuick ? __expf(x) : expf(x);
}

// a / b; quick: 0 where b is above 2^126.
template <bool kIsQuick>
__device__ inline float
quotient(float a, float b)
{
    return kIsQuick ? __fdividef(a, b) : a / b;
}

// 1 / (1 + e^-x): 0 at -inf, 1 at +inf.
template <bool kIsQuick>
__device__ inline float
sigmoid_of(float x)
{
    return quotient<kIsQuick>(1.0f, 1.0f + exponential<kIsQuick>(-x));
}

// ln(1 + e^x) that overflows for no x.
template <bool kIsQuick>
__device__ inline float
softplus_of(float x)
{
    float e = exponential<kIsQuick>(-fabsf(x));
    float above = x < 0.0f ? 0.0f : x;
    if constexpr (!kIsQuick) {
        return above + log1pf(e);
    }
    return above + (e < 0.015625f ? e - 0.5f * e * e : __logf(1.0f + e));
}

// e^x - 1. Quick: near 0 the difference would lose what is small.
template <bool kIsQuick>
__device__ inline float
expm1_of(float x)
{
    if constexpr (!kIsQuick) {
        return expm1f(x);
    }
    return fabsf(x) < 0.015625f ? x + 0.5f * x * x : __expf(x) - 1.0f;
}

template <bool kIsQuick>
__device__ inline float
tanh_of(float x)
{
    if constexpr (!kIsQuick) {
        return tanhf(x);
    }
    float far = 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * x));
    return fabsf(x) < 0.0625f ? x - x * x * x * 0.33333333f : far;
}

// ---- the normal distribution --------------------------------------------------------------------

// Beyond it Phi is 1 or 0 to the last bit of f32, and no product of here overflows. NaN stays.
constexpr float kNormalReach = 20.0f;

__device__ inline float
within_reach(float x)
{
    return x > kNormalReach ? kNormalReach : x < -kNormalReach ? -kNormalReach : x;
}

// phi(x) sqrt(2 pi) = e^(-x^2 / 2), and Phi(x): by bell * t Q(t) / 2, z = |x| / sqrt(2), t = 1 / (1
// + 0.35 z), and a polynomial Q fitted to e^(z^2) erfc(z) / t at Chebyshev's points, right to 5e-7
// of Phi where it is not tiny; quick: Abramowitz and Stegun, 7.1.26.
struct normal {
    float bell, share;
};

template <bool kIsQuick>
__device__ inline normal
normal_of(float x)
{
    constexpr float kRootHalf = 0.70710678118654752440f;
    float z = kRootHalf * fabsf(x);
    float bell = exponential<kIsQuick>(-0.5f * x * x);
    if constexpr (kIsQuick) {
        float t = __fdividef(1.0f, 1.0f + 0.3275911f * z);
        float series =
            t * (0.254829592f +
                 t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
        float tail = 0.5f * series * bell;
        return {bell, x < 0.0f ? tail : 1.0f - tail};
    }
    float t = __frcp_rn(1.0f + 0.35f * z);
    float q = 0x1.3072e8p-5f;
    q = q * t - 0x1.3827b4p-3f;
    q = q * t + 0x1.5562aep-3f;
    q = q * t - 0x1.20068ap-7f;
    q = q * t + 0x1.26e058p-4f;
    q = q * t + 0x1.3ac6c4p-3f;
    q = q * t + 0x1.3084ccp-3f;
    q = q * t + 0x1.81d936p-3f;
    q = q * t + 0x1.93a002p-3f;
    q = q * t + 0x1.9473c2p-3f;
    float tail = 0.5f * bell * (t * q);
    return {bell, x < 0.0f ? tail : 1.0f - tail};
}

template <bool kIsQuick>
__device__ inline float
gelu_of(float x)
{
    x = x < -kNormalReach ? -kNormalReach : x;
    return x * normal_of<kIsQuick>(within_reach(x)).share;
}

template <bool kIsQuick>
__device__ inline float
gelu_slope_of(float x)
{
    constexpr float kPhi0 = 0.39894228040143267794f; // 1 / sqrt(2 pi)
    x = within_reach(x);
    normal n = normal_of<kIsQuick>(x);
    return n.share + x * kPhi0 * n.bell;
}

// The likeness of Phi by tanh: (1 + tanh u) / 2 = sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
constexpr float kGeluRoot = 0.79788456080286535588f;
constexpr float kGeluCubic = 0.044715f;

template <bool kIsQuick>
__device__ inline float
gelu_tanh_share(float x)
{
    return sigmoid_of<kIsQuick>(2.0f * kGeluRoot * x * (1.0f + kGeluCubic * x * x));
}

template <bool kIsQuick>
__device__ inline float
gelu_tanh_of(float x)
{
    x = x < -kNormalReach ? -kNormalReach : x;
    return x * gelu_tanh_share<kIsQuick>(within_reach(x));
}

template <bool kIsQuick>
__device__ inline float
gelu_tanh_slope_of(float x)
{
    x = within_reach(x);
    float share = gelu_tanh_share<kIsQuick>(x);
    float slope = 2.0f * kGeluRoot * (1.0f + 3.0f * kGeluCubic * x * x);
    return share + x * share * (1.0f - share) * slope;
}

} // namespace aicf

#endif
