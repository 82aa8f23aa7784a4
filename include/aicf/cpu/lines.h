/* Walks views of one shape line by line, in parts that run in parallel: the frame of elementwise
   CPU kernels. The views come as JOINT placement gives them, the out last. */
#ifndef AICF_CPU_LINES_H
#define AICF_CPU_LINES_H

#include <aicf/cpu/convert.h>

enum { AICF_LINES_VIEWS = 4 };

/* One line: `n` elements of each view, from at[view] on, step[view] elements apart. */
typedef void aicf_line_fn(char *const *at, const int64_t *step, int64_t n, const void *context);

typedef struct aicf_lines_dim {
    int64_t size;
    int64_t step[AICF_LINES_VIEWS];
} aicf_lines_dim;

typedef struct aicf_lines {
    int views, rank;                /* rank at least 1; lines run along the last dim */
    int64_t item[AICF_LINES_VIEWS]; /* bytes of an element */
    aicf_lines_dim dims[AICF_MAX_RANK];
    char *data[AICF_LINES_VIEWS];
    aicf_line_fn *line;
    const void *context;
} aicf_lines;

static inline int64_t
aicf_lines_reach(const aicf_lines *w, int d)
{
    int64_t step = w->dims[d].step[w->views - 1];
    return step < 0 ? -step : step;
}

/* Sorts the dims by the out's strides, the longest first, so that lines lie along the out's memory;
   dims of size 1 are left out. */
static inline void
aicf_lines_order(aicf_lines *w, const aicf_view *const *v)
{
    const aicf_view *out = v[w->views - 1];
    for (int64_t d = 0; d < out->rank; d++) {
        aicf_lines_dim dim = {out->sizes[d], {0}};
        if (dim.size == 1) {
            continue;
        }
        for (int i = 0; i < w->views; i++) {
            dim.step[i] = v[i]->strides[d];
        }
        int at = w->rank++;
        w->dims[at] = dim;
        for (; at > 0 && aicf_lines_reach(w, at - 1) < aicf_lines_reach(w, at); at--) {
            w->dims[at] = w->dims[at - 1];
            w->dims[at - 1] = dim;
        }
    }
}

/* True if going to the next `outer` is going past the end of `inner`, in every view. */
static inline bool
aicf_lines_joined(const aicf_lines *w, const aicf_lines_dim *outer, const aicf_lines_dim *inner)
{
    for (int i = 0; i < w->views; i++) {
        if (outer->step[i] != inner->step[i] * inner->size) {
            return false;
        }
    }
    return true;
}

static inline void
aicf_lines_merge(aicf_lines *w)
{
    if (w->rank == 0) {
        w->dims[w->rank++] = (aicf_lines_dim){1, {0}};
    }
    int last = 0;
    for (int d = 1; d < w->rank; d++) {
        int64_t size = w->dims[d].size;
        if (aicf_lines_joined(w, &w->dims[last], &w->dims[d])) {
            size *= w->dims[last].size;
        } else {
            last++;
        }
        w->dims[last] = w->dims[d];
        w->dims[last].size = size;
    }
    w->rank = last + 1;
}

/* Moves at[] from the start of one line to the start of the next: outer dims count as digits. */
static inline void
aicf_lines_next(const aicf_lines *w, int64_t *digits, char **at)
{
    for (int d = w->rank - 2; d >= 0; d--) {
        const aicf_lines_dim *dim = &w->dims[d];
        bool wraps = ++digits[d] == dim->size;
        for (int i = 0; i < w->views; i++) {
            at[i] += dim->step[i] * (wraps ? 1 - dim->size : 1) * w->item[i];
        }
        if (!wraps) {
            return;
        }
        digits[d] = 0;
    }
}

/* Elements [begin, end) in the order of the walk. */
static inline void
aicf_lines_part(void *context, int64_t begin, int64_t end)
{
    const aicf_lines *w = (const aicf_lines *)context;
    const aicf_lines_dim *inner = &w->dims[w->rank - 1];
    int64_t digits[AICF_MAX_RANK] = {0};
    int64_t first = begin % inner->size;
    char *start[AICF_LINES_VIEWS], *at[AICF_LINES_VIEWS];
    for (int i = 0; i < w->views; i++) {
        start[i] = w->data[i];
    }
    int64_t line = begin / inner->size;
    for (int d = w->rank - 2; d >= 0 && line > 0; d--) {
        digits[d] = line % w->dims[d].size;
        line /= w->dims[d].size;
        for (int i = 0; i < w->views; i++) {
            start[i] += digits[d] * w->dims[d].step[i] * w->item[i];
        }
    }
    while (begin < end) {
        int64_t n = inner->size - first < end - begin ? inner->size - first : end - begin;
        for (int i = 0; i < w->views; i++) {
            at[i] = start[i] + first * inner->step[i] * w->item[i];
        }
        w->line(at, inner->step, n, w->context);
        begin += n;
        first = 0;
        aicf_lines_next(w, digits, start);
    }
}

