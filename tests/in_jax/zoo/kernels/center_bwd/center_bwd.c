/* gx = gy * weight less its mean, row by row; gw = the sum of gy * (x - mean) over the rows. */
#include <aicf_ops/center_bwd.h>

#define CENTER_BWD(T, S)                                                                  \
    static void gx_##S(const T *gy, const T *weight, T *gx, int64_t M, int64_t N)         \
    {                                                                                     \
        for (int64_t m = 0; m < M; m++) {                                                 \
            T sum = 0;                                                                    \
            for (int64_t n = 0; n < N; n++) {                                             \
                gx[m * N + n] = gy[m * N + n] * (weight ? weight[n] : 1);                 \
                sum += gx[m * N + n];                                                     \
            }                                                                             \
            for (int64_t n = 0; n < N; n++) {                                             \
                gx[m * N + n] -= sum / (T)N;                                              \
            }                                                                             \
        }                                                                                 \
    }                                                                                     \
    aicf_status jz_cpu_center_bwd_loop_##S(                                               \
        const T *gy, const T *x, const T *mean, const T *weight, T *gx, T *gw, int64_t M, \
        int64_t N, aicf_stream stream)                                                    \
    {                                                                                     \
        (void)stream;                                                                     \
        if (gx) {                                                                         \
            gx_##S(gy, weight, gx, M, N);                                                 \
        }                                                                                 \
        for (int64_t n = 0; gw && n < N; n++) {                                           \
            gw[n] = 0;                                                                    \
            for (int64_t m = 0; m < M; m++) {                                             \
                gw[n] += gy[m * N + n] * (x[m * N + n] - mean[m]);                        \
            }                                                                             \
        }                                                                                 \
        return aicf_ok();                                                                 \
    }
CENTER_BWD(float, f32)
CENTER_BWD(double, f64)
