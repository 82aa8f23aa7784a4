/* Places of largest elements. Included once for what is compared: S is f32, f64 or i64, REAL its
   type, LOWEST below or equal to all, IS_NAN(x) whether it is none. NaN is above all, the first of
   equals wins; places are counted in the order of x, and outs are i64. Defines reduce_kind_of_<S>.
 */

#define NAME(name) AICF_JOIN(name, S)
#define place NAME(place)
#define place_above NAME(place_above)
#define place_top NAME(place_top)
#define place_find NAME(place_find)
#define place_along NAME(place_along)
#define place_row NAME(place_row)
#define place_across NAME(place_across)
#define place_merge NAME(place_merge)
#define place_finish NAME(place_finish)
#define reduce_kind_of NAME(reduce_kind_of)

/* `at` is NOWHERE for none of no elements. */
typedef struct place {
    REAL key;
    int64_t at;
} place;

/* Without branches; NaN is not above NaN. */
AICF_INLINE bool
place_above(REAL a, REAL b)
{
    return !(a <= b) & !IS_NAN(b);
}

/* The largest of n > 0 values. */
AICF_CLONES static REAL
place_top(const REAL *x, int64_t n)
{
    REAL lanes[REDUCE_LANES];
    const int64_t whole = n - n % REDUCE_LANES;
    for (int lane = 0; lane < REDUCE_LANES; lane++) {
        lanes[lane] = x[0];
    }
    for (int64_t i = 0; i < whole; i += REDUCE_LANES) {
        for (int lane = 0; lane < REDUCE_LANES; lane++) {
            const REAL y = x[i + lane];
            lanes[lane] = place_above(y, lanes[lane]) ? y : lanes[lane];
        }
    }
    for (int64_t i = whole; i < n; i++) {
        lanes[0] = place_above(x[i], lanes[0]) ? x[i] : lanes[0];
    }
    for (int lane = 1; lane < REDUCE_LANES; lane++) {
        lanes[0] = place_above(lanes[lane], lanes[0]) ? lanes[lane] : lanes[0];
    }
    return lanes[0];
}

/* The first place of `top`, which is in x. */
static int64_t
place_find(const REAL *x, REAL top)
{
    int64_t i = 0;
    if (IS_NAN(top)) {
        while (!IS_NAN(x[i])) {
            i++;
        }
        return i;
    }
    while (x[i] != top) {
        i++;
    }
    return i;
}

static void
place_along(
    const reduce_plan *p, const char *x, int64_t begin, int64_t end, int64_t out, void *total)
{
    const int last = p->reduced_rank - 1;
    const reduce_dim *inner = &p->reduced[last];
    REAL room[REDUCE_BLOCK];
    reduce_walk walk = reduce_walk_from(p->reduced, p->reduced_rank, begin);
    place best = {LOWEST, NOWHERE};
    (void)out;
    while (begin < end) {
        int64_t n = reduce_least(inner->size - walk.digits[last], end - begin);
        n = reduce_least(n, REDUCE_BLOCK);
        const char *first = x + walk.offset * p->dtype->item;
        const REAL *line = (const REAL *)reduce_line(p, first, inner->step, n, room);
        const REAL top = place_top(line, n);
        if (best.at == NOWHERE || place_above(top, best.key)) {
            best = (place){top, begin + place_find(line, top)};
        }
        begin += n;
        reduce_walk_by(&walk, p->reduced, p->reduced_rank, n);
    }
    memcpy(total, &best, sizeof best);
}

AICF_CLONES static void
place_row(const REAL *x, int64_t at, int64_t width, REAL *keys, int64_t *ats)
{
    AICF_INDEPENDENT
    for (int64_t j = 0; j < width; j++) {
        const bool better = place_above(x[j], keys[j]) | (ats[j] == NOWHERE);
        keys[j] = better ? x[j] : keys[j];
        ats[j] = better ? at : ats[j];
    }
}

static void
place_across(
    const reduce_plan *p, const char *x, int64_t begin, int64_t end, int64_t out, int64_t width,
    void *total)
{
    const int last = p->reduced_rank - 1;
    const reduce_dim *inner = &p->reduced[last];
    const int64_t step = p->kept[p->kept_rank - 1].step;
    REAL room[REDUCE_WIDTH], keys[REDUCE_WIDTH];
    int64_t ats[REDUCE_WIDTH];
    reduce_walk walk = reduce_walk_from(p->reduced, p->reduced_rank, begin);
    (void)out;
    for (int64_t j = 0; j < width; j++) {
        keys[j] = LOWEST;
        ats[j] = NOWHERE;
    }
    while (begin < end) {
        const int64_t rows = reduce_least(inner->size - walk.digits[last], end - begin);
        for (int64_t i = 0; i < rows; i++) {
            const char *row = x + (walk.offset + i * inner->step) * p->dtype->item;
            const REAL *line = (const REAL *)reduce_line(p, row, step, width, room);
            place_row(line, begin + i, width, keys, ats);
        }
        begin += rows;
        reduce_walk_by(&walk, p->reduced, p->reduced_rank, rows);
    }
    for (int64_t j = 0; j < width; j++) {
        ((place *)total)[j] = (place){keys[j], ats[j]};
    }
}

/* Parts come in the order of their places. */
static void
place_merge(void *all, int64_t count)
{
    place *parts = (place *)all;
    for (int64_t i = 1; i < count; i++) {
        if (parts[i].at != NOWHERE && place_above(parts[i].key, parts[0].key)) {
            parts[0] = parts[i];
        }
    }
}

static void
place_finish(const reduce_plan *p, void *total, int64_t out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        ((int64_t *)p->out)[out + i] = ((const place *)total)[i].at;
    }
}

static const reduce_kind reduce_kind_of = {sizeof(place), true,        place_along,
                                           place_across,  place_merge, place_finish};

#undef NAME
#undef place
#undef place_above
#undef place_top
#undef place_find
#undef place_along
#undef place_row
#undef place_across
#undef place_merge
#undef place_finish
#undef reduce_kind_of
