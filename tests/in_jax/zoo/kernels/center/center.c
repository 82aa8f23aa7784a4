/* out = (x - mean) * weight, row by row. */
#include <aicf_ops/center.h>

#define CENTER(T, S)                                                                            \
    aicf_status jz_cpu_center_loop_##S(                                                         \
        const T *x, const T *weight, T *out, T *mean, int64_t M, int64_t N, aicf_stream stream) \
    {                                                                                           \
        (void)stream;                                                                           \
        for (int64_t m = 0; m < M; m++) {                                                       \
            T sum = 0;                                                                          \
            for (int64_t n = 0; n < N; n++) {                                                   \
                sum += x[m * N + n];                                                            \
            }                                                                                   \
            sum /= (T)N;                                                                        \
            for (int64_t n = 0; n < N; n++) {                                                   \
                out[m * N + n] = (x[m * N + n] - sum) * (weight ? weight[n] : 1);               \
            }                                                                                   \
            if (mean) {                                                                         \
                mean[m] = sum;                                                                  \
            }                                                                                   \
        }                                                                                       \
        return aicf_ok();                                                                       \
    }
CENTER(float, f32)
CENTER(double, f64)
