/* out = act(alpha * lr * x + bias), each row padded with zeros; mean and count of each row of x.
   Both kernels compute the same; the second shows that it has its workspace by writing all of it.
 */
#include <string.h>

#include "aicf_ops/every.h"

typedef struct every {
    int64_t M, N, P, before;
    double factor;
    bool relu;
} every;

static every
every_of(
    int64_t M, int64_t N, int64_t P, const int64_t pad[2], zoo_every_act act, double alpha,
    int64_t times, bool twice, double lr)
{
    double factor = alpha * lr * (double)times * (twice ? 2 : 1);
    return (every){M, N, P, pad[0], factor, act == ZOO_EVERY_ACT_RELU};
}

#define EVERY(T)                                                                    \
    static void every_##T(                                                          \
        const every *e, const T *x, const T *bias, T *out, T *mean, int64_t *count) \
    {                                                                               \
        for (int64_t i = 0; i < e->M; i++) {                                        \
            double sum = 0;                                                         \
            for (int64_t j = 0; j < e->P; j++) {                                    \
                int64_t k = j - e->before;                                          \
                bool inside = k >= 0 && k < e->N;                                   \
                double v = inside ? e->factor * (double)x[i * e->N + k] : 0;        \
                v += inside && bias ? (double)bias[k] : 0;                          \
                out[i * e->P + j] = (T)(e->relu && v < 0 ? 0 : v);                  \
                sum += inside ? (double)x[i * e->N + k] : 0;                        \
            }                                                                       \
            if (mean) {                                                             \
                mean[i] = (T)(sum / (double)e->N);                                  \
            }                                                                       \
            if (count) {                                                            \
                count[i] = e->N;                                                    \
            }                                                                       \
        }                                                                           \
    }
EVERY(float)
EVERY(double)

#define LR(T) (lr->data ? (double)*(const T *)lr->data : lr->host.real)

#define LAUNCHERS(T, S)                                                                          \
    aicf_status zoo_cpu_every_rows_##S(                                                          \
        const T *x, const T *bias, T *out, T *mean, int64_t *count, int64_t M, int64_t N,        \
        int64_t P, const aicf_ints *axes, int64_t axis, const int64_t pad[2], zoo_every_act act, \
        double alpha, int64_t times, bool twice, const aicf_scalar *lr, aicf_stream stream)      \
    {                                                                                            \
        (void)axes, (void)axis, (void)stream;                                                    \
        every e = every_of(M, N, P, pad, act, alpha, times, twice, LR(T));                       \
        every_##T(&e, x, bias, out, mean, count);                                                \
        return aicf_ok();                                                                        \
    }                                                                                            \
    aicf_status zoo_cpu_every_spare_##S(                                                         \
        const T *x, const T *bias, T *out, T *mean, int64_t *count, int64_t M, int64_t N,        \
        int64_t P, const aicf_ints *axes, int64_t axis, const int64_t pad[2], zoo_every_act act, \
        double alpha, int64_t times, bool twice, const aicf_scalar *lr, void *workspace,         \
        aicf_stream stream)                                                                      \
    {                                                                                            \
        memset(workspace, 0xff, (size_t)(8 * N));                                                \
        return zoo_cpu_every_rows_##S(                                                           \
            x, bias, out, mean, count, M, N, P, axes, axis, pad, act, alpha, times, twice, lr,   \
            stream);                                                                             \
    }
LAUNCHERS(float, f32)
LAUNCHERS(double, f64)
