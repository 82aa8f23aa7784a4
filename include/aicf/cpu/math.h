/* Functions of reals for loops that are to be vectorised, which no call of libm is: by polynomials,
   but for the logarithms and erfc of f64, which are libm's. Free of branches; the same bits in
   every clone, since nothing is contracted. The worst error in f32, in units of the last place,
   over all of f32, and in f64 (tests/kernels/test_math.py):

     aicf_exp         1.1   1.5   0 below -104 (-746), inf above 88.73 (709.8)
     aicf_expm1       1.8   2.0   -1 at -inf
     aicf_log         1.0         -inf at 0, NaN below
     aicf_log1p       1.5         -inf at -1, NaN below
     aicf_log1p_unit  1.5   1.5   for 0 to 1
     aicf_tanh        2.3   3.0   -0 of -0
     aicf_sigmoid     2.3   2.5   0 at -inf, 1 at +inf
     aicf_erfc        6           the absolute error is below 4e-7

   NaN gives NaN. What is below the normal numbers is right where the FPU keeps such. */
#ifndef AICF_CPU_MATH_H
#define AICF_CPU_MATH_H

#include <math.h>
#include <string.h>

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
    uint64_t a, b;
    double result;
    memcpy(&a, &x, sizeof(a));
    memcpy(&b, &y, sizeof(b));
    const uint64_t bits = b ^ ((a ^ b) & (0 - (uint64_t)condition));
    memcpy(&result, &bits, sizeof(result));
    return result;
}

/* x brought into [low, high]; NaN stays. One end is a conditional, which becomes one instruction;
   of two the compiler would make branches. */
AICF_INLINE float
aicf_clamp_f32(float x, float low, float high)
{
    const float above = x < low ? low : x;
    return aicf_select_f32(x > high, high, above);
}

AICF_INLINE double
aicf_clamp_f64(double x, double low, double high)
{
    const double above = x < low ? low : x;
    return aicf_select_f64(x > high, high, above);
}

/* At least low; NaN stays. */
AICF_INLINE float
aicf_at_least_f32(float x, float low)
{
    return aicf_select_f32(x < low, low, x);
}

AICF_INLINE double
aicf_at_least_f64(double x, double low)
{
    return aicf_select_f64(x < low, low, x);
}

/* -|x| */
AICF_INLINE float
aicf_below_0_f32(float x)
{
    return aicf_f32_of_bits(aicf_bits_of_f32(x) | 0x80000000);
}

