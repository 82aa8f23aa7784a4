/* batch_norm on the CPU: x N x C x R and out dense, or both channels last; f16 and bf16 are
   computed in f32. out may be exactly x. Bound by bytes.

   The variance, that of all elements of a channel, is taken from the deviations from the mean, and
   the mean corrected by their sum. */
#include <aicf_ops/batch_norm.h>

#include <aicf/cpu/channels.h>

#define BATCH_NORM(A, acc)                                                                     \
    static aicf_status batch_norm_run_##acc(                                                   \
        aicf_channels *p, const A *weight, const A *bias, A *mean_out, A *var_out, double eps, \
        void *workspace)                                                                       \
    {                                                                                          \
        channels_plan(p, workspace, sizeof(A));                                                \
        A *mean = (A *)p->mean, *shift = (A *)p->shift, *factor = (A *)p->factor;              \
        A *offset = (A *)p->offset;                                                            \
        const A *sums = (const A *)p->sums;                                                    \
        const double count = (double)(p->N * p->R);                                            \
        for (int64_t c = 0; c < p->C; c++) {                                                   \
            mean[c] = 0;                                                                       \
        }                                                                                      \
        channels_sum_##acc(p);                                                                 \
        for (int64_t c = 0; c < p->C; c++) {                                                   \
            mean[c] = (A)((double)sums[c] / count);                                            \
        }                                                                                      \
        channels_sum_##acc(p);                                                                 \
        for (int64_t c = 0; c < p->C; c++) {                                                   \
            const double first = (double)sums[c] / count;                                      \
            const double var = (double)sums[p->C + c] / count - first * first;                 \
            const double rstd = 1 / sqrt(var + eps);                                           \
            shift[c] = (A)first;                                                               \
            factor[c] = (A)(weight ? (double)weight[c] * rstd : rstd);                         \
            offset[c] = bias ? bias[c] : 0;                                                    \
            if (mean_out) {                                                                    \
                mean_out[c] = (A)((double)mean[c] + first);                                    \
            }                                                                                  \
            if (var_out) {                                                                     \
                var_out[c] = (A)var;                                                           \
            }                                                                                  \
        }                                                                                      \
        channels_write_##acc(p);                                                               \
        return aicf_ok();                                                                      \
    }

BATCH_NORM(float, f32)
BATCH_NORM(double, f64)

#define LAUNCHER(id, channels_last, T, A, s, acc)                                                  \
    aicf_status aicf_cpu_batch_norm_##id##_##s(                                                    \
        const T *x, const A *weight, const A *bias, T *out, A *mean, A *var, int64_t N, int64_t C, \
        int64_t R, double eps, void *workspace, aicf_stream stream)                                \
    {                                                                                              \
        aicf_channels p = channels_of(&aicf_converter_##s, NULL, x, out, N, C, R, channels_last);  \
        (void)stream;                                                                              \
        return batch_norm_run_##acc(&p, weight, bias, mean, var, eps, workspace);                  \
    }

CHANNELS_LAUNCHERS
