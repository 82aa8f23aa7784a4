/* where on the CPU: out = a where cond, else b, over joint views, by the size of the elements; a
   side that is absent is 0, a bool becomes 0 or 1. What is not chosen is read and has no say, a NaN
   neither. out may be exactly a or exactly b. Bound by bytes. */
#include <aicf_ops/where.h>

#include <aicf/cpu/lines.h>

enum { GRAIN = 32768 }; /* elements a part: long beside the cost of waking a thread */

/* By a mask: the sides are bits. */
#define WHERE_WORD(WORD, name, AS_WRITTEN)                                                      \
    AICF_INLINE void where_steps_##name(                                                        \
        const uint8_t *cond, const WORD *a, const WORD *b, WORD *out, int64_t n, int64_t dcond, \
        int64_t da, int64_t db, int64_t dout)                                                   \
    {                                                                                           \
        AICF_INDEPENDENT                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                       \
            const WORD mask = (WORD)(0 - (WORD)(cond[i * dcond] != 0));                         \
            const WORD chosen = (WORD)((a[i * da] & mask) | (b[i * db] & (WORD)~mask));         \
            out[i * dout] = (WORD)AS_WRITTEN(chosen);                                           \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    AICF_CLONES static void where_line_##name(                                                  \
        char *const *at, const int64_t *step, int64_t n, const void *context)                   \
    {                                                                                           \
        const uint8_t *cond = (const uint8_t *)at[0];                                           \
        const WORD *a = (const WORD *)at[1], *b = (const WORD *)at[2];                          \
        WORD *out = (WORD *)at[3];                                                              \
        (void)context;                                                                          \
        if (step[0] == 1 && step[1] == 1 && step[2] == 1 && step[3] == 1) {                     \
            where_steps_##name(cond, a, b, out, n, 1, 1, 1, 1);                                 \
        } else if (step[0] == 1 && step[1] == 1 && step[2] == 0 && step[3] == 1) {              \
            where_steps_##name(cond, a, b, out, n, 1, 1, 0, 1);                                 \
        } else if (step[0] == 1 && step[1] == 0 && step[2] == 1 && step[3] == 1) {              \
            where_steps_##name(cond, a, b, out, n, 1, 0, 1, 1);                                 \
        } else {                                                                                \
            where_steps_##name(cond, a, b, out, n, step[0], step[1], step[2], step[3]);         \
        }                                                                                       \
    }

#define SAME(x) (x)
#define TRUTH(x) ((x) != 0)

WHERE_WORD(uint8_t, 8, SAME)
WHERE_WORD(uint16_t, 16, SAME)
WHERE_WORD(uint32_t, 32, SAME)
WHERE_WORD(uint64_t, 64, SAME)
WHERE_WORD(uint8_t, bool, TRUTH)

/* Elements of so many bytes. */
static __attribute__((noinline, noclone)) aicf_status
where_run(
    const aicf_view *cond, const aicf_view *a, const aicf_view *b, const aicf_view *out,
    int64_t item, aicf_line_fn *line)
{
    static const uint64_t zero;
    aicf_view nothing = *out;
    nothing.data = (void *)&zero;
    memset(nothing.strides, 0, sizeof nothing.strides);
    const aicf_view *const views[] = {cond, a ? a : &nothing, b ? b : &nothing, out};
    const int64_t items[] = {1, item, item, item};
    return aicf_lines_run_items(views, 4, items, GRAIN, line, NULL);
}

#define WHERE(s, name, item)                                                                 \
    aicf_status aicf_cpu_where_loop_##s(                                                     \
        const aicf_view *cond, const aicf_view *a, const aicf_view *b, const aicf_view *out, \
        int64_t C, int64_t A, int64_t B, aicf_stream stream)                                 \
    {                                                                                        \
        (void)C, (void)A, (void)B, (void)stream;                                             \
        return where_run(cond, a, b, out, item, where_line_##name);                          \
    }

WHERE(f32, 32, 4)
WHERE(f16, 16, 2)
WHERE(bf16, 16, 2)
WHERE(f64, 64, 8)
WHERE(i8, 8, 1)
WHERE(u8, 8, 1)
WHERE(i16, 16, 2)
WHERE(i32, 32, 4)
WHERE(i64, 64, 8)
WHERE(bool, bool, 1)
