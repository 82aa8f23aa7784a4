/* gelu(x) = x * Phi(x) and its derivative, exact (by erf) and as approximated by tanh. Right to the
   last corner: 0 at -inf, 1 (the slope) at +inf, NaN of NaN. */
#ifndef AICF_CPU_GELU_H
#define AICF_CPU_GELU_H

#include <aicf/cpu/math.h>

/* Beyond this Phi is 0 or 1 and its slope 0, in f64 too; within it no term overflows in f64. */
#define AICF_GELU_REACH 40

#define AICF_GELU_SQRT1_2 0.70710678118654752440
#define AICF_GELU_SQRT1_2PI 0.39894228040143267794
#define AICF_GELU_SQRT2_PI 0.79788456080286535588
#define AICF_GELU_CUBIC 0.044715

/* erfc and not 1 + erf, 1 / (1 + e**-2u) and not (1 + tanh u) / 2: those lose the small values. */
#define AICF_GELU(real, s)                                                               \
    /* Phi(y) for y within reach. */                                                     \
    AICF_INLINE real aicf_gelu_share_##s(real y)                                         \
    {                                                                                    \
        return (real)0.5 * aicf_erfc_##s(-y * (real)AICF_GELU_SQRT1_2);                  \
    }                                                                                    \
                                                                                         \
    /* Its likeness by tanh. */                                                          \
    AICF_INLINE real aicf_gelu_tanh_share_##s(real y)                                    \
    {                                                                                    \
        const real k = (real)(2 * AICF_GELU_SQRT2_PI), c = (real)AICF_GELU_CUBIC;        \
        return 1 / (1 + aicf_exp_##s(-(k * y * (1 + c * y * y))));                       \
    }                                                                                    \
                                                                                         \
    AICF_INLINE real aicf_gelu_##s(real x)                                               \
    {                                                                                    \
        const real y = aicf_at_least_##s(x, -AICF_GELU_REACH);                           \
        return y * aicf_gelu_share_##s(y);                                               \
    }                                                                                    \
                                                                                         \
    AICF_INLINE real aicf_gelu_tanh_##s(real x)                                          \
    {                                                                                    \
        const real y = aicf_at_least_##s(x, -AICF_GELU_REACH);                           \
        return y * aicf_gelu_tanh_share_##s(y);                                          \
    }                                                                                    \
                                                                                         \
    AICF_INLINE real aicf_gelu_slope_##s(real x)                                         \
    {                                                                                    \
        const real y = aicf_clamp_##s(x, -AICF_GELU_REACH, AICF_GELU_REACH);             \
        const real phi = (real)AICF_GELU_SQRT1_2PI * aicf_exp_##s((real) - 0.5 * y * y); \
        return aicf_gelu_share_##s(y) + y * phi;                                         \
    }                                                                                    \
                                                                                         \
    AICF_INLINE real aicf_gelu_tanh_slope_##s(real x)                                    \
    {                                                                                    \
        const real y = aicf_clamp_##s(x, -AICF_GELU_REACH, AICF_GELU_REACH);             \
        const real k = (real)(2 * AICF_GELU_SQRT2_PI), c = (real)AICF_GELU_CUBIC;        \
        const real share = aicf_gelu_tanh_share_##s(y);                                  \
        return share + y * share * (1 - share) * k * (1 + 3 * c * y * y);                \
    }

AICF_GELU(float, f32)
AICF_GELU(double, f64)

#define aicf_gelu(x) AICF_OF_REAL(aicf_gelu, x)(x)
#define aicf_gelu_tanh(x) AICF_OF_REAL(aicf_gelu_tanh, x)(x)
#define aicf_gelu_slope(x) AICF_OF_REAL(aicf_gelu_slope, x)(x)
#define aicf_gelu_tanh_slope(x) AICF_OF_REAL(aicf_gelu_tanh_slope, x)(x)

#endif
