/* batch_norm_bwd on the CPU: gy and x N x C x R and gx dense, or all channels last; f16 and bf16
   are computed in f32. With rstd = (var + eps)**-0.5, h = (x - mean) * rstd and means over all
   elements of a channel,

       gx = weight * rstd * (gy - mean of gy - h * mean of gy * h), of given statistics
            weight * rstd * gy
       gw = sum of gy * h, gb = sum of gy

   gx may be exactly gy. Bound by bytes. */
#include <aicf_ops/batch_norm_bwd.h>

#include <aicf/cpu/channels.h>

#define BATCH_NORM_BWD(A, acc)                                                                    \
    static aicf_status batch_norm_bwd_run_##acc(                                                  \
        aicf_channels *p, const A *mean, const A *var, const A *weight, A *gw, A *gb, double eps, \
        bool training, void *workspace)                                                           \
    {                                                                                             \
        channels_plan(p, workspace, sizeof(A));                                                   \
        const bool summed = gw || gb || training;                                                 \
        const double count = (double)(p->N * p->R);                                               \
        for (int64_t c = 0; c < p->C; c++) {                                                      \
            ((A *)p->mean)[c] = mean[c];                                                          \
        }                                                                                         \
        if (summed) {                                                                             \
            channels_sum_##acc(p);                                                                \
        }                                                                                         \
        for (int64_t c = 0; c < p->C; c++) {                                                      \
            const double rstd = 1 / sqrt((double)var[c] + eps);                                   \
            const double first = summed ? (double)((const A *)p->sums)[c] : 0;                    \
            const double second = summed ? (double)((const A *)p->sums)[p->C + c] : 0;            \
            ((A *)p->shift)[c] = (A)(training ? first / count : 0);                               \
            ((A *)p->offset)[c] = (A)(training ? second * rstd * rstd / count : 0);               \
            ((A *)p->factor)[c] = (A)(weight ? (double)weight[c] * rstd : rstd);                  \
            if (gw) {                                                                             \
                gw[c] = (A)(second * rstd);                                                       \
            }                                                                                     \
            if (gb) {                                                                             \
                gb[c] = (A)first;                                                                 \
            }                                                                                     \
        }                                                                                         \
        if (!training) { /* x has no part in it, infinite or not */                               \
            p->x = p->gy;                                                                         \
            p->gy = NULL;                                                                         \
            memset(p->mean, 0, sizeof(A) * (size_t)p->C);                                         \
        }                                                                                         \
        if (p->out) {                                                                             \
            channels_write_##acc(p);                                                              \
        }                                                                                         \
        return aicf_ok();                                                                         \
    }

BATCH_NORM_BWD(float, f32)
BATCH_NORM_BWD(double, f64)

#define LAUNCHER(id, channels_last, T, A, s, acc)                                                 \
    aicf_status aicf_cpu_batch_norm_bwd_##id##_##s(                                               \
        const T *gy, const T *x, const A *mean, const A *var, const A *weight, T *gx, A *gw,      \
        A *gb, int64_t N, int64_t C, int64_t R, double eps, bool training, void *workspace,       \
        aicf_stream stream)                                                                       \
    {                                                                                             \
        aicf_channels p = channels_of(&aicf_converter_##s, gy, x, gx, N, C, R, channels_last);    \
        (void)stream;                                                                             \
        return batch_norm_bwd_run_##acc(&p, mean, var, weight, gw, gb, eps, training, workspace); \
    }

CHANNELS_LAUNCHERS
