/* What batch norms do with channels on the CPU: sums over all but them, and a formula whose
   coefficients go by channel. x is N x C x R, or N x R x C where channels lie last; f16 and bf16
   are computed in f32.

   Sums are taken in parts, whose number follows from the sizes alone, in the workspace; parts run
   in parallel and are added up in f64. */
#ifndef AICF_CPU_CHANNELS_H
#define AICF_CPU_CHANNELS_H

#include <aicf/cpu/moments.h>

enum {
    CHANNELS_LEAST = 256, /* elements of a part; the rows' workspace expressions say the same */
    CHANNELS_WIDTH = 128, /* channels side by side, where they lie last */
    CHANNELS_ROWS = 32    /* rows that are added up before they go to an f64 */
};

/* Arrays of C values by channel, and 2 x C sums for each part, in what is computed in. */
typedef struct aicf_channels {
    const aicf_converter *dtype;
    const char *gy, *x; /* gy: of gradients alone */
    char *out;
    int64_t N, C, R;
    bool last;
    aicf_parts parts;
    void *mean, *shift, *factor, *offset, *sums, *partial;
} aicf_channels;

/* Of launchers, whose tensors are all dense or all channels last. */
static inline aicf_channels
channels_of(
    const aicf_converter *dtype, const void *gy, const void *x, void *out, int64_t N, int64_t C,
    int64_t R, bool last)
{
    const aicf_channels p = {
        .dtype = dtype,
        .gy = (const char *)gy,
        .x = (const char *)x,
        .out = (char *)out,
        .N = N,
        .C = C,
        .R = R,
        .last = last};
    return p;
}

/* The launchers of a row of batch norms, by LAUNCHER(kernel, channels last, T, A, suffixes of T and
   A): where there is one element a channel and sample, channels lie last too. */
#define CHANNELS_LAUNCHERS_OF(T, A, s, acc) \
    LAUNCHER(loop, R == 1, T, A, s, acc)    \
    LAUNCHER(loop_nhwc, true, T, A, s, acc)

#define CHANNELS_LAUNCHERS                             \
    CHANNELS_LAUNCHERS_OF(float, float, f32, f32)      \
    CHANNELS_LAUNCHERS_OF(aicf_f16, float, f16, f32)   \
    CHANNELS_LAUNCHERS_OF(aicf_bf16, float, bf16, f32) \
    CHANNELS_LAUNCHERS_OF(double, double, f64, f64)

/* Lays the arrays out in the workspace: C * (6 + 2 * parts) values, C * 4 where nothing is summed.
 */
AICF_ONCE void
channels_plan(aicf_channels *p, void *workspace, int64_t item)
{
    const int64_t size = p->C * item;
    char *room = (char *)workspace;
    p->parts = p->last ? moments_parts(p->N * p->R, CHANNELS_LEAST)
                       : moments_parts(p->N, 1 + (CHANNELS_LEAST - 1) / (p->R > 0 ? p->R : 1));
    p->mean = room;
    p->shift = room + size;
    p->factor = room + 2 * size;
    p->offset = room + 3 * size;
    p->sums = room + 4 * size;
    p->partial = room + 6 * size;
}

static inline int64_t
channels_tiles(const aicf_channels *p)
{
    return p->last ? p->C / CHANNELS_WIDTH + (p->C % CHANNELS_WIDTH != 0) : p->C;
}

#define S f32
#define REAL float
#include <aicf/cpu/channels_of.h>
#undef REAL
#undef S

#define S f64
#define REAL double
#include <aicf/cpu/channels_of.h>
#undef REAL
#undef S

#endif
