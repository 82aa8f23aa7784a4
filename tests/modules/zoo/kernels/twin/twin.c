/* out = x. */
#include <string.h>

#include "aicf_ops/twin.h"

aicf_status
zoo_cpu_twin_loop_f32(const float *x, float *out, int64_t A, aicf_stream stream)
{
    (void)stream;
    memcpy(out, x, (size_t)(4 * A));
    return aicf_ok();
}
