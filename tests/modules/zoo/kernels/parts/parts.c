/* Twofold and half of x, each where it is asked for. */
#include "aicf_ops/parts.h"

aicf_status
zoo_cpu_parts_loop_f32(const float *x, float *twofold, float *half, int64_t A, aicf_stream stream)
{
    (void)stream;
    for (int64_t i = 0; i < A; i++) {
        if (twofold) {
            twofold[i] = 2 * x[i];
        }
        if (half) {
            half[i] = x[i] / 2;
        }
    }
    return aicf_ok();
}
