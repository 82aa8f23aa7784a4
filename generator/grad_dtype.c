#include "grad_parse.h"

/* The dtypes of a variable that count: its floats, or all where it has none. */
static bool
counts(const typevar *v, int index)
{
    for (int i = 0; i < v->count; i++) {
        if (dtypes_of[v->values[i]].is_float) {
            return dtypes_of[v->values[index]].is_float;
        }
    }
    return true;
}

symbol_dtype
symbol_dtype_of(const op *owner, const dtype_rule *rule, const symbol_dtype *vars)
{
    symbol_dtype s = {.var = -1, .text = rule->text};
    if (rule->kind == DTYPE_FIXED) {
        s.map[0] = (int)rule->fixed;
        s.text = dtypes_of[rule->fixed].name;
        return s;
    }
    if (vars && rule->kind == DTYPE_VAR) {
        return vars[rule->var];
    }
    s.var = vars ? vars[rule->var].var : rule->var;
    s.text = vars ? rule->function : rule->text;
    s.text = s.text ? s.text : owner->types.items[rule->var].name;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        int inner = vars ? vars[rule->var].map[i] : i;
        s.map[i] = inner < 0 || rule->kind == DTYPE_VAR ? inner : rule->map[inner];
    }
    return s;
}

/* The one dtype that it is whatever its variable is; -1: there are several. */
static int
constant(const op *row, const symbol_dtype *x)
{
    if (x->var < 0) {
        return x->map[0];
    }
    const typevar *v = &row->types.items[x->var];
    int only = -1;
    for (int i = 0; i < v->count; i++) {
        int is = x->map[v->values[i]];
        if (counts(v, i) && only >= 0 && is != only) {
            return -1;
        }
        only = counts(v, i) ? is : only;
    }
    return only;
}

bool
symbol_dtype_same(const op *row, const symbol_dtype *x, const symbol_dtype *y)
{
    if (x->var < 0 || x->var != y->var) {
        int is = constant(row, x);
        return is >= 0 && is == constant(row, y);
    }
    const typevar *v = &row->types.items[x->var];
    for (int i = 0; i < v->count; i++) {
        if (counts(v, i) && x->map[v->values[i]] != y->map[v->values[i]]) {
            return false;
        }
    }
    return true;
}

static bool
has_dtype(const typevar *v, int dtype)
{
    for (int i = 0; i < v->count; i++) {
        if ((int)v->values[i] == dtype) {
            return true;
        }
    }
    return false;
}

int
symbol_dtype_beyond(const op *row, const symbol_dtype *x, const typevar *values)
{
    if (x->var < 0) {
        return has_dtype(values, x->map[0]) ? -1 : x->map[0];
    }
    const typevar *v = &row->types.items[x->var];
    for (int i = 0; i < v->count; i++) {
        int is = x->map[v->values[i]];
        if (counts(v, i) && is >= 0 && !has_dtype(values, is)) {
            return is;
        }
    }
    return -1;
}

bool
dtype_rule_is_float(const op *owner, const dtype_rule *rule)
{
    if (rule->kind == DTYPE_FIXED) {
        return dtypes_of[rule->fixed].is_float;
    }
    const typevar *v = &owner->types.items[rule->var];
    for (int i = 0; i < v->count; i++) {
        int is = rule->kind == DTYPE_VAR ? (int)v->values[i] : rule->map[v->values[i]];
        if (is >= 0 && dtypes_of[is].is_float) {
            return true;
        }
    }
    return false;
}
