/* Reductions of one value an element. Included once for what they are computed in: S is f32, f64 or
   i64, REAL its type; REDUCE(a, b) combines, REDUCE_IDENTITY(S) is the value of nothing,
   REDUCE_FINISH(x, count) what is stored. Defines reduce_kind_of_<S>. */

#define NAME(name) AICF_JOIN(name, S)
#define reduce_tree NAME(reduce_tree)
#define reduce_clear NAME(reduce_clear)
#define reduce_push NAME(reduce_push)
#define reduce_total NAME(reduce_total)
#define reduce_block NAME(reduce_block)
#define reduce_along NAME(reduce_along)
#define reduce_rows NAME(reduce_rows)
#define reduce_across NAME(reduce_across)
#define reduce_merge NAME(reduce_merge)
#define reduce_finish NAME(reduce_finish)
#define reduce_kind_of NAME(reduce_kind_of)

/* A binary counter of values: level l holds the sum of 2**l blocks where bit l of count is set.
   Blocks are `width` values side by side. */
typedef struct reduce_tree {
    uint64_t count;
    REAL levels[REDUCE_LEVELS][REDUCE_WIDTH];
} reduce_tree;

AICF_INLINE void
reduce_clear(REAL *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = REDUCE_IDENTITY(S);
    }
}

static void
reduce_push(reduce_tree *tree, REAL *block, int64_t width)
{
    int level = 0;
    for (; tree->count >> level & 1; level++) {
        for (int64_t j = 0; j < width; j++) {
            block[j] = REDUCE(block[j], tree->levels[level][j]);
        }
    }
    memcpy(tree->levels[level], block, sizeof(REAL) * (size_t)width);
    tree->count++;
}

/* The value of all blocks, the identity of none. */
static void
reduce_total(const reduce_tree *tree, REAL *total, int64_t width)
{
    reduce_clear(total, width);
    for (int level = 0; level < REDUCE_LEVELS && tree->count >> level; level++) {
        if (tree->count >> level & 1) {
            for (int64_t j = 0; j < width; j++) {
                total[j] = REDUCE(total[j], tree->levels[level][j]);
            }
        }
    }
}

/* At most REDUCE_BLOCK values, in lanes that are then halved. */
AICF_CLONES static REAL
reduce_block(const REAL *x, int64_t n)
{
    REAL lanes[REDUCE_LANES];
    reduce_clear(lanes, REDUCE_LANES);
    int64_t whole = n - n % REDUCE_LANES;
    for (int64_t i = 0; i < whole; i += REDUCE_LANES) {
        for (int lane = 0; lane < REDUCE_LANES; lane++) {
            lanes[lane] = REDUCE(lanes[lane], x[i + lane]);
        }
    }
    for (int64_t i = whole; i < n; i++) {
        lanes[i - whole] = REDUCE(lanes[i - whole], x[i]);
    }
    for (int half = REDUCE_LANES / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; lane++) {
            lanes[lane] = REDUCE(lanes[lane], lanes[lane + half]);
        }
    }
    return lanes[0];
}

/* total[0] = the reduced elements [begin, end) at x. */
static void
reduce_along(
    const reduce_plan *p, const char *x, int64_t begin, int64_t end, int64_t out, void *total)
{
    (void)out;
    const int last = p->reduced_rank - 1;
    const reduce_dim *inner = &p->reduced[last];
    REAL room[REDUCE_BLOCK];
    reduce_tree tree;
    reduce_walk walk = reduce_walk_from(p->reduced, p->reduced_rank, begin);
    tree.count = 0;
    while (begin < end) {
        int64_t n = reduce_least(inner->size - walk.digits[last], end - begin);
        n = reduce_least(n, REDUCE_BLOCK);
        const char *first = x + walk.offset * p->dtype->item;
        REAL block = reduce_block((const REAL *)reduce_line(p, first, inner->step, n, room), n);
        reduce_push(&tree, &block, 1);
        begin += n;
        reduce_walk_by(&walk, p->reduced, p->reduced_rank, n);
    }
    reduce_total(&tree, (REAL *)total, 1);
}

/* values[j] takes in row i at j, for all rows and all j below width. */
AICF_CLONES static void
reduce_rows(const REAL *x, int64_t rows, int64_t row_step, int64_t width, REAL *values)
{
    for (int64_t i = 0; i < rows; i++) {
        AICF_INDEPENDENT
        for (int64_t j = 0; j < width; j++) {
            values[j] = REDUCE(values[j], x[i * row_step + j]);
        }
    }
}

/* total[j] = the reduced elements [begin, end) at x + j * step, for all j below width. */
static void
reduce_across(
    const reduce_plan *p, const char *x, int64_t begin, int64_t end, int64_t out, int64_t width,
    void *total)
{
    (void)out;
    const int last = p->reduced_rank - 1;
    const reduce_dim *inner = &p->reduced[last];
    const int64_t step = p->kept[p->kept_rank - 1].step;
    REAL room[REDUCE_WIDTH];
    reduce_tree tree;
    reduce_walk walk = reduce_walk_from(p->reduced, p->reduced_rank, begin);
    tree.count = 0;
    while (begin < end) {
        REAL values[REDUCE_WIDTH];
        reduce_clear(values, width);
        const int64_t stop = reduce_least(begin + REDUCE_ROWS, end);
        while (begin < stop) {
            const int64_t rows = reduce_least(inner->size - walk.digits[last], stop - begin);
            const char *first = x + walk.offset * p->dtype->item;
            if (p->dtype->plain && step == 1) {
                reduce_rows((const REAL *)first, rows, inner->step, width, values);
            } else {
                for (int64_t i = 0; i < rows; i++) {
                    const char *row = first + i * inner->step * p->dtype->item;
                    reduce_rows(
                        (const REAL *)reduce_line(p, row, step, width, room), 1, 0, width, values);
                }
            }
            begin += rows;
            reduce_walk_by(&walk, p->reduced, p->reduced_rank, rows);
        }
        reduce_push(&tree, values, width);
    }
    reduce_total(&tree, (REAL *)total, width);
}

/* Pair by pair. */
static void
reduce_merge(void *all, int64_t count)
{
    REAL *parts = (REAL *)all;
    while (count > 1) {
        const int64_t half = count - count / 2;
        for (int64_t i = 0; i < count / 2; i++) {
            parts[i] = REDUCE(parts[i], parts[half + i]);
        }
        count = half;
    }
}

static void
reduce_finish(const reduce_plan *p, void *total, int64_t out, int64_t n)
{
    REAL *value = (REAL *)total;
    for (int64_t i = 0; i < n; i++) {
        value[i] = REDUCE_FINISH(value[i], (REAL)p->reduced_count);
    }
    p->to->store(value, n, (char *)p->out + out * p->to->item, 1);
}

static const reduce_kind reduce_kind_of = {sizeof(REAL),  false,        reduce_along,
                                           reduce_across, reduce_merge, reduce_finish};

#undef NAME
#undef reduce_tree
#undef reduce_clear
#undef reduce_push
#undef reduce_total
#undef reduce_block
#undef reduce_along
#undef reduce_rows
#undef reduce_across
#undef reduce_merge
#undef reduce_finish
#undef reduce_kind_of
