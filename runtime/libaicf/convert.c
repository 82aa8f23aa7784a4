/* The converters of CPU kernels. Compiled as kernels are: for the baseline and for x86-64-v3. */
#include <aicf/cpu/convert.h>

#define INTEGER(T, s)                                \
    typedef int64_t aicf_acc_##s;                    \
                                                     \
    AICF_INLINE int64_t aicf_load_##s(const T *p)    \
    {                                                \
        return *p;                                   \
    }                                                \
                                                     \
    AICF_INLINE void aicf_store_##s(T *p, int64_t x) \
    {                                                \
        *p = (T)x;                                   \
    }

INTEGER(int8_t, i8)
INTEGER(uint8_t, u8)
INTEGER(int16_t, i16)
INTEGER(int32_t, i32)
INTEGER(int64_t, i64)

typedef int64_t aicf_acc_bool;

AICF_INLINE int64_t
aicf_load_bool(const aicf_bool *p)
{
    return p->byte != 0;
}

AICF_INLINE void
aicf_store_bool(aicf_bool *p, int64_t x)
{
    p->byte = x != 0;
}

#define CONVERTER(T, s)                                                                         \
    AICF_CLONES static void load_line_##s(const void *from, int64_t step, int64_t n, void *to)  \
    {                                                                                           \
        const T *x = (const T *)from;                                                           \
        aicf_acc_##s *line = (aicf_acc_##s *)to;                                                \
        if (step == 1) {                                                                        \
            AICF_INDEPENDENT                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                   \
                line[i] = aicf_load_##s(x + i);                                                 \
            }                                                                                   \
            return;                                                                             \
        }                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                       \
            line[i] = aicf_load_##s(x + i * step);                                              \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    AICF_CLONES static void store_line_##s(const void *from, int64_t n, void *to, int64_t step) \
    {                                                                                           \
        const aicf_acc_##s *line = (const aicf_acc_##s *)from;                                  \
        T *out = (T *)to;                                                                       \
        if (step == 1) {                                                                        \
            AICF_INDEPENDENT                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                   \
                aicf_store_##s(out + i, line[i]);                                               \
            }                                                                                   \
            return;                                                                             \
        }                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                       \
            aicf_store_##s(out + i * step, line[i]);                                            \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    const aicf_converter aicf_converter_##s = {                                                 \
        sizeof(T), sizeof(T) == sizeof(aicf_acc_##s), load_line_##s, store_line_##s};

AICF_REALS(CONVERTER)
CONVERTER(int8_t, i8)
CONVERTER(uint8_t, u8)
CONVERTER(int16_t, i16)
CONVERTER(int32_t, i32)
CONVERTER(int64_t, i64)
CONVERTER(aicf_bool, bool)
