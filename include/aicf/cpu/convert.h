/* Lines of any dtype, read into and written from what they are computed in. For kernels too large
   to be compiled once a dtype: they are compiled for f32, f64 and, of integers and bools, i64, and
   come through here for the rest. The converters are libaicf's, one copy for all modules. */
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

extern const aicf_converter aicf_converter_f32, aicf_converter_f16, aicf_converter_bf16,
    aicf_converter_f64;
extern const aicf_converter aicf_converter_i8, aicf_converter_u8, aicf_converter_i16,
    aicf_converter_i32, aicf_converter_i64, aicf_converter_bool;

#endif
