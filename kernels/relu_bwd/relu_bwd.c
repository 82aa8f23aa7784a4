/* relu_bwd on the CPU: gx = gy where y > 0, else 0, over joint views. gx may be exactly gy or
   exactly y. Bound by bytes. */
#include <aicf_ops/relu_bwd.h>

#include <aicf/cpu/lines.h>

enum { GRAIN = 32768 }; /* elements a part: long beside the cost of waking a thread */

#define PASSED(gy, y) ((y) <= 0 ? 0 : (gy))

#define RELU_BWD(T, s)                                                              \
    AICF_BINARY_LINE(relu_bwd, T, s, PASSED)                                        \
                                                                                    \
    aicf_status aicf_cpu_relu_bwd_loop_##s(                                         \
        const aicf_view *gy, const aicf_view *y, const aicf_view *gx, int64_t A,    \
        aicf_stream stream)                                                         \
    {                                                                               \
        const aicf_view *const views[] = {gy, y, gx};                               \
        (void)A, (void)stream;                                                      \
        return aicf_lines_run(views, 3, sizeof(T), GRAIN, relu_bwd_line_##s, NULL); \
    }

AICF_REALS(RELU_BWD)
