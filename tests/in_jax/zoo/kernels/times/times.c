/* out = a * b. */
#include <aicf_ops/times.h>

#define TIMES(T, S)                                                    \
    aicf_status jz_cpu_times_loop_##S(                                 \
        const T *a, const T *b, T *out, int64_t A, aicf_stream stream) \
    {                                                                  \
        (void)stream;                                                  \
        for (int64_t i = 0; i < A; i++) {                              \
            out[i] = a[i] * b[i];                                      \
        }                                                              \
        return aicf_ok();                                              \
    }
TIMES(float, f32)
TIMES(double, f64)
