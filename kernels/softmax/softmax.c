/* softmax and log_softmax on the CPU, along one axis of a dense array: compiled once an op, with
   AICF_OP its name. f16 and bf16 are computed in f32 and rounded once. The largest element is
   subtracted first; a line of -inf alone, or with NaN or +inf in it, is NaN. out may be exactly x.
 */
#define HEADER(op) <aicf_ops/op.h>
#include HEADER(AICF_OP)

#include <aicf/cpu/soft.h>

enum { SOFTMAX_HELD = 8192 }; /* values of a line that is read, computed as values, and written */

enum { log_of_softmax = 0, log_of_log_softmax = 1 };
#define LOG_OF(op) log_of_##op
#define LOG(op) LOG_OF(op)

typedef struct softmax_plan {
    const aicf_converter *dtype;
    const void *x;
    void *out;
    soft_shape shape;
} softmax_plan;

#define SOFTMAX_IN(REAL, S)                                                                     \
    /* Values that are stored as they are hold the powers already. */                           \
    AICF_INLINE void softmax_map_##S(                                                           \
        const softmax_plan *p, const soft_group *g, const soft_total_##S *t)                    \
    {                                                                                           \
        REAL held[SOFT_LANES], result[SOFT_LANES], scale[SOFT_LANES];                           \
        for (int w = 0; w < SOFT_LANES; w++) {                                                  \
            scale[w] = 1 / t->sum[w];                                                           \
        }                                                                                       \
        for (int64_t row = 0; row < g->rows; row++) {                                           \
            REAL *y = (REAL *)soft_place(p->dtype, g, row, p->out, result);                     \
            const int width = soft_width(g, row);                                               \
            if (p->dtype->plain) {                                                              \
                AICF_INDEPENDENT                                                                \
                for (int w = 0; w < width; w++) {                                               \
                    y[w] *= scale[w];                                                           \
                }                                                                               \
                continue;                                                                       \
            }                                                                                   \
            const REAL *x = (const REAL *)soft_load(p->dtype, g, row, p->x, held);              \
            for (int w = 0; w < width; w++) {                                                   \
                y[w] = aicf_exp(x[w] - t->top[w]) * scale[w];                                   \
            }                                                                                   \
            soft_store(p->dtype, g, row, p->out, y);                                            \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    AICF_INLINE void log_softmax_map_##S(                                                       \
        const softmax_plan *p, const soft_group *g, const soft_total_##S *t)                    \
    {                                                                                           \
        REAL held[SOFT_LANES], result[SOFT_LANES], log_sum[SOFT_LANES];                         \
        for (int w = 0; w < SOFT_LANES; w++) {                                                  \
            log_sum[w] = aicf_log(t->sum[w]);                                                   \
        }                                                                                       \
        for (int64_t row = 0; row < g->rows; row++) {                                           \
            const REAL *x = (const REAL *)soft_load(p->dtype, g, row, p->x, held);              \
            REAL *y = (REAL *)soft_place(p->dtype, g, row, p->out, result);                     \
            const int width = soft_width(g, row);                                               \
            AICF_INDEPENDENT                                                                    \
            for (int w = 0; w < width; w++) {                                                   \
                y[w] = (x[w] - t->top[w]) - log_sum[w];                                         \
            }                                                                                   \
            soft_store(p->dtype, g, row, p->out, y);                                            \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    AICF_INLINE void softmax_group_##S(const softmax_plan *p, const soft_group *g)              \
    {                                                                                           \
        soft_total_##S total;                                                                   \
        soft_total_of_##S(p->dtype, g, p->x, LOG(AICF_OP) ? NULL : p->out, &total);             \
        if (LOG(AICF_OP)) {                                                                     \
            log_softmax_map_##S(p, g, &total);                                                  \
        } else {                                                                                \
            softmax_map_##S(p, g, &total);                                                      \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    AICF_CLONES static void softmax_groups_##S(void *context, int64_t begin, int64_t end)       \
    {                                                                                           \
        const softmax_plan *p = (const softmax_plan *)context;                                  \
        const int64_t n = p->shape.N, item = p->dtype->item;                                    \
        REAL room[SOFTMAX_HELD];                                                                \
        for (int64_t i = begin; i < end; i++) {                                                 \
            soft_group g = soft_group_at(&p->shape, i);                                         \
            /* f64 is plain. */                                                                 \
            const bool whole = sizeof(REAL) < sizeof(double) && g.single && !p->dtype->plain && \
                               n <= SOFTMAX_HELD;                                               \
            const softmax_plan held = {&aicf_converter_##S, room, room, p->shape};              \
            const int64_t first = g.first;                                                      \
            if (whole) {                                                                        \
                p->dtype->load((const char *)p->x + first * item, 1, n, room);                  \
                g.first = 0;                                                                    \
            }                                                                                   \
            softmax_group_##S(whole ? &held : p, &g); /* once: it is long */                    \
            if (whole) {                                                                        \
                p->dtype->store(room, n, (char *)p->out + first * item, 1);                     \
            }                                                                                   \
        }                                                                                       \
    }

SOFTMAX_IN(float, f32)
SOFTMAX_IN(double, f64)

#define NAME_OF(op, s) aicf_cpu_##op##_loop_##s
#define NAME(op, s) NAME_OF(op, s)

#define SOFTMAX(T, s, acc)                                                                     \
    aicf_status NAME(AICF_OP, s)(                                                              \
        const T *x, T *out, int64_t L, int64_t N, int64_t R, int64_t axis, aicf_stream stream) \
    {                                                                                          \
        softmax_plan p = {&aicf_converter_##s, x, out, soft_shape_of(L, N, R)};                \
        (void)axis, (void)stream;                                                              \
        soft_run(&p.shape, softmax_groups_##acc, &p);                                          \
        return aicf_ok();                                                                      \
    }

SOFTMAX(float, f32, f32)
SOFTMAX(aicf_f16, f16, f32)
SOFTMAX(aicf_bf16, bf16, f32)
SOFTMAX(double, f64, f64)