/* Everything but `item`, `line` and `context`, for views that have elements. */
AICF_ONCE void
aicf_lines_plan(aicf_lines *w, const aicf_view *const *views, int count)
{
    w->views = count;
    w->rank = 0;
    for (int i = 0; i < count; i++) {
        w->data[i] = (char *)views[i]->data;
    }
    aicf_lines_order(w, views);
    aicf_lines_merge(w);
}

static inline int64_t
aicf_lines_numel(const aicf_view *view)
{
    int64_t numel = 1;
    for (int64_t d = 0; d < view->rank; d++) {
        numel *= view->sizes[d];
    }
    return numel;
}

/* Runs `line` over all elements of views[0 .. count), of item[i] bytes in view i, in parts of
   `grain` elements. */
static inline aicf_status
aicf_lines_run_items(
    const aicf_view *const *views, int count, const int64_t *item, int64_t grain,
    aicf_line_fn *line, const void *context)
{
    const int64_t numel = aicf_lines_numel(views[count - 1]);
    if (views[count - 1]->rank == 1 && numel <= grain) { /* small, one line: nothing to plan */
        int64_t step[AICF_LINES_VIEWS];
        char *at[AICF_LINES_VIEWS];
        for (int i = 0; i < count; i++) {
            step[i] = views[i]->strides[0];
            at[i] = (char *)views[i]->data;
        }
        line(at, step, numel, context);
    } else if (numel > 0) {
        aicf_lines w;
        aicf_lines_plan(&w, views, count);
        for (int i = 0; i < count; i++) {
            w.item[i] = item[i];
        }
        w.line = line;
        w.context = context;
        aicf_parallel_for(numel, grain, aicf_lines_part, &w);
    }
    return aicf_ok();
}

/* The same where elements have one size in all views. */
static inline aicf_status
aicf_lines_run(
    const aicf_view *const *views, int count, int64_t item, int64_t grain, aicf_line_fn *line,
    const void *context)
{
    const int64_t items[AICF_LINES_VIEWS] = {item, item, item, item};
    return aicf_lines_run_items(views, count, items, grain, line, context);
}

/* ---- lines of one formula ------------------------------------------------------------ */

/* Lines of f16, block by block as f32: conversions would be most of the code, and libaicf has them.
   `line` is the one of f32. */
AICF_ONCE void
aicf_line_by_f32(
    aicf_line_fn *line, int inputs, char *const *at, const int64_t *step, int64_t n,
    const void *context)
{
    enum { BLOCK = 512 };
    const aicf_converter *f16 = &aicf_converter_f16;
    float room[3][BLOCK];
    char *held[3] = {(char *)room[0], (char *)room[1], (char *)room[2]};
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        const int64_t count = n - begin < BLOCK ? n - begin : BLOCK;
        int64_t steps[3] = {1, 1, 1};
        for (int i = 0; i < inputs; i++) {
            steps[i] = step[i] != 0;
            f16->load(at[i] + begin * step[i] * f16->item, step[i], steps[i] ? count : 1, room[i]);
        }
        line(held, steps, count, context);
        f16->store(
            room[inputs], count, at[inputs] + begin * step[inputs] * f16->item, step[inputs]);
    }
}

#define AICF_LINE_BY_F32(name, inputs)                                        \
    static void name##_line_f16(                                              \
        char *const *at, const int64_t *step, int64_t n, const void *context) \
    {                                                                         \
        aicf_line_by_f32(name##_line_f32, inputs, at, step, n, context);      \
    }

/* Defines <name>_line_<s>: out = FORMULA(x, p), in the accumulator type; p[0] and p[1] are those
   that the context points to, 0 without one. One loop a pattern of steps, so that the compiler
   vectorises the common ones. */
#define AICF_UNARY_LINE_AS_IT_IS(name, T, s, FORMULA)                                   \
    AICF_INLINE void name##_steps_##s(                                                  \
        const T *x, T *out, int64_t n, int64_t dx, int64_t dout, const aicf_acc_##s *q) \
    {                                                                                   \
        const aicf_acc_##s p[2] = {q ? q[0] : 0, q ? q[1] : 0};                         \
        (void)p;                                                                        \
        AICF_INDEPENDENT                                                                \
        for (int64_t i = 0; i < n; i++) {                                               \
            const aicf_acc_##s x_i = aicf_load_##s(x + i * dx);                         \
            aicf_store_##s(out + i * dout, FORMULA(x_i, p));                            \
        }                                                                               \
    }                                                                                   \
                                                                                        \
    AICF_CLONES static void name##_line_##s(                                            \
        char *const *at, const int64_t *step, int64_t n, const void *context)           \
    {                                                                                   \
        const T *x = (const T *)at[0];                                                  \
        T *out = (T *)at[1];                                                            \
        const aicf_acc_##s *p = (const aicf_acc_##s *)context;                          \
        if (step[0] == 1 && step[1] == 1) {                                             \
            name##_steps_##s(x, out, n, 1, 1, p);                                       \
        } else {                                                                        \
            name##_steps_##s(x, out, n, step[0], step[1], p);                           \
        }                                                                               \
    }

