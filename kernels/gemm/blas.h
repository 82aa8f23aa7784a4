/* gemm `blas`: the product by OpenBLAS, then what follows it in a pass over out. S and REAL as in
   tile.h, CBLAS_GEMM the name of the routine. */

#define cblas NAME(cblas)
#define blas_finish NAME(blas_finish)
#define blas_run NAME(blas_run)

typedef void cblas(
    int order, int trans_a, int trans_b, int m, int n, int k, REAL alpha, const void *a, int lda,
    const void *b, int ldb, REAL beta, void *c, int ldc);

/* Rows [begin, end) of all out matrices, which hold the product: c, where it is not what the
   product was added to, bias and activation. */
static void
blas_finish(void *context, int64_t begin, int64_t end)
{
    const product *p = (const product *)context;
    for (int64_t at = begin; at < end; at++) {
        const int64_t matrix = at / p->m, i = at % p->m;
        REAL *out = (REAL *)matrix_at(p, p->out, matrix) + i * matrix_strides(p->out)[0];
        const REAL *c = NULL;
        if (p->c && p->beta != 0) {
            c = (const REAL *)matrix_at(p, p->c, matrix) + i * matrix_strides(p->c)[0];
        }
        for (int64_t j = 0; j < p->n; j += TILE_N) {
            const int64_t n = least(p->n - j, TILE_N);
            const REAL *bias = p->bias ? (const REAL *)p->bias + j : NULL;
            REAL row[TILE_N];
            memcpy(row, out + j, sizeof(REAL) * (size_t)n);
            finish(
                p, row, n, c ? (const char *)(c + j) : NULL, 1, (const char *)bias,
                (char *)(out + j), 1);
        }
    }
}

/* False, with nothing done, where BLAS does not say the same: sizes beyond its int, odd pitches,
   and an alpha of 0, which keeps it from seeing the NaN of a and b. */
static bool
blas_run(const product *p)
{
    operand a, b, out;
    cblas *gemm = (cblas *)aicf_lib_symbol("openblas", CBLAS_GEMM);
    if (!gemm || !fits_int(p->m) || !fits_int(p->n) || !fits_int(p->k) || p->k == 0 || p->n == 0 ||
        (REAL)p->alpha == 0 || !operand_of(p->a, p->m, p->k, &a) ||
        !operand_of(p->b, p->k, p->n, &b) || !operand_of(p->out, p->m, p->n, &out) ||
        out.trans != CBLAS_NO_TRANS) {
        return false;
    }
    product rest = *p;
    REAL beta = 0;
    if (p->c && p->c->data == p->out->data) {
        beta = (REAL)p->beta;
        rest.c = NULL;
    }
    const int64_t matrices = count_matrices(p->out);
    for (int64_t i = 0; i < matrices; i++) {
        gemm(
            CBLAS_ROW_MAJOR, a.trans, b.trans, (int)p->m, (int)p->n, (int)p->k, (REAL)p->alpha,
            matrix_at(p, p->a, i), a.ld, matrix_at(p, p->b, i), b.ld, beta, matrix_at(p, p->out, i),
            out.ld);
    }
    if (rest.bias || (rest.c && rest.beta != 0) || rest.act != AICF_GEMM_ACT_NONE) {
        aicf_parallel_for(matrices * p->m, 1 + TILE_M * TILE_N / p->n, blas_finish, &rest);
    }
    return true;
}
