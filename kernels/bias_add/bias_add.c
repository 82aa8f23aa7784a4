/* bias_add on the CPU: out[l, n, r] = x[l, n, r] + bias[n]: a sum of dense arrays of which one is
   broadcast. f16 and bf16 are computed in f32. out may be exactly x. Bound by bytes. */
#include <aicf_ops/bias_add.h>

#include <aicf/cpu/lines.h>

enum { GRAIN = 32768 }; /* elements a part: long beside the cost of waking a thread */

#define PLUS(x, y) ((x) + (y))

#define BIAS_ADD(T, s)                                                                    \
    AICF_BINARY_LINE(bias_add, T, s, PLUS)                                                \
                                                                                          \
    aicf_status aicf_cpu_bias_add_loop_##s(                                               \
        const T *x, const T *bias, T *out, int64_t L, int64_t N, int64_t R, int64_t axis, \
        aicf_stream stream)                                                               \
    {                                                                                     \
        const aicf_view whole = {(void *)(uintptr_t)x, 3, {L, N, R}, {N * R, R, 1}};      \
        const aicf_view along = {(void *)(uintptr_t)bias, 3, {L, N, R}, {0, 1, 0}};       \
        const aicf_view result = {out, 3, {L, N, R}, {N * R, R, 1}};                      \
        const aicf_view *const views[] = {&whole, &along, &result};                       \
        (void)axis, (void)stream;                                                         \
        return aicf_lines_run(views, 3, sizeof(T), GRAIN, bias_add_line_##s, NULL);       \
    }

AICF_REALS(BIAS_ADD)
