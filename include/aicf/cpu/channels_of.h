/* Part of channels.h, included once for what floats are computed in: S is f32 or f64, REAL its
   type. A file that includes it may leave some of it unused. */

#define NAME(name) AICF_JOIN(name, S)
#define channels_row NAME(channels_row)
#define channels_rows NAME(channels_rows)
#define channels_planes NAME(channels_planes)
#define channels_cells NAME(channels_cells)
#define channels_total NAME(channels_total)
#define channels_sum NAME(channels_sum)
#define channels_formula NAME(channels_formula)
#define channels_piece NAME(channels_piece)
#define channels_pieces NAME(channels_pieces)
#define channels_write NAME(channels_write)

/* ---- sums: of d and d * d, or of gy and gy * d, where d = x - mean ------------------------------
 */

/* One row of channels side by side. */
AICF_CLONES static void
channels_row(const REAL *g, const REAL *x, const REAL *mean, int64_t n, REAL *first, REAL *second)
{
    if (g) {
        AICF_INDEPENDENT
        for (int64_t j = 0; j < n; j++) {
            first[j] += g[j];
            second[j] += g[j] * (x[j] - mean[j]);
        }
        return;
    }
    AICF_INDEPENDENT
    for (int64_t j = 0; j < n; j++) {
        const REAL d = x[j] - mean[j];
        first[j] += d;
        second[j] += d * d;
    }
}

/* The channels [channel, channel + n) over the rows [begin, end). */
static void
channels_rows(
    const aicf_channels *p, int64_t channel, int64_t n, int64_t begin, int64_t end, REAL *to)
{
    const REAL *mean = (const REAL *)p->mean + channel;
    double total[2][CHANNELS_WIDTH] = {{0}};
    REAL room[2][CHANNELS_WIDTH];
    while (begin < end) {
        REAL sums[2][CHANNELS_WIDTH] = {{0}};
        const int64_t stop = moments_least(begin + CHANNELS_ROWS, end);
        for (; begin < stop; begin++) {
            const int64_t at = (begin * p->C + channel) * p->dtype->item;
            const REAL *g = p->gy ? NAME(moments_line)(p->dtype, p->gy + at, n, room[0]) : NULL;
            const REAL *x = NAME(moments_line)(p->dtype, p->x + at, n, room[1]);
            channels_row(g, x, mean, n, sums[0], sums[1]);
        }
        for (int64_t j = 0; j < n; j++) {
            total[0][j] += (double)sums[0][j];
            total[1][j] += (double)sums[1][j];
        }
    }
    for (int64_t j = 0; j < n; j++) {
        to[channel + j] = (REAL)total[0][j];
        to[p->C + channel + j] = (REAL)total[1][j];
    }
}

/* One channel over the planes [begin, end). */
static void
channels_planes(const aicf_channels *p, int64_t channel, int64_t begin, int64_t end, REAL *to)
{
    const REAL mean = ((const REAL *)p->mean)[channel];
    REAL room[2][MOMENTS_BLOCK];
    aicf_sums total = {0, 0};
    for (; begin < end; begin++) {
        for (int64_t i = 0; i < p->R; i += MOMENTS_BLOCK) {
            const int64_t n = moments_least(p->R - i, MOMENTS_BLOCK);
            const int64_t at = ((begin * p->C + channel) * p->R + i) * p->dtype->item;
            const REAL *x = NAME(moments_line)(p->dtype, p->x + at, n, room[0]);
            if (p->gy) {
                const REAL *g = NAME(moments_line)(p->dtype, p->gy + at, n, room[1]);
                moments_add(&total, NAME(moments_products)(g, x, n, mean));
            } else {
                moments_add(&total, NAME(moments_of_block)(x, n, 1, mean));
            }
        }
    }
    to[channel] = (REAL)total.first;
    to[p->C + channel] = (REAL)total.second;
}

/* Cells: part by part of each tile of channels. */
static void
channels_cells(void *context, int64_t begin, int64_t end)
{
    const aicf_channels *p = (const aicf_channels *)context;
    const int64_t rows = p->last ? p->N * p->R : p->N;
    for (int64_t cell = begin; cell < end; cell++) {
        const int64_t tile = cell / p->parts.count, part = cell % p->parts.count;
        const int64_t first = part * p->parts.rows;
        const int64_t stop = moments_least(first + p->parts.rows, rows);
        REAL *to = (REAL *)p->partial + part * 2 * p->C;
        if (p->last) {
            const int64_t channel = tile * CHANNELS_WIDTH;
            const int64_t n = moments_least(CHANNELS_WIDTH, p->C - channel);
            channels_rows(p, channel, n, first, stop, to);
        } else {
            channels_planes(p, tile, first, stop, to);
        }
    }
}

