/* A race on purpose: a sanitizer that does not report it sees nothing. */
#include "aicf_ops/planted.h"

aicf_status
counting_cpu_planted_loop_fixed(int64_t *total, int64_t N, aicf_stream stream)
{
    (void)stream;
    for (int64_t i = 0; i < N; i++) {
        total[i]++;
    }
    return aicf_ok();
}
