/* out = x in another dtype, as C converts. */
#include <aicf_ops/cast.h>

#define CAST(T, S, U, V)                                                                      \
    aicf_status jz_cpu_cast_loop_##S##_##V(const T *x, U *out, int64_t A, aicf_stream stream) \
    {                                                                                         \
        (void)stream;                                                                         \
        for (int64_t i = 0; i < A; i++) {                                                     \
            out[i] = (U)x[i];                                                                 \
        }                                                                                     \
        return aicf_ok();                                                                     \
    }
CAST(float, f32, float, f32)
CAST(float, f32, double, f64)
CAST(double, f64, float, f32)
CAST(double, f64, double, f64)
