/* add on the CPU: out = a + b over joint views, f16 and bf16 computed in f32. out may be exactly a
   or exactly b. Bound by bytes. */
#include <aicf_ops/add.h>

#include <aicf/cpu/lines.h>

enum { GRAIN = 32768 }; /* elements a part: long beside the cost of waking a thread */

#define PLUS(x, y) ((x) + (y))

#define ADD(T, s)                                                                           \
    AICF_BINARY_LINE(add, T, s, PLUS)                                                       \
                                                                                            \
    aicf_status aicf_cpu_add_loop_##s(                                                      \
        const aicf_view *a, const aicf_view *b, const aicf_view *out, int64_t A, int64_t B, \
        aicf_stream stream)                                                                 \
    {                                                                                       \
        const aicf_view *const views[] = {a, b, out};                                       \
        (void)A, (void)B, (void)stream;                                                     \
        return aicf_lines_run(views, 3, sizeof(T), GRAIN, add_line_##s, NULL);              \
    }

AICF_REALS(ADD)
