/* Functions of reals for loops that are to be vectorised, which no call of libm is: aicf_exp and
   the like, of f32 by polynomials, of f64 by libm. Free of branches; the same bits in every clone,
   since nothing is contracted. The worst error in f32, in units of the last place, over all of f32
   (tests/kernels/test_math.py):

     aicf_exp       1.1   0 below -104, inf above 88.73
     aicf_expm1     1.8   -1 at -inf
     aicf_log       1.0   -inf at 0, NaN below
     aicf_log1p     1.5   -inf at -1, NaN below
     aicf_tanh      2.3   -0 of -0
     aicf_sigmoid   2.3   0 at -inf, 1 at +inf
     aicf_erfc      6     the absolute error is below 1.6e-7

   NaN gives NaN. What is below the normal numbers is right where the FPU keeps such. */
#ifndef AICF_CPU_MATH_H
#define AICF_CPU_MATH_H

#include <math.h>

#include <aicf/cpu/real.h>

/* ---- choices without branches -------------------------------------------------------- */

AICF_INLINE float
aicf_select_f32(bool condition, float x, float y)
{
    return aicf_f32_of_bits(aicf_bits_select(condition, aicf_bits_of_f32(x), aicf_bits_of_f32(y)));
}

AICF_INLINE double
aicf_select_f64(bool condition, double x, double y)
{
    return condition ? x : y;
}

/* x brought into [low, high]; NaN stays. */
AICF_INLINE float
aicf_clamp_f32(float x, float low, float high)
{
    return aicf_select_f32(x < low, low, aicf_select_f32(x > high, high, x));
}

