#include "attribute.h"

#include "param.h"

#include <math.h>

int
attribute_axes(const aicf_call *call, int attr, uint64_t *bits)
{
    const aicf_attr *a = &call->op->attrs[attr];
    int64_t one = 0, count = 1;
    const int64_t *values = &one;

    if (a->kind == AICF_ATTR_AXES) {
        const aicf_ints *axes = attribute_at(call, attr);
        values = axes->values;
        count = axes->count;
    } else {
        one = attribute_axis(call, attr);
    }
    for (int64_t i = 0; bits && i < count; i++) {
        bool folded = values[i] >= 0 && values[i] < AICF_MAX_DIMS;
        *bits |= folded ? UINT64_C(1) << values[i] : 0;
    }
    return (int)count;
}

static bool
integer_fits(const aicf_attr *a, int64_t value)
{
    return (!a->bounded_below || value >= a->least.integer) &&
           (!a->bounded_above || value <= a->most.integer);
}

/* A NaN is within no bounds. */
static bool
real_fits(const aicf_attr *a, double value)
{
    return (!a->bounded_below || value >= a->least.real) &&
           (!a->bounded_above || value <= a->most.real);
}

static bool
integers_fit(const aicf_attr *a, const int64_t *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (!integer_fits(a, values[i])) {
            return false;
        }
    }
    return true;
}

static bool
enum_fits(const aicf_attr *a, int value)
{
    int count = 0;
    while (a->values[count]) {
        count++;
    }
    return value >= 0 && value < count;
}

static bool
is_real(aicf_dtype dtype)
{
    return (dtype & 0xff) == 2 || (dtype & 0xff) == 4;
}

/* The integers that a dtype holds: bool is 0 or 1. */
static bool
dtype_holds(aicf_dtype dtype, int64_t value)
{
    int bits = (int)(dtype >> 8 & 0xff);
    if (dtype == AICF_BOOL) {
        return value == 0 || value == 1;
    }
    if ((dtype & 0xff) == 1) {
        return value >= 0 && (bits > 62 || value < INT64_C(1) << bits);
    }
    return bits > 63 || (value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << (bits - 1));
}

/* A number given as another kind than the row's becomes that, or does not fit. */
static bool
scalar_convert(aicf_scalar *s, aicf_dtype dtype)
{
    if (s->dtype && is_real(s->dtype) && !is_real(dtype)) {
        double real = s->host.real;
        if (!(real >= -0x1p63 && real < 0x1p63) || real != floor(real)) {
            return false;
        }
        s->host.integer = (int64_t)real;
    } else if (s->dtype && !is_real(s->dtype) && is_real(dtype)) {
        s->host.real = (double)s->host.integer;
    }
    s->dtype = dtype;
    return is_real(dtype) || dtype_holds(dtype, s->host.integer);
}

static aicf_status
scalar_check(aicf_call *call, int attr, const aicf_tensor *t)
{
    const aicf_op *op = call->op;
    const aicf_attr *a = &op->attrs[attr];
    const aicf_tensor *from = &t[param_start(call, a->of)];
    aicf_dtype dtype = op->dtypes[call->variant * op->params + a->of];
    aicf_scalar *s = attribute_at(call, attr);

    s->data = NULL;
    if (!from->absent) {
        s->data = from->data;
        s->dtype = dtype;
        return aicf_ok();
    }
    bool fits = scalar_convert(s, dtype) &&
                (is_real(dtype) ? real_fits(a, s->host.real) : integer_fits(a, s->host.integer));
    return fits ? aicf_ok() : aicf_unsupported(AICF_CHECK_VALUE, a->of, attr);
}

static bool
value_fits(const aicf_attr *a, const void *at)
{
    const aicf_ints *ints = at;
    switch ((aicf_attr_kind)a->kind) {
    case AICF_ATTR_INT:
    case AICF_ATTR_AXIS: return integer_fits(a, *(const int64_t *)at);
    case AICF_ATTR_FLOAT: return real_fits(a, *(const double *)at);
    case AICF_ATTR_ENUM: return enum_fits(a, *(const int *)at);
    case AICF_ATTR_INTS: return integers_fit(a, at, a->size);
    case AICF_ATTR_AXES:
        return ints->count <= AICF_MAX_DIMS && integers_fit(a, ints->values, ints->count);
    case AICF_ATTR_BOOL:
    case AICF_ATTR_SCALAR: return true;
    }
    return false;
}

aicf_status
attributes_check(aicf_call *call, const aicf_tensor *t)
{
    const aicf_op *op = call->op;
    aicf_status status = aicf_ok();

    for (int i = 0; i < op->attr_count && !status.kind; i++) {
        if (op->attrs[i].kind == AICF_ATTR_SCALAR) {
            status = scalar_check(call, i, t);
        } else if (!value_fits(&op->attrs[i], attribute_at(call, i))) {
            status = aicf_unsupported(AICF_CHECK_VALUE, 0, i);
        }
    }
    return status;
}

/* One out of range stays as it was given, for the text about it. */
static bool
fold(int64_t *axis, int rank)
{
    int64_t folded = *axis < 0 ? *axis + rank : *axis;
    bool fits = folded >= 0 && folded < rank;
    *axis = fits ? folded : *axis;
    return fits;
}

static bool
fold_all(aicf_ints *axes, int rank)
{
    uint64_t seen = 0;
    if (axes->count < 0) {
        axes->count = rank;
        for (int i = 0; i < rank; i++) {
            axes->values[i] = i;
        }
    }
    for (int64_t i = 0; i < axes->count; i++) {
        if (!fold(&axes->values[i], rank) || seen >> axes->values[i] & 1) {
            return false;
        }
        seen |= UINT64_C(1) << axes->values[i];
    }
    return true;
}

aicf_status
attributes_fold(aicf_call *call, const aicf_tensor *t)
{
    const aicf_op *op = call->op;
    for (int i = 0; i < op->attr_count; i++) {
        const aicf_attr *a = &op->attrs[i];
        bool one = a->kind == AICF_ATTR_AXIS;
        if ((!one && a->kind != AICF_ATTR_AXES) || !param_count(call, a->of)) {
            continue;
        }
        const aicf_tensor *of = &t[param_start(call, a->of)];
        void *at = attribute_at(call, i);
        if (!of->absent && !(one ? fold(at, of->rank) : fold_all(at, of->rank))) {
            return aicf_unsupported(AICF_CHECK_VALUE, a->of, i);
        }
    }
    return aicf_ok();
}

bool
aicf_call_attributes_hold(aicf_call *call, const aicf_tensor *t)
{
    return attributes_check(call, t).kind == AICF_OK;
}
