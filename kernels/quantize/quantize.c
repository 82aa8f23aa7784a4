/* quantize on the CPU: out = clamp(round(x * (1 / scale)) + zero), half to even, as torch's
   fake_quantize does it; f16 and bf16 computed in f32, f64 in f64. NaN becomes zero, infinities the
   ends of the range; a zero outside of the range is the end that is next to it. Dense. Bound by
   bytes. */
#include <aicf_ops/quantize.h>

#include <aicf/cpu/affine.h>

/* Added to a small number and taken off again, it rounds to an integer, half to even. */
#define ROUND_f32 0x1.8p23f
#define ROUND_f16 ROUND_f32
#define ROUND_bf16 ROUND_f32
#define ROUND_f64 0x1.8p52

AICF_INLINE int32_t
within(int32_t x, int32_t least, int32_t most)
{
    return x < least ? least : x > most ? most : x;
}

#define QUANTIZE(T, s, Q, q, LEAST, MOST)                                                        \
    AICF_INLINE void steps_##s##_##q(                                                            \
        const T *x, Q *out, int64_t n, const float *scale, const int32_t *zero, int64_t step)    \
    {                                                                                            \
        AICF_INDEPENDENT                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                        \
            const int32_t z = zero ? within(zero[i * step], LEAST, MOST) : 0;                    \
            const aicf_acc_##s low = (aicf_acc_##s)(LEAST - z), high = (aicf_acc_##s)(MOST - z); \
            const aicf_acc_##s y = aicf_load_##s(x + i) * (1 / (aicf_acc_##s)scale[i * step]);   \
            const aicf_acc_##s known = y != y ? 0 : y;                                           \
            const aicf_acc_##s held = known < low ? low : known > high ? high : known;           \
            out[i] = (Q)((int32_t)((held + ROUND_##s) - ROUND_##s) + z);                         \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    AICF_CLONES static void line_##s##_##q(                                                      \
        const void *x, void *out, int64_t first, int64_t n, const float *scale,                  \
        const int32_t *zero, int64_t step)                                                       \
    {                                                                                            \
        const T *from = (const T *)x + first;                                                    \
        Q *to = (Q *)out + first;                                                                \
        if (step == 0) {                                                                         \
            const float one = *scale;                                                            \
            const int32_t z = zero ? *zero : 0;                                                  \
            steps_##s##_##q(from, to, n, &one, &z, 0);                                           \
        } else if (zero) {                                                                       \
            steps_##s##_##q(from, to, n, scale, zero, 1);                                        \
        } else {                                                                                 \
            steps_##s##_##q(from, to, n, scale, NULL, 1);                                        \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    aicf_status aicf_cpu_quantize_loop_##s##_##q(                                                \
        const T *x, const float *scale, const int32_t *zero, Q *out, int64_t L, int64_t C,       \
        int64_t R, int64_t S, int64_t axis, aicf_stream stream)                                  \
    {                                                                                            \
        (void)axis, (void)stream;                                                                \
        return aicf_affine_run(x, out, scale, zero, L, C, R, S, line_##s##_##q);                 \
    }

#define QUANTIZE_BOTH(T, s)               \
    QUANTIZE(T, s, int8_t, i8, -128, 127) \
    QUANTIZE(T, s, uint8_t, u8, 0, 255)

AICF_REALS(QUANTIZE_BOTH)