static void
channels_total(void *context, int64_t begin, int64_t end)
{
    const aicf_channels *p = (const aicf_channels *)context;
    for (int64_t i = begin; i < end; i++) {
        double sum = 0;
        for (int64_t part = 0; part < p->parts.count; part++) {
            sum += (double)((const REAL *)p->partial)[part * 2 * p->C + i];
        }
        ((REAL *)p->sums)[i] = (REAL)sum;
    }
}

__attribute__((unused)) static void
channels_sum(aicf_channels *p)
{
    const int64_t tiles = channels_tiles(p), count = p->N * p->R * p->C;
    const int64_t cells = tiles * p->parts.count;
    const int64_t each = cells > 0 ? count / cells : 0;
    aicf_parallel_for(cells, moments_grain(each), channels_cells, p);
    aicf_parallel_for(2 * p->C, moments_grain(p->parts.count), channels_total, p);
}

/* ---- the formula -------------------------------------------------------------------------------

   out = (x - mean - shift) * factor + offset, or, where there is a gy,
   out = (gy - shift - (x - mean) * offset) * factor, with arrays that go by `step`: 1 or 0. */

AICF_INLINE void
channels_formula(
    const aicf_channels *p, const REAL *g, const REAL *x, int64_t channel, int64_t step, int64_t n,
    REAL *out)
{
    const REAL *mean = (const REAL *)p->mean + channel, *shift = (const REAL *)p->shift + channel;
    const REAL *factor = (const REAL *)p->factor + channel;
    const REAL *offset = (const REAL *)p->offset + channel;
    AICF_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = i * step;
        const REAL d = x[i] - mean[j];
        out[i] = g ? (g[i] - shift[j] - d * offset[j]) * factor[j]
                   : (d - shift[j]) * factor[j] + offset[j];
    }
}

AICF_CLONES static void
channels_piece(
    const aicf_channels *p, const REAL *g, const REAL *x, int64_t channel, int64_t n, REAL *out)
{
    if (p->last && g) {
        channels_formula(p, g, x, channel, 1, n, out);
    } else if (p->last) {
        channels_formula(p, NULL, x, channel, 1, n, out);
    } else if (g) {
        channels_formula(p, g, x, channel, 0, n, out);
    } else {
        channels_formula(p, NULL, x, channel, 0, n, out);
    }
}

/* Lines [begin, end): planes of one channel, or rows of all. */
static void
channels_pieces(void *context, int64_t begin, int64_t end)
{
    const aicf_channels *p = (const aicf_channels *)context;
    const int64_t length = p->last ? p->C : p->R;
    REAL room[3][MOMENTS_BLOCK];
    for (int64_t line = begin; line < end; line++) {
        for (int64_t i = 0; i < length; i += MOMENTS_BLOCK) {
            const int64_t n = moments_least(length - i, MOMENTS_BLOCK);
            const int64_t at = (line * length + i) * p->dtype->item;
            const REAL *g = p->gy ? NAME(moments_line)(p->dtype, p->gy + at, n, room[0]) : NULL;
            const REAL *x = NAME(moments_line)(p->dtype, p->x + at, n, room[1]);
            REAL *out = p->dtype->plain ? (REAL *)(p->out + at) : room[2];
            channels_piece(p, g, x, p->last ? i : line % p->C, n, out);
            if (!p->dtype->plain) {
                p->dtype->store(out, n, p->out + at, 1);
            }
        }
    }
}

static void
channels_write(aicf_channels *p)
{
    const int64_t length = p->last ? p->C : p->R;
    const int64_t lines = p->last ? p->N * p->R : p->N * p->C;
    aicf_parallel_for(lines, moments_grain(length), channels_pieces, p);
}

#undef NAME
#undef channels_row
#undef channels_rows
#undef channels_planes
#undef channels_cells
#undef channels_total
#undef channels_sum
#undef channels_formula
#undef channels_piece
#undef channels_pieces
#undef channels_write
