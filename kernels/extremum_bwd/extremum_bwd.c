/* extremum_bwd on the CPU: gx = gy / n where x equals fwd, else 0, with n the elements of the same
   out that equal fwd. x has any strides; gy, fwd and gx are dense. f16 and bf16 are computed in
   f32. As torch's: where fwd is NaN nothing equals it, and all of it is NaN. Bound by bytes, x read
   twice: once for gy / n, which the workspace holds, once for gx. */
#include <aicf_ops/extremum_bwd.h>

#include <aicf/cpu/reduce.h>

enum { CHUNK = 1024, TASK = 32768 }; /* elements at once, and of a part */

/* What the first pass reads beside x: fwd and gy, dense, of x's dtype. */
typedef struct outs {
    const char *fwd, *gy;
} outs;

typedef struct spread_dim {
    int64_t size, step, out; /* steps in x, and among the outs: 0 along an axis */
} spread_dim;

/* The second pass: x line by line along its last dim, lines in chunks. */
typedef struct spread {
    const aicf_converter *dtype;
    const char *x, *fwd;
    char *gx;
    const void *share;
    int rank;
    int64_t chunks; /* of a line */
    spread_dim dims[AICF_MAX_RANK];
} spread;

/* Where a chunk starts, and how long it is. */
typedef struct spread_place {
    int64_t index, x, out, n;
} spread_place;

static void
spread_init(spread *s, const aicf_view *x, uint32_t axes)
{
    int64_t out = 1;
    spread_dim reversed[AICF_MAX_RANK];
    s->rank = 0;
    for (int64_t d = x->rank - 1; d >= 0; d--) {
        const bool reduced = axes >> d & 1;
        const spread_dim dim = {x->sizes[d], x->strides[d], reduced ? 0 : out};
        spread_dim *last = &reversed[s->rank - 1];
        out *= reduced ? 1 : dim.size;
        if (dim.size == 1) {
            continue;
        }
        if (s->rank > 0 && dim.step == last->step * last->size &&
            dim.out == last->out * last->size) {
            last->size *= dim.size;
        } else {
            reversed[s->rank++] = dim;
        }
    }
    for (int d = 0; d < s->rank; d++) {
        s->dims[d] = reversed[s->rank - 1 - d];
    }
    if (s->rank == 0) {
        s->dims[s->rank++] = (spread_dim){1, 0, 0};
    }
    s->chunks = (s->dims[s->rank - 1].size + CHUNK - 1) / CHUNK;
}

static spread_place
spread_at(const spread *s, int64_t cell)
{
    const spread_dim *inner = &s->dims[s->rank - 1];
    const int64_t first = cell % s->chunks * CHUNK;
    int64_t line = cell / s->chunks;
    spread_place at = {line * inner->size + first, first * inner->step, first * inner->out, 0};
    at.n = reduce_least(inner->size - first, CHUNK);
    for (int d = s->rank - 2; d >= 0; d--) {
        at.x += line % s->dims[d].size * s->dims[d].step;
        at.out += line % s->dims[d].size * s->dims[d].out;
        line /= s->dims[d].size;
    }
    return at;
}

AICF_ONCE void
spread_run(
    const aicf_converter *dtype, const aicf_view *x, uint32_t axes, const char *fwd,
    const void *share, char *gx, void (*cells)(void *context, int64_t begin, int64_t end))
{
    spread s;
    s.dtype = dtype;
    s.x = (const char *)x->data;
    s.fwd = fwd;
    s.gx = gx;
    s.share = share;
    spread_init(&s, x, axes);
    int64_t lines = 1;
    for (int d = 0; d < s.rank - 1; d++) {
        lines *= s.dims[d].size;
    }
    const int64_t grain = TASK / reduce_least(s.dims[s.rank - 1].size, CHUNK);
    aicf_parallel_for(lines * s.chunks, grain, cells, &s);
}

static void
ties_merge(void *all, int64_t count)
{
    int64_t *parts = (int64_t *)all;
    for (int64_t i = 1; i < count; i++) {
        parts[0] += parts[i];
    }
}

#define S f32
#define REAL float
#include "passes.h"
#undef REAL
#undef S

#define S f64
#define REAL double
#include "passes.h"
#undef REAL
#undef S

#define EXTREMUM_BWD(T, s, acc)                                                                 \
    aicf_status aicf_cpu_extremum_bwd_loop_##s(                                                 \
        const T *gy, const aicf_view *x, const T *fwd, T *gx, int64_t A, const aicf_ints *axes, \
        bool keepdim, void *workspace, aicf_stream stream)                                      \
    {                                                                                           \
        const outs beside = {(const char *)fwd, (const char *)gy};                              \
        const uint32_t bits = reduce_bits(axes);                                                \
        const aicf_converter *dtype = &aicf_converter_##s;                                      \
        (void)keepdim, (void)stream;                                                            \
        if (A > 0) {                                                                            \
            reduce_run(&ties_##acc, dtype, dtype, x, bits, workspace, &beside);                 \
            spread_run(dtype, x, bits, beside.fwd, workspace, (char *)gx, spread_cells_##acc);  \
        }                                                                                       \
        return aicf_ok();                                                                       \
    }

EXTREMUM_BWD(float, f32, f32)
EXTREMUM_BWD(aicf_f16, f16, f32)
EXTREMUM_BWD(aicf_bf16, bf16, f32)
EXTREMUM_BWD(double, f64, f64)
