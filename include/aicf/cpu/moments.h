/* Sums that norms are made of, for kernels that are compiled for what floats are computed in, f32
   or f64, and go over their lines in blocks. A block's sums have lanes of that type; its caller
   adds blocks up in f64. So errors do not grow with the length of a line, and the order of the
   additions follows from that length alone. */
#ifndef AICF_CPU_MOMENTS_H
#define AICF_CPU_MOMENTS_H

#include <float.h>
#include <math.h>

#include <aicf/cpu/convert.h>

enum {
    MOMENTS_BLOCK = 1024, /* elements of a block, at most */
    MOMENTS_LANES = 32,   /* running sums: enough to hide the latency of an addition */
    MOMENTS_TASK = 32768, /* elements a task: long beside the cost of waking a thread */
    MOMENTS_PARTS = 64    /* of what is summed over rows, at most: then there are enough */
};

typedef struct aicf_sums {
    double first, second;
} aicf_sums;

static inline int64_t
moments_least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static inline void
moments_add(aicf_sums *total, aicf_sums block)
{
    total->first += block.first;
    total->second += block.second;
}

/* Tasks of about MOMENTS_TASK elements, where one step has `elements`. */
static inline int64_t
moments_grain(int64_t elements)
{
    return 1 + (MOMENTS_TASK - 1) / (elements > 0 ? elements : 1);
}

/* Rows that are summed over are cut into parts of `least` rows or more, each with sums of its own.
   A row's workspace expression says the same number of parts, of a constant `least`. */
typedef struct aicf_parts {
    int64_t count, rows; /* the last may have fewer rows */
} aicf_parts;

static inline aicf_parts
moments_parts(int64_t rows, int64_t least)
{
    int64_t parts = moments_least(rows / least + (rows % least != 0), MOMENTS_PARTS);
    parts = parts < 1 ? 1 : parts;
    return (aicf_parts){parts, rows / parts + (rows % parts != 0)};
}

/* Each kernel uses one of them. */
#define MOMENTS_SUMS AICF_CLONES static __attribute__((unused)) aicf_sums

#define S f32
#define REAL float
#include <aicf/cpu/moments_of.h>
#undef REAL
#undef S

#define S f64
#define REAL double
#include <aicf/cpu/moments_of.h>
#undef REAL
#undef S

#endif
