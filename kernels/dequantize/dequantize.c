/* dequantize on the CPU: out = (x - zero) * scale. The difference is exact where x is an i32, else
   of f32 as the rest is; f64 is computed in f64. Dense. Bound by bytes. */
#include <aicf_ops/dequantize.h>

#include <aicf/cpu/affine.h>

#define BYTES(acc, x, zero) ((acc)(x) - (acc)(zero))
#define WIDE(acc, x, zero) ((acc)((int64_t)(x) - (zero)))

#define DEQUANTIZE(T, s, Q, q, DIFFERENCE)                                                    \
    AICF_INLINE void steps_##q##_##s(                                                         \
        const Q *x, T *out, int64_t n, const float *scale, const int32_t *zero, int64_t step) \
    {                                                                                         \
        AICF_INDEPENDENT                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                     \
            const aicf_acc_##s y = DIFFERENCE(aicf_acc_##s, x[i], zero ? zero[i * step] : 0); \
            aicf_store_##s(out + i, y * (aicf_acc_##s)scale[i * step]);                       \
        }                                                                                     \
    }                                                                                         \
                                                                                              \
    AICF_CLONES static void line_##q##_##s(                                                   \
        const void *x, void *out, int64_t first, int64_t n, const float *scale,               \
        const int32_t *zero, int64_t step)                                                    \
    {                                                                                         \
        const Q *from = (const Q *)x + first;                                                 \
        T *to = (T *)out + first;                                                             \
        if (step == 0) {                                                                      \
            const float one = *scale;                                                         \
            const int32_t z = zero ? *zero : 0;                                               \
            steps_##q##_##s(from, to, n, &one, &z, 0);                                        \
        } else if (zero) {                                                                    \
            steps_##q##_##s(from, to, n, scale, zero, 1);                                     \
        } else {                                                                              \
            steps_##q##_##s(from, to, n, scale, NULL, 1);                                     \
        }                                                                                     \
    }                                                                                         \
                                                                                              \
    aicf_status aicf_cpu_dequantize_loop_##q##_##s(                                           \
        const Q *x, const float *scale, const int32_t *zero, T *out, int64_t L, int64_t C,    \
        int64_t R, int64_t S, int64_t axis, aicf_stream stream)                               \
    {                                                                                         \
        (void)axis, (void)stream;                                                             \
        return aicf_affine_run(x, out, scale, zero, L, C, R, S, line_##q##_##s);              \
    }

#define DEQUANTIZE_ALL(T, s)             \
    DEQUANTIZE(T, s, int8_t, i8, BYTES)  \
    DEQUANTIZE(T, s, uint8_t, u8, BYTES) \
    DEQUANTIZE(T, s, int32_t, i32, WIDE)

AICF_REALS(DEQUANTIZE_ALL)
