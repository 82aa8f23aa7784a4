/* relu on the CPU: out = max(x, 0) over joint views, NaN where x is NaN. out may be exactly x.
   Bound by bytes. */
#include <aicf_ops/relu.h>

#include <aicf/cpu/lines.h>

enum { GRAIN = 32768 }; /* elements a part: long beside the cost of waking a thread */

/* Not x > 0 ? x : 0, which makes 0 of NaN. */
#define POSITIVE(x, p) ((x) < 0 ? 0 : (x))

#define RELU(T, s)                                                               \
    AICF_UNARY_LINE(relu, T, s, POSITIVE)                                        \
                                                                                 \
    aicf_status aicf_cpu_relu_loop_##s(                                          \
        const aicf_view *x, const aicf_view *out, int64_t A, aicf_stream stream) \
    {                                                                            \
        const aicf_view *const views[] = {x, out};                               \
        (void)A, (void)stream;                                                   \
        return aicf_lines_run(views, 2, sizeof(T), GRAIN, relu_line_##s, NULL);  \
    }

AICF_REALS(RELU)
