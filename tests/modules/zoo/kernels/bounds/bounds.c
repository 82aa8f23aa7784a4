/* The least and the greatest of at least one element. */
#include "aicf_ops/bounds.h"

aicf_status
zoo_cpu_bounds_loop_f32(const float *x, float *least, float *most, int64_t A, aicf_stream stream)
{
    (void)stream;
    *least = *most = x[0];
    for (int64_t i = 1; i < A; i++) {
        *least = x[i] < *least ? x[i] : *least;
        *most = x[i] > *most ? x[i] : *most;
    }
    return aicf_ok();
}
