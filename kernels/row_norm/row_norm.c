/* layer_norm and rms_norm on the CPU: dense rows, f16 and bf16 computed in f32. out may be exactly
   x. Bound by bytes.

   The variance is that of the deviations from the mean, and the mean is corrected by their sum, so
   that a row far from 0 keeps its digits. Where squares overflow, the row is taken again scaled
   down, which is exact. */
#define HEADER(op) <aicf_ops/op.h>
#include HEADER(AICF_OP)

#include <aicf/cpu/moments.h>

enum { layer_norm_centred = 1, rms_norm_centred = 0 };
#define CENTRED AICF_JOIN(AICF_OP, centred)

typedef struct row_norm {
    const aicf_converter *dtype;
    const char *x, *weight, *bias; /* weight and bias may be NULL */
    char *out;
    void *mean, *rstd; /* what is computed in, or NULL */
    int64_t N;
    double eps;
} row_norm;

/* Element x becomes (x * scale - mean - shift) * factor. `mean` is as exact as what is computed in,
   `shift` what it lacks. */
typedef struct row_terms {
    double scale, mean, shift, factor;
} row_terms;

/* Of the sums of the deviations from `mean` and of their squares. hypot: eps times the square of a
   small scale would be 0, and so the variance of equal numbers. */
AICF_ONCE row_terms
row_terms_of(double scale, double mean, aicf_sums sums, int64_t n, double eps)
{
    const double shift = CENTRED ? sums.first / (double)n : 0;
    const double var = sums.second / (double)n - shift * shift;
    return (row_terms){scale, mean, shift, 1 / hypot(sqrt(var), sqrt(eps) * scale)};
}

#define S f32
#define REAL float
#define LARGEST FLT_MAX
#define SMALL 0x1p-96f /* squares of what was scaled by this are finite, and so are their sums */
#include "row_norm_of.h"
#undef SMALL
#undef LARGEST
#undef REAL
#undef S

#define S f64
#define REAL double
#define LARGEST DBL_MAX
#define SMALL 0x1p-768
#include "row_norm_of.h"
#undef SMALL
#undef LARGEST
#undef REAL
#undef S

#define RUN(s, acc, p, L)                                                    \
    (p).dtype = &aicf_converter_##s;                                         \
    aicf_parallel_for((L), moments_grain((p).N), row_norm_rows_##acc, &(p)); \
    return aicf_ok()

#define layer_norm_launcher(T, A, s, acc)                                                \
    aicf_status aicf_cpu_layer_norm_loop_##s(                                            \
        const T *x, const T *weight, const T *bias, T *out, A *mean, A *rstd, int64_t L, \
        int64_t N, double eps, aicf_stream stream)                                       \
    {                                                                                    \
        row_norm p = {NULL,                                                              \
                      (const char *)x,                                                   \
                      (const char *)weight,                                              \
                      (const char *)bias,                                                \
                      (char *)out,                                                       \
                      mean,                                                              \
                      rstd,                                                              \
                      N,                                                                 \
                      eps};                                                              \
        (void)stream;                                                                    \
        RUN(s, acc, p, L);                                                               \
    }

#define rms_norm_launcher(T, A, s, acc)                                                          \
    aicf_status aicf_cpu_rms_norm_loop_##s(                                                      \
        const T *x, const T *weight, T *out, A *rstd, int64_t L, int64_t N, double eps,          \
        aicf_stream stream)                                                                      \
    {                                                                                            \
        row_norm p = {                                                                           \
            NULL, (const char *)x, (const char *)weight, NULL, (char *)out, NULL, rstd, N, eps}; \
        (void)stream;                                                                            \
        RUN(s, acc, p, L);                                                                       \
    }

AICF_JOIN(AICF_OP, launcher)(float, float, f32, f32)
    AICF_JOIN(AICF_OP, launcher)(aicf_f16, float, f16, f32)
        AICF_JOIN(AICF_OP, launcher)(aicf_bf16, float, bf16, f32)
            AICF_JOIN(AICF_OP, launcher)(double, double, f64, f64)
