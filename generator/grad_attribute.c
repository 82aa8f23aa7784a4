/* What calls in gradients give for attributes and scalars. */
#include <string.h>

#include "grad_parse.h"

/* Where a gradient runs, tensors have a shape but not the layout they had. */
static bool
check_asked(grad_reader *r, const expr *e)
{
    bool layout = e->kind == EXPR_CALL && (e->function == FN_ALIGNED || e->function == FN_STRIDE ||
                                           e->function == FN_BATCHES);
    if (layout) {
        return fault(
            r->p.f, "grad-value", e->where, r->p.of, "a gradient cannot ask for %s()", e->name);
    }
    for (int i = 0; i < e->count; i++) {
        if (!check_asked(r, e->args[i])) {
            return false;
        }
    }
    return true;
}

grad *
grad_read_expression(grad_reader *r, expr_type wanted)
{
    grad *g = grad_node(r, GRAD_VALUE, r->p.at);
    g->value = parse_value(&r->p);
    bool ok = g->value && expr_check(r->p.a, r->p.f, r->p.of, r->row, g->value, wanted, false) &&
              check_asked(r, g->value);
    return ok ? g : NULL;
}

static bool
has_value(const attr *to, const char *name)
{
    for (int i = 0; i < to->values.count; i++) {
        if (strcmp(to->values.items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool
refuse_word(grad_reader *r, const expr *e, const attr *to, const char *name)
{
    fault(r->p.f, "grad-value", e->where, r->p.of, "`%s` has no value '%s'", to->name, name);
    fault_suggest(r->p.f, name, to->values.items, to->values.count);
    return false;
}

/* Enum values go over by name. */
static bool
check_words(grad_reader *r, const expr *e, const attr *to)
{
    if (e->kind == EXPR_IF) {
        return check_words(r, e->args[0], to) && check_words(r, e->args[2], to);
    }
    if (e->kind == EXPR_WORD) {
        return has_value(to, e->name) || refuse_word(r, e, to, e->name);
    }
    const attr *from = &r->row->attrs.items[e->index];
    for (int i = 0; i < from->values.count; i++) {
        if (!has_value(to, from->values.items[i])) {
            return refuse_word(r, e, to, from->values.items[i]);
        }
    }
    return true;
}

static bool
check_ints(grad_reader *r, const expr *e, const attr *to)
{
    const attr *from = e->kind == EXPR_ATTR ? &r->row->attrs.items[e->index] : NULL;
    bool several = to->kind == ATTR_INTS;
    if (from && (from->kind == ATTR_INTS) == several && (!several || from->size == to->size)) {
        return true;
    }
    return fault(
        r->p.f, "grad-value", e->where, r->p.of, "`%s` takes %s", to->name,
        several ? arena_print(r->p.a, "%d integers, or one for all", to->size) : "axes");
}

static bool
check_bounds(grad_reader *r, const expr *e, const attr *to)
{
    bool number = e->kind == EXPR_INT || e->kind == EXPR_REAL;
    double value = e->kind == EXPR_INT ? (double)e->integer : e->real;
    double least = to->real ? to->min_real : (double)to->min_integer;
    double most = to->real ? to->max_real : (double)to->max_integer;
    if (number && ((to->has_min && value < least) || (to->has_max && value > most))) {
        return fault(
            r->p.f, "grad-value", e->where, r->p.of, "this is out of the bounds of `%s`", to->name);
    }
    return true;
}

/* "inverse(perm)" */
static grad *
read_inverse(grad_reader *r)
{
    grad *g = grad_node(r, GRAD_FIXED, r->p.at);
    r->p.at += 2;
    grad *perm = grad_read_expression(r, TYPE_INTS);
    return grad_add(r, g, perm) && parse_expect(&r->p, ")", "after the axes") ? g : NULL;
}

static grad *
read_several(grad_reader *r, const attr *to)
{
    if (to->kind == ATTR_AXES && token_is(r->p.at, "inverse") && token_is(r->p.at + 1, "(")) {
        return read_inverse(r);
    }
    /* One integer stands for all, a name for as many. */
    const attr *from = NULL;
    if (r->p.at->kind == TOKEN_NAME) {
        int index = row_find_attr(r->row, r->p.at->text);
        from = index >= 0 ? &r->row->attrs.items[index] : NULL;
    }
    bool several =
        from && (from->kind == ATTR_INTS || from->kind == ATTR_AXES) && !token_is(r->p.at + 1, "[");
    grad *g = grad_read_expression(r, several ? TYPE_INTS : TYPE_INT);
    return g && (!several || check_ints(r, g->value, to)) ? g : NULL;
}

/* A scalar of the row by its bare name, or a number. */
static grad *
read_scalar(grad_reader *r, const op *callee, const attr *to)
{
    int index = r->p.at->kind == TOKEN_NAME ? row_find_attr(r->row, r->p.at->text) : -1;
    const attr *from = index >= 0 ? &r->row->attrs.items[index] : NULL;
    const param *p = &callee->params.items[to->of];
    bool real = dtype_rule_is_float(callee, &p->dtype);
    if (!from || from->kind != ATTR_SCALAR) {
        return grad_read_expression(r, real ? TYPE_REAL : TYPE_INT);
    }
    grad *g = grad_node(r, GRAD_PARAM, r->p.at++);
    g->index = from->of;
    if (real != dtype_rule_is_float(r->row, &r->row->params.items[from->of].dtype)) {
        fault(
            r->p.f, "grad-value", g->where, r->p.of, "scalar `%s` is %s", to->name,
            real ? "a float" : "an integer");
        return NULL;
    }
    return g;
}

grad *
grad_read_attribute(grad_reader *r, const op *callee, const attr *to)
{
    static const expr_type types[] = {
        [ATTR_BOOL] = TYPE_BOOL, [ATTR_INT] = TYPE_INT,     [ATTR_FLOAT] = TYPE_REAL,
        [ATTR_ENUM] = TYPE_WORD, [ATTR_INTS] = TYPE_INTS,   [ATTR_AXIS] = TYPE_INT,
        [ATTR_AXES] = TYPE_INTS, [ATTR_SCALAR] = TYPE_REAL,
    };
    if (to->kind == ATTR_INTS || to->kind == ATTR_AXES) {
        return read_several(r, to);
    }
    if (to->kind == ATTR_SCALAR) {
        return read_scalar(r, callee, to);
    }
    grad *g = grad_read_expression(r, types[to->kind]);
    if (!g || (to->kind == ATTR_ENUM && !check_words(r, g->value, to))) {
        return NULL;
    }
    return check_bounds(r, g->value, to) ? g : NULL;
}
