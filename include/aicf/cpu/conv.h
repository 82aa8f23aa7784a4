/* 2-D convolutions (see aicf/conv.h) on the CPU, as products of matrices, of which one is gathered
   from the field block by block. f16 and bf16 are computed in f32 and rounded once. The bits do not
   depend on the number of threads. Bound by flops. One copy for all modules: libaicf's. */
#ifndef AICF_CPU_CONV_H
#define AICF_CPU_CONV_H

#include <aicf/conv.h>
#include <aicf/cpu/convert.h>

/* Sums over channels and taps, or over images and places, in that type. `gemm`: "cblas_sgemm" or
   "cblas_dgemm", of OpenBLAS; NULL, or where there is none: without. */
void aicf_conv_over_taps_f32(const aicf_conv *c, const aicf_converter *dtype, const char *gemm);
void aicf_conv_over_taps_f64(const aicf_conv *c, const aicf_converter *dtype, const char *gemm);
void aicf_conv_over_places_f32(const aicf_conv *c, const aicf_converter *dtype, const char *gemm);
void aicf_conv_over_places_f64(const aicf_conv *c, const aicf_converter *dtype, const char *gemm);

#endif
