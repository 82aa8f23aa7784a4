/* add on the CPU: out[i] = a[i] + b[i]. out may be a or b. */
#include <aicf_ops/add.h>

#define ADD(T, suffix)                                                 \
    aicf_status small_cpu_add_loop_##suffix(                           \
        const T *a, const T *b, T *out, int64_t A, aicf_stream stream) \
    {                                                                  \
        (void)stream;                                                  \
        for (int64_t i = 0; i < A; i++) {                              \
            out[i] = a[i] + b[i];                                      \
        }                                                              \
        return aicf_ok();                                              \
    }

ADD(float, f32)
ADD(double, f64)
