/* One tile of gemm `loop`: included once for what is computed in, S being f32 or f64 and REAL its
   type. 16-bit floats come and go through the converter of their dtype.

   Packed panels: of a, ROWS rows side by side, k after k; of b, COLUMNS columns likewise. What lies
   outside the matrix is packed as 0 and its products are never stored. The sums of a tile lie panel
   after panel of b, in each micro tile after micro tile of ROWS x COLUMNS. */

#define vector NAME(vector)
#define room NAME(room)
#define take NAME(take)
#define pack_lines NAME(pack_lines)
#define pack_lanes NAME(pack_lanes)
#define pack NAME(pack)
#define multiply NAME(multiply)
#define take_row NAME(take_row)
#define finish NAME(finish)
#define gemm_tile NAME(gemm_tile)
#define gemm_part NAME(gemm_part)
#define gemm_run NAME(gemm_run)

typedef REAL vector __attribute__((vector_size(32)));

typedef struct room {
    _Alignas(64) REAL a[TILE_M * TILE_K];
    _Alignas(64) REAL b[TILE_K * TILE_N];
    _Alignas(64) REAL sums[TILE_M * TILE_N];
} room;

/* n elements as values side by side: in place where they are, else in `line`. */
AICF_INLINE const REAL *
take(const aicf_product *p, const char *from, int64_t step, int64_t n, REAL *line)
{
    if (p->dtype->plain && step == 1) {
        return (const REAL *)from;
    }
    p->dtype->load(from, step, n, line);
    return line;
}

/* Panels from lines that run along the lanes. */
AICF_INLINE void
pack_lines(
    const aicf_product *p, const char *from, int64_t size, int64_t k, int64_t k_stride, int width,
    REAL *to)
{
    REAL buffer[TILE_N];
    for (int64_t i = 0; i < k; i++) {
        const REAL *line = take(p, from + i * k_stride * p->dtype->item, 1, size, buffer);
        int64_t at = 0;
        for (; at + width <= size; at += width) {
            memcpy(to + at * k + i * width, line + at, sizeof(REAL) * (size_t)width);
        }
        if (at < size) {
            REAL *last = to + at * k + i * width;
            memset(last, 0, sizeof(REAL) * (size_t)width);
            memcpy(last, line + at, sizeof(REAL) * (size_t)(size - at));
        }
    }
}

/* Panels from lanes whose elements are any step apart. */
AICF_INLINE void
pack_lanes(
    const aicf_product *p, const char *from, int64_t size, int64_t stride, int64_t k,
    int64_t k_stride, int width, REAL *to)
{
    REAL buffer[TILE_K];
    const int64_t whole = size - size % width;
    if (whole < size) {
        memset(to + whole * k, 0, sizeof(REAL) * (size_t)(width * k));
    }
    for (int64_t at = 0; at < size; at++) {
        const REAL *line = take(p, from + at * stride * p->dtype->item, k_stride, k, buffer);
        REAL *lane = to + at / width * width * k + at % width;
        for (int64_t i = 0; i < k; i++) {
            lane[i * width] = line[i];
        }
    }
}

AICF_INLINE void
pack(
    const aicf_product *p, const char *from, int64_t size, int64_t stride, int64_t k,
    int64_t k_stride, int width, REAL *to)
{
    if (stride == 1) {
        pack_lines(p, from, size, k, k_stride, width, to);
    } else {
        pack_lanes(p, from, size, stride, k, k_stride, width, to);
    }
}

/* sums (+)= a panel of a times a panel of b. */
AICF_INLINE void
multiply(const REAL *a, const REAL *b, int64_t k, bool first, REAL *sums)
{
    vector acc[ROWS][2] = {{{0}}};
    const vector *row = (const vector *)b;
    vector *out = (vector *)sums;
    for (int64_t i = 0; i < k; i++) {
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            acc[r][0] += a[i * ROWS + r] * row[2 * i];
            acc[r][1] += a[i * ROWS + r] * row[2 * i + 1];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
        out[2 * r] = first ? acc[r][0] : out[2 * r] + acc[r][0];
        out[2 * r + 1] = first ? acc[r][1] : out[2 * r + 1] + acc[r][1];
    }
}

