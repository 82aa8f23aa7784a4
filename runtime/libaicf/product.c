/* Products of matrices: aicf/cpu/product.h. Compiled as kernels are: for the baseline and for
   x86-64-v3.

   The loop cuts each out matrix into tiles by the sizes alone, so the bits do not depend on the
   number of threads. A tile belongs to one thread, which packs what it needs of a and b onto its
   own stack (product_tile.h). By OpenBLAS it is cut into larger blocks, each a product on one
   thread (product_blas.h). */
#include <aicf/cpu/product.h>

#include <limits.h>
#include <unistd.h>

#include <aicf/cpu/gelu.h>
#include <aicf/cpu/openblas.h>

enum {
    ROWS = 6,         /* of a micro tile: with 2 vectors a row, 12 of the 16 registers accumulate */
    PANEL_BYTES = 64, /* a row of it: 2 vectors of 32 bytes */
    TILE_M = 16 * ROWS,
    TILE_N_BYTES = 16 * PANEL_BYTES,
    TILE_K = 128,             /* a panel of b is 8 KiB, in L1 while all of a's panels pass */
    TASK_MULTIPLIES = 1 << 18 /* in one task at least: long beside the cost of waking a thread */
};

/* Of rows, and of columns. */
static const int64_t *
matrix_strides(const aicf_view *view)
{
    return view->strides + view->rank - 2;
}

/* Matrix `index` of a view; the batch dims are the same in all. */
static char *
matrix_at(const aicf_product *p, const aicf_view *view, int64_t index)
{
    int64_t offset = 0;
    for (int64_t d = p->out->rank - 3; d >= 0 && index > 0; d--) {
        offset += index % p->out->sizes[d] * view->strides[d];
        index /= p->out->sizes[d];
    }
    return (char *)view->data + offset * p->dtype->item;
}

static int64_t
count_matrices(const aicf_view *out)
{
    int64_t count = 1;
    for (int64_t d = 0; d < out->rank - 2; d++) {
        count *= out->sizes[d];
    }
    return count;
}

static inline int64_t
least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t
tiles_of(int64_t size, int64_t tile)
{
    return size / tile + (size % tile != 0);
}

/* Where a tile starts in each matrix; c and bias NULL if they are not read. */
typedef struct tile {
    const char *a, *b, *c, *bias;
    char *out;
    int64_t m, n;
} tile;

/* Of those of tile_m x tile_n that cut all out matrices. */
static tile
tile_at(const aicf_product *p, int64_t index, int64_t tile_m, int64_t tile_n)
{
    const int64_t matrix = index / (p->tiles_m * p->tiles_n), item = p->dtype->item;
    const int64_t row = index % p->tiles_m * tile_m;
    const int64_t column = index / p->tiles_m % p->tiles_n * tile_n;
    const int64_t *so = matrix_strides(p->out);
    tile t = {.m = least(p->m - row, tile_m), .n = least(p->n - column, tile_n)};
    t.a = matrix_at(p, p->a, matrix) + row * matrix_strides(p->a)[0] * item;
    t.b = matrix_at(p, p->b, matrix) + column * matrix_strides(p->b)[1] * item;
    t.out = matrix_at(p, p->out, matrix) + (row * so[0] + column * so[1]) * item;
    t.bias = p->bias ? (const char *)p->bias + column * item : NULL;
    if (p->c && p->beta != 0) {
        const int64_t *sc = matrix_strides(p->c);
        t.c = matrix_at(p, p->c, matrix) + (row * sc[0] + column * sc[1]) * item;
    }
    return t;
}

/* A matrix as BLAS takes it. */
typedef struct operand {
    int trans; /* CBLAS_TRANSPOSE */
    int ld;
} operand;

enum { BLOCK_MOST = 512, BLOCK_LEAST = 128, BLOCKS_WANTED = 16 };
enum { CBLAS_ROW_MAJOR = 101, CBLAS_NO_TRANS = 111, CBLAS_TRANS = 112 };

static bool
fits_int(int64_t x)
{
    return x >= 0 && x <= INT_MAX;
}

/* False for pitches that BLAS has no word for: rows that overlap, coincide or run backwards. */
static bool
operand_of(const aicf_view *view, int64_t rows, int64_t columns, operand *o)
{
    const int64_t *s = view->strides + view->rank - 2;
    const bool row = s[1] == 1 || columns == 1;
    const int64_t length = row ? columns : rows, lines = row ? rows : columns;
    const int64_t pitch = lines == 1 ? length : s[row ? 0 : 1];
    o->trans = row ? CBLAS_NO_TRANS : CBLAS_TRANS;
    o->ld = (int)pitch;
    return (row || s[0] == 1 || rows == 1) && pitch >= length && fits_int(pitch);
}

/* Tiles in one task. */
static int64_t
task_grain(const aicf_product *p, int64_t tile_m, int64_t tile_n)
{
    int64_t multiplies = least(p->m, tile_m) * least(p->n, tile_n) * least(p->k, TASK_MULTIPLIES);
    return multiplies > 0 ? 1 + TASK_MULTIPLIES / multiplies : TASK_MULTIPLIES;
}

/* The size of the blocks in which BLAS computes: the larger, the fewer times it packs the same rows
   and columns; the smaller, the more threads have one. Of the problem alone, as the bits are. */
static int64_t
block_of(int64_t matrices, int64_t m, int64_t n)
{
    int64_t block = BLOCK_MOST;
    while (block > BLOCK_LEAST &&
           matrices * tiles_of(m, block) * tiles_of(n, block) < BLOCKS_WANTED) {
        block /= 2;
    }
    return block;
}

/* The process ends, and this thread, which nobody waits for, with it. */
static void
wait_for_the_end(void)
{
    for (;;) {
        pause();
    }
}

/* A multiplication and its addition may be one instruction where the processor has it: a product of
   sums has no bits to keep. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast")
#endif

/* The headers below are included for f32 and f64. */
#define NAME(name) AICF_JOIN(name, S)
#define COLUMNS (PANEL_BYTES / (int)sizeof(REAL))
#define TILE_N (TILE_N_BYTES / (int)sizeof(REAL))

#define S f32
#define REAL float
#define CBLAS_GEMM "cblas_sgemm"
#include "product_tile.h"
#include "product_blas.h"
#undef CBLAS_GEMM
#undef REAL
#undef S

#define S f64
#define REAL double
#define CBLAS_GEMM "cblas_dgemm"
#include "product_tile.h"
#include "product_blas.h"

#undef CBLAS_GEMM
#undef REAL
#undef S
