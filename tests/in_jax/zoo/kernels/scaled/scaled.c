/* out = by * x. */
#include <aicf_ops/scaled.h>

#define SCALED(T, S)                                                  \
    aicf_status jz_cpu_scaled_loop_##S(                               \
        const T *x, T *out, int64_t A, double by, aicf_stream stream) \
    {                                                                 \
        (void)stream;                                                 \
        for (int64_t i = 0; i < A; i++) {                             \
            out[i] = (T)by * x[i];                                    \
        }                                                             \
        return aicf_ok();                                             \
    }
SCALED(float, f32)
SCALED(double, f64)
