/* Lines along one axis of dense arrays [L, N, R], some of them side by side in lanes that the
   compiler vectorises: the frame of softmax and its kin on the CPU. Computed in f32, f64 in f64.

   A group is a table of rows, SOFT_LANES wide or less. For R = 1 it is one line, dealt to the lanes
   in turns, which are folded in the end; else up to SOFT_LANES neighbouring columns, a line a lane.
   Groups run in parallel; the order of every sum follows from the shape alone. */
#ifndef AICF_CPU_SOFT_H
#define AICF_CPU_SOFT_H

#include <aicf/cpu/convert.h>
#include <aicf/cpu/math.h>

enum {
    SOFT_LANES = 64,
    SOFT_BLOCK = 64,  /* additions of a lane between two of its outer sum */
    SOFT_TASK = 16384 /* elements a task: long beside the cost of waking a thread */
};

typedef struct soft_shape {
    int64_t L, N, R;
    int64_t tiles; /* groups along R */
} soft_shape;

typedef struct soft_group {
    int64_t first;   /* index of its first element */
    int64_t line;    /* of its first line, among L * R */
    int64_t pitch;   /* from row to row */
    int64_t rows;    /* the last one may be shorter */
    int width, last; /* elements of a row, of the last one */
    bool single;     /* one line in all lanes */
} soft_group;

static inline soft_shape
soft_shape_of(int64_t L, int64_t N, int64_t R)
{
    const soft_shape s = {L, N, R, (R + SOFT_LANES - 1) / SOFT_LANES};
    return s;
}

static inline soft_group
soft_group_at(const soft_shape *s, int64_t index)
{
    if (s->R == 1) {
        const int64_t rows = (s->N + SOFT_LANES - 1) / SOFT_LANES;
        const int last = (int)(s->N - (rows - 1) * SOFT_LANES);
        const soft_group line = {index * s->N, index, SOFT_LANES, rows, SOFT_LANES, last, true};
        return line;
    }
    const int64_t l = index / s->tiles, r = index % s->tiles * SOFT_LANES;
    const int width = (int)(s->R - r < SOFT_LANES ? s->R - r : SOFT_LANES);
    const soft_group columns = {l * s->N * s->R + r, l * s->R + r, s->R, s->N, width, width, false};
    return columns;
}

AICF_INLINE int
soft_width(const soft_group *g, int64_t row)
{
    return row == g->rows - 1 ? g->last : g->width;
}

/* Lines of a group. */
AICF_INLINE int
soft_lines(const soft_group *g)
{
    return g->single ? 1 : g->width;
}

AICF_INLINE const char *
soft_at(const aicf_converter *dtype, const soft_group *g, int64_t row, const void *x)
{
    return (const char *)x + (g->first + row * g->pitch) * dtype->item;
}

/* Row `row` of x as values: where it lies, or in `held`. */
AICF_INLINE const void *
soft_load(const aicf_converter *dtype, const soft_group *g, int64_t row, const void *x, void *held)
{
    if (dtype->plain) {
        return soft_at(dtype, g, row, x);
    }
    dtype->load(soft_at(dtype, g, row, x), 1, soft_width(g, row), held);
    return held;
}

/* Where the values of row `row` of out may be computed: in place, or in `held`, for soft_store. */
AICF_INLINE void *
soft_place(const aicf_converter *dtype, const soft_group *g, int64_t row, void *out, void *held)
{
    return dtype->plain ? (void *)(uintptr_t)soft_at(dtype, g, row, out) : held;
}

AICF_INLINE void
soft_store(
    const aicf_converter *dtype, const soft_group *g, int64_t row, void *out, const void *held)
{
    if (!dtype->plain) {
        char *to = (char *)(uintptr_t)soft_at(dtype, g, row, out);
        dtype->store(held, soft_width(g, row), to, 1);
    }
}

/* Runs `part` over groups [begin, end). */
static inline void
soft_run(const soft_shape *s, void (*part)(void *, int64_t, int64_t), void *context)
{
    const int64_t size = s->N * (s->R < SOFT_LANES ? s->R : SOFT_LANES);
    const int64_t grain = size > 0 && size < SOFT_TASK ? SOFT_TASK / size : 1;
    if (size > 0) {
        aicf_parallel_for(s->L * s->tiles, grain, part, context);
    }
}

#define S f32
#define REAL float
#include <aicf/cpu/soft_of.h>
#undef REAL
#undef S

#define S f64
#define REAL double
#include <aicf/cpu/soft_of.h>
#undef REAL
#undef S

#endif
