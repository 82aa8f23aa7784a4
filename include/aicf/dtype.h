/* The dtypes of the capability table, said once: name, DLPack code and bits, C type, numpy's type
   number (-1: none), array-interface typestr and buffer format. Everything that maps dtypes, opgen
   included, expands this list. */
#ifndef AICF_DTYPE_H
#define AICF_DTYPE_H

#include <stdint.h>

/* clang-format off */
#define AICF_DTYPES(X)                                       \
    /* enum  name  code bits ctype     numpy typestr format */ \
    X(BOOL, bool,  6,   8,  aicf_bool, 0,    "b1",   "?")    \
    X(I8,   i8,    0,   8,  int8_t,    1,    "i1",   "b")    \
    X(U8,   u8,    1,   8,  uint8_t,   2,    "u1",   "B")    \
    X(I16,  i16,   0,   16, int16_t,   3,    "i2",   "h")    \
    X(I32,  i32,   0,   32, int32_t,   5,    "i4",   "i")    \
    X(I64,  i64,   0,   64, int64_t,   7,    "i8",   "q")    \
    X(F16,  f16,   2,   16, aicf_f16,  23,   "f2",   "e")    \
    X(BF16, bf16,  4,   16, aicf_bf16, -1,   "",     "")     \
    X(F32,  f32,   2,   32, float,     11,   "f4",   "f")    \
    X(F64,  f64,   2,   64, double,    12,   "f8",   "d")
/* clang-format on */

/* DLPack's (code, bits, lanes) read as one little-endian word: a dtype check is one compare. */
typedef uint32_t aicf_dtype;
#define AICF_DTYPE(code, bits) ((aicf_dtype)(code) | (aicf_dtype)(bits) << 8 | (aicf_dtype)1 << 16)

enum {
#define AICF_DTYPE_ENUM(id, name, code, bits, ctype, numpy, typestr, format) \
    AICF_##id = AICF_DTYPE(code, bits),
    AICF_DTYPES(AICF_DTYPE_ENUM)
#undef AICF_DTYPE_ENUM
};

/* Any byte but 0 is true; a kernel writes 0 or 1. */
typedef struct aicf_bool {
    uint8_t byte;
} aicf_bool;

typedef struct aicf_f16 {
    uint16_t bits;
} aicf_f16;

typedef struct aicf_bf16 {
    uint16_t bits;
} aicf_bf16;

/* Bytes of one element. */
static inline int
aicf_dtype_size(aicf_dtype dtype)
{
    return (int)(dtype >> 11 & 31);
}

#endif
