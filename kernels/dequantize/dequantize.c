/* dequantize on the CPU: out = (x - zero) * scale. The difference is exact where x is an i32, else
   of f32 as the rest is; f64 is computed in f64, and 16-bit outs are rounded from f32 piece by
   piece. Dense. Bound by bytes. */
#include <aicf_ops/dequantize.h>

#include <aicf/cpu/affine.h>
#include <aicf/cpu/convert.h>

#define BYTES(acc, x, zero) ((acc)(x) - (acc)(zero))
#define WIDE(acc, x, zero) ((acc)((int64_t)(x) - (zero)))

enum { PIECE = 1024 }; /* elements that are rounded at once: they stay in the nearest cache */

#define LINE(T, s, Q, q, DIFFERENCE)                                                          \
    AICF_INLINE void steps_##q##_##s(                                                         \
        const Q *x, T *out, int64_t n, const float *scale, const int32_t *zero, int64_t step) \
    {                                                                                         \
        AICF_INDEPENDENT                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                     \
            const T y = DIFFERENCE(T, x[i], zero ? zero[i * step] : 0);                       \
            out[i] = y * (T)scale[i * step];                                                  \
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
    }

/* By the line of f32. */
#define ROUNDED(T, s, Q, q)                                                     \
    static void line_##q##_##s(                                                 \
        const void *x, void *out, int64_t first, int64_t n, const float *scale, \
        const int32_t *zero, int64_t step)                                      \
    {                                                                           \
        float piece[PIECE];                                                     \
        for (int64_t at = 0; at < n; at += PIECE) {                             \
            const int64_t m = n - at < PIECE ? n - at : PIECE;                  \
            line_##q##_f32(                                                     \
                (const Q *)x + first + at, piece, 0, m, scale + at * step,      \
                zero ? zero + at * step : NULL, step);                          \
            aicf_converter_##s.store(piece, m, (T *)out + first + at, 1);       \
        }                                                                       \
    }

#define LAUNCHER(T, s, Q, q)                                                               \
    aicf_status aicf_cpu_dequantize_loop_##q##_##s(                                        \
        const Q *x, const float *scale, const int32_t *zero, T *out, int64_t L, int64_t C, \
        int64_t R, int64_t S, int64_t axis, aicf_stream stream)                            \
    {                                                                                      \
        (void)axis, (void)stream;                                                          \
        return aicf_affine_run(x, out, scale, zero, L, C, R, S, line_##q##_##s);           \
    }

#define DEQUANTIZE(Q, q, DIFFERENCE)    \
    LINE(float, f32, Q, q, DIFFERENCE)  \
    LINE(double, f64, Q, q, DIFFERENCE) \
    ROUNDED(aicf_f16, f16, Q, q)        \
    ROUNDED(aicf_bf16, bf16, Q, q)      \
    LAUNCHER(float, f32, Q, q)          \
    LAUNCHER(double, f64, Q, q)         \
    LAUNCHER(aicf_f16, f16, Q, q)       \
    LAUNCHER(aicf_bf16, bf16, Q, q)

DEQUANTIZE(int8_t, i8, BYTES)
DEQUANTIZE(uint8_t, u8, BYTES)
DEQUANTIZE(int32_t, i32, WIDE)
