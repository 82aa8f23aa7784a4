/* Which arguments the functions of expressions take. */
#include "expression_check.h"

static bool
arity(checker *c, const expr *e, int least, int most)
{
    if (e->count >= least && (e->count <= most || most < 0)) {
        return true;
    }
    const char *more = most == least ? "" : most < 0 ? " or more" : " at least";
    return fault(
        c->f, "expression-arity", e->where, c->of, "`%s` takes %d argument%s%s, not %d", e->name,
        least, least == 1 ? "" : "s", more, e->count);
}

static bool
check_tensor(checker *c, expr *e, bool list)
{
    int index = checker_is_name(e) ? row_find_tensor(c->row, e->name) : -1;
    if (index < 0 && checker_is_name(e) && row_find_dim(c->row, e->name) < 0 &&
        row_find_attr(c->row, e->name) < 0) {
        return checker_unknown_name(c, e, "tensor");
    }
    if (index < 0) {
        return fault(
            c->f, "expression-type", e->where, c->of, "the name of a tensor is wanted here");
    }
    if (!list && c->row->params.items[index].list >= 0) {
        return fault(
            c->f, "expression-type", e->where, c->of, "`%s` is a list, one tensor is wanted here",
            e->name);
    }
    e->kind = EXPR_PARAM;
    e->index = index;
    e->type = TYPE_TENSOR;
    return true;
}

static bool
check_tensors(checker *c, expr *e, int first, bool list)
{
    bool ok = true;
    for (int i = first; i < e->count; i++) {
        ok = check_tensor(c, e->args[i], list) && ok;
    }
    return ok;
}

static bool
check_pack(checker *c, expr *e)
{
    int index = checker_is_name(e) ? row_find_dim(c->row, e->name) : -1;
    if (index < 0 || c->row->dims.items[index].kind != DIM_PACK) {
        return fault(c->f, "expression-type", e->where, c->of, "the name of a pack is wanted here");
    }
    return checker_dim(c, e, index);
}

static bool
names_dim(const checker *c, const expr *e, dim_kind kind)
{
    int index = checker_is_name(e) ? row_find_dim(c->row, e->name) : -1;
    return index >= 0 && c->row->dims.items[index].kind == kind;
}

static bool
names_list(const checker *c, const expr *e)
{
    int index = checker_is_name(e) ? row_find_tensor(c->row, e->name) : -1;
    return index >= 0 && c->row->params.items[index].list >= 0;
}

/* len of a pack, of several integers, of a list. */
static bool
check_len(checker *c, expr *e)
{
    expr *x = e->count == 1 ? e->args[0] : NULL;
    if (!x) {
        return arity(c, e, 1, 1);
    }
    if (names_dim(c, x, DIM_PACK)) {
        return check_pack(c, x);
    }
    if (names_list(c, x)) {
        return check_tensor(c, x, true);
    }
    return checker_visit(c, x) && checker_want(c, x, TYPE_INTS);
}

/* prod of a pack, of a broadcast, of several integers. */
static bool
check_prod(checker *c, expr *e)
{
    expr *x = e->count == 1 ? e->args[0] : NULL;
    if (!x) {
        return arity(c, e, 1, 1);
    }
    if (x->kind == EXPR_BROADCAST) {
        bool ok = arity(c, x, 1, 8);
        x->type = TYPE_INTS;
        for (int i = 0; i < x->count; i++) {
            ok = check_pack(c, x->args[i]) && ok;
        }
        return ok;
    }
    if (names_dim(c, x, DIM_PACK)) {
        return check_pack(c, x);
    }
    return checker_visit(c, x) && checker_want(c, x, TYPE_INTS);
}

