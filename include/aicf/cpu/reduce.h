/* Reductions of a view over some of its dims, in the order that follows from sizes and strides
   alone: whatever is rounded on the way, the bits do not depend on the threads.

   An out's elements are taken in blocks, whose values are combined in a binary tree, so that the
   error of a sum grows with the logarithm of the count. Outs that are few and long are cut into
   parts, which run in parallel; the parts' values stay on the stack of the caller. What is computed
   is a `reduce_kind`: reduce_of.h makes those of one value an element, and a kernel may bring its
   own. */
#ifndef AICF_CPU_REDUCE_H
#define AICF_CPU_REDUCE_H

#include <aicf/cpu/convert.h>

enum {
    REDUCE_LANES = 32,   /* running values in a block: enough to hide the latency of an addition */
    REDUCE_BLOCK = 1024, /* elements of one out between two steps of the tree */
    REDUCE_ROWS = 32,    /* the same, where many outs run side by side */
    REDUCE_WIDTH = 128,  /* how many those are */
    REDUCE_LEVELS = 64,  /* of a tree: as many as its count has bits */
    REDUCE_SHORT = 16,   /* so few elements are not worth a block */
    REDUCE_TASK = 32768, /* elements a task: long beside the cost of waking a thread */
    REDUCE_TASKS = 64,   /* at most so many where outs are cut: then there are enough */
    REDUCE_PARTIALS = 4096, /* values of parts, on the stack */
    REDUCE_VALUE = 16       /* bytes of a value, at most */
};

typedef struct reduce_dim {
    int64_t size, step;
} reduce_dim;

typedef struct reduce_plan {
    const struct reduce_kind *kind;
    const aicf_converter *dtype; /* of x */
    const aicf_converter *to;    /* of out, where `finish` asks */
    const char *x;
    void *out;
    const void *beside; /* what else `kind` reads */
    char *partial;
    int kept_rank, reduced_rank;       /* at least 1 */
    reduce_dim kept[AICF_MAX_RANK];    /* in the order of out */
    reduce_dim reduced[AICF_MAX_RANK]; /* the longest step first, or in the order of x */
    int64_t kept_count, reduced_count;
    bool across;   /* outs run side by side, row after row; else one after the other */
    int64_t width; /* outs in a group, all along the last kept dim */
    int64_t tiles; /* groups along that dim */
    int64_t groups;
    int64_t parts, part_size; /* an out's elements are cut into parts of so many */
    int64_t grain;
} reduce_plan;

/* What is computed. Values lie side by side; elements are counted in the order of the walk. */
typedef struct reduce_kind {
    int64_t value; /* bytes, at most REDUCE_VALUE */
    bool ordered;  /* the walk is in the order of x */
    /* total[0] = out number `out` of the reduced elements [begin, end) at x. */
    void (*along)(
        const reduce_plan *p, const char *x, int64_t begin, int64_t end, int64_t out, void *total);
    /* total[j] = out number `out` + j, of those at x + j steps of the last kept dim. */
    void (*across)(
        const reduce_plan *p, const char *x, int64_t begin, int64_t end, int64_t out, int64_t width,
        void *total);
    void (*merge)(void *parts, int64_t count); /* parts[0] = that of all of them */
    /* Writes n outs from number `out` on; may use up `total`. */
    void (*finish)(const reduce_plan *p, void *total, int64_t out, int64_t n);
} reduce_kind;

static inline int64_t
reduce_least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static inline int64_t
reduce_reach(const reduce_dim *dim)
{
    return dim->step < 0 ? -dim->step : dim->step;
}

/* Appends a dim, as one with its neighbour where they can be. */
static inline int
reduce_append(reduce_dim *dims, int rank, reduce_dim dim)
{
    if (rank > 0 && dims[rank - 1].step == dim.step * dim.size) {
        dim.size *= dims[--rank].size;
    }
    dims[rank] = dim;
    return rank + 1;
}

