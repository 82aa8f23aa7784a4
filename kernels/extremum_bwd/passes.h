/* Part of extremum_bwd.c, included once for what is computed in: S is f32 or f64, REAL its type. */

#define NAME(name) AICF_JOIN(name, S)
#define ties_of NAME(ties_of)
#define ties_along NAME(ties_along)
#define ties_row NAME(ties_row)
#define ties_across NAME(ties_across)
#define ties_finish NAME(ties_finish)
#define spread_line NAME(spread_line)
#define spread_cells NAME(spread_cells)
#define ties NAME(ties)

AICF_CLONES static int64_t
ties_of(const REAL *x, int64_t n, REAL fwd)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        count += x[i] == fwd;
    }
    return count;
}

static void
ties_along(
    const reduce_plan *p, const char *x, int64_t begin, int64_t end, int64_t out, void *total)
{
    const int last = p->reduced_rank - 1;
    const reduce_dim *inner = &p->reduced[last];
    reduce_walk walk = reduce_walk_from(p->reduced, p->reduced_rank, begin);
    REAL room[REDUCE_BLOCK], fwd;
    int64_t count = 0;
    p->dtype->load(((const outs *)p->beside)->fwd + out * p->dtype->item, 1, 1, &fwd);
    while (begin < end) {
        int64_t n = reduce_least(inner->size - walk.digits[last], end - begin);
        n = reduce_least(n, REDUCE_BLOCK);
        const char *first = x + walk.offset * p->dtype->item;
        count += ties_of((const REAL *)reduce_line(p, first, inner->step, n, room), n, fwd);
        begin += n;
        reduce_walk_by(&walk, p->reduced, p->reduced_rank, n);
    }
    memcpy(total, &count, sizeof count);
}

AICF_CLONES static void
ties_row(const REAL *x, const REAL *fwd, int64_t width, int64_t *counts)
{
    AICF_INDEPENDENT
    for (int64_t j = 0; j < width; j++) {
        counts[j] += x[j] == fwd[j];
    }
}

static void
ties_across(
    const reduce_plan *p, const char *x, int64_t begin, int64_t end, int64_t out, int64_t width,
    void *total)
{
    const int last = p->reduced_rank - 1;
    const reduce_dim *inner = &p->reduced[last];
    const int64_t step = p->kept[p->kept_rank - 1].step;
    reduce_walk walk = reduce_walk_from(p->reduced, p->reduced_rank, begin);
    REAL room[REDUCE_WIDTH], fwd[REDUCE_WIDTH];
    int64_t *counts = (int64_t *)total;
    p->dtype->load(((const outs *)p->beside)->fwd + out * p->dtype->item, 1, width, fwd);
    memset(counts, 0, sizeof *counts * (size_t)width);
    while (begin < end) {
        const int64_t rows = reduce_least(inner->size - walk.digits[last], end - begin);
        for (int64_t i = 0; i < rows; i++) {
            const char *row = x + (walk.offset + i * inner->step) * p->dtype->item;
            ties_row((const REAL *)reduce_line(p, row, step, width, room), fwd, width, counts);
        }
        begin += rows;
        reduce_walk_by(&walk, p->reduced, p->reduced_rank, rows);
    }
}

/* p->out is the workspace. */
static void
ties_finish(const reduce_plan *p, void *total, int64_t out, int64_t n)
{
    REAL gy[REDUCE_WIDTH];
    p->dtype->load(((const outs *)p->beside)->gy + out * p->dtype->item, 1, n, gy);
    for (int64_t i = 0; i < n; i++) {
        ((REAL *)p->out)[out + i] = gy[i] / (REAL)((const int64_t *)total)[i];
    }
}

static const reduce_kind ties = {sizeof(int64_t), false,      ties_along,
                                 ties_across,     ties_merge, ties_finish};

AICF_CLONES static void
spread_line(const REAL *x, const REAL *fwd, const REAL *share, int64_t step, int64_t n, REAL *gx)
{
    for (int64_t i = 0; i < n; i++) {
        gx[i] = share[i * step] * (REAL)(x[i] == fwd[i * step]);
    }
}

static void
spread_cells(void *context, int64_t begin, int64_t end)
{
    const spread *s = (const spread *)context;
    const spread_dim *inner = &s->dims[s->rank - 1];
    const int64_t item = s->dtype->item;
    REAL x[CHUNK], fwd[CHUNK], gx[CHUNK];
    for (int64_t cell = begin; cell < end; cell++) {
        const spread_place at = spread_at(s, cell);
        const REAL *share = (const REAL *)s->share + at.out;
        s->dtype->load(s->x + at.x * item, inner->step, at.n, x);
        s->dtype->load(s->fwd + at.out * item, inner->out, inner->out ? at.n : 1, fwd);
        spread_line(x, fwd, share, inner->out ? 1 : 0, at.n, gx);
        s->dtype->store(gx, at.n, s->gx + at.index * item, 1);
    }
}

#undef NAME
#undef ties_of
#undef ties_along
#undef ties_row
#undef ties_across
#undef ties_finish
#undef spread_line
#undef spread_cells
#undef ties
