/* Part of row_norm_bwd.c, included once for what rows are computed in: S is f32 or f64, REAL its
   type. */

#define NAME(name) AICF_JOIN(name, S)
#define row_block NAME(row_block)
#define row_block_read NAME(row_block_read)
#define row_means NAME(row_means)
#define block_gx NAME(block_gx)
#define block_gw NAME(block_gw)
#define block_gb NAME(block_gb)
#define row_write NAME(row_write)
#define row_norm_bwd_parts NAME(row_norm_bwd_parts)
#define row_norm_bwd_columns NAME(row_norm_bwd_columns)
#define row_norm_bwd_run NAME(row_norm_bwd_run)

/* Of at most MOMENTS_BLOCK elements, as values side by side. */
typedef struct row_block {
    const REAL *gy, *x, *q;
    REAL room[4][MOMENTS_BLOCK];
} row_block;

/* n elements from `i` on of the row that starts at byte `at`. */
static void
row_block_read(const row_norm_bwd *p, int64_t at, int64_t i, int64_t n, row_block *b)
{
    const int64_t column = i * p->dtype->item;
    b->gy = NAME(moments_line)(p->dtype, p->gy + at + column, n, b->room[0]);
    b->x = NAME(moments_line)(p->dtype, p->x + at + column, n, b->room[1]);
    b->q = b->gy;
    if (p->weight) {
        const REAL *w = NAME(moments_line)(p->dtype, p->weight + column, n, b->room[2]);
        b->q = b->room[2];
        for (int64_t j = 0; j < n; j++) {
            b->room[2][j] = b->gy[j] * w[j];
        }
    }
}

/* Means over a row: of q, and of q * h. */
static aicf_sums
row_means(const row_norm_bwd *p, int64_t at, REAL mean, REAL rstd)
{
    row_block b;
    aicf_sums total = {0, 0};
    for (int64_t i = 0; i < p->N; i += MOMENTS_BLOCK) {
        const int64_t n = moments_least(p->N - i, MOMENTS_BLOCK);
        row_block_read(p, at, i, n, &b);
        moments_add(&total, NAME(moments_products)(b.q, b.x, n, mean));
    }
    total.first = CENTRED ? total.first / (double)p->N : 0;
    total.second = total.second * (double)rstd / (double)p->N;
    return total;
}

AICF_CLONES static void
block_gx(const row_block *b, int64_t n, REAL mean, REAL rstd, aicf_sums means, REAL *gx)
{
    const REAL first = (REAL)means.first, second = (REAL)means.second;
    AICF_INDEPENDENT
    for (int64_t j = 0; j < n; j++) {
        gx[j] = rstd * (b->q[j] - first - (b->x[j] - mean) * rstd * second);
    }
}

AICF_CLONES static void
block_gw(const row_block *b, int64_t n, REAL mean, REAL rstd, REAL *gw)
{
    AICF_INDEPENDENT
    for (int64_t j = 0; j < n; j++) {
        gw[j] += b->gy[j] * ((b->x[j] - mean) * rstd);
    }
}

AICF_CLONES static void
block_gb(const row_block *b, int64_t n, REAL *gb)
{
    AICF_INDEPENDENT
    for (int64_t j = 0; j < n; j++) {
        gb[j] += b->gy[j];
    }
}

/* gx last: it may be gy. */
static void
row_write(const row_norm_bwd *p, int64_t row, REAL *gw, REAL *gb)
{
    const REAL mean = CENTRED ? ((const REAL *)p->mean)[row] : 0;
    const REAL rstd = ((const REAL *)p->rstd)[row];
    const int64_t at = row * p->N * p->dtype->item;
    const aicf_sums means = p->gx ? row_means(p, at, mean, rstd) : (aicf_sums){0, 0};
    row_block b;
    for (int64_t i = 0; i < p->N; i += MOMENTS_BLOCK) {
        const int64_t n = moments_least(p->N - i, MOMENTS_BLOCK);
        row_block_read(p, at, i, n, &b);
        if (p->gw) {
            block_gw(&b, n, mean, rstd, gw + i);
        }
        if (p->gb) {
            block_gb(&b, n, gb + i);
        }
        if (p->gx) {
            block_gx(&b, n, mean, rstd, means, b.room[3]);
            p->dtype->store(b.room[3], n, p->gx + at + i * p->dtype->item, 1);
        }
    }
}

static void
row_norm_bwd_parts(void *context, int64_t begin, int64_t end)
{
    const row_norm_bwd *p = (const row_norm_bwd *)context;
    for (int64_t part = begin; part < end; part++) {
        REAL *gw = (REAL *)p->partial + part * 2 * p->N, *gb = gw + p->N;
        const int64_t first = part * p->parts.rows;
        const int64_t last = moments_least(first + p->parts.rows, p->L);
        if (p->gw || p->gb) {
            memset(gw, 0, sizeof(REAL) * 2 * (size_t)p->N);
        }
        for (int64_t row = first; row < last; row++) {
            row_write(p, row, gw, gb);
        }
    }
}

/* Columns [begin, end) of gw, behind them those of gb: the parts' sums added up. */
static void
row_norm_bwd_columns(void *context, int64_t begin, int64_t end)
{
    const row_norm_bwd *p = (const row_norm_bwd *)context;
    for (int64_t column = begin; column < end; column++) {
        char *out = column < p->N ? p->gw : p->gb;
        double sum = 0;
        for (int64_t part = 0; part < p->parts.count; part++) {
            sum += (double)((const REAL *)p->partial)[part * 2 * p->N + column];
        }
        if (out) {
            const REAL value = (REAL)sum;
            p->dtype->store(&value, 1, out + column % p->N * p->dtype->item, 1);
        }
    }
}

static void
row_norm_bwd_run(row_norm_bwd *p)
{
    const int64_t parts = p->parts.count;
    aicf_parallel_for(parts, moments_grain(p->parts.rows * p->N), row_norm_bwd_parts, p);
    if (p->gw || p->gb) {
        aicf_parallel_for(2 * p->N, moments_grain(parts), row_norm_bwd_columns, p);
    }
}

#undef NAME
#undef row_block
#undef row_block_read
#undef row_means
#undef block_gx
#undef block_gw
#undef block_gb
#undef row_write
#undef row_norm_bwd_parts
#undef row_norm_bwd_columns
#undef row_norm_bwd_run