/* sum of several integers, or of a dim over the list that it varies with. */
static bool
check_sum(checker *c, expr *e)
{
    expr *x = e->count == 1 ? e->args[0] : NULL;
    if (!x) {
        return arity(c, e, 1, 1);
    }
    int index = checker_is_name(x) ? row_find_dim(c->row, x->name) : -1;
    if (index < 0) {
        return checker_visit(c, x) && checker_want(c, x, TYPE_INTS);
    }
    const dim *d = &c->row->dims.items[index];
    x->kind = d->kind == DIM_PACK ? EXPR_PACK : EXPR_DIM;
    x->index = index;
    x->type = TYPE_INT;
    if (!d->varies) {
        return fault(
            c->f, "expression-varies", x->where, c->of,
            "`%s` does not vary over a list: there is nothing to sum", x->name);
    }
    return true;
}

static bool
check_extremum(checker *c, expr *e)
{
    if (e->count == 1) {
        return checker_visit(c, e->args[0]) && checker_want(c, e->args[0], TYPE_INTS);
    }
    return arity(c, e, 2, -1) && checker_arithmetic(c, e);
}

static bool
check_sizeof(checker *c, expr *e)
{
    if (!arity(c, e, 1, 1)) {
        return false;
    }
    expr *x = e->args[0];
    int index = checker_is_name(x) ? row_find_type(c->row, x->name) : -1;
    if (index < 0) {
        return fault(
            c->f, "expression-type", x->where, c->of, "sizeof takes a type variable of the row");
    }
    x->kind = EXPR_TYPEVAR;
    x->index = index;
    for (int i = 0; i < c->row->params.count; i++) {
        const dtype_rule *rule = &c->row->params.items[i].dtype;
        if (rule->kind == DTYPE_VAR && rule->var == index) {
            return true;
        }
    }
    return fault(
        c->f, "expression-type", x->where, c->of, "no argument or out is of type `%s`", x->name);
}

static bool
check_aligned(checker *c, expr *e)
{
    if (!arity(c, e, 2, -1) || !checker_visit(c, e->args[0]) ||
        !checker_want(c, e->args[0], TYPE_INT)) {
        return false;
    }
    if (e->args[0]->kind == EXPR_INT && e->args[0]->integer <= 0) {
        return fault(
            c->f, "expression-type", e->args[0]->where, c->of,
            "a number of bytes above 0 is wanted here");
    }
    return check_tensors(c, e, 1, true);
}

bool
checker_call(checker *c, expr *e)
{
    e->type = TYPE_INT;
    bool tensors = e->function >= FN_NUMEL && e->function != FN_PRESENT;
    if (c->attributes_only && tensors) {
        return fault(
            c->f, "expression-attributes-only", e->where, c->of,
            "only attributes and present() may decide here, not %s()", e->name);
    }
    switch (e->function) {
    case FN_LEN: return check_len(c, e);
    case FN_PROD: return check_prod(c, e);
    case FN_SUM: return check_sum(c, e);
    case FN_MIN:
    case FN_MAX: return check_extremum(c, e);
    case FN_CEIL_DIV: return arity(c, e, 2, 2) && checker_integers(c, e);
    case FN_NUMEL: return arity(c, e, 1, 1) && check_tensors(c, e, 0, true);
    case FN_BATCHES: return arity(c, e, 1, 1) && check_tensors(c, e, 0, false);
    case FN_SIZEOF: return check_sizeof(c, e);
    case FN_PRESENT: e->type = TYPE_BOOL; return arity(c, e, 1, 1) && check_tensors(c, e, 0, true);
    case FN_SAME_SHAPE:
        e->type = TYPE_BOOL;
        return arity(c, e, 2, -1) && check_tensors(c, e, 0, true);
    case FN_ALIGNED: e->type = TYPE_BOOL; return check_aligned(c, e);
    case FN_STRIDE:
        return arity(c, e, 2, 2) && check_tensor(c, e->args[0], false) &&
               checker_visit(c, e->args[1]) && checker_want(c, e->args[1], TYPE_INT);
    }
    die("function %d", (int)e->function);
}
