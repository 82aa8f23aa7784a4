/* sum on the CPU: out = x summed over some of its axes, x with any strides, out dense. f16 and bf16
   are summed in f32 and rounded once; of nothing the sum is 0. Bound by bytes. */
#include <aicf_ops/sum.h>

#include <aicf/cpu/sum.h>

static uint32_t
bits_of(const aicf_ints *axes)
{
    uint32_t bits = 0;
    for (int64_t i = 0; i < axes->count; i++) {
        bits |= UINT32_C(1) << axes->values[i];
    }
    return bits;
}

#define SUM(T, s)                                                                   \
    aicf_status aicf_cpu_sum_loop_##s(                                              \
        const aicf_view *x, T *out, int64_t A, const aicf_ints *axes, bool keepdim, \
        aicf_stream stream)                                                         \
    {                                                                               \
        (void)A, (void)keepdim, (void)stream;                                       \
        sum_run_##s(x, bits_of(axes), out);                                         \
        return aicf_ok();                                                           \
    }

AICF_REALS(SUM)
