/* From the exact sums of products of 8-bit integers to outs: the epilogue that gemm_i8 and
   conv2d_i8 share, as CPU and CUDA kernels are told of it.

   In this order, each step rounded to f32, so that the bits are the same everywhere:

     q = sum + bias                      saturating in 32 bits
     y = act(q * scale)                  scale = field_scale * factor_scale * (1 / out_scale)
     out = round(y) + out_zero           of integers: half to even; each step saturates, NaN is 0
     out = y + out_zero                  of floats

   Without any of the scales integers are never made floats: y is act(q). */
#ifndef AICF_REQUANT_H
#define AICF_REQUANT_H

#include <stdbool.h>
#include <stddef.h>

#include <aicf/dtype.h>

/* What is absent is NULL. The field is the operand with a zero: gemm's a, a convolution's x. */
typedef struct aicf_requant {
    const float *field_scale, *factor_scale, *out_scale;
    const int32_t *field_zero, *bias, *out_zero;
    int64_t scales;  /* numbers of factor_scale: 1, or one for each column */
    bool relu;       /* the activation */
    bool signed_in;  /* the field is i8, else u8 */
    aicf_dtype kind; /* of out */
} aicf_requant;

static inline bool
aicf_requant_scales(const aicf_requant *r)
{
    return r->field_scale || r->factor_scale || r->out_scale;
}

/* Whether q is the out: nothing is left to do but to store it. */
static inline bool
aicf_requant_plain(const aicf_requant *r)
{
    return !aicf_requant_scales(r) && !r->bias && !r->out_zero && !r->relu && r->kind == AICF_I32;
}

/* Expands X(field, its C type, whether it is signed, out, its C type, its dtype) for each pair of
   dtypes. */
#define AICF_REQUANT_FIELDS(X, ...)  \
    X(i8, int8_t, true, __VA_ARGS__) \
    X(u8, uint8_t, false, __VA_ARGS__)
#define AICF_REQUANTS(X)                            \
    AICF_REQUANT_FIELDS(X, i32, int32_t, AICF_I32)  \
    AICF_REQUANT_FIELDS(X, i8, int8_t, AICF_I8)     \
    AICF_REQUANT_FIELDS(X, u8, uint8_t, AICF_U8)    \
    AICF_REQUANT_FIELDS(X, f32, float, AICF_F32)    \
    AICF_REQUANT_FIELDS(X, f16, aicf_f16, AICF_F16) \
    AICF_REQUANT_FIELDS(X, bf16, aicf_bf16, AICF_BF16)

#endif
