/* What poolings and their gradients on the CPU share: their operands, in how long lines and in
   which parts they are made, and the end of their launchers. */
#ifndef POOL2D_POOL_H
#define POOL2D_POOL_H

#define HEADER_OF(op) <aicf_ops/op.h>
#define HEADER(op) HEADER_OF(op)
#include HEADER(AICF_OP)

#include <aicf/cpu/window.h>

#define LARGEST_max_pool2d 1
#define LARGEST_max_pool2d_bwd 1
#define LARGEST_avg_pool2d 0
#define LARGEST_avg_pool2d_bwd 0
#define LARGEST AICF_JOIN(LARGEST, AICF_OP)

enum {
    LINE = 256,   /* of what is written, side by side */
    GRAIN = 32768 /* elements a part: long beside the cost of waking a thread */
};

/* x and out, or gy and gx. */
typedef struct pool {
    const void *from;
    void *to;
    int64_t *indices; /* of max_pool2d written, of its gradient read; NULL: not asked for */
    int64_t channels;
    aicf_axis y, z; /* rows and columns */
    bool include_pad;
} pool;

typedef struct place {
    int64_t first, step; /* of a line's elements, as indices */
} place;

/* Of a window, padding included, which may have more elements than an int64_t counts. */
static inline double
area(int64_t height, int64_t width)
{
    return (double)height * (double)width;
}

/* Runs `part` for all lines of `n` each, for each of which `met` are read. */
static inline aicf_status
pool_run(
    const pool *p, int64_t lines, int64_t n, int64_t met, void (*part)(void *, int64_t, int64_t))
{
    const int64_t grain = aicf_most(1, GRAIN / aicf_most(n, 1) / met);
    aicf_parallel_for(lines, grain, part, (void *)(uintptr_t)p);
    return aicf_ok();
}

#define LAUNCHER_OF(op, kernel, s) aicf_cpu_##op##_##kernel##_##s
#define LAUNCHER(op, kernel, s) LAUNCHER_OF(op, kernel, s)

/* What launchers do, whatever the order of their parameters. */
#define POOL_LAUNCH(from, to, indices, include_pad, run, part) \
    const pool p = {                                           \
        from,                                                  \
        to,                                                    \
        (int64_t *)(uintptr_t)(indices),                       \
        C,                                                     \
        aicf_axis_of(H, P, window, stride, pad, 0),            \
        aicf_axis_of(W, Q, window, stride, pad, 1),            \
        include_pad};                                          \
    (void)P0, (void)Q0, (void)stream;                          \
    return run(&p, N, part)

#define LAUNCHERS(T, s)              \
    LAUNCH(T, s, loop, planes, rows) \
    LAUNCH(T, s, loop_nhwc, nhwc, pixels)

#endif
