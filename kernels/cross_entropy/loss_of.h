/* Included by cross_entropy.c once for each type that is computed in, REAL, with suffix S. */
#define NAME(name) AICF_JOIN(name, S)

/* For label smoothing, of each line: sum of w (x - shift), sum of w. The shift, an element of the
   line, keeps the digits of logits that are large and near each other. */
typedef struct NAME(smoothed) {
    REAL shift[SOFT_LANES], sum[SOFT_LANES], weights[SOFT_LANES];
} NAME(smoothed);

AICF_INLINE void
NAME(smooth)(const loss_plan *p, const soft_group *g, NAME(smoothed) * s)
{
    REAL held[SOFT_LANES], weight[SOFT_LANES], block[SOFT_LANES], blocks[SOFT_LANES];
    NAME(soft_fill)(s->shift, 0);
    for (int w = 0; w < soft_lines(g); w++) {
        const REAL x = NAME(loss_value)(&p->rules, p->logits, g->first + w);
        s->shift[w] = isfinite(x) ? x : 0;
    }
    if (g->single) {
        NAME(soft_fill)(s->shift, s->shift[0]);
    }
    NAME(soft_fill)(s->sum, 0);
    NAME(soft_fill)(s->weights, 0);
    NAME(soft_fill)(block, 0);
    NAME(soft_fill)(blocks, 0);
    for (int64_t row = 0; row < g->rows; row++) {
        const REAL *x = (const REAL *)soft_load(p->rules.dtype, g, row, p->logits, held);
        const int width = soft_width(g, row);
        NAME(loss_weights)(&p->rules, g, row, weight);
        for (int w = 0; w < width; w++) {
            block[w] += weight[w] * (x[w] - s->shift[w]);
            blocks[w] += weight[w];
        }
        NAME(soft_block)(g, row, s->sum, block);
        NAME(soft_block)(g, row, s->weights, blocks);
    }
    if (g->single) {
        NAME(soft_fold_sum)(s->sum);
        NAME(soft_fold_sum)(s->weights);
    }
}

/* Writes what there is of a line, adds its loss and weight to `sums`. */
AICF_INLINE void
NAME(finish)(
    const loss_plan *p, int64_t line, REAL top, REAL sum, const NAME(smoothed) * s, int lane,
    double *sums)
{
    const loss_rules *r = &p->rules;
    const int64_t t = loss_target(r, line);
    const REAL log_sum = aicf_log(sum), weight = NAME(loss_target_weight)(r, t);
    REAL loss = weight; /* 0 or NaN */
    if (t != r->ignore_index && loss_is_class(r, t)) {
        const REAL x = NAME(loss_value)(r, p->logits, loss_at(r, line, t));
        loss = weight * ((top - x) + log_sum);
        if (r->smoothing > 0) {
            const REAL all = s->weights[lane] * ((top - s->shift[lane]) + log_sum) - s->sum[lane];
            const REAL share = (REAL)(r->smoothing / (double)r->shape.N);
            loss = (REAL)(1 - r->smoothing) * loss + share * all;
        }
    }
    if (p->lse) {
        ((REAL *)p->lse)[line] = top + log_sum;
    }
    if (p->out) {
        r->dtype->store(&loss, 1, (char *)p->out + line * r->dtype->item, 1);
    }
    sums[0] += (double)loss;
    sums[1] += (double)weight;
}

/* Parts [begin, end): each leaves two sums. */
AICF_CLONES static void
NAME(loss_parts)(void *context, int64_t begin, int64_t end)
{
    loss_plan *p = (loss_plan *)context;
    const int64_t groups = p->rules.shape.L * p->rules.shape.tiles;
    for (int64_t part = begin; part < end; part++) {
        double *sums = p->sums[part];
        const int64_t last = (part + 1) * p->share < groups ? (part + 1) * p->share : groups;
        sums[0] = sums[1] = 0;
        for (int64_t i = part * p->share; i < last; i++) {
            const soft_group g = soft_group_at(&p->rules.shape, i);
            NAME(soft_total) total;
            NAME(smoothed) smoothed;
            NAME(soft_total_of)(p->rules.dtype, &g, p->logits, NULL, &total);
            if (p->rules.smoothing > 0) {
                NAME(smooth)(p, &g, &smoothed);
            }
            for (int w = 0; w < soft_lines(&g); w++) {
                NAME(finish)(p, g.line + w, total.top[w], total.sum[w], &smoothed, w, sums);
            }
        }
    }
}

static void
NAME(loss_run)(loss_plan *p, bool mean, void *out, void *divisor)
{
    const soft_shape *shape = &p->rules.shape;
    const int64_t groups = shape->L * shape->tiles;
    double sums[LOSS_PARTS][2];
    p->sums = sums;
    p->share = groups / LOSS_PARTS + (groups % LOSS_PARTS != 0);
    const int64_t parts = p->share > 0 ? (groups + p->share - 1) / p->share : 0;
    const int64_t size = p->share * shape->N * (shape->R < SOFT_LANES ? shape->R : SOFT_LANES);
    if (parts > 0) {
        const int64_t grain = size > 0 && size < SOFT_TASK ? SOFT_TASK / size : 1;
        aicf_parallel_for(parts, grain, NAME(loss_parts), p);
    }
    double loss = 0, weight = 0;
    for (int64_t part = 0; part < parts; part++) {
        loss += sums[part][0];
        weight += sums[part][1];
    }
    const REAL by = mean ? (REAL)weight : 1, result = (REAL)(loss / (mean ? weight : 1));
    if (!p->out) {
        p->rules.dtype->store(&result, 1, out, 1);
    }
    if (divisor) {
        *(REAL *)divisor = by;
    }
}

#undef NAME
