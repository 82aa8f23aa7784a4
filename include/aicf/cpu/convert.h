/* Lines of any float dtype, read into and written from what they are computed in. For kernels too
   large to be compiled once a dtype: they are compiled for f32 and f64, and come through here for
   the rest. Every function is compiled for the baseline and for x86-64-v3. */
#ifndef AICF_CPU_CONVERT_H
#define AICF_CPU_CONVERT_H

#include <aicf/cpu/real.h>

/* n elements, `step` of them apart, to n values side by side. */
typedef void aicf_load_fn(const void *from, int64_t step, int64_t n, void *to);
/* And back. */
typedef void aicf_store_fn(const void *from, int64_t n, void *to, int64_t step);

typedef struct aicf_converter {
    int64_t item; /* bytes of an element */
    bool plain;   /* elements are values: a line with step 1 needs no reading */
    aicf_load_fn *load;
    aicf_store_fn *store;
} aicf_converter;

#define AICF_CONVERTER(T, s)                                   \
    AICF_CLONES static void aicf_load_line_##s(                \
        const void *from, int64_t step, int64_t n, void *to)   \
    {                                                          \
        const T *x = (const T *)from;                          \
        aicf_acc_##s *line = (aicf_acc_##s *)to;               \
        if (step == 1) {                                       \
            AICF_INDEPENDENT                                   \
            for (int64_t i = 0; i < n; i++) {                  \
                line[i] = aicf_load_##s(x + i);                \
            }                                                  \
            return;                                            \
        }                                                      \
        for (int64_t i = 0; i < n; i++) {                      \
            line[i] = aicf_load_##s(x + i * step);             \
        }                                                      \
    }                                                          \
                                                               \
    AICF_CLONES static void aicf_store_line_##s(               \
        const void *from, int64_t n, void *to, int64_t step)   \
    {                                                          \
        const aicf_acc_##s *line = (const aicf_acc_##s *)from; \
        T *out = (T *)to;                                      \
        if (step == 1) {                                       \
            AICF_INDEPENDENT                                   \
            for (int64_t i = 0; i < n; i++) {                  \
                aicf_store_##s(out + i, line[i]);              \
            }                                                  \
            return;                                            \
        }                                                      \
        for (int64_t i = 0; i < n; i++) {                      \
            aicf_store_##s(out + i * step, line[i]);           \
        }                                                      \
    }                                                          \
                                                               \
    static const aicf_converter aicf_converter_##s = {         \
        sizeof(T), sizeof(T) == sizeof(aicf_acc_##s), aicf_load_line_##s, aicf_store_line_##s};

AICF_REALS(AICF_CONVERTER)

#endif
