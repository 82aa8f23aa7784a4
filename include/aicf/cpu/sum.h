/* Sums of a view over some of its dims: sum_run_<s>(x, over, out) for each float dtype s,
   accumulated in f32, f64 in f64.

   The order of the additions follows from sizes and strides alone: blocks of some 32 additions in a
   row, and a binary tree over the blocks, so that the error grows with the logarithm of the count.
   Long sums that are few are cut into parts, which run in parallel; the parts' sums stay on the
   stack of the caller. */
#ifndef AICF_CPU_SUM_H
#define AICF_CPU_SUM_H

#include <aicf/cpu/convert.h>

enum {
    SUM_LANES = 32,     /* running sums in a block: enough to hide the latency of an addition */
    SUM_BLOCK = 1024,   /* elements of one sum between two steps of the tree */
    SUM_ROWS = 32,      /* the same, where many sums run side by side */
    SUM_WIDTH = 128,    /* how many those are */
    SUM_LEVELS = 64,    /* of a tree: as many as its count has bits */
    SUM_SHORT = 16,     /* a sum so short is not worth a block */
    SUM_TASK = 32768,   /* elements a task: long beside the cost of waking a thread */
    SUM_TASKS = 64,     /* at most so many where sums are cut: then there are enough */
    SUM_PARTIALS = 4096 /* sums of parts, on the stack */
};

typedef struct sum_dim {
    int64_t size, step;
} sum_dim;

typedef struct sum_plan {
    const aicf_converter *dtype;
    const char *x;
    char *out;
    void *partial;
    int kept_rank, reduced_rank;    /* at least 1 */
    sum_dim kept[AICF_MAX_RANK];    /* in the order of out */
    sum_dim reduced[AICF_MAX_RANK]; /* the longest step first */
    int64_t kept_count, reduced_count;
    bool across;   /* sums run side by side, row after row; else one after the other */
    int64_t width; /* sums in a group, all along the last kept dim */
    int64_t tiles; /* groups along that dim */
    int64_t groups;
    int64_t parts, part_size; /* a sum is cut into parts of so many elements */
    int64_t grain;
} sum_plan;

static inline int64_t
sum_least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static inline int64_t
sum_reach(const sum_dim *dim)
{
    return dim->step < 0 ? -dim->step : dim->step;
}

/* Appends a dim, as one with its neighbour where they can be. */
static inline int
sum_append(sum_dim *dims, int rank, sum_dim dim)
{
    if (rank > 0 && dims[rank - 1].step == dim.step * dim.size) {
        dim.size *= dims[--rank].size;
    }
    dims[rank] = dim;
    return rank + 1;
}

static inline void
sum_split_dims(sum_plan *p, const aicf_view *x, uint32_t over)
{
    sum_dim sorted[AICF_MAX_RANK];
    int count = 0;
    for (int64_t d = 0; d < x->rank; d++) {
        const sum_dim dim = {x->sizes[d], x->strides[d]};
        if (!(over >> d & 1)) {
            p->kept_count *= dim.size;
            p->kept_rank = dim.size == 1 ? p->kept_rank : sum_append(p->kept, p->kept_rank, dim);
            continue;
        }
        p->reduced_count *= dim.size;
        int at = dim.size == 1 ? count : count++;
        sorted[at] = dim;
        for (; at > 0 && sum_reach(&sorted[at - 1]) < sum_reach(&dim); at--) {
            sorted[at] = sorted[at - 1];
            sorted[at - 1] = dim;
        }
    }
    for (int i = 0; i < count; i++) {
        p->reduced_rank = sum_append(p->reduced, p->reduced_rank, sorted[i]);
    }
}

/* How many parts there are, and how long: only where there are few sums, and long ones. */
static inline void
sum_cut(sum_plan *p)
{
    int64_t most = sum_least(SUM_TASKS / p->groups, SUM_PARTIALS / p->kept_count);
    int64_t rows = SUM_TASK / p->width;
    int64_t parts = sum_least(most, p->reduced_count / rows);
    p->parts = parts < 1 ? 1 : parts;
    p->part_size = p->reduced_count / p->parts + (p->reduced_count % p->parts != 0);
    int64_t cell = sum_least(p->part_size, rows) * p->width;
    p->grain = cell > 0 ? 1 + (SUM_TASK - 1) / cell : SUM_TASK;
}

