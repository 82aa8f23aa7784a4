/* Integers of the table as CPU kernels compute with them: without a sign, in 32 bits or 64, so that
   they wrap as two's complement does and nothing overflows. */
#ifndef AICF_CPU_WHOLE_H
#define AICF_CPU_WHOLE_H

#include <aicf/cpu/real.h>

/* Expands X(C type, suffix) for each integer dtype. */
#define AICF_WHOLES(X) \
    X(int8_t, i8)      \
    X(uint8_t, u8)     \
    X(int16_t, i16)    \
    X(int32_t, i32)    \
    X(int64_t, i64)

typedef uint32_t aicf_acc_i8;
typedef uint32_t aicf_acc_u8;
typedef uint32_t aicf_acc_i16;
typedef uint32_t aicf_acc_i32;
typedef uint64_t aicf_acc_i64;

#define AICF_WHOLE(T, s)                                  \
    AICF_INLINE aicf_acc_##s aicf_load_##s(const T *p)    \
    {                                                     \
        return (aicf_acc_##s) * p;                        \
    }                                                     \
    AICF_INLINE void aicf_store_##s(T *p, aicf_acc_##s x) \
    {                                                     \
        *p = (T)x;                                        \
    }

AICF_WHOLES(AICF_WHOLE)

#endif
