/* out = x + by; of bools the exclusive or. */
#include "aicf_ops/shift.h"

aicf_status
zoo_cpu_shift_loop_f32(
    const float *x, float *out, int64_t A, const aicf_scalar *by, aicf_stream stream)
{
    (void)stream;
    float amount = by->data ? *(const float *)by->data : (float)by->host.real;
    for (int64_t i = 0; i < A; i++) {
        out[i] = x[i] + amount;
    }
    return aicf_ok();
}

aicf_status
zoo_cpu_shift_loop_i32(
    const int32_t *x, int32_t *out, int64_t A, const aicf_scalar *by, aicf_stream stream)
{
    (void)stream;
    int32_t amount = by->data ? *(const int32_t *)by->data : (int32_t)by->host.integer;
    for (int64_t i = 0; i < A; i++) {
        out[i] = x[i] + amount;
    }
    return aicf_ok();
}

aicf_status
zoo_cpu_shift_loop_bool(
    const aicf_bool *x, aicf_bool *out, int64_t A, const aicf_scalar *by, aicf_stream stream)
{
    (void)stream;
    bool flip = by->data ? ((const aicf_bool *)by->data)->byte != 0 : by->host.integer != 0;
    for (int64_t i = 0; i < A; i++) {
        out[i].byte = (x[i].byte != 0) != flip;
    }
    return aicf_ok();
}
