/* gelu(x) = x * Phi(x) and its derivative, exact (by erf) and as approximated by tanh. Right to the
   last corner: 0 at -inf, 1 (the slope) at +inf, NaN of NaN. */
#ifndef AICF_CPU_GELU_H
#define AICF_CPU_GELU_H

#include <math.h>

#include <aicf/cpu/real.h>

/* Beyond this Phi is 0 or 1 and its slope 0, in f64 too; within it no term overflows in f64. */
#define AICF_GELU_REACH 40

#define AICF_GELU_SQRT1_2 0.70710678118654752440
#define AICF_GELU_SQRT1_2PI 0.39894228040143267794
#define AICF_GELU_SQRT2_PI 0.79788456080286535588
#define AICF_GELU_CUBIC 0.044715

/* erfc and not 1 + erf, 1 / (1 + e**-2u) and not (1 + tanh u) / 2: those lose the small values. */
#define AICF_GELU(real, s, erfc, exp)                                             \
    AICF_INLINE real aicf_gelu_clamp_##s(real x)                                  \
    {                                                                             \
        const real reach = AICF_GELU_REACH;                                       \
        return x < -reach ? -reach : x > reach ? reach : x;                       \
    }                                                                             \
                                                                                  \
    AICF_INLINE real aicf_gelu_##s(real x)                                        \
    {                                                                             \
        const real reach = AICF_GELU_REACH;                                       \
        const real y = x < -reach ? -reach : x;                                   \
        return y * ((real)0.5 * erfc(-y * (real)AICF_GELU_SQRT1_2));              \
    }                                                                             \
                                                                                  \
    AICF_INLINE real aicf_gelu_slope_##s(real x)                                  \
    {                                                                             \
        const real y = aicf_gelu_clamp_##s(x);                                    \
        const real phi = (real)AICF_GELU_SQRT1_2PI * exp((real) - 0.5 * y * y);   \
        return (real)0.5 * erfc(-y * (real)AICF_GELU_SQRT1_2) + y * phi;          \
    }                                                                             \
                                                                                  \
    AICF_INLINE real aicf_gelu_tanh_slope_##s(real x)                             \
    {                                                                             \
        const real y = aicf_gelu_clamp_##s(x);                                    \
        const real k = (real)(2 * AICF_GELU_SQRT2_PI), c = (real)AICF_GELU_CUBIC; \
        const real u = k * y * (1 + c * y * y);                                   \
        const real share = 1 / (1 + exp(-u));                                     \
        return share + y * share * (1 - share) * k * (1 + 3 * c * y * y);         \
    }

AICF_GELU(float, f32, erfcf, expf)
AICF_GELU(double, f64, erfc, exp)

#define aicf_gelu(x) _Generic((x), float: aicf_gelu_f32, double: aicf_gelu_f64)(x)
#define aicf_gelu_slope(x) _Generic((x), float: aicf_gelu_slope_f32, double: aicf_gelu_slope_f64)(x)
#define aicf_gelu_tanh_slope(x) \
    _Generic((x), float: aicf_gelu_tanh_slope_f32, double: aicf_gelu_tanh_slope_f64)(x)

#endif
