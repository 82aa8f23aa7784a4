/* Walks a dense [L, C, R] of which each index of C has parameters of its own, in parts that run in
   parallel: the frame of quantize and dequantize. */
#ifndef AICF_CPU_AFFINE_H
#define AICF_CPU_AFFINE_H

#include <aicf/cpu/real.h>

enum { AICF_AFFINE_GRAIN = 32768 }; /* elements a part: long beside the cost of waking a thread */

/* Elements [first, first + n) of one channel, or, with `step` 1, of the n channels from c on. */
typedef void aicf_affine_fn(
    const void *x, void *out, int64_t first, int64_t n, const float *scale, const int32_t *zero,
    int64_t step);

typedef struct aicf_affine {
    const void *x;
    void *out;
    const float *scale;
    const int32_t *zero; /* NULL: 0 */
    int64_t C, R;
    aicf_affine_fn *line;
} aicf_affine;

AICF_ONCE void
aicf_affine_part(void *context, int64_t begin, int64_t end)
{
    const aicf_affine *w = (const aicf_affine *)context;
    const int64_t along = w->R == 1 && w->C > 1; /* lines run along the channels */
    const int64_t length = along ? w->C : w->R;
    int64_t line = begin / length, at = begin % length;
    while (begin < end) {
        const int64_t n = length - at < end - begin ? length - at : end - begin;
        const int64_t c = along ? at : line % w->C;
        w->line(w->x, w->out, begin, n, w->scale + c, w->zero ? w->zero + c : NULL, along);
        begin += n;
        line++;
        at = 0;
    }
}

static inline aicf_status
aicf_affine_run(
    const void *x, void *out, const float *scale, const int32_t *zero, int64_t L, int64_t C,
    int64_t R, int64_t S, aicf_affine_fn *line)
{
    aicf_affine w = {x, out, scale, zero, C, R, line};
    if (S == 1) {
        w.C = 1;
        w.R = L * C * R;
    }
    if (L * C * R > 0) {
        aicf_parallel_for(L * C * R, AICF_AFFINE_GRAIN, aicf_affine_part, &w);
    }
    return aicf_ok();
}

#endif