AICF_ONCE void
sum_plan_init(sum_plan *p, const aicf_view *x, uint32_t over)
{
    p->kept_rank = p->reduced_rank = 0;
    p->kept_count = p->reduced_count = 1;
    sum_split_dims(p, x, over);
    if (p->kept_rank == 0) {
        p->kept[p->kept_rank++] = (sum_dim){1, 0};
    }
    if (p->reduced_rank == 0) {
        p->reduced[p->reduced_rank++] = (sum_dim){1, 0};
    }
    const sum_dim *kept = &p->kept[p->kept_rank - 1];
    const sum_dim *reduced = &p->reduced[p->reduced_rank - 1];
    p->across =
        kept->size > 1 && (reduced->size <= SUM_SHORT || sum_reach(kept) < sum_reach(reduced));
    p->width = p->across ? sum_least(kept->size, SUM_WIDTH) : 1;
    p->tiles = p->across ? (kept->size + SUM_WIDTH - 1) / SUM_WIDTH : kept->size;
    p->groups = p->kept_count > 0 ? p->kept_count / kept->size * p->tiles : 0;
    p->parts = p->grain = 1;
    if (p->groups > 0) {
        sum_cut(p);
    }
}

/* A group of sums: where its first one's elements start in x, and where it is in out. */
typedef struct sum_group {
    int64_t offset, out, width;
} sum_group;

static inline sum_group
sum_group_at(const sum_plan *p, int64_t index)
{
    const sum_dim *last = &p->kept[p->kept_rank - 1];
    const int64_t first = index % p->tiles * p->width;
    int64_t outer = index / p->tiles;
    sum_group g = {first * last->step, outer * last->size + first, 0};
    g.width = sum_least(p->width, last->size - first);
    for (int d = p->kept_rank - 2; d >= 0; d--) {
        g.offset += outer % p->kept[d].size * p->kept[d].step;
        outer /= p->kept[d].size;
    }
    return g;
}

/* A place among the reduced elements. */
typedef struct sum_walk {
    int64_t offset;
    int64_t digits[AICF_MAX_RANK];
} sum_walk;

static inline sum_walk
sum_walk_from(const sum_dim *dims, int rank, int64_t index)
{
    sum_walk walk = {0, {0}};
    for (int d = rank - 1; d >= 0 && index > 0; d--) {
        walk.digits[d] = index % dims[d].size;
        walk.offset += walk.digits[d] * dims[d].step;
        index /= dims[d].size;
    }
    return walk;
}

/* On by n elements, no further than to the end of the last dim. */
static inline void
sum_walk_by(sum_walk *walk, const sum_dim *dims, int rank, int64_t n)
{
    walk->digits[rank - 1] += n;
    walk->offset += n * dims[rank - 1].step;
    for (int d = rank - 1; d > 0 && walk->digits[d] == dims[d].size; d--) {
        walk->offset += dims[d - 1].step - dims[d].size * dims[d].step;
        walk->digits[d] = 0;
        walk->digits[d - 1]++;
    }
}

#define S f32
#define REAL float
#include <aicf/cpu/sum_of.h>
#undef REAL
#undef S

#define S f64
#define REAL double
#include <aicf/cpu/sum_of.h>
#undef REAL
#undef S

/* out, dense, = the sums of x over the dims whose bits are set in `over`. */
#define SUM_RUN(T, s, acc)                                             \
    static void sum_run_##s(const aicf_view *x, uint32_t over, T *out) \
    {                                                                  \
        sum_plan p;                                                    \
        sum_plan_init(&p, x, over);                                    \
        p.dtype = &aicf_converter_##s;                                 \
        p.x = (const char *)x->data;                                   \
        p.out = (char *)out;                                           \
        sum_in_##acc(&p);                                              \
    }

SUM_RUN(float, f32, f32)
SUM_RUN(aicf_f16, f16, f32)
SUM_RUN(aicf_bf16, bf16, f32)
SUM_RUN(double, f64, f64)

#endif
