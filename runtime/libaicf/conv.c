/* Convolutions: aicf/cpu/conv.h. Compiled as kernels are: for the baseline and for x86-64-v3.

   What is computed is cut into tiles by the sizes alone, so the bits do not depend on the number of
   threads. A tile belongs to one thread, which packs what it needs onto its own stack. */
#include <aicf/cpu/conv.h>

#include <limits.h>
#include <unistd.h>

#include <aicf/cpu/openblas.h>

enum {
    AICF_CONV_ROWS = 6,                     /* of a micro tile: 12 of the 16 registers accumulate */
    AICF_CONV_TILE_M = 16 * AICF_CONV_ROWS, /* rows of a tile */
    AICF_CONV_TILE_BYTES = 512,             /* of one of its rows */
    AICF_CONV_TILE_K = 256,                 /* products that are gathered at once */
    AICF_CONV_FEW = 2,                      /* rows for which no micro tile is filled */
    AICF_CONV_TASK = 1 << 18 /* multiplications in one task at least: long beside waking a thread */
};

/* Channels and taps, the innermost of them first. */
typedef struct aicf_conv_digits {
    int64_t size[3], factor[3]; /* strides of the factor */
    int channel, y, x;          /* which is which */
} aicf_conv_digits;

/* How one is run. */
typedef struct aicf_conv_plan {
    const aicf_conv *conv;
    const aicf_converter *dtype;
    aicf_conv_digits k;
    int64_t tiles_m, tiles_n;
    void *gemm; /* of OpenBLAS; NULL: the micro tiles */
} aicf_conv_plan;

static inline int64_t
aicf_conv_tiles(int64_t size, int64_t tile)
{
    return size / tile + (size % tile != 0);
}

/* Channels innermost where they lie side by side in the field. */
AICF_ONCE aicf_conv_digits
aicf_conv_order(const aicf_conv *c)
{
    const bool inner = c->field_strides[1] == 1;
    aicf_conv_digits d = {{0}, {0}, inner ? 0 : 2, inner ? 2 : 1, inner ? 1 : 0};
    d.size[d.channel] = c->channels;
    d.size[d.y] = c->y.taps;
    d.size[d.x] = c->x.taps;
    d.factor[d.channel] = c->factor_strides[1];
    d.factor[d.y] = c->factor_strides[2];
    d.factor[d.x] = c->factor_strides[3];
    return d;
}

/* Digit `which` of index k. */
static inline int64_t
aicf_conv_digit(const aicf_conv_digits *d, int which, int64_t k)
{
    for (int i = 0; i < which; i++) {
        k /= d->size[i];
    }
    return k % d->size[which];
}

static inline int64_t
aicf_conv_factor_at(const aicf_conv_digits *d, int64_t k)
{
    int64_t at = 0;
    for (int i = 0; i < 3; i++) {
        at += k % d->size[i] * d->factor[i];
        k /= d->size[i];
    }
    return at;
}

/* How many of the n indices from k on lie a constant step apart in the factor. */
static inline int64_t
aicf_conv_factor_run(const aicf_conv_digits *d, int64_t k, int64_t n)
{
    int64_t size = d->size[0];
    for (int i = 1; i < 3 && d->factor[i] == size * d->factor[0]; i++) {
        size *= d->size[i];
    }
    return aicf_conv_least(size - k % size, n);
}

AICF_ONCE aicf_conv_plan
aicf_conv_plan_of(
    const aicf_conv *c, const aicf_converter *dtype, int64_t rows, int64_t columns, int64_t tile_n,
    const char *gemm)
{
    const aicf_conv_plan t = {
        c,
        dtype,
        aicf_conv_order(c),
        aicf_conv_tiles(rows, AICF_CONV_TILE_M),
        aicf_conv_tiles(columns, tile_n),
        gemm ? aicf_lib_symbol("openblas", gemm) : NULL};
    return t;
}

/* Tiles in one task. */
static inline int64_t
aicf_conv_grain(int64_t m, int64_t n, int64_t k)
{
    const int64_t multiplies = aicf_conv_least(m, AICF_CONV_TILE_M) *
                               aicf_conv_least(n, AICF_CONV_TILE_BYTES) *
                               aicf_conv_least(k, AICF_CONV_TASK);
    return multiplies > 0 ? 1 + AICF_CONV_TASK / multiplies : AICF_CONV_TASK;
}

/* ---- OpenBLAS ---------------------------------------------------------------------------------
 */

enum { AICF_CONV_ROW_MAJOR = 101, AICF_CONV_NO_TRANS = 111 };

/* Into OpenBLAS; where that cannot be any more the process ends, and this thread, which nobody
   waits for, with it. */
AICF_ONCE void
aicf_conv_enter(void)
{
    while (!aicf_openblas_enter()) {
        pause();
    }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast")
#endif

#define AICF_CONV_NAME(name) AICF_JOIN(name, S)
#define AICF_CONV_TILE_N (AICF_CONV_TILE_BYTES / (int)sizeof(REAL))

#define S f32
#define REAL float
#include "conv_of.h"
#undef REAL
#undef S

#define S f64
#define REAL double
#include "conv_of.h"
#undef REAL
#undef S
