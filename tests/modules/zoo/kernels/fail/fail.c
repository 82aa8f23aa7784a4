/* Ends as `kind` says. */
#include "aicf_ops/fail.h"

aicf_status
zoo_cpu_fail_big_f32(
    const float *x, float *out, int64_t A, zoo_fail_kind kind, void *workspace, aicf_stream stream)
{
    (void)workspace;
    return zoo_cpu_fail_loop_f32(x, out, A, kind, stream);
}

aicf_status
zoo_cpu_fail_loop_f32(const float *x, float *out, int64_t A, zoo_fail_kind kind, aicf_stream stream)
{
    (void)x, (void)out, (void)A, (void)stream;
    aicf_status status = {0};
    switch (kind) {
    case ZOO_FAIL_KIND_OK: break;
    case ZOO_FAIL_KIND_BACKEND: status.kind = AICF_BACKEND_ERROR, status.native = 7; break;
    case ZOO_FAIL_KIND_MEMORY: status.kind = AICF_NO_MEMORY; break;
    case ZOO_FAIL_KIND_INTERNAL: status.kind = AICF_INTERNAL; break;
    }
    return status;
}