/* alpha times a row of the sums, which starts in the first panel's micro tile. */
AICF_INLINE void
take_row(const REAL *sums, int64_t n, REAL alpha, REAL *row)
{
    for (int64_t j = 0; j < n; j += COLUMNS) {
        for (int lane = 0; lane < COLUMNS; lane++) {
            row[j + lane] = alpha * sums[j * TILE_M + lane];
        }
    }
}

/* A row of alpha * a @ b, at most TILE_N long, through c, bias and the activation to its place in
   out; c and bias may be NULL. */
AICF_CLONES static void
finish(
    const aicf_product *p, REAL *row, int64_t n, const char *c, int64_t c_step, const char *bias,
    char *out, int64_t out_step)
{
    REAL buffer[TILE_N];
    const REAL beta = (REAL)p->beta;
    if (c) {
        const REAL *line = take(p, c, c_step, n, buffer);
        for (int64_t j = 0; j < n; j++) {
            row[j] += beta * line[j];
        }
    }
    if (bias) {
        const REAL *line = take(p, bias, 1, n, buffer);
        for (int64_t j = 0; j < n; j++) {
            row[j] += line[j];
        }
    }
    if (p->act == AICF_PRODUCT_RELU) {
        for (int64_t j = 0; j < n; j++) {
            row[j] = row[j] < 0 ? 0 : row[j];
        }
    } else if (p->act == AICF_PRODUCT_GELU) {
        for (int64_t j = 0; j < n; j++) {
            row[j] = aicf_gelu(row[j]);
        }
    }
    p->dtype->store(row, n, out, out_step);
}

AICF_CLONES static void
gemm_tile(const aicf_product *p, const tile *t, room *in)
{
    const int64_t item = p->dtype->item;
    const int64_t *sa = matrix_strides(p->a), *sb = matrix_strides(p->b);
    int64_t k0 = 0;
    do { /* once even if K is 0: then the sums are 0 */
        const int64_t k = least(p->k - k0, TILE_K);
        pack(p, t->a + k0 * sa[1] * item, t->m, sa[0], k, sa[1], ROWS, in->a);
        pack(p, t->b + k0 * sb[0] * item, t->n, sb[1], k, sb[0], COLUMNS, in->b);
        for (int64_t j = 0; j < t->n; j += COLUMNS) {
            for (int64_t i = 0; i < t->m; i += ROWS) {
                multiply(
                    in->a + i * k, in->b + j * k, k, k0 == 0, in->sums + j * TILE_M + i * COLUMNS);
            }
        }
        k0 += k;
    } while (k0 < p->k);
    const int64_t *so = matrix_strides(p->out);
    const int64_t *sc = t->c ? matrix_strides(p->c) : so;
    for (int64_t i = 0; i < t->m; i++) {
        REAL row[TILE_N];
        take_row(in->sums + i * COLUMNS, t->n, (REAL)p->alpha, row);
        const char *c = t->c ? t->c + i * sc[0] * item : NULL;
        finish(p, row, t->n, c, sc[1], t->bias, t->out + i * so[0] * item, so[1]);
    }
}

static void
gemm_part(void *context, int64_t begin, int64_t end)
{
    const aicf_product *p = (const aicf_product *)context;
    room in;
    for (int64_t i = begin; i < end; i++) {
        const tile t = tile_at(p, i, TILE_M, TILE_N);
        gemm_tile(p, &t, &in);
    }
}

static void
gemm_run(aicf_product *p)
{
    p->tiles_m = tiles_of(p->m, TILE_M);
    p->tiles_n = tiles_of(p->n, TILE_N);
    const int64_t tiles = count_matrices(p->out) * p->tiles_m * p->tiles_n;
    aicf_parallel_for(tiles, task_grain(p, TILE_M, TILE_N), gemm_part, p);
}
