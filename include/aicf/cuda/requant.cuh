// The epilogue of aicf/requant.h on CUDA: from exact sums to outs. Each step is one operation of
// its own, in the order of the contract, so that the bits are those of the CPU.
#ifndef AICF_CUDA_REQUANT_CUH
#define AICF_CUDA_REQUANT_CUH

#include <aicf/requant.h>

#include <aicf/cuda/numeric.cuh>

namespace aicf::i8 {

// An out on its way: the bits of an integer or of a float, 32 of them.
using word = uint32_t;

// What is the same for all outs.
struct epilogue {
    int zero, low, high;
    float zero_y;
    bool scaled, relu, real, has_zero;

    __device__ explicit epilogue(const aicf_requant &r)
        : zero(r.out_zero ? *r.out_zero : 0), low(INT32_MIN), high(INT32_MAX),
          zero_y(static_cast<float>(zero)), scaled(r.field_scale || r.factor_scale || r.out_scale),
          relu(r.relu), real(r.kind != AICF_I32 && r.kind != AICF_I8 && r.kind != AICF_U8),
          has_zero(r.out_zero != nullptr)
    {
        if (r.kind == AICF_I8) {
            low = -128;
            high = 127;
        } else if (r.kind == AICF_U8) {
            low = 0;
            high = 255;
        }
    }
};

// What is the same for a column. `shift` comes off its sums, wrapping: the field's zero times the
// sum of the factors.
struct column {
    int shift, bias;
    float scale;
};

__device__ inline float
scale_of(const aicf_requant &r, int64_t n)
{
    float scale = r.field_scale ? *r.field_scale : 1.0f;
    if (r.factor_scale) {
        scale = __fmul_rn(scale, r.factor_scale[r.scales == 1 ? 0 : n]);
    }
    return r.out_scale ? __fmul_rn(scale, __fdiv_rn(1.0f, *r.out_scale)) : scale;
}

__device__ inline column
column_of(const aicf_requant &r, int64_t n, int shift)
{
    return {shift, r.bias ? r.bias[n] : 0, scale_of(r, n)};
}

// The field's zero, within its range.
__device__ inline int
zero_of(const aicf_requant &r)
{
    int least = r.signed_in ? -128 : 0;
    return r.field_zero ? min(max(*r.field_zero, least), least + 255) : 0;
}

__device__ inline int
subtract_wrapping(int a, int b)
{
    return static_cast<int>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}

__device__ inline int
add_saturating(int a, int b)
{
    int sum = static_cast<int>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
    return ((a ^ sum) & (b ^ sum)) < 0 ? (a < 0 ? INT32_MIN : INT32_MAX) : sum;
}

__device__ inline word
finish(const epilogue &e, const column &c, int sum)
{
    int q = add_saturating(subtract_wrapping(sum, c.shift), c.bias);
    if (e.real) {
        float y = e.scaled ? __fmul_rn(static_cast<float>(q), c.scale) : static_cast<float>(q);
        y = e.relu && y <= 0.0f ? 0.0f : y; // NaN passes
        return __float_as_uint(e.has_zero ? __fadd_rn(y, e.zero_y) : y);
    }
    if (e.scaled) {
        q = __float2int_rn(
            __fmul_rn(static_cast<float>(q), c.scale)); // NaN is 0, infinities the ends
    }
    q = e.relu ? max(q, 0) : q;
    return static_cast<word>(min(max(add_saturating(q, e.zero), e.low), e.high));
}

inline int
bytes_of(aicf_dtype kind)
{
    return kind == AICF_I32 || kind == AICF_F32 ? 4 : kind == AICF_I8 || kind == AICF_U8 ? 1 : 2;
}

// One out, `at` elements from `out`.
__device__ inline void
store(aicf_dtype kind, void *out, int64_t at, word x)
{
    switch (kind) {
    case AICF_I8:
    case AICF_U8: static_cast<uint8_t *>(out)[at] = static_cast<uint8_t>(x); break;
    case AICF_F16: static_cast<__half *>(out)[at] = of_f32<__half>(__uint_as_float(x)); break;
    case AICF_BF16:
        static_cast<__nv_bfloat16 *>(out)[at] = of_f32<__nv_bfloat16>(__uint_as_float(x));
        break;
    default: static_cast<uint32_t *>(out)[at] = x; break;
    }
}

// Eight neighbours, on a multiple of their bytes or of 16.
__device__ inline void
store_eight(aicf_dtype kind, void *out, int64_t at, const word (&x)[8])
{
    float y[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        y[i] = __uint_as_float(x[i]);
    }
    switch (kind) {
    case AICF_I8:
    case AICF_U8: {
        uint2 bytes;
        bytes.x =
            __byte_perm(__byte_perm(x[0], x[1], 0x0040), __byte_perm(x[2], x[3], 0x0040), 0x5410);
        bytes.y =
            __byte_perm(__byte_perm(x[4], x[5], 0x0040), __byte_perm(x[6], x[7], 0x0040), 0x5410);
        *reinterpret_cast<uint2 *>(static_cast<uint8_t *>(out) + at) = bytes;
        break;
    }
    case AICF_F16: store_words(static_cast<__half *>(out) + at, repack(y, __half{})); break;
    case AICF_BF16:
        store_words(static_cast<__nv_bfloat16 *>(out) + at, repack(y, __nv_bfloat16{}));
        break;
    default: {
        uint32_t *to = static_cast<uint32_t *>(out) + at;
        store_words(to, words{{x[0], x[1], x[2], x[3]}});
        store_words(to + 4, words{{x[4], x[5], x[6], x[7]}});
        break;
    }
    }
}

} // namespace aicf::i8

#endif
