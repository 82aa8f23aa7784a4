/* shift on the CPU: out[i] = x[i] + amount. */
#include <aicf_ops/shift.h>

#include "shift.h"

aicf_status
small_cpu_shift_loop_f32(const float *x, float *out, int64_t A, aicf_stream stream)
{
    (void)stream;
    for (int64_t i = 0; i < A; i++) {
        out[i] = x[i] + shift_amount;
    }
    return aicf_ok();
}
