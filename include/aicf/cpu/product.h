/* Products of matrices on the CPU: out = act(alpha * a @ b + beta * c + bias), batches broadcast;
   for gemm, and for kernels that begin or end with one. One copy for all modules: libaicf's.

   a, b, c and out are views whose last two dims are the matrix and whose earlier dims are the
   batch, the same for all, with stride 0 where one is broadcast. Any strides will do; c is read
   only where beta is not 0, and may be exactly out. f16 and bf16 are computed in f32 and rounded
   once. The bits do not depend on the number of threads. Bound by flops. */
#ifndef AICF_CPU_PRODUCT_H
#define AICF_CPU_PRODUCT_H

#include <aicf/cpu/convert.h>

typedef enum aicf_product_act {
    AICF_PRODUCT_NONE,
    AICF_PRODUCT_RELU,
    AICF_PRODUCT_GELU
} aicf_product_act;

typedef struct aicf_product {
    const aicf_converter *dtype;
    const aicf_view *a, *b, *c, *out; /* c NULL: none */
    const void *bias;                 /* a row, NULL: none */
    int64_t m, n, k;
    double alpha, beta;
    aicf_product_act act;
    int64_t tiles_m, tiles_n; /* of each out matrix, while it is computed */
} aicf_product;

/* Computed in that type. `blas`: by OpenBLAS where it is there and takes these operands, which are
   of that type too. */
void aicf_product_f32(aicf_product p, bool blas);
void aicf_product_f64(aicf_product p, bool blas);

#endif
