/* twofold = 2 * x, squared = x * x. */
#include <aicf_ops/both.h>

#define BOTH(T, S)                                                         \
    aicf_status jz_cpu_both_loop_##S(                                      \
        const T *x, T *twofold, T *squared, int64_t A, aicf_stream stream) \
    {                                                                      \
        (void)stream;                                                      \
        for (int64_t i = 0; i < A; i++) {                                  \
            twofold[i] = 2 * x[i];                                         \
            squared[i] = x[i] * x[i];                                      \
        }                                                                  \
        return aicf_ok();                                                  \
    }
BOTH(float, f32)
BOTH(double, f64)
