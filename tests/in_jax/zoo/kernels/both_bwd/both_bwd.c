/* gx = 2 * g_twofold + 2 * x * g_squared. */
#include <aicf_ops/both_bwd.h>

#define BOTH_BWD(T, S)                                                                            \
    aicf_status jz_cpu_both_bwd_loop_##S(                                                         \
        const T *g_twofold, const T *g_squared, const T *x, T *gx, int64_t A, aicf_stream stream) \
    {                                                                                             \
        (void)stream;                                                                             \
        for (int64_t i = 0; i < A; i++) {                                                         \
            gx[i] = 2 * g_twofold[i] + 2 * x[i] * g_squared[i];                                   \
        }                                                                                         \
        return aicf_ok();                                                                         \
    }
BOTH_BWD(float, f32)
BOTH_BWD(double, f64)