static inline void
reduce_split_dims(reduce_plan *p, const aicf_view *x, uint32_t over)
{
    reduce_dim sorted[AICF_MAX_RANK];
    int count = 0;
    for (int64_t d = 0; d < x->rank; d++) {
        const reduce_dim dim = {x->sizes[d], x->strides[d]};
        if (!(over >> d & 1)) {
            p->kept_count *= dim.size;
            p->kept_rank = dim.size == 1 ? p->kept_rank : reduce_append(p->kept, p->kept_rank, dim);
            continue;
        }
        p->reduced_count *= dim.size;
        int at = dim.size == 1 ? count : count++;
        sorted[at] = dim;
        for (; !p->kind->ordered && at > 0 && reduce_reach(&sorted[at - 1]) < reduce_reach(&dim);
             at--) {
            sorted[at] = sorted[at - 1];
            sorted[at - 1] = dim;
        }
    }
    for (int i = 0; i < count; i++) {
        p->reduced_rank = reduce_append(p->reduced, p->reduced_rank, sorted[i]);
    }
}

/* How many parts there are, and how long: only where there are few outs, and long ones. */
static inline void
reduce_cut(reduce_plan *p)
{
    int64_t most = reduce_least(REDUCE_TASKS / p->groups, REDUCE_PARTIALS / p->kept_count);
    int64_t rows = REDUCE_TASK / p->width;
    int64_t parts = reduce_least(most, p->reduced_count / rows);
    p->parts = parts < 1 ? 1 : parts;
    p->part_size = p->reduced_count / p->parts + (p->reduced_count % p->parts != 0);
    int64_t cell = reduce_least(p->part_size, rows) * p->width;
    p->grain = cell > 0 ? 1 + (REDUCE_TASK - 1) / cell : REDUCE_TASK;
}

/* All but what is computed from what to where. */
static inline void
reduce_plan_init(reduce_plan *p, const aicf_view *x, uint32_t over)
{
    p->kept_rank = p->reduced_rank = 0;
    p->kept_count = p->reduced_count = 1;
    reduce_split_dims(p, x, over);
    if (p->kept_rank == 0) {
        p->kept[p->kept_rank++] = (reduce_dim){1, 0};
    }
    if (p->reduced_rank == 0) {
        p->reduced[p->reduced_rank++] = (reduce_dim){1, 0};
    }
    const reduce_dim *kept = &p->kept[p->kept_rank - 1];
    const reduce_dim *reduced = &p->reduced[p->reduced_rank - 1];
    p->across = kept->size > 1 &&
                (reduced->size <= REDUCE_SHORT || reduce_reach(kept) < reduce_reach(reduced));
    p->width = p->across ? reduce_least(kept->size, REDUCE_WIDTH) : 1;
    p->tiles = p->across ? (kept->size + REDUCE_WIDTH - 1) / REDUCE_WIDTH : kept->size;
    p->groups = p->kept_count > 0 ? p->kept_count / kept->size * p->tiles : 0;
    p->parts = p->grain = 1;
    if (p->groups > 0) {
        reduce_cut(p);
    }
}

/* A group of outs: where the elements of its first one start in x, and that one's number. */
typedef struct reduce_group {
    int64_t offset, out, width;
} reduce_group;

static inline reduce_group
reduce_group_at(const reduce_plan *p, int64_t index)
{
    const reduce_dim *last = &p->kept[p->kept_rank - 1];
    const int64_t first = index % p->tiles * p->width;
    int64_t outer = index / p->tiles;
    reduce_group g = {first * last->step, outer * last->size + first, 0};
    g.width = reduce_least(p->width, last->size - first);
    for (int d = p->kept_rank - 2; d >= 0; d--) {
        g.offset += outer % p->kept[d].size * p->kept[d].step;
        outer /= p->kept[d].size;
    }
    return g;
}