AICF_INLINE double
aicf_below_0_f64(double x)
{
    return -fabs(x);
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
    const int32_t half = n >> 1;
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

/* e**(x + low) for -170 <= x <= 170, and a low that is small beside x. */
AICF_INLINE float
aicf_exp_of_sum_f32(float x, float low)
{
    const int32_t n = aicf_octaves_f32(x);
    return aicf_scaled_f32(1 + aicf_expm1_rest_f32(x, low, n), n);
}

AICF_INLINE float
aicf_exp_f32(float x)
{
    return aicf_exp_of_sum_f32(aicf_clamp_f32(x, -104, 89), 0);
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

/* ln(1 + x) for 0 <= x <= 1, as aicf_log_f32 but with no digits to find: of x, or of (x - 1) / 2
   and ln 2 more. */
AICF_INLINE float
aicf_log1p_unit_f32(float x)
{
    const bool upper = x > 0x1.a8279ap-2f; /* sqrt(2) - 1 */
    const float f = aicf_select_f32(upper, 0.5f * (x - 1), x);
    const float s = f / (2 + f), z = s * s, half = 0.5f * f * f;
    const float high = 0x1.ddd172p-3f * z + 0x1.245c38p-2f;
    const float r = z * ((high * z + 0x1.9999ecp-2f) * z + 0x1.555556p-1f);
    const float octave = aicf_select_f32(upper, 0x1.62ep-1f, 0);
    const float rest = aicf_select_f32(upper, 0x1.0bfbe8p-15f, 0);
    return octave - ((half - (s * (half + r) + rest)) - f);
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
    const float e = aicf_exp_of_sum_f32(aicf_at_least_f32(aicf_below_0_f32(x), -104), 0);
    return aicf_select_f32(x < 0, e, 1) / (1 + e);
}

/* With z = |x|, e**(-z*z) t Q(t) and t = 1 / (1 + z / 2), or 2 less that, where z*z is taken as the
   square of z's upper half, which is exact, and the rest. Q is fitted at Chebyshev's points. */
AICF_INLINE float
aicf_erfc_f32(float x)
{
    const float size = aicf_f32_of_bits(aicf_bits_of_f32(x) & 0x7fffffff);
    const float z = aicf_select_f32(size > 10.25f, 10.25f, size);
    const float upper = aicf_f32_of_bits(aicf_bits_of_f32(z) & 0xfffff000);
    const float bell = aicf_exp_of_sum_f32(-upper * upper, -(z - upper) * (z + upper));
    const float t = 1 / (1 + 0.5f * z);
    float q = -0x1.eab7f4p-5f * t + 0x1.279384p-2f;
    q = (q * t - 0x1.fb8118p-2f) * t + 0x1.267fe8p-2f;
    q = (q * t - 0x1.0ef506p-5f) * t + 0x1.a48a04p-3f;
    q = (q * t + 0x1.f08e52p-3f) * t + 0x1.213d08p-2f;
    q = q * t + 0x1.20da16p-2f;
    const float tail = bell * t * q;
    return aicf_select_f32(x < 0, 2 - tail, tail);
}

/* ---- f64: as in f32 ------------------------------------------------------------------ */

AICF_INLINE uint64_t
aicf_bits_of_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* 2**n for a whole -1022 <= n <= 1023; the bits of its sum with 1.5 * 2**52 end in n. */
AICF_INLINE double
aicf_power_of_2_f64(double n)
{
    const uint64_t bits = (aicf_bits_of_f64(n + 0x1.8p52) + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof(power));
    return power;
}

AICF_INLINE double
aicf_scaled_f64(double x, double n)
{
    const double half = (n * 0.5 + 0x1.8p52) - 0x1.8p52;
    return x * aicf_power_of_2_f64(half) * aicf_power_of_2_f64(n - half);
}

AICF_INLINE double
aicf_octaves_f64(double x)
{
    return (x * 0x1.71547652b82fep0 + 0x1.8p52) - 0x1.8p52;
}

AICF_INLINE double
aicf_expm1_rest_f64(double x, double n)
{
    const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    double q = 0x1.af38a9b0ec855p-26 * r + 0x1.289185613a3d6p-22;
    q = (q * r + 0x1.71de0dae63bb3p-19) * r + 0x1.a019b90d2ae7ap-16;
    q = (q * r + 0x1.a01a01a7c41d5p-13) * r + 0x1.6c16c1788bd90p-10;
    q = (q * r + 0x1.11111111109b3p-7) * r + 0x1.5555555553d63p-5;
    q = (q * r + 0x1.5555555555556p-3) * r + 0.5;
    return r + r * r * q;
}

AICF_INLINE double
aicf_exp_f64(double x)
{
    const double y = aicf_clamp_f64(x, -746, 710);
    const double n = aicf_octaves_f64(y);
    return aicf_scaled_f64(1 + aicf_expm1_rest_f64(y, n), n);
}

AICF_INLINE double
aicf_expm1_f64(double x)
{
    const double y = aicf_clamp_f64(x, -40, 710);
    const double n = aicf_octaves_f64(y);
    const double p = aicf_expm1_rest_f64(y, n);
    const double one = 1 - aicf_power_of_2_f64(-aicf_select_f64(n > 1022, 1022, n));
    return aicf_scaled_f64(p + one, n);
}

AICF_INLINE double
aicf_log1p_unit_f64(double x)
{
    const bool upper = x > 0x1.a827999fcef32p-2;
    const double f = aicf_select_f64(upper, 0.5 * (x - 1), x);
    const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    double r = 0x1.2b5f68a50d903p-3 * z + 0x1.39fdcceb4bb45p-3;
    r = (r * z + 0x1.7462b91b8df65p-3) * z + 0x1.c71c62d5e53e0p-3;
    r = (r * z + 0x1.2492492dfd86cp-2) * z + 0x1.9999999995273p-2;
    r = (r * z + 0x1.5555555555558p-1) * z;
    const double octave = aicf_select_f64(upper, 0x1.62e42feep-1, 0);
    const double rest = aicf_select_f64(upper, 0x1.a39ef35793c76p-33, 0);
    return octave - ((half - (s * (half + r) + rest)) - f);
}

AICF_INLINE double
aicf_tanh_f64(double x)
{
    const double z = fabs(x);
    const double e = aicf_expm1_f64(-2 * z);
    const double quotient = aicf_select_f64(z < 1, -e, 2 * (1 + e)) / (2 + e);
    return copysign(aicf_select_f64(z < 1, quotient, 1 - quotient), x);
}

AICF_INLINE double
aicf_sigmoid_f64(double x)
{
    const double e = aicf_exp_f64(aicf_below_0_f64(x));
    return aicf_select_f64(x < 0, e, 1) / (1 + e);
}

#define aicf_log_f64 log
#define aicf_log1p_f64 log1p
#define aicf_erfc_f64 erfc

/* ---- by type ------------------------------------------------------------------------- */

#define AICF_OF_REAL(name, x) _Generic((x), float: name##_f32, double: name##_f64)

#define aicf_exp(x) AICF_OF_REAL(aicf_exp, x)(x)
#define aicf_expm1(x) AICF_OF_REAL(aicf_expm1, x)(x)
#define aicf_log(x) AICF_OF_REAL(aicf_log, x)(x)
#define aicf_log1p_unit(x) AICF_OF_REAL(aicf_log1p_unit, x)(x)
#define aicf_log1p(x) AICF_OF_REAL(aicf_log1p, x)(x)
#define aicf_tanh(x) AICF_OF_REAL(aicf_tanh, x)(x)
#define aicf_sigmoid(x) AICF_OF_REAL(aicf_sigmoid, x)(x)
#define aicf_erfc(x) AICF_OF_REAL(aicf_erfc, x)(x)
#define aicf_select(condition, x, y) AICF_OF_REAL(aicf_select, (x) + (y))(condition, x, y)
#define aicf_abs(x) _Generic((x), float: fabsf, double: fabs)(x)
#define aicf_sqrt(x) _Generic((x), float: sqrtf, double: sqrt)(x)
#define aicf_at_least(x, low) AICF_OF_REAL(aicf_at_least, x)(x, low)
#define aicf_below_0(x) AICF_OF_REAL(aicf_below_0, x)(x)
#define aicf_clamp(x, low, high) AICF_OF_REAL(aicf_clamp, x)(x, low, high)

#endif
