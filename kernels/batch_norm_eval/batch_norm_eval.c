/* batch_norm_eval on the CPU: x N x C x R and out dense, or both channels last; f16 and bf16 are
   computed in f32. out may be exactly x. Bound by bytes. */
#include <aicf_ops/batch_norm_eval.h>

#include <aicf/cpu/channels.h>

#define BATCH_NORM_EVAL(A, acc)                                                                    \
    static aicf_status batch_norm_eval_run_##acc(                                                  \
        aicf_channels *p, const A *mean, const A *var, const A *weight, const A *bias, double eps, \
        void *workspace)                                                                           \
    {                                                                                              \
        channels_plan(p, workspace, sizeof(A));                                                    \
        for (int64_t c = 0; c < p->C; c++) {                                                       \
            const double rstd = 1 / sqrt((double)var[c] + eps);                                    \
            ((A *)p->mean)[c] = mean[c];                                                           \
            ((A *)p->shift)[c] = 0;                                                                \
            ((A *)p->factor)[c] = (A)(weight ? (double)weight[c] * rstd : rstd);                   \
            ((A *)p->offset)[c] = bias ? bias[c] : 0;                                              \
        }                                                                                          \
        channels_write_##acc(p);                                                                   \
        return aicf_ok();                                                                          \
    }

BATCH_NORM_EVAL(float, f32)
BATCH_NORM_EVAL(double, f64)

#define LAUNCHER(id, channels_last, T, A, s, acc)                                                 \
    aicf_status aicf_cpu_batch_norm_eval_##id##_##s(                                              \
        const T *x, const A *mean, const A *var, const A *weight, const A *bias, T *out,          \
        int64_t N, int64_t C, int64_t R, double eps, void *workspace, aicf_stream stream)         \
    {                                                                                             \
        aicf_channels p = channels_of(&aicf_converter_##s, NULL, x, out, N, C, R, channels_last); \
        (void)stream;                                                                             \
        return batch_norm_eval_run_##acc(&p, mean, var, weight, bias, eps, workspace);            \
    }

CHANNELS_LAUNCHERS
