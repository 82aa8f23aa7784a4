// What activations are made of, in f32 and without a branch: right to some 5 ulp, and a quick
// version of each for values that are then rounded to 16 bits, which hides an error of 1e-5 of the
// value. At 4 bytes an element an H200 has some 25 instructions for each.
#ifndef AICF_CUDA_ACTIVATION_CUH
#define AICF_CUDA_ACTIVATION_CUH

#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf {

// Whether values of T may be computed by the quick versions.
template <typename T> constexpr bool kQuick = sizeof(T) == 2;

constexpr float kLog2E = 1.44269504088896340736f;

template <bool kIsQuick>
__device__ inline float
exponential(float x)
{
    return kIsQuick ? ptx::exp2_approx(x * kLog2E) : expf(x);
}

// x, computed whether it is chosen or not: branches around what is short cost more than it.
__device__ inline float
always(float x)
{
    uint32_t bits = __float_as_uint(x);
    ptx::opaque(bits);
    return __uint_as_float(bits);
}

// 1 / (1 + e^-x): 0 at -inf, 1 at +inf.
template <bool kIsQuick>
__device__ inline float
sigmoid_of(float x)
{
    return ptx::reciprocal_approx(1.0f + exponential<kIsQuick>(-x));
}

// ln(1 + e) for 0 <= e <= 1: with s = e / (2 + e) it is 2 atanh s, and that 2s (1 + s^2 P(s^2)), P
// fitted at Chebyshev's points.
__device__ inline float
log1p_of(float e)
{
    float s = e * ptx::reciprocal_approx(2.0f + e);
    float z = s * s;
    float p = 0x1.133410p-3f;
    p = p * z + 0x1.211bf4p-3f;
    p = p * z + 0x1.99adb4p-3f;
    p = p * z + 0x1.55554cp-2f;
    return 2.0f * s + 2.0f * s * (z * p);
}

// ln(1 + e^x) that overflows for no x.
template <bool kIsQuick>
__device__ inline float
softplus_of(float x)
{
    return ptx::max_nan(x, 0.0f) + log1p_of(exponential<kIsQuick>(-fabsf(x)));
}

// e^x - 1. Near 0, where the difference would lose what is small, x + x^2 Q(x), fitted likewise;
// quick: two terms.
template <bool kIsQuick>
__device__ inline float
expm1_of(float x)
{
    float far = exponential<kIsQuick>(x) - 1.0f;
    if constexpr (kIsQuick) {
        return fabsf(x) < 0.015625f ? x + 0.5f * x * x : far;
    }
    float q = 0x1.6d1606p-10f;
    q = q * x + 0x1.12106cp-7f;
    q = q * x + 0x1.555516p-5f;
    q = q * x + 0x1.5554d8p-3f;
    q = q * x + 0.5f;
    return fabsf(x) < 0.34375f ? x + x * x * q : far;
}

// 1 - 2 / (1 + e^2x), and near 0 x + x^3 P(x^2), fitted likewise; quick: two terms.
template <bool kIsQuick>
__device__ inline float
tanh_of(float x)
{
    float far = 1.0f - 2.0f * ptx::reciprocal_approx(1.0f + exponential<kIsQuick>(2.0f * x));
    float z = x * x;
    if constexpr (kIsQuick) {
        return fabsf(x) < 0.0625f ? x - x * z * 0.33333333f : far;
    }
    float p = -0x1.9ada60p-8f;
    p = p * z + 0x1.59e1c8p-6f;
    p = p * z - 0x1.b955dcp-5f;
    p = p * z + 0x1.110ee0p-3f;
    p = p * z - 0x1.555554p-2f;
    return fabsf(x) < 0.59375f ? x + x * z * p : far;
}

// ---- the normal distribution --------------------------------------------------------------------

// Beyond it Phi is 1 or 0 to the last bit of f32, and no product of here overflows.
constexpr float kNormalReach = 20.0f;

// For m >= 0: phi(m) sqrt(2 pi) = e^(-m^2 / 2), and Phi(-m), by bell * t Q(t) / 2, z = m / sqrt(2),
// t = 1 / (1 + 0.35 z), and a polynomial Q fitted to e^(z^2) erfc(z) / t at Chebyshev's points,
// right to 5e-7 of Phi where it is not tiny; quick: Abramowitz and Stegun, 7.1.26.
struct normal {
    float bell, tail;
};

template <bool kIsQuick>
__device__ inline normal
normal_of(float m)
{
    constexpr float kRootHalf = 0.70710678118654752440f;
    float bell = ptx::exp2_approx(m * m * (-0.5f * kLog2E));
    float t = ptx::reciprocal_approx(1.0f + (kIsQuick ? 0.3275911f : 0.35f) * kRootHalf * m);
    float q;
    if constexpr (kIsQuick) {
        q = 0.5f * 1.061405429f;
        q = q * t - 0.5f * 1.453152027f;
        q = q * t + 0.5f * 1.421413741f;
        q = q * t - 0.5f * 0.284496736f;
        q = q * t + 0.5f * 0.254829592f;
    } else {
        q = 0.5f * 0x1.3072e8p-5f;
        q = q * t - 0.5f * 0x1.3827b4p-3f;
        q = q * t + 0.5f * 0x1.5562aep-3f;
        q = q * t - 0.5f * 0x1.20068ap-7f;
        q = q * t + 0.5f * 0x1.26e058p-4f;
        q = q * t + 0.5f * 0x1.3ac6c4p-3f;
        q = q * t + 0.5f * 0x1.3084ccp-3f;
        q = q * t + 0.5f * 0x1.81d936p-3f;
        q = q * t + 0.5f * 0x1.93a002p-3f;
        q = q * t + 0.5f * 0x1.9473c2p-3f;
    }
    return {bell, q * t * bell};
}

// x Phi(x) = max(x, 0) - |x| Phi(-|x|), on both sides of 0. NaN comes through the maximum.
template <bool kIsQuick>
__device__ inline float
gelu_of(float x)
{
    float m = fminf(fabsf(x), kNormalReach);
    return ptx::max_nan(x, 0.0f) - m * normal_of<kIsQuick>(m).tail;
}

__device__ inline float
within_reach(float x)
{
    return ptx::min_nan(ptx::max_nan(x, -kNormalReach), kNormalReach);
}

template <bool kIsQuick>
__device__ inline float
gelu_slope_of(float x)
{
    constexpr float kPhi0 = 0.39894228040143267794f; // 1 / sqrt(2 pi)
    x = within_reach(x);
    normal n = normal_of<kIsQuick>(fabsf(x));
    return (x < 0.0f ? n.tail : 1.0f - n.tail) + x * kPhi0 * n.bell;
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
    x = ptx::max_nan(x, -kNormalReach);
    return x * gelu_tanh_share<kIsQuick>(x);
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
