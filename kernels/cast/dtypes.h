/* The dtypes that cast is from and to, but for f64, which the CPU alone has. */
#ifndef AICF_CAST_DTYPES_H
#define AICF_CAST_DTYPES_H

/* Expands X(C type, suffix) for each. */
#define AICF_CAST_FROM(X) \
    X(float, f32)         \
    X(aicf_f16, f16)      \
    X(aicf_bf16, bf16)    \
    X(int8_t, i8)         \
    X(uint8_t, u8)        \
    X(int16_t, i16)       \
    X(int32_t, i32)       \
    X(int64_t, i64)       \
    X(aicf_bool, bool)

/* Expands X(T, s, C type, suffix) for each. */
#define AICF_CAST_TO(X, T, s) \
    X(T, s, float, f32)       \
    X(T, s, aicf_f16, f16)    \
    X(T, s, aicf_bf16, bf16)  \
    X(T, s, int8_t, i8)       \
    X(T, s, uint8_t, u8)      \
    X(T, s, int16_t, i16)     \
    X(T, s, int32_t, i32)     \
    X(T, s, int64_t, i64)     \
    X(T, s, aicf_bool, bool)

#endif
