/* counts += by where x > 0; total is their sum. */
#include <aicf_ops/count.h>

#define COUNT(T, S)                                                                    \
    aicf_status jz_cpu_count_loop_##S(                                                 \
        int64_t *counts, const T *x, int64_t *total, int64_t A, const aicf_scalar *by, \
        aicf_stream stream)                                                            \
    {                                                                                  \
        (void)stream;                                                                  \
        int64_t more = by->data ? *(const int64_t *)by->data : by->host.integer;       \
        *total = 0;                                                                    \
        for (int64_t i = 0; i < A; i++) {                                              \
            counts[i] += x[i] > 0 ? more : 0;                                          \
            *total += counts[i];                                                       \
        }                                                                              \
        return aicf_ok();                                                              \
    }
COUNT(float, f32)
COUNT(double, f64)
