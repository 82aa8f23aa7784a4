/* running_stats on the CPU: running_mean and running_var, in place, a step of `momentum` towards
   mean and towards the unbiased variance, var * count / (count - 1). */
#include <aicf_ops/running_stats.h>

#include <aicf/cpu/real.h>

#define RUNNING_STATS(T, s)                                                                     \
    aicf_status aicf_cpu_running_stats_loop_##s(                                                \
        T *running_mean, T *running_var, const T *mean, const T *var, int64_t C, int64_t count, \
        const aicf_scalar *momentum, aicf_stream stream)                                        \
    {                                                                                           \
        const T step = (T)aicf_scalar_real(momentum);                                           \
        const T unbiased = (T)((double)count / (double)(count - 1));                            \
        (void)stream;                                                                           \
        for (int64_t c = 0; c < C; c++) {                                                       \
            running_mean[c] = (1 - step) * running_mean[c] + step * mean[c];                    \
            running_var[c] = (1 - step) * running_var[c] + step * (var[c] * unbiased);          \
        }                                                                                       \
        return aicf_ok();                                                                       \
    }

RUNNING_STATS(float, f32)
RUNNING_STATS(double, f64)
