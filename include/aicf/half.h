/* The one place that converts 16-bit floats on the host. Round to nearest even; NaN stays NaN;
   right also where the FPU flushes subnormals to zero: no operand or result of the arithmetic here
   is one that matters. Every function is free of branches, so that loops over them are vectorised.
 */
#ifndef AICF_HALF_H
#define AICF_HALF_H

#include <stdbool.h>
#include <string.h>

#include <aicf/dtype.h>

static inline float
aicf_f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t
aicf_bits_of_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* x if the condition holds, else y, by a mask: given a branch, compilers move arithmetic into it,
   and then neither does it vectorise. */
static inline uint32_t
aicf_bits_select(bool condition, uint32_t x, uint32_t y)
{
    return y ^ ((x ^ y) & (0 - (uint32_t)condition));
}

static inline float
aicf_bf16_to_f32(aicf_bf16 x)
{
    return aicf_f32_of_bits((uint32_t)x.bits << 16);
}

static inline aicf_bf16
aicf_bf16_of_f32(float x)
{
    uint32_t bits = aicf_bits_of_f32(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40;
    bool nan = (bits & 0x7fffffff) > 0x7f800000;
    aicf_bf16 result = {(uint16_t)aicf_bits_select(nan, quiet, rounded)};
    return result;
}

/* A subnormal f16 is its bits, as an integer, times 2**-24: a normal f32. */
static inline float
aicf_f16_to_f32(aicf_f16 x)
{
    uint32_t sign = (uint32_t)(x.bits & 0x8000) << 16;
    uint32_t rest = x.bits & 0x7fff;
    uint32_t subnormal = aicf_bits_of_f32((float)(int32_t)rest * 0x1p-24f);
    uint32_t other = (rest << 13) + aicf_bits_select(rest >= 0x7c00, 0x70000000, 0x38000000);
    return aicf_f32_of_bits(sign | aicf_bits_select(rest < 0x0400, subnormal, other));
}

/* Below the normal f16, one ulp of 0.5f is one ulp of the result: the addition rounds. A subnormal
   f32 rounds to zero there, whether it is flushed first or not. */
static inline aicf_f16
aicf_f16_of_f32(float x)
{
    uint32_t bits = aicf_bits_of_f32(x);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t rest = bits & 0x7fffffff;
    uint32_t subnormal = aicf_bits_of_f32(aicf_f32_of_bits(rest) + 0.5f) - 0x3f000000;
    uint32_t normal = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
    uint32_t finite = aicf_bits_select(rest < 0x38800000, subnormal, normal);
    uint32_t special = aicf_bits_select(rest > 0x7f800000, 0x7e00, 0x7c00);
    uint32_t whole = aicf_bits_select(rest >= 0x477ff000, special, finite);
    aicf_f16 result = {(uint16_t)(sign | whole)};
    return result;
}

#endif
