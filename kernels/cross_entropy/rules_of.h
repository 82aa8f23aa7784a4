/* Included by rules.h once for each type that is computed in, REAL, with suffix S. */
#define NAME(name) AICF_JOIN(name, S)

AICF_INLINE REAL
NAME(loss_value)(const loss_rules *r, const void *x, int64_t at)
{
    REAL value;
    r->dtype->load((const char *)x + at * r->dtype->item, 1, 1, &value);
    return value;
}

AICF_INLINE REAL
NAME(loss_weight)(const loss_rules *r, int64_t c)
{
    return r->weight ? NAME(loss_value)(r, r->weight, c) : 1;
}

/* Of the target of a line: 0 for one that is ignored, NaN for what is no class. */
AICF_INLINE REAL
NAME(loss_target_weight)(const loss_rules *r, int64_t t)
{
    return t == r->ignore_index ? 0 : loss_is_class(r, t) ? NAME(loss_weight)(r, t) : (REAL)NAN;
}

/* The weights of the classes of row `row` of a group, one a lane. */
AICF_INLINE void
NAME(loss_weights)(const loss_rules *r, const soft_group *g, int64_t row, REAL *weight)
{
    if (!r->weight || !g->single) {
        NAME(soft_fill)(weight, NAME(loss_weight)(r, row));
        return;
    }
    const char *from = (const char *)r->weight + row * SOFT_LANES * r->dtype->item;
    r->dtype->load(from, 1, soft_width(g, row), weight);
}

#undef NAME
