/* twice and thrice on the CPU: compiled once an op, with AICF_OP its name. */
#define HEADER(op) <aicf_ops/op.h>
#include HEADER(AICF_OP)

#define JOIN(op) small_cpu_##op##_loop_f32
#define LAUNCHER(op) JOIN(op)

enum { factor_of_twice = 2, factor_of_thrice = 3 };
#define FACTOR_OF(op) factor_of_##op
#define FACTOR(op) FACTOR_OF(op)

aicf_status
LAUNCHER(AICF_OP)(const float *x, float *out, int64_t A, aicf_stream stream)
{
    (void)stream;
    for (int64_t i = 0; i < A; i++) {
        out[i] = FACTOR(AICF_OP) * x[i];
    }
    return aicf_ok();
}
