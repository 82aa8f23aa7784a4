/* Each addition is whole, so that threads may run it on the same memory: none may get lost. */
#include "aicf_ops/tally.h"

aicf_status
counting_cpu_tally_loop_fixed(
    const int64_t *a, const int64_t *b, int64_t *total, int64_t *wrong, int64_t N,
    aicf_stream stream)
{
    (void)stream;
    for (int64_t i = 0; i < N; i++) {
        __atomic_add_fetch(&total[i], a[i], __ATOMIC_RELAXED);
        if (a[i] != b[i]) {
            __atomic_add_fetch(&wrong[i], 1, __ATOMIC_RELAXED);
        }
    }
    return aicf_ok();
}
