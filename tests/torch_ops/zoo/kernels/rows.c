/* Ops on the rows of a matrix, in f32 and f64. */
#include <math.h>
#include <string.h>

#include "aicf_ops/argmost.h"
#include "aicf_ops/crop.h"
#include "aicf_ops/norm.h"
#include "aicf_ops/norm_bwd.h"
#include "aicf_ops/pad.h"
#include "aicf_ops/spread.h"
#include "aicf_ops/total.h"

/* gx = rstd * (w * gy - x * rstd**2 * mean(w * gy * x)); gw = sum of gy * x * rstd over the rows.
 */
#define NORM(T, S)                                                                                 \
    aicf_status kinds_cpu_norm_rows_##S(                                                           \
        const T *x, const T *weight, T *out, T *rstd, int64_t *length, int64_t M, int64_t N,       \
        double eps, aicf_stream stream)                                                            \
    {                                                                                              \
        (void)stream;                                                                              \
        for (int64_t i = 0; i < M; i++) {                                                          \
            double sum = 0;                                                                        \
            for (int64_t j = 0; j < N; j++) {                                                      \
                sum += (double)x[i * N + j] * (double)x[i * N + j];                                \
            }                                                                                      \
            double r = 1 / sqrt(sum / (double)N + eps);                                            \
            for (int64_t j = 0; j < N; j++) {                                                      \
                out[i * N + j] = (T)(r * (double)x[i * N + j] * (weight ? (double)weight[j] : 1)); \
            }                                                                                      \
            if (rstd) {                                                                            \
                rstd[i] = (T)r;                                                                    \
            }                                                                                      \
            if (length) {                                                                          \
                length[i] = N;                                                                     \
            }                                                                                      \
        }                                                                                          \
        return aicf_ok();                                                                          \
    }                                                                                              \
    static void norm_row_##S(                                                                      \
        const T *gy, const T *x, double r, const T *weight, T *gx, T *gw, int64_t N)               \
    {                                                                                              \
        double mean = 0;                                                                           \
        for (int64_t j = 0; j < N; j++) {                                                          \
            mean += (double)gy[j] * (weight ? (double)weight[j] : 1) * (double)x[j] / (double)N;   \
            if (gw) {                                                                              \
                gw[j] += (T)((double)gy[j] * (double)x[j] * r);                                    \
            }                                                                                      \
        }                                                                                          \
        for (int64_t j = 0; gx && j < N; j++) {                                                    \
            double g = (double)gy[j] * (weight ? (double)weight[j] : 1);                           \
            gx[j] = (T)(r * (g - (double)x[j] * r * r * mean));                                    \
        }                                                                                          \
    }                                                                                              \
    aicf_status kinds_cpu_norm_bwd_rows_##S(                                                       \
        const T *gy, const T *x, const T *rstd, const T *weight, T *gx, T *gw, int64_t M,          \
        int64_t N, aicf_stream stream)                                                             \
    {                                                                                              \
        (void)stream;                                                                              \
        if (gw) {                                                                                  \
            memset(gw, 0, (size_t)N * sizeof *gw);                                                 \
        }                                                                                          \
        for (int64_t i = 0; i < M; i++) {                                                          \
            norm_row_##S(                                                                          \
                gy + i * N, x + i * N, (double)rstd[i], weight, gx ? gx + i * N : NULL, gw, N);    \
        }                                                                                          \
        return aicf_ok();                                                                          \
    }
NORM(float, f32)
NORM(double, f64)

/* The index of an element of the sum in `x`, and in the out. */
typedef struct place {
    int64_t in, out;
} place;

static place
place_of(const aicf_view *x, const aicf_ints *axes, int64_t k)
{
    place p = {0, 0};
    for (int64_t d = x->rank - 1, below = 1; d >= 0; d--) {
        bool gone = false;
        for (int64_t a = 0; a < axes->count; a++) {
            gone = gone || axes->values[a] == d;
        }
        p.in += k % x->sizes[d] * x->strides[d];
        p.out += gone ? 0 : k % x->sizes[d] * below;
        below *= gone ? 1 : x->sizes[d];
        k /= x->sizes[d];
    }
    return p;
}

static int64_t
outs_of(const aicf_view *x, const aicf_ints *axes)
{
    int64_t count = 1;
    for (int64_t d = 0; d < x->rank; d++) {
        bool gone = false;
        for (int64_t a = 0; a < axes->count; a++) {
            gone = gone || axes->values[a] == d;
        }
        count *= gone ? 1 : x->sizes[d];
    }
    return count;
}

#define ROWS(T, S)                                                                  \
    aicf_status kinds_cpu_argmost_rows_##S(                                         \
        const T *x, int64_t *where, int64_t M, int64_t N, aicf_stream stream)       \
    {                                                                               \
        (void)stream;                                                               \
        for (int64_t i = 0; i < M; i++) {                                           \
            where[i] = 0;                                                           \
            for (int64_t j = 1; j < N; j++) {                                       \
                where[i] = x[i * N + j] > x[i * N + where[i]] ? j : where[i];       \
            }                                                                       \
        }                                                                           \
        return aicf_ok();                                                           \
    }                                                                               \
    aicf_status kinds_cpu_pad_rows_##S(                                             \
        const T *x, T *out, int64_t M, int64_t N, int64_t P, const int64_t by[2],   \
        aicf_stream stream)                                                         \
    {                                                                               \
        (void)stream;                                                               \
        memset(out, 0, (size_t)(M * P) * sizeof *out);                              \
        for (int64_t i = 0; i < M; i++) {                                           \
            memcpy(out + i * P + by[0], x + i * N, (size_t)N * sizeof *out);        \
        }                                                                           \
        return aicf_ok();                                                           \
    }                                                                               \
    aicf_status kinds_cpu_crop_rows_##S(                                            \
        const T *x, T *out, int64_t M, int64_t P, int64_t N, const int64_t by[2],   \
        aicf_stream stream)                                                         \
    {                                                                               \
        (void)stream;                                                               \
        for (int64_t i = 0; i < M; i++) {                                           \
            memcpy(out + i * N, x + i * P + by[0], (size_t)N * sizeof *out);        \
        }                                                                           \
        return aicf_ok();                                                           \
    }                                                                               \
    aicf_status kinds_cpu_spread_rows_##S(                                          \
        const T *x, T *out, int64_t N, int64_t H, aicf_stream stream)               \
    {                                                                               \
        (void)stream;                                                               \
        for (int64_t i = 0; i < H; i++) {                                           \
            memcpy(out + i * N, x, (size_t)N * sizeof *out);                        \
        }                                                                           \
        return aicf_ok();                                                           \
    }                                                                               \
    aicf_status kinds_cpu_total_loop_##S(                                           \
        const aicf_view *x, T *out, int64_t A, const aicf_ints *axes, bool keepdim, \
        aicf_stream stream)                                                         \
    {                                                                               \
        (void)keepdim, (void)stream;                                                \
        memset(out, 0, (size_t)outs_of(x, axes) * sizeof *out);                     \
        for (int64_t k = 0; k < A; k++) {                                           \
            place p = place_of(x, axes, k);                                         \
            out[p.out] += ((const T *)x->data)[p.in];                               \
        }                                                                           \
        return aicf_ok();                                                           \
    }
ROWS(float, f32)
ROWS(double, f64)