AICF_INLINE double
aicf_clamp_f64(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* ---- f32 ----------------------------------------------------------------------------- */

/* 2**n for -126 <= n <= 127. */
AICF_INLINE float
aicf_power_of_2(int32_t n)
{
    return aicf_f32_of_bits((uint32_t)(n + 127) << 23);
}

/* x * 2**n in two steps, so that neither is out of range: -252 <= n <= 254. */
AICF_INLINE float
aicf_scaled_f32(float x, int32_t n)
{
    const int32_t half = n / 2;
    return x * aicf_power_of_2(half) * aicf_power_of_2(n - half);
}

/* The whole number next to x / ln 2, for |x| <= 2900; some number of NaN. Added to what has no bits
   behind the point, x / ln 2 loses those that it has there. */
AICF_INLINE int32_t
aicf_octaves_f32(float x)
{
    const float shifter = 0x1.8p23f;
    const float shifted = x * 0x1.715476p0f + shifter;
    return (int32_t)(aicf_bits_of_f32(shifted) - aicf_bits_of_f32(shifter));
}

/* e**r - 1 where x + low = n ln 2 + r, |r| <= ln 2 / 2; ln 2 in two parts, of which the first times
   n is exact. */
AICF_INLINE float
aicf_expm1_rest_f32(float x, float low, int32_t n)
{
    const float whole = (float)n;
    const float r = (x - whole * 0x1.62ep-1f) - (whole * 0x1.0bfbe8p-15f - low);
    const float high = 0x1.6d1606p-10f * r + 0x1.12106cp-7f;
    const float q = ((high * r + 0x1.555516p-5f) * r + 0x1.5554d8p-3f) * r + 0.5f;
    return r + r * r * q;
}

/* e**(x + low), for a low that is small beside x. */
AICF_INLINE float
aicf_exp_of_sum_f32(float x, float low)
{
    const float y = aicf_clamp_f32(x, -104, 89);
    const int32_t n = aicf_octaves_f32(y);
    return aicf_scaled_f32(1 + aicf_expm1_rest_f32(y, low, n), n);
}

AICF_INLINE float
aicf_exp_f32(float x)
{
    return aicf_exp_of_sum_f32(x, 0);
}

/* 2**n (p + 1) - 1 as 2**n (p + (1 - 2**-n)), of which the inner difference is exact where it
   matters. */
AICF_INLINE float
aicf_expm1_f32(float x)
{
    const float y = aicf_clamp_f32(x, -20, 89);
    const int32_t n = aicf_octaves_f32(y);
    const float p = aicf_expm1_rest_f32(y, 0, n);
    const uint32_t nearly_all = aicf_bits_select(n < 126, (uint32_t)n, 126);
    const float one = 1 - aicf_power_of_2(-(int32_t)nearly_all);
    return aicf_scaled_f32(p + one, n);
}

/* ln of 2**n (1 + f), 1 + f in [sqrt(1/2), sqrt(2)): with s = f / (2 + f), ln(1 + f) = 2 atanh s.
 */
AICF_INLINE float
aicf_log_f32(float x)
{
    const bool small = x < 0x1p-126f;
    const uint32_t bits = aicf_bits_of_f32(aicf_select_f32(small, x * 0x1p23f, x));
    const uint32_t above = bits - 0x3f3504f3; /* sqrt(1/2) */
    const int32_t n = (int32_t)above >> 23;
    const float f = aicf_f32_of_bits((above & 0x7fffff) + 0x3f3504f3) - 1;
    const float whole = (float)(n - (small ? 23 : 0));
    const float s = f / (2 + f), z = s * s, half = 0.5f * f * f;
    const float high = 0x1.ddd172p-3f * z + 0x1.245c38p-2f;
    const float r = z * ((high * z + 0x1.9999ecp-2f) * z + 0x1.555556p-1f);
    const float log =
        whole * 0x1.62ep-1f - ((half - (s * (half + r) + whole * 0x1.0bfbe8p-15f)) - f);
    const float inside = aicf_select_f32(x < INFINITY, log, x); /* +inf, NaN */
    return aicf_select_f32(x <= 0, aicf_select_f32(x == 0, -INFINITY, NAN), inside);
}

/* ln(u) + c / u, where u + c = 1 + x to the last bit. */
AICF_INLINE float
aicf_log1p_f32(float x)
{
    const float u = 1 + x;
    const float c = aicf_select_f32(u > 2, 1 - (u - x), x - (u - 1));
    const float log = aicf_log_f32(u);
    return aicf_select_f32((u > 0) & (u < INFINITY), log + c / u, log);
}

/* With e = e**-2|x| - 1: -e / (2 + e), which keeps the small, or 1 - 2 (1 + e) / (2 + e), which
   keeps what is near 1. */
AICF_INLINE float
aicf_tanh_f32(float x)
{
    const float z = aicf_f32_of_bits(aicf_bits_of_f32(x) & 0x7fffffff);
    const float e = aicf_expm1_f32(-2 * z);
    const float quotient = aicf_select_f32(z < 1, -e, 2 * (1 + e)) / (2 + e);
    const float tanh = aicf_select_f32(z < 1, quotient, 1 - quotient);
    return aicf_f32_of_bits(aicf_bits_of_f32(tanh) | (aicf_bits_of_f32(x) & 0x80000000));
}

AICF_INLINE float
aicf_sigmoid_f32(float x)
{
    const float e = aicf_exp_f32(-aicf_f32_of_bits(aicf_bits_of_f32(x) & 0x7fffffff));
    return aicf_select_f32(x < 0, e, 1) / (1 + e);
}

/* 1 - x P(x*x) near 0. Beyond, with z = |x|, e**(-z*z) t Q(t) and t = 1 / (1 + z / 2), where z*z is
   taken as the square of z's upper half, which is exact, and the rest. P and Q are fitted at
   Chebyshev's points. */
AICF_INLINE float
aicf_erfc_f32(float x)
{
    const float z = aicf_clamp_f32(aicf_f32_of_bits(aicf_bits_of_f32(x) & 0x7fffffff), 0, 10.25f);
    const float upper = aicf_f32_of_bits(aicf_bits_of_f32(z) & 0xfffff000);
    const float bell = aicf_exp_of_sum_f32(-upper * upper, -(z - upper) * (z + upper));
    const float t = 1 / (1 + 0.5f * z);
    const float q3 =
        ((0x1.3a7a3ep-4f * t - 0x1.6ca9f2p-3f) * t + 0x1.96e816p-6f) * t + 0x1.9104bep-4f;
    const float q = (((q3 * t + 0x1.5239bep-3f) * t + 0x1.ffb714p-3f) * t + 0x1.207926p-2f) * t +
                    0x1.20e262p-2f;
    const float tail = bell * t * q;
    const float far = aicf_select_f32(x < 0, 2 - tail, tail);

    const float u = x * x;
    const float p2 = (-0x1.61234cp-11f * u + 0x1.4f1040p-8f) * u - 0x1.b7a5b0p-6f;
    const float p = ((p2 * u + 0x1.ce2aaap-4f) * u - 0x1.812738p-2f) * u + 0x1.20dd74p+0f;
    return aicf_select_f32(z < 0.75f, 1 - x * p, far);
}

/* ---- f64 ----------------------------------------------------------------------------- */

AICF_INLINE double
aicf_sigmoid_f64(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

#define aicf_exp_f64 exp
#define aicf_expm1_f64 expm1
#define aicf_log_f64 log
#define aicf_log1p_f64 log1p
#define aicf_tanh_f64 tanh
#define aicf_erfc_f64 erfc

/* ---- by type ------------------------------------------------------------------------- */

#define AICF_OF_REAL(name, x) _Generic((x), float: name##_f32, double: name##_f64)

#define aicf_exp(x) AICF_OF_REAL(aicf_exp, x)(x)
#define aicf_expm1(x) AICF_OF_REAL(aicf_expm1, x)(x)
#define aicf_log(x) AICF_OF_REAL(aicf_log, x)(x)
#define aicf_log1p(x) AICF_OF_REAL(aicf_log1p, x)(x)
#define aicf_tanh(x) AICF_OF_REAL(aicf_tanh, x)(x)
#define aicf_sigmoid(x) AICF_OF_REAL(aicf_sigmoid, x)(x)
#define aicf_erfc(x) AICF_OF_REAL(aicf_erfc, x)(x)
#define aicf_select(condition, x, y) AICF_OF_REAL(aicf_select, (x) + (y))(condition, x, y)
#define aicf_abs(x) _Generic((x), float: fabsf, double: fabs)(x)
#define aicf_sqrt(x) _Generic((x), float: sqrtf, double: sqrt)(x)
#define aicf_clamp(x, low, high) AICF_OF_REAL(aicf_clamp, x)(x, low, high)

#endif
