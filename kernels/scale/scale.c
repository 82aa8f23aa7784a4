/* scale on the CPU: out = factor * x over joint views; factor and the product are f32 for f16 and
   bf16. out may be exactly x. Bound by bytes. */
#include <aicf_ops/scale.h>

#include <aicf/cpu/lines.h>

enum { GRAIN = 32768 }; /* elements a part: long beside the cost of waking a thread */

#define TIMES(x, p) ((x) * p[0])

#define SCALE(T, s)                                                                     \
    AICF_UNARY_LINE(scale, T, s, TIMES)                                                 \
                                                                                        \
    aicf_status aicf_cpu_scale_loop_##s(                                                \
        const aicf_view *x, const aicf_view *out, int64_t A, const aicf_scalar *factor, \
        aicf_stream stream)                                                             \
    {                                                                                   \
        const aicf_view *const views[] = {x, out};                                      \
        const aicf_acc_##s p[2] = {(aicf_acc_##s)aicf_scalar_real(factor)};             \
        (void)A, (void)stream;                                                          \
        return aicf_lines_run(views, 2, sizeof(T), GRAIN, scale_line_##s, p);           \
    }

AICF_REALS(SCALE)
