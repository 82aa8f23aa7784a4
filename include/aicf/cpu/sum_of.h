/* Part of sum.h, included once for what sums are accumulated in: S is f32 or f64, REAL its type. */

#define NAME(name) AICF_JOIN(name, S)
#define sum_tree NAME(sum_tree)
#define sum_push NAME(sum_push)
#define sum_total NAME(sum_total)
#define sum_line NAME(sum_line)
#define sum_block NAME(sum_block)
#define sum_along NAME(sum_along)
#define sum_rows NAME(sum_rows)
#define sum_across NAME(sum_across)
#define sum_cells NAME(sum_cells)
#define sum_parts NAME(sum_parts)
#define sum_in NAME(sum_in)

/* A binary counter of sums: level l holds the sum of 2**l blocks where bit l of count is set.
   Blocks are `width` values side by side. */
typedef struct sum_tree {
    uint64_t count;
    REAL levels[SUM_LEVELS][SUM_WIDTH];
} sum_tree;

static void
sum_push(sum_tree *tree, REAL *block, int64_t width)
{
    int level = 0;
    for (; tree->count >> level & 1; level++) {
        for (int64_t j = 0; j < width; j++) {
            block[j] += tree->levels[level][j];
        }
    }
    memcpy(tree->levels[level], block, sizeof(REAL) * (size_t)width);
    tree->count++;
}

/* The sum of all blocks, 0 of none. */
static void
sum_total(const sum_tree *tree, REAL *total, int64_t width)
{
    memset(total, 0, sizeof(REAL) * (size_t)width);
    for (int level = 0; level < SUM_LEVELS && tree->count >> level; level++) {
        if (tree->count >> level & 1) {
            for (int64_t j = 0; j < width; j++) {
                total[j] += tree->levels[level][j];
            }
        }
    }
}

/* n elements as values side by side: in place where they are, else in `room`. */
static inline const REAL *
sum_line(const sum_plan *p, const char *x, int64_t step, int64_t n, REAL *room)
{
    if (p->dtype->plain && step == 1) {
        return (const REAL *)x;
    }
    p->dtype->load(x, step, n, room);
    return room;
}

/* At most SUM_BLOCK values, in lanes that are then halved. */
AICF_CLONES static REAL
sum_block(const REAL *x, int64_t n)
{
    REAL lanes[SUM_LANES] = {0};
    int64_t whole = n - n % SUM_LANES;
    for (int64_t i = 0; i < whole; i += SUM_LANES) {
        for (int lane = 0; lane < SUM_LANES; lane++) {
            lanes[lane] += x[i + lane];
        }
    }
    for (int64_t i = whole; i < n; i++) {
        lanes[i - whole] += x[i];
    }
    for (int half = SUM_LANES / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; lane++) {
            lanes[lane] += lanes[lane + half];
        }
    }
    return lanes[0];
}

/* total[0] = the reduced elements [begin, end) at x. */
static void
sum_along(const sum_plan *p, const char *x, int64_t begin, int64_t end, REAL *total)
{
    const int last = p->reduced_rank - 1;
    const sum_dim *inner = &p->reduced[last];
    REAL room[SUM_BLOCK];
    sum_tree tree;
    sum_walk walk = sum_walk_from(p->reduced, p->reduced_rank, begin);
    tree.count = 0;
    while (begin < end) {
        int64_t n = sum_least(inner->size - walk.digits[last], end - begin);
        n = sum_least(n, SUM_BLOCK);
        const char *first = x + walk.offset * p->dtype->item;
        REAL block = sum_block(sum_line(p, first, inner->step, n, room), n);
        sum_push(&tree, &block, 1);
        begin += n;
        sum_walk_by(&walk, p->reduced, p->reduced_rank, n);
    }
    sum_total(&tree, total, 1);
}

/* sums[j] += row i at j, for all rows and all j below width. */
AICF_CLONES static void
sum_rows(const REAL *x, int64_t rows, int64_t row_step, int64_t width, REAL *sums)
{
    for (int64_t i = 0; i < rows; i++) {
        AICF_INDEPENDENT
        for (int64_t j = 0; j < width; j++) {
            sums[j] += x[i * row_step + j];
        }
    }
}

/* total[j] = the reduced elements [begin, end) at x + j * step, for all j below width. */
static void
sum_across(const sum_plan *p, const char *x, int64_t begin, int64_t end, int64_t width, REAL *total)
{
    const int last = p->reduced_rank - 1;
    const sum_dim *inner = &p->reduced[last];
    const int64_t step = p->kept[p->kept_rank - 1].step;
    REAL room[SUM_WIDTH];
    sum_tree tree;
    sum_walk walk = sum_walk_from(p->reduced, p->reduced_rank, begin);
    tree.count = 0;
    while (begin < end) {
        REAL sums[SUM_WIDTH] = {0};
        const int64_t stop = sum_least(begin + SUM_ROWS, end);
        while (begin < stop) {
            const int64_t rows = sum_least(inner->size - walk.digits[last], stop - begin);
            const char *first = x + walk.offset * p->dtype->item;
            if (p->dtype->plain && step == 1) {
                sum_rows((const REAL *)first, rows, inner->step, width, sums);
            } else {
                for (int64_t i = 0; i < rows; i++) {
                    const char *row = first + i * inner->step * p->dtype->item;
                    sum_rows(sum_line(p, row, step, width, room), 1, 0, width, sums);
                }
            }
            begin += rows;
            sum_walk_by(&walk, p->reduced, p->reduced_rank, rows);
        }
        sum_push(&tree, sums, width);
    }
    sum_total(&tree, total, width);
}

/* Cells [begin, end): part by part of each group of outputs. */
static void
sum_cells(void *context, int64_t begin, int64_t end)
{
    const sum_plan *p = (const sum_plan *)context;
    for (int64_t cell = begin; cell < end; cell++) {
        const int64_t group = cell / p->parts, part = cell % p->parts;
        const int64_t first = part * p->part_size;
        const int64_t last = sum_least(first + p->part_size, p->reduced_count);
        const sum_group g = sum_group_at(p, group);
        const char *x = p->x + g.offset * p->dtype->item;
        REAL total[SUM_WIDTH];
        if (p->across) {
            sum_across(p, x, first, last, g.width, total);
        } else {
            sum_along(p, x, first, last, total);
        }
        if (p->parts > 1) {
            for (int64_t j = 0; j < g.width; j++) {
                ((REAL *)p->partial)[(g.out + j) * p->parts + part] = total[j];
            }
        } else {
            p->dtype->store(total, g.width, p->out + g.out * p->dtype->item, 1);
        }
    }
}

/* parts[0] = the sum of all of them, pair by pair. */
static void
sum_parts(REAL *parts, int64_t count)
{
    while (count > 1) {
        const int64_t half = count - count / 2;
        for (int64_t i = 0; i < count / 2; i++) {
            parts[i] += parts[half + i];
        }
        count = half;
    }
}

static void
sum_in(sum_plan *p)
{
    REAL partial[SUM_PARTIALS];
    p->partial = partial;
    aicf_parallel_for(p->groups * p->parts, p->grain, sum_cells, p);
    for (int64_t i = 0; p->parts > 1 && i < p->kept_count; i++) {
        sum_parts(partial + i * p->parts, p->parts);
        p->dtype->store(partial + i * p->parts, 1, p->out + i * p->dtype->item, 1);
    }
}

#undef NAME
#undef sum_tree
#undef sum_push
#undef sum_total
#undef sum_line
#undef sum_block
#undef sum_along
#undef sum_rows
#undef sum_across
#undef sum_cells
#undef sum_parts
#undef sum_in
