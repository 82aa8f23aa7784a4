// gx = gy times the derivative of gelu at y (cuda), f32, f16 and bf16, computed in f32. Right to
// the ends: 1 at +inf, 0 at -inf. The two kernels and what they take are described in
// aicf/cuda/elementwise.cuh; gx may be exactly gy or exactly y. Bound by bytes.
#include <aicf_ops/gelu_bwd.h>

#include <aicf/cuda/elementwise.cuh>

namespace aicf::gelu_bwd {

// Beyond it both derivatives are 1 or 0 to the last bit of f32, and no product of here overflows.
constexpr float kFlat = 20.0f;

__device__ inline float
clamp(float y)
{
    return y > kFlat ? kFlat : y < -kFlat ? -kFlat : y;
}

// gelu(y) = y Phi(y): its derivative is Phi(y) + y phi(y). Phi by erfc keeps its small values.
__device__ inline float
derivative(float y, float)
{
    constexpr float kRootHalf = 0.70710678118654752440f;
    constexpr float kPhi0 = 0.39894228040143267794f; // 1 / sqrt(2 pi)
    y = clamp(y);
    return 0.5f * erfcf(-y * kRootHalf) + y * kPhi0 * expf(-0.5f * y * y);
}

// For 16-bit types, whose rounding hides an error of 1e-7: erfc(z) is a polynomial of t = 1 / (1 +
// p z) times the same exp(-z^2) that phi needs (Abramowitz and Stegun, 7.1.26). erfcf would make
// f16 and bf16 bound by arithmetic.
template <typename T>
__device__ inline float
derivative(float y, T)
{
    constexpr float kRootHalf = 0.70710678118654752440f;
    constexpr float kPhi0 = 0.39894228040143267794f;
    y = clamp(y);
    float bell = __expf(-0.5f * y * y);
    float t = __fdividef(1.0f, 1.0f + 0.3275911f * kRootHalf * fabsf(y));
    float series =
        t * (0.254829592f +
             t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    float tail = 0.5f * series * bell; // Phi(-|y|)
    return (y < 0.0f ? tail : 1.0f - tail) + y * kPhi0 * bell;
}

// gelu(y) ~ y (1 + tanh u) / 2 with u = sqrt(2 / pi) (y + 0.044715 y^3).
__device__ inline float
derivative_tanh(float y)
{
    constexpr float kRoot = 0.79788456080286535588f; // sqrt(2 / pi)
    constexpr float kCubic = 0.044715f;
    y = clamp(y);
    float t = tanhf(kRoot * (y + kCubic * y * y * y));
    return 0.5f * (1.0f + t) + 0.5f * y * (1.0f - t * t) * kRoot * (1.0f + 3.0f * kCubic * y * y);
}

template <typename T> struct chain {
    bool tanh;

    __device__ float operator()(float gy, float y) const
    {
        return gy * (tanh ? derivative_tanh(y) : derivative(y, T{}));
    }
};

AICF_ELEMENTWISE_KERNELS

} // namespace aicf::gelu_bwd

#define LAUNCHERS(T, suffix)                                                                       \
    aicf_status aicf_cuda_gelu_bwd_vec_##suffix(                                                   \
        const T *gy, const T *y, T *gx, int64_t A, aicf_gelu_bwd_approx approx,                    \
        aicf_stream stream)                                                                        \
    {                                                                                              \
        using namespace aicf::gelu_bwd;                                                            \
        using D = aicf::device_t<T>;                                                               \
        return run_vec(                                                                            \
            chain<D>{approx == AICF_GELU_BWD_APPROX_TANH}, of<D, D, D>{}, operands_of(gx, gy, y),  \
            A, stream);                                                                            \
    }                                                                                              \
    aicf_status aicf_cuda_gelu_bwd_strided_##suffix(                                               \
        const aicf_view *gy, const aicf_view *y, const aicf_view *gx, int64_t,                     \
        aicf_gelu_bwd_approx approx, aicf_stream stream)                                           \
    {                                                                                              \
        using namespace aicf::gelu_bwd;                                                            \
        using D = aicf::device_t<T>;                                                               \
        return run_views(                                                                          \
            chain<D>{approx == AICF_GELU_BWD_APPROX_TANH}, of<D, D, D>{}, {*gx, *gy, *y}, stream); \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
