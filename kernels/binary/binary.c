/* add, sub, mul and div on the CPU, over joint views: f16 and bf16 computed in f32; of integers,
   which wrap, all but div. out may be exactly a or exactly b. Bound by bytes. */
#include <aicf/family.h>

#include AICF_OP_HEADER

#include <aicf/cpu/lines.h>
#include <aicf/cpu/whole.h>

enum { GRAIN = 32768 }; /* elements a part: long beside the cost of waking a thread */

#define FORMULA_add(x, y) ((x) + (y))
#define FORMULA_sub(x, y) ((x) - (y))
#define FORMULA_mul(x, y) ((x) * (y))
#define FORMULA_div(x, y) ((x) / (y))
#define FORMULA AICF_OP_CHOICE(FORMULA_)

#define BINARY(T, s)                                                                        \
    AICF_BINARY_LINE(binary, T, s, FORMULA)                                                 \
                                                                                            \
    aicf_status AICF_OP_NAME(aicf_cpu_, _loop_##s)(                                         \
        const aicf_view *a, const aicf_view *b, const aicf_view *out, int64_t A, int64_t B, \
        aicf_stream stream)                                                                 \
    {                                                                                       \
        const aicf_view *const views[] = {a, b, out};                                       \
        (void)A, (void)B, (void)stream;                                                     \
        return aicf_lines_run(views, 3, sizeof(T), GRAIN, binary_line_##s, NULL);           \
    }

#define WHOLE_add 1
#define WHOLE_sub 1
#define WHOLE_mul 1
#define WHOLE_div 0

AICF_REALS(BINARY)
#if AICF_OP_CHOICE(WHOLE_)
AICF_WHOLES(BINARY)
#endif
