/* Included by cross_entropy_bwd.c once for each type that is computed in, REAL, with suffix S. */
#define NAME(name) AICF_JOIN(name, S)

/* Of each line: gx = g ((1 - s) w[t] (p - (c == t)) + s / C (p sum(w) - w[c])), where p is its
   softmax and s the smoothing. */
typedef struct NAME(slope) {
    REAL lse[SOFT_LANES], at_target[SOFT_LANES], by_p[SOFT_LANES], by_weight[SOFT_LANES];
    int64_t target[SOFT_LANES];
} NAME(slope);

AICF_INLINE void
NAME(slope_of)(const slope_plan *p, const soft_group *g, NAME(slope) * s)
{
    const loss_rules *r = &p->rules;
    for (int w = 0; w < soft_lines(g); w++) {
        const int64_t line = g->line + w, t = loss_target(r, line);
        REAL gy = NAME(loss_value)(r, p->gy, p->each ? line : 0);
        gy = p->divided ? gy / *(const REAL *)p->divisor : gy;
        s->target[w] = t;
        s->lse[w] = ((const REAL *)p->lse)[line];
        s->at_target[w] = gy * (REAL)(1 - r->smoothing) * NAME(loss_target_weight)(r, t);
        s->by_weight[w] = gy * (REAL)(r->smoothing / (double)r->shape.N);
        s->by_p[w] = s->at_target[w] + s->by_weight[w] * (REAL)p->weights;
    }
    for (int w = 1; g->single && w < g->width; w++) {
        s->target[w] = s->target[0];
        s->lse[w] = s->lse[0];
        s->at_target[w] = s->at_target[0];
        s->by_weight[w] = s->by_weight[0];
        s->by_p[w] = s->by_p[0];
    }
}

AICF_INLINE void
NAME(slope_row)(
    const slope_plan *p, const soft_group *g, int64_t row, const NAME(slope) * s, const REAL *x,
    REAL *gx)
{
    REAL weight[SOFT_LANES];
    const int width = soft_width(g, row);
    AICF_INDEPENDENT
    for (int w = 0; w < width; w++) {
        gx[w] = aicf_exp(x[w] - s->lse[w]) * s->by_p[w];
    }
    if (p->rules.smoothing > 0) {
        NAME(loss_weights)(&p->rules, g, row, weight);
        for (int w = 0; w < width; w++) {
            gx[w] -= s->by_weight[w] * weight[w];
        }
    }
    for (int w = 0; w < width; w++) {
        const int64_t c = g->single ? row * SOFT_LANES + w : row;
        const REAL y = gx[w] - (c == s->target[w] ? s->at_target[w] : 0);
        gx[w] = s->target[w] == p->rules.ignore_index ? 0 : y;
    }
}

AICF_CLONES static void
NAME(slope_groups)(void *context, int64_t begin, int64_t end)
{
    const slope_plan *p = (const slope_plan *)context;
    REAL held[SOFT_LANES], result[SOFT_LANES];
    for (int64_t i = begin; i < end; i++) {
        const soft_group g = soft_group_at(&p->rules.shape, i);
        NAME(slope) s;
        NAME(slope_of)(p, &g, &s);
        for (int64_t row = 0; row < g.rows; row++) {
            const REAL *x = (const REAL *)soft_load(p->rules.dtype, &g, row, p->logits, held);
            REAL *gx = (REAL *)soft_place(p->rules.dtype, &g, row, p->gx, result);
            NAME(slope_row)(p, &g, row, &s, x, gx);
            soft_store(p->rules.dtype, &g, row, p->gx, gx);
        }
    }
}

static void
NAME(slope_run)(slope_plan *p)
{
    const loss_rules *r = &p->rules;
    p->weights = (double)r->shape.N;
    if (r->weight && r->smoothing > 0) {
        p->weights = 0;
        for (int64_t c = 0; c < r->shape.N; c++) {
            p->weights += (double)NAME(loss_weight)(r, c);
        }
    }
    soft_run(&r->shape, NAME(slope_groups), p);
}

#undef NAME
