/* 64-bit arithmetic of the row's expressions: floors as Python does, never wraps, never undefined.
   Each function sets *bad where there is no answer (overflow, division by zero, an integer beyond
   2**53 met with a float) and then returns anything. Generated code and nobody else calls these. */
#ifndef AICF_EXPRESSION_H
#define AICF_EXPRESSION_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static inline int64_t
aicf_int_add(bool *bad, int64_t a, int64_t b)
{
    int64_t r;
    *bad |= __builtin_add_overflow(a, b, &r);
    return r;
}

static inline int64_t
aicf_int_sub(bool *bad, int64_t a, int64_t b)
{
    int64_t r;
    *bad |= __builtin_sub_overflow(a, b, &r);
    return r;
}

static inline int64_t
aicf_int_mul(bool *bad, int64_t a, int64_t b)
{
    int64_t r;
    *bad |= __builtin_mul_overflow(a, b, &r);
    return r;
}

static inline int64_t
aicf_int_neg(bool *bad, int64_t a)
{
    return aicf_int_sub(bad, 0, a);
}

static inline int64_t
aicf_int_floordiv(bool *bad, int64_t a, int64_t b)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        *bad = true;
        return 0;
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t
aicf_int_mod(bool *bad, int64_t a, int64_t b)
{
    if (b == 0) {
        *bad = true;
        return 0;
    }
    if (b == -1) {
        return 0;
    }
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline int64_t
aicf_int_ceildiv(bool *bad, int64_t a, int64_t b)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        *bad = true;
        return 0;
    }
    return a / b + (a % b != 0 && (a < 0) == (b < 0));
}

/* An integer where a float is wanted: exact, or bad. */
static inline double
aicf_int_real(bool *bad, int64_t a)
{
    *bad |= a > INT64_C(1) << 53 || a < -(INT64_C(1) << 53);
    return (double)a;
}

/* True division; a result that is not finite is no answer. */
static inline double
aicf_real_div(bool *bad, double a, double b)
{
    double r = b == 0 ? 0 : a / b;
    *bad |= b == 0 || !isfinite(r);
    return r;
}

static inline double
aicf_real_check(bool *bad, double a)
{
    *bad |= !isfinite(a);
    return a;
}

#endif
