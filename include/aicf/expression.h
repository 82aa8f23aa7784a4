/* What generated code computes the row's expressions with: floors as Python does, never wraps,
   never undefined. Each function sets *bad where there is no answer (overflow, division by zero, an
   index out of range, an integer beyond 2**53 met with a float) and then returns anything; once set
   it stays. Nobody else calls these. */
#ifndef AICF_EXPRESSION_H
#define AICF_EXPRESSION_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <aicf/call.h>

/* A row may ask for what always holds or never does, and mean it: no warning of the file that
   includes this one says so. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wtautological-compare"
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wlogical-op"
#pragma GCC diagnostic ignored "-Wduplicated-branches"
#endif

/* ---- integers ------------------------------------------------------------------------------ */

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

static inline int64_t
aicf_int_min(int64_t a, int64_t b)
{
    return b < a ? b : a;
}

static inline int64_t
aicf_int_max(int64_t a, int64_t b)
{
    return b > a ? b : a;
}

static inline int64_t
aicf_int_positive(bool *bad, int64_t a)
{
    *bad |= a <= 0;
    return a <= 0 ? 1 : a;
}

/* ---- several integers ---------------------------------------------------------------------- */

/* As in Python, a negative index counts from the end. */
static inline int64_t
aicf_ints_at(bool *bad, const int64_t *values, int64_t count, int64_t index)
{
    if (index < -count || index >= count) {
        *bad = true;
        return 0;
    }
    return values[index < 0 ? index + count : index];
}

/* 0 if any is, however large the others are. */
static inline int64_t
aicf_ints_prod(bool *bad, const int64_t *values, int64_t count)
{
    int64_t r = 1;
    for (int64_t i = 0; i < count; i++) {
        if (values[i] == 0) {
            return 0;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        r = aicf_int_mul(bad, r, values[i]);
    }
    return r;
}

static inline int64_t
aicf_ints_sum(bool *bad, const int64_t *values, int64_t count)
{
    int64_t r = 0;
    for (int64_t i = 0; i < count; i++) {
        r = aicf_int_add(bad, r, values[i]);
    }
    return r;
}

static inline int64_t
aicf_ints_min(bool *bad, const int64_t *values, int64_t count)
{
    int64_t r = aicf_ints_at(bad, values, count, 0);
    for (int64_t i = 1; i < count; i++) {
        r = aicf_int_min(r, values[i]);
    }
    return r;
}

static inline int64_t
aicf_ints_max(bool *bad, const int64_t *values, int64_t count)
{
    int64_t r = aicf_ints_at(bad, values, count, 0);
    for (int64_t i = 1; i < count; i++) {
        r = aicf_int_max(r, values[i]);
    }
    return r;
}

/* ---- floats -------------------------------------------------------------------------------- */

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

static inline double
aicf_real_min(double a, double b)
{
    return b < a ? b : a;
}

static inline double
aicf_real_max(double a, double b)
{
    return b > a ? b : a;
}

/* ---- the call ------------------------------------------------------------------------------ */

/* Dims of a pack; of one that nothing bound, 0. */
static inline int64_t
aicf_scope_rank(const aicf_scope *scope, int dim)
{
    int32_t rank = scope->packs[dim].rank;
    return rank < 0 ? 0 : rank;
}

/* Bytes of one element of a parameter, as the variant has it. */
static inline int64_t
aicf_sizeof(const aicf_scope *scope, int param)
{
    const aicf_op *op = scope->call->op;
    return aicf_dtype_size(op->dtypes[scope->call->variant * op->params + param]);
}

static inline int64_t
aicf_stride_of(bool *bad, const aicf_scope *scope, int param, int64_t index)
{
    int64_t r = 0;
    *bad |= !aicf_scope_stride(scope, param, index, &r);
    return r;
}

static inline int64_t
aicf_sum_of(bool *bad, const aicf_scope *scope, int dim)
{
    int64_t r = 0;
    *bad |= !aicf_scope_sum(scope, dim, &r);
    return r;
}

static inline int64_t
aicf_broadcast_of(bool *bad, const aicf_scope *scope, const int16_t *packs)
{
    int64_t r = 0;
    *bad |= !aicf_scope_broadcast_numel(scope, packs, &r);
    return r;
}

#endif
