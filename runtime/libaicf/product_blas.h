/* gemm `blas`: blocks of the product by OpenBLAS, each followed by what comes after it while it is
   in the cache. S and REAL as in tile.h, CBLAS_GEMM the name of the routine. */

#define cblas NAME(cblas)
#define blas NAME(blas)
#define blas_finish NAME(blas_finish)
#define blas_block NAME(blas_block)
#define blas_blocks NAME(blas_blocks)
#define blas_part NAME(blas_part)
#define blas_takes NAME(blas_takes)
#define blas_run NAME(blas_run)

typedef void cblas(
    int order, int trans_a, int trans_b, int m, int n, int k, REAL alpha, const void *a, int lda,
    const void *b, int ldb, REAL beta, void *c, int ldc);

/* `rest` has c only where it is not what the product is added to. */
typedef struct blas {
    aicf_product rest;
    cblas *gemm;
    operand a, b, out;
    REAL beta;
    bool finish;
    int64_t block;
} blas;

/* c, bias and activation over a block that holds its product. */
static void
blas_finish(const aicf_product *p, const tile *t)
{
    const int64_t item = p->dtype->item, out_row = matrix_strides(p->out)[0];
    const int64_t *sc = t->c ? matrix_strides(p->c) : NULL;
    for (int64_t i = 0; i < t->m; i++) {
        for (int64_t j = 0; j < t->n; j += TILE_N) {
            const int64_t n = least(t->n - j, TILE_N);
            char *out = t->out + (i * out_row + j) * item;
            REAL row[TILE_N];
            memcpy(row, out, sizeof(REAL) * (size_t)n);
            finish(
                p, row, n, t->c ? t->c + (i * sc[0] + j * sc[1]) * item : NULL, sc ? sc[1] : 1,
                t->bias ? t->bias + j * item : NULL, out, 1);
        }
    }
}

static void
blas_block(const blas *job, int64_t index)
{
    const aicf_product *p = &job->rest;
    const tile t = tile_at(p, index, job->block, job->block);
    job->gemm(
        CBLAS_ROW_MAJOR, job->a.trans, job->b.trans, (int)t.m, (int)t.n, (int)p->k, (REAL)p->alpha,
        t.a, job->a.ld, t.b, job->b.ld, job->beta, t.out, job->out.ld);
    if (job->finish) {
        blas_finish(p, &t);
    }
}

/* False: the process ends. */
static bool
blas_blocks(const blas *job, int64_t begin, int64_t end)
{
    if (!aicf_openblas_enter()) {
        return false;
    }
    for (int64_t i = begin; i < end; i++) {
        blas_block(job, i);
    }
    aicf_openblas_leave();
    return true;
}

static void
blas_part(void *context, int64_t begin, int64_t end)
{
    if (!blas_blocks((const blas *)context, begin, end)) {
        wait_for_the_end();
    }
}

/* False where BLAS does not say the same: sizes beyond its int, odd pitches, and an alpha of 0,
   which keeps it from seeing the NaN of a and b. */
static bool
blas_takes(const aicf_product *p, operand *a, operand *b, operand *out)
{
    return fits_int(p->m) && fits_int(p->n) && fits_int(p->k) && p->k > 0 && p->n > 0 &&
           (REAL)p->alpha != 0 && operand_of(p->a, p->m, p->k, a) &&
           operand_of(p->b, p->k, p->n, b) && operand_of(p->out, p->m, p->n, out) &&
           out->trans == CBLAS_NO_TRANS;
}

/* False, with nothing done, where `loop` has to. */
static bool
blas_run(const aicf_product *p)
{
    blas job = {.rest = *p, .gemm = (cblas *)aicf_lib_symbol("openblas", CBLAS_GEMM)};
    aicf_product *rest = &job.rest;
    if (!job.gemm || !blas_takes(p, &job.a, &job.b, &job.out)) {
        return false;
    }
    if (p->c && p->c->data == p->out->data) {
        job.beta = (REAL)p->beta;
        rest->c = NULL;
    }
    job.finish = rest->bias || (rest->c && rest->beta != 0) || rest->act != AICF_PRODUCT_NONE;
    const int64_t matrices = count_matrices(p->out);
    job.block = block_of(matrices, p->m, p->n);
    rest->tiles_m = tiles_of(p->m, job.block);
    rest->tiles_n = tiles_of(p->n, job.block);
    const int64_t blocks = matrices * rest->tiles_m * rest->tiles_n;
    const int64_t grain = task_grain(p, job.block, job.block);
    if (blocks <= grain || !blas_blocks(&job, 0, 0)) { /* no block: is it still there? */
        return blas_blocks(&job, 0, blocks);
    }
    aicf_parallel_for(blocks, grain, blas_part, &job);
    return true;
}

void
NAME(aicf_product)(aicf_product p, bool by_blas)
{
    if (!by_blas || !blas_run(&p)) {
        gemm_run(&p);
    }
}
