/* Losses on the CPU, line by line: `formula` of x and target, for any float dtype. */
#ifndef AICF_LOSS_LINES_H
#define AICF_LOSS_LINES_H

#include <string.h>

#include <aicf/cpu/convert.h>
#include <aicf/cpu/math.h>

#include "formula.h"

enum {
    ROOM = 1024,  /* elements of a line */
    GRAIN = 16384 /* elements a part: long beside the cost of waking a thread */
};

AICF_INLINE float
exp_of_f32(float x)
{
    return aicf_exp(x);
}

/* Of 0 <= x <= 1, as are all that formulas ask for. */
AICF_INLINE float
log1p_of_f32(float x)
{
    return log1p_of_quotient(x / (2 + x));
}

AICF_INLINE double
exp_of_f64(double x)
{
    return aicf_exp(x);
}

AICF_INLINE double
log1p_of_f64(double x)
{
    const double u = 1 + x; /* and what that rounds away: twice as fast as libm's log1p */
    return aicf_log(u) + (x - (u - 1)) / u;
}

static inline int64_t
at_most(int64_t x, int64_t most)
{
    return x < most ? x : most;
}

/* n elements as values side by side: in place where they are, else in `room`. */
static inline const void *
line_of(const aicf_converter *dtype, const char *x, int64_t n, void *room)
{
    if (dtype->plain) {
        return x;
    }
    dtype->load(x, 1, n, room);
    return room;
}

/* Where n values go that are then put to `out`: there, or to `room`. */
static inline void *
line_for(const aicf_converter *dtype, char *out, void *room)
{
    return dtype->plain ? out : room;
}

static inline void
line_end(const aicf_converter *dtype, const void *line, int64_t n, char *out)
{
    if (!dtype->plain) {
        dtype->store(line, n, out, 1);
    }
}

#endif
