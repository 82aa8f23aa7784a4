/* Part of row_norm.c, included once for what rows are computed in: S is f32 or f64, REAL its type,
   LARGEST its largest number, SMALL the factor for rows whose squares overflow. */

#define NAME(name) AICF_JOIN(name, S)
#define row_sums NAME(row_sums)
#define row_look NAME(row_look)
#define block_norm NAME(block_norm)
#define row_write NAME(row_write)
#define row_norm_rows NAME(row_norm_rows)

/* The sums of d and of d * d over a row, where d = x * scale - mean. */
static aicf_sums
row_sums(const row_norm *p, const char *x, REAL scale, REAL mean)
{
    REAL room[MOMENTS_BLOCK];
    aicf_sums total = {0, 0};
    for (int64_t i = 0; i < p->N; i += MOMENTS_BLOCK) {
        const int64_t n = moments_least(p->N - i, MOMENTS_BLOCK);
        const REAL *block = NAME(moments_line)(p->dtype, x + i * p->dtype->item, n, room);
        moments_add(&total, NAME(moments_of_block)(block, n, scale, mean));
    }
    return total;
}

static row_terms
row_look(const row_norm *p, const char *x)
{
    REAL scale = 1, mean = 0;
    aicf_sums sums = row_sums(p, x, scale, 0);
    if (CENTRED) {
        mean = (REAL)(sums.first / (double)p->N);
        sums = row_sums(p, x, scale, mean);
    }
    if (!(sums.second <= (double)LARGEST)) {
        scale = SMALL;
        mean = CENTRED ? (REAL)(row_sums(p, x, scale, 0).first / (double)p->N) : 0;
        sums = row_sums(p, x, scale, mean);
    }
    return row_terms_of((double)scale, (double)mean, sums, p->N, p->eps);
}

/* A block of a row; w and b may be absent. */
AICF_CLONES static void
block_norm(const REAL *x, const REAL *w, const REAL *b, REAL *out, int64_t n, const row_terms *t)
{
    const REAL scale = (REAL)t->scale, mean = (REAL)t->mean, shift = (REAL)t->shift;
    const REAL factor = (REAL)t->factor;
    AICF_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        REAL y = (x[i] * scale - mean - shift) * factor;
        y = w ? y * w[i] : y;
        out[i] = b ? y + b[i] : y;
    }
}

static void
row_write(const row_norm *p, const char *x, char *out, const row_terms *t)
{
    REAL room[4][MOMENTS_BLOCK];
    for (int64_t i = 0; i < p->N; i += MOMENTS_BLOCK) {
        const int64_t n = moments_least(p->N - i, MOMENTS_BLOCK), at = i * p->dtype->item;
        const REAL *block = NAME(moments_line)(p->dtype, x + at, n, room[0]);
        const REAL *w = p->weight ? NAME(moments_line)(p->dtype, p->weight + at, n, room[1]) : NULL;
        const REAL *b = p->bias ? NAME(moments_line)(p->dtype, p->bias + at, n, room[2]) : NULL;
        block_norm(block, w, b, p->dtype->plain ? (REAL *)(out + at) : room[3], n, t);
        if (!p->dtype->plain) {
            p->dtype->store(room[3], n, out + at, 1);
        }
    }
}

static void
row_norm_rows(void *context, int64_t begin, int64_t end)
{
    const row_norm *p = (const row_norm *)context;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row * p->N * p->dtype->item;
        const row_terms t = row_look(p, p->x + at);
        row_write(p, p->x + at, p->out + at, &t);
        if (p->mean) {
            ((REAL *)p->mean)[row] = (REAL)((t.mean + t.shift) / t.scale);
        }
        if (p->rstd) {
            ((REAL *)p->rstd)[row] = (REAL)(t.factor * t.scale);
        }
    }
}

#undef NAME
#undef row_sums
#undef row_look
#undef block_norm
#undef row_write
#undef row_norm_rows
