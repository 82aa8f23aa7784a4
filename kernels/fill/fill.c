/* fill on the CPU: every element of x = value, in place. A bool becomes 0 or 1. Bound by bytes. */
#include <aicf_ops/fill.h>

#include <aicf/cpu/lines.h>

enum { GRAIN = 65536 }; /* elements a part: long beside the cost of waking a thread */

/* One line, by the size of its elements: the bits of the value are what the context points to. */
#define LINE(WORD, bits)                                                      \
    AICF_CLONES static void line_##bits(                                      \
        char *const *at, const int64_t *step, int64_t n, const void *context) \
    {                                                                         \
        const WORD value = *(const WORD *)context;                            \
        WORD *x = (WORD *)at[0];                                              \
        if (step[0] == 1) {                                                   \
            for (int64_t i = 0; i < n; i++) {                                 \
                x[i] = value;                                                 \
            }                                                                 \
            return;                                                           \
        }                                                                     \
        for (int64_t i = 0; i < n; i++) {                                     \
            x[i * step[0]] = value;                                           \
        }                                                                     \
    }

LINE(uint8_t, 8)
LINE(uint16_t, 16)
LINE(uint32_t, 32)
LINE(uint64_t, 64)

/* From what the host holds. */
#define INTEGER(T) (T) value->host.integer
#define TRUTH(T) ((T){value->host.integer != 0})
#define REAL(T) (T) value->host.real
#define HALF(T) aicf_f16_of_f32((float)value->host.real)
#define BRAIN(T) aicf_bf16_of_f32((float)value->host.real)

#define FILL(T, s, bits, OF)                                                         \
    aicf_status aicf_cpu_fill_loop_##s(                                              \
        const aicf_view *x, int64_t A, const aicf_scalar *value, aicf_stream stream) \
    {                                                                                \
        const aicf_view *const views[] = {x};                                        \
        const T one = value->data ? *(const T *)value->data : OF(T);                 \
        (void)A, (void)stream;                                                       \
        return aicf_lines_run(views, 1, sizeof(T), GRAIN, line_##bits, &one);        \
    }

FILL(int8_t, i8, 8, INTEGER)
FILL(uint8_t, u8, 8, INTEGER)
FILL(int16_t, i16, 16, INTEGER)
FILL(int32_t, i32, 32, INTEGER)
FILL(int64_t, i64, 64, INTEGER)
FILL(float, f32, 32, REAL)
FILL(aicf_f16, f16, 16, HALF)
FILL(aicf_bf16, bf16, 16, BRAIN)
FILL(double, f64, 64, REAL)

aicf_status
aicf_cpu_fill_loop_bool(const aicf_view *x, int64_t A, const aicf_scalar *value, aicf_stream stream)
{
    const aicf_view *const views[] = {x};
    const uint8_t one =
        value->data ? ((const aicf_bool *)value->data)->byte != 0 : value->host.integer != 0;
    (void)A, (void)stream;
    return aicf_lines_run(views, 1, 1, GRAIN, line_8, &one);
}