/* A place among the reduced elements. */
typedef struct reduce_walk {
    int64_t offset;
    int64_t digits[AICF_MAX_RANK];
} reduce_walk;

static inline reduce_walk
reduce_walk_from(const reduce_dim *dims, int rank, int64_t index)
{
    reduce_walk walk = {0, {0}};
    for (int d = rank - 1; d >= 0 && index > 0; d--) {
        walk.digits[d] = index % dims[d].size;
        walk.offset += walk.digits[d] * dims[d].step;
        index /= dims[d].size;
    }
    return walk;
}

/* On by n elements, no further than to the end of the last dim. */
static inline void
reduce_walk_by(reduce_walk *walk, const reduce_dim *dims, int rank, int64_t n)
{
    walk->digits[rank - 1] += n;
    walk->offset += n * dims[rank - 1].step;
    for (int d = rank - 1; d > 0 && walk->digits[d] == dims[d].size; d--) {
        walk->offset += dims[d - 1].step - dims[d].size * dims[d].step;
        walk->digits[d] = 0;
        walk->digits[d - 1]++;
    }
}

/* Cells [begin, end): part by part of each group of outs. */
AICF_ONCE void
reduce_cells(void *context, int64_t begin, int64_t end)
{
    const reduce_plan *p = (const reduce_plan *)context;
    const int64_t value = p->kind->value;
    for (int64_t cell = begin; cell < end; cell++) {
        const int64_t group = cell / p->parts, part = cell % p->parts;
        const int64_t first = reduce_least(part * p->part_size, p->reduced_count);
        const int64_t last = reduce_least(first + p->part_size, p->reduced_count);
        const reduce_group g = reduce_group_at(p, group);
        const char *x = p->x + g.offset * p->dtype->item;
        _Alignas(32) char total[REDUCE_WIDTH * REDUCE_VALUE];
        if (p->across) {
            p->kind->across(p, x, first, last, g.out, g.width, total);
        } else {
            p->kind->along(p, x, first, last, g.out, total);
        }
        for (int64_t j = 0; p->parts > 1 && j < g.width; j++) {
            char *to = p->partial + ((g.out + j) * p->parts + part) * value;
            memcpy(to, total + j * value, (size_t)value);
        }
        if (p->parts == 1) {
            p->kind->finish(p, total, g.out, g.width);
        }
    }
}

/* out, dense, = x reduced over the dims whose bits are set in `over`. */
AICF_ONCE void
reduce_run(
    const reduce_kind *kind, const aicf_converter *dtype, const aicf_converter *to,
    const aicf_view *x, uint32_t over, void *out, const void *beside)
{
    _Alignas(32) char partial[REDUCE_PARTIALS * REDUCE_VALUE];
    reduce_plan p;
    p.kind = kind;
    p.dtype = dtype;
    p.to = to;
    p.x = (const char *)x->data;
    p.out = out;
    p.beside = beside;
    p.partial = partial;
    reduce_plan_init(&p, x, over);
    aicf_parallel_for(p.groups * p.parts, p.grain, reduce_cells, &p);
    for (int64_t i = 0; p.parts > 1 && i < p.kept_count; i++) {
        char *parts = partial + i * p.parts * kind->value;
        kind->merge(parts, p.parts);
        kind->finish(&p, parts, i, 1);
    }
}

/* A bit for each of the folded axes. */
static inline uint32_t
reduce_bits(const aicf_ints *axes)
{
    uint32_t bits = 0;
    for (int64_t i = 0; i < axes->count; i++) {
        bits |= UINT32_C(1) << axes->values[i];
    }
    return bits;
}

/* n elements as values side by side: in place where they are, else in `room`. */
static inline const void *
reduce_line(const reduce_plan *p, const char *x, int64_t step, int64_t n, void *room)
{
    if (p->dtype->plain && step == 1) {
        return x;
    }
    p->dtype->load(x, step, n, room);
    return room;
}

#endif
