/* Included by soft.h once for each type that is computed in, REAL, with suffix S: what a group's
   lines share. */
#define NAME(name) AICF_JOIN(name, S)

/* Largest element and sum of e**(x - largest), of each lane or, in all lanes, of the single line.
   Of -inf alone it is -inf and 0; with NaN or +inf the sum is NaN. */
typedef struct NAME(soft_total) {
    REAL top[SOFT_LANES], sum[SOFT_LANES];
} NAME(soft_total);

/* What to subtract: e**(-inf - 0) is 0, not NaN. */
AICF_INLINE REAL
NAME(soft_base)(REAL top)
{
    return top == -(REAL)INFINITY ? 0 : top;
}

/* x[0] and all others become the sum of them all. */
AICF_INLINE void
NAME(soft_fold_sum)(REAL *x)
{
    for (int half = SOFT_LANES / 2; half > 0; half /= 2) {
        for (int w = 0; w < half; w++) {
            x[w] += x[half + w];
        }
    }
    for (int w = 1; w < SOFT_LANES; w++) {
        x[w] = x[0];
    }
}

AICF_INLINE void
NAME(soft_fold_top)(REAL *x)
{
    for (int half = SOFT_LANES / 2; half > 0; half /= 2) {
        for (int w = 0; w < half; w++) {
            x[w] = x[half + w] > x[w] ? x[half + w] : x[w];
        }
    }
    for (int w = 1; w < SOFT_LANES; w++) {
        x[w] = x[0];
    }
}

AICF_INLINE void
NAME(soft_fill)(REAL *x, REAL value)
{
    for (int w = 0; w < SOFT_LANES; w++) {
        x[w] = value;
    }
}

/* sum += block, which is cleared: every SOFT_BLOCK rows, and after the last. */
AICF_INLINE void
NAME(soft_block)(const soft_group *g, int64_t row, REAL *sum, REAL *block)
{
    if (row % SOFT_BLOCK == SOFT_BLOCK - 1 || row == g->rows - 1) {
        for (int w = 0; w < SOFT_LANES; w++) {
            sum[w] += block[w];
            block[w] = 0;
        }
    }
}

AICF_INLINE void
NAME(soft_top)(const aicf_converter *dtype, const soft_group *g, const void *x, REAL *top)
{
    REAL held[SOFT_LANES];
    NAME(soft_fill)(top, -(REAL)INFINITY);
    for (int64_t row = 0; row < g->rows; row++) {
        const REAL *y = (const REAL *)soft_load(dtype, g, row, x, held);
        const int width = soft_width(g, row);
        for (int w = 0; w < width; w++) {
            top[w] = y[w] > top[w] ? y[w] : top[w];
        }
    }
    if (g->single) {
        NAME(soft_fold_top)(top);
    }
}

/* The total of x; where `out` is given and holds values, its rows become e**(x - largest). */
AICF_INLINE void
NAME(soft_total_of)(
    const aicf_converter *dtype, const soft_group *g, const void *x, void *out,
    NAME(soft_total) * t)
{
    REAL held[SOFT_LANES], exps[SOFT_LANES], base[SOFT_LANES], block[SOFT_LANES];
    NAME(soft_top)(dtype, g, x, t->top);
    NAME(soft_fill)(t->sum, 0);
    NAME(soft_fill)(block, 0);
    for (int w = 0; w < SOFT_LANES; w++) {
        base[w] = NAME(soft_base)(t->top[w]);
    }
    for (int64_t row = 0; row < g->rows; row++) {
        const REAL *y = (const REAL *)soft_load(dtype, g, row, x, held);
        REAL *e = out ? (REAL *)soft_place(dtype, g, row, out, exps) : exps;
        const int width = soft_width(g, row);
        AICF_INDEPENDENT
        for (int w = 0; w < width; w++) {
            const REAL power = aicf_exp(y[w] - base[w]);
            e[w] = power;
            block[w] += power;
        }
        NAME(soft_block)(g, row, t->sum, block);
    }
    if (g->single) {
        NAME(soft_fold_sum)(t->sum);
    }
}

#undef NAME
