#include "grad.h"

#include <string.h>

#include "grad_parse.h"
#include "names.h"

typedef struct checker {
    arena *a;
    faults *f;
    const table *t;
    op *row;
    grad_value **known; /* one an entry, NULL where it has a fault */
    bool *used, *bad;   /* by entry: another names it; its key has a fault */
} checker;

/* ---- keys ---------------------------------------------------------------------------------- */

static bool
has_gradient(const op *row, int index)
{
    return dtype_rule_is_float(row, &row->params.items[index].dtype);
}

/* An argument, or a new name for an intermediate. */
static bool
check_key(checker *c, int index)
{
    grad_entry *e = &c->row->grads.items[index];
    context of = grad_context(c->a, c->row, index);
    e->param = row_find_tensor(c->row, e->name);
    if (e->param >= c->row->inputs) {
        e->param = -1;
        return fault(
            c->f, "grad-key", e->where, of, "`%s` is an out: keys are arguments and new names",
            e->name);
    }
    if (e->param >= 0 && !has_gradient(c->row, e->param) && strcmp(e->text, "none") != 0) {
        return fault(
            c->f, "grad-key", e->where, of, "`%s` is no float: it has no gradient", e->name);
    }
    if (e->param >= 0) {
        return true;
    }
    bool taken = row_find_attr(c->row, e->name) >= 0 || row_find_dim(c->row, e->name) >= 0 ||
                 row_find_type(c->row, e->name) >= 0;
    if (taken) {
        return fault(
            c->f, "grad-key", e->where, of,
            "`%s` is no tensor of the row: only tensors have gradients, and intermediates new "
            "names",
            e->name);
    }
    return name_check(c->f, of, e->where, e->name, NAME_GRAD);
}

static bool
check_keys(checker *c)
{
    bool ok = true;
    for (int i = 0; i < c->row->grads.count; i++) {
        c->bad[i] = !check_key(c, i);
        ok = !c->bad[i] && ok;
    }
    for (int i = 0; i < c->row->inputs; i++) {
        if (c->row->params.items[i].role == ROLE_INOUT) {
            ok = fault(
                c->f, "grad-inout", c->row->grads.items[0].where, grad_context(c->a, c->row, 0),
                "`%s` is written in place: a row with an inout has no gradients",
                c->row->params.items[i].name);
        }
    }
    return ok;
}

/* Every float tensor has a gradient, or `none`. */
static bool
check_missing(checker *c)
{
    bool ok = true;
    for (int i = 0; i < c->row->inputs; i++) {
        bool found = !has_gradient(c->row, i);
        for (int k = 0; k < c->row->grads.count; k++) {
            found = found || c->row->grads.items[k].param == i;
        }
        if (!found) {
            ok = fault(
                c->f, "grad-missing", c->row->params.items[i].where,
                (context){c->row->name, "grad"}, "`%s` has no gradient: give one, or `none`",
                c->row->params.items[i].name);
        }
    }
    return ok;
}

/* ---- what is used, and saved --------------------------------------------------------------- */

/* Names that stand for a shape alone: `like`, and the lists of split. */
static bool
is_like(const grad *g, int index)
{
    const grad_fixed *f = g->kind == GRAD_FIXED ? grad_fixed_find(g->name) : NULL;
    return f && (f->takes[index] == 'l' || f->takes[index] == 'L');
}

static void
mark(checker *c, const grad *g, bool by_shape)
{
    if (g->kind == GRAD_PARAM && !by_shape) {
        c->row->saves |= UINT64_C(1) << g->index;
    }
    if (g->kind == GRAD_NAME) {
        c->used[g->index] = true;
    }
    for (int i = 0; i < g->count; i++) {
        if (g->args[i]) {
            mark(c, g->args[i], is_like(g, i));
        }
    }
    for (int i = 0; i < g->attr_count; i++) {
        if (g->attrs[i]) {
            mark(c, g->attrs[i], false);
        }
    }
}

static bool
check_used(checker *c)
{
    bool ok = true;
    for (int i = 0; i < c->row->grads.count; i++) {
        const grad_entry *e = &c->row->grads.items[i];
        if (e->param < 0 && !c->used[i]) {
            ok = fault(
                c->f, "grad-unused", e->where, grad_context(c->a, c->row, i),
                "`%s` is an intermediate that nothing after it uses", e->name);
        }
    }
    return ok;
}

bool
grad_check(arena *a, faults *f, table *t, op *row)
{
    size_t count = (size_t)row->grads.count;
    checker c = {
        .a = a,
        .f = f,
        .t = t,
        .row = row,
        .known = arena_alloc(a, sizeof *c.known * (count + 1)),
        .used = arena_alloc(a, sizeof *c.used * (count + 1)),
        .bad = arena_alloc(a, sizeof *c.bad * (count + 1)),
    };
    if (!count) {
        return true;
    }
    bool ok = check_keys(&c);
    for (int i = 0; i < row->grads.count; i++) {
        grad *g = row->grads.items[i].value = grad_parse(a, f, t, row, i);
        c.known[i] = g && !c.bad[i] ? grad_infer(a, f, t, row, i, c.known) : NULL;
        ok = c.known[i] && ok;
        if (g) {
            mark(&c, g, false);
        }
    }
    return check_missing(&c) && ok && check_used(&c);
}
