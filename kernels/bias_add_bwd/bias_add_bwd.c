/* bias_add_bwd on the CPU: gb[n] = gy[l, n, r] summed over l and r, dense arrays. f16 and bf16 are
   summed in f32 and rounded once; of nothing the sum is 0. Bound by bytes. */
#include <aicf_ops/bias_add_bwd.h>

#include <aicf/cpu/sum.h>

enum { OUTER_AND_INNER = 1 << 0 | 1 << 2 };

#define BIAS_ADD_BWD(T, s)                                                                     \
    aicf_status aicf_cpu_bias_add_bwd_loop_##s(                                                \
        const T *gy, T *gb, int64_t L, int64_t N, int64_t R, int64_t axis, aicf_stream stream) \
    {                                                                                          \
        const aicf_view whole = {(void *)(uintptr_t)gy, 3, {L, N, R}, {N * R, R, 1}};          \
        (void)axis, (void)stream;                                                              \
        sum_run_##s(&whole, OUTER_AND_INNER, gb);                                              \
        return aicf_ok();                                                                      \
    }

AICF_REALS(BIAS_ADD_BWD)
