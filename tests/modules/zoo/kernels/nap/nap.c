/* out = x by way of the workspace, with a sleep while x is only there. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <time.h>

#include "aicf_ops/nap.h"

aicf_status
zoo_cpu_nap_loop_f32(
    const float *x, float *out, int64_t A, int64_t ms, void *workspace, aicf_stream stream)
{
    (void)stream;
    memcpy(workspace, x, (size_t)(4 * A));
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    memcpy(out, workspace, (size_t)(4 * A));
    return aicf_ok();
}
