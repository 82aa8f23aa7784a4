/* The converters of CPU kernels. Compiled as kernels are: for the baseline and for x86-64-v3. */
#include <aicf/cpu/convert.h>

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