/* Defines <name>_line_<s>: out = FORMULA(x, y, p), likewise. */
#define AICF_BINARY_LINE_WITH(name, T, s, FORMULA)                                       \
    AICF_INLINE void name##_steps_##s(                                                   \
        const T *x, const T *y, T *out, int64_t n, int64_t dx, int64_t dy, int64_t dout, \
        const aicf_acc_##s *q)                                                           \
    {                                                                                    \
        const aicf_acc_##s p[2] = {q ? q[0] : 0, q ? q[1] : 0};                          \
        (void)p;                                                                         \
        AICF_INDEPENDENT                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                \
            const aicf_acc_##s x_i = aicf_load_##s(x + i * dx);                          \
            const aicf_acc_##s y_i = aicf_load_##s(y + i * dy);                          \
            aicf_store_##s(out + i * dout, FORMULA(x_i, y_i, p));                        \
        }                                                                                \
    }                                                                                    \
                                                                                         \
    AICF_CLONES static void name##_line_##s(                                             \
        char *const *at, const int64_t *step, int64_t n, const void *context)            \
    {                                                                                    \
        const T *x = (const T *)at[0], *y = (const T *)at[1];                            \
        T *out = (T *)at[2];                                                             \
        const aicf_acc_##s *p = (const aicf_acc_##s *)context;                           \
        if (step[0] == 1 && step[1] == 1 && step[2] == 1) {                              \
            name##_steps_##s(x, y, out, n, 1, 1, 1, p);                                  \
        } else if (step[0] == 1 && step[1] == 0 && step[2] == 1) {                       \
            name##_steps_##s(x, y, out, n, 1, 0, 1, p);                                  \
        } else if (step[0] == 0 && step[1] == 1 && step[2] == 1) {                       \
            name##_steps_##s(x, y, out, n, 0, 1, 1, p);                                  \
        } else {                                                                         \
            name##_steps_##s(x, y, out, n, step[0], step[1], step[2], p);                \
        }                                                                                \
    }

/* Defines <name>_line_<s>: out = FORMULA(x, y). */
#define AICF_BINARY_LINE_AS_IT_IS(name, T, s, FORMULA)                                            \
    AICF_INLINE aicf_acc_##s name##_of_##s(aicf_acc_##s x, aicf_acc_##s y, const aicf_acc_##s *p) \
    {                                                                                             \
        (void)p;                                                                                  \
        return FORMULA(x, y);                                                                     \
    }                                                                                             \
    AICF_BINARY_LINE_WITH(name, T, s, name##_of_##s)

/* What kernels say, f32 before f16. */
#define AICF_UNARY_LINE(name, T, s, FORMULA) AICF_UNARY_LINE_##s(name, T, s, FORMULA)
#define AICF_BINARY_LINE(name, T, s, FORMULA) AICF_BINARY_LINE_##s(name, T, s, FORMULA)
#define AICF_UNARY_LINE_f16(name, T, s, FORMULA) AICF_LINE_BY_F32(name, 1)
#define AICF_BINARY_LINE_f16(name, T, s, FORMULA) AICF_LINE_BY_F32(name, 2)
#define AICF_UNARY_LINE_f32 AICF_UNARY_LINE_AS_IT_IS
#define AICF_UNARY_LINE_bf16 AICF_UNARY_LINE_AS_IT_IS
#define AICF_UNARY_LINE_f64 AICF_UNARY_LINE_AS_IT_IS
#define AICF_UNARY_LINE_i8 AICF_UNARY_LINE_AS_IT_IS
#define AICF_UNARY_LINE_u8 AICF_UNARY_LINE_AS_IT_IS
#define AICF_UNARY_LINE_i16 AICF_UNARY_LINE_AS_IT_IS
#define AICF_UNARY_LINE_i32 AICF_UNARY_LINE_AS_IT_IS
#define AICF_UNARY_LINE_i64 AICF_UNARY_LINE_AS_IT_IS
#define AICF_BINARY_LINE_f32 AICF_BINARY_LINE_AS_IT_IS
#define AICF_BINARY_LINE_bf16 AICF_BINARY_LINE_AS_IT_IS
#define AICF_BINARY_LINE_f64 AICF_BINARY_LINE_AS_IT_IS
#define AICF_BINARY_LINE_i8 AICF_BINARY_LINE_AS_IT_IS
#define AICF_BINARY_LINE_u8 AICF_BINARY_LINE_AS_IT_IS
#define AICF_BINARY_LINE_i16 AICF_BINARY_LINE_AS_IT_IS
#define AICF_BINARY_LINE_i32 AICF_BINARY_LINE_AS_IT_IS
#define AICF_BINARY_LINE_i64 AICF_BINARY_LINE_AS_IT_IS

#endif
