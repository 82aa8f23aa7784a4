/* out = x * x. */
#include <aicf_ops/square.h>

#define SQUARE(T, S)                                                                      \
    aicf_status jz_cpu_square_loop_##S(const T *x, T *out, int64_t A, aicf_stream stream) \
    {                                                                                     \
        (void)stream;                                                                     \
        for (int64_t i = 0; i < A; i++) {                                                 \
            out[i] = x[i] * x[i];                                                         \
        }                                                                                 \
        return aicf_ok();                                                                 \
    }
SQUARE(float, f32)
SQUARE(double, f64)
