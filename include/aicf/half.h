/* The one place that converts 16-bit floats on the host. Round to nearest even; NaN stays NaN. */
#ifndef AICF_HALF_H
#define AICF_HALF_H

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
    return (aicf_bf16){(uint16_t)(x != x ? (bits >> 16 | 0x40) : rounded)};
}

/* f16 by arithmetic: the magic products move the exponent and let the FPU do the rounding. */
static inline float
aicf_f16_to_f32(aicf_f16 x)
{
    uint32_t sign = (uint32_t)(x.bits & 0x8000) << 16;
    uint32_t rest = (uint32_t)(x.bits & 0x7fff) << 13;
    float wide = aicf_f32_of_bits(rest) * 0x1p112f;
    uint32_t bits = aicf_bits_of_f32(wide);
    return aicf_f32_of_bits(sign | (wide >= 65536.0f ? bits | 0x7f800000 : bits));
}

static inline aicf_f16
aicf_f16_of_f32(float x)
{
    uint32_t bits = aicf_bits_of_f32(x);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) {
        return (aicf_f16){(uint16_t)(sign | 0x7e00)};
    }
    if (rest >= 0x477ff000) { /* rounds to 65536 or more */
        return (aicf_f16){(uint16_t)(sign | 0x7c00)};
    }
    if (rest < 0x38800000) { /* subnormal: one ulp of 0.5 is one ulp of the result */
        float shifted = aicf_f32_of_bits(rest) + 0.5f;
        return (aicf_f16){(uint16_t)(sign | (aicf_bits_of_f32(shifted) - 0x3f000000))};
    }
    uint32_t rounded = rest - 0x38000000 + 0xfff + (rest >> 13 & 1);
    return (aicf_f16){(uint16_t)(sign | rounded >> 13)};
}

#endif
