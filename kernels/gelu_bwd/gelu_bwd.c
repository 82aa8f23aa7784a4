/* gelu_bwd on the CPU: gx = gy * gelu'(y) over joint views, for gelu by erf and by tanh. gx may be
   exactly gy or exactly y. Bound by the arithmetic of the host's libm. */
#include <aicf_ops/gelu_bwd.h>

#include <aicf/cpu/gelu.h>
#include <aicf/cpu/lines.h>

enum { GRAIN = 2048 }; /* elements a part, of some 10 ns each */

#define BY_ERF(gy, y) ((gy) * aicf_gelu_slope(y))
#define BY_TANH(gy, y) ((gy) * aicf_gelu_tanh_slope(y))

#define GELU_BWD(T, s)                                                                            \
    AICF_BINARY_LINE(gelu_bwd_erf, T, s, BY_ERF)                                                  \
    AICF_BINARY_LINE(gelu_bwd_tanh, T, s, BY_TANH)                                                \
                                                                                                  \
    aicf_status aicf_cpu_gelu_bwd_loop_##s(                                                       \
        const aicf_view *gy, const aicf_view *y, const aicf_view *gx, int64_t A,                  \
        aicf_gelu_bwd_approx approx, aicf_stream stream)                                          \
    {                                                                                             \
        const aicf_view *const views[] = {gy, y, gx};                                             \
        aicf_line_fn *line =                                                                      \
            approx == AICF_GELU_BWD_APPROX_TANH ? gelu_bwd_tanh_line_##s : gelu_bwd_erf_line_##s; \
        (void)A, (void)stream;                                                                    \
        return aicf_lines_run(views, 3, sizeof(T), GRAIN, line, NULL);                            \
    }

AICF_REALS(GELU_BWD)
