#include "shape.h"

#include <string.h>

#include "expression_parse.h"

typedef struct checker {
    arena *a;
    faults *f;
    op *row;
} checker;

static context
context_of(const checker *c, int index)
{
    const param *p = &c->row->params.items[index];
    const char *what = p->role == ROLE_OUT ? "out" : "arg";
    return (context){c->row->name, arena_print(c->a, "%s %s", what, p->name)};
}

/* ---- every item of every shape ------------------------------------------------------------- */

typedef bool item_fn(checker *c, int param, item *it);

static bool
each_item_of(checker *c, int index, item_fn *fn)
{
    shape *s = &c->row->params.items[index].shape;
    bool ok = true;
    for (int i = 0; i < s->items.count; i++) {
        ok = fn(c, index, &s->items.items[i]) && ok;
    }
    for (int i = 0; i < s->other.count; i++) {
        ok = fn(c, index, &s->other.items[i]) && ok;
    }
    return ok;
}

static bool
each_item(checker *c, item_fn *fn)
{
    bool ok = true;
    for (int i = 0; i < c->row->inputs + c->row->outs; i++) {
        ok = each_item_of(c, i, fn) && ok;
    }
    return ok;
}

/* ---- names of outs ------------------------------------------------------------------------- */

static bool
unknown(checker *c, int index, const item *it, const char *name)
{
    fault(
        c->f, "shape-name", it->where, context_of(c, index),
        "no argument's shape binds `%s`, and it is no let and no int attribute", name);
    LIST(const char *) known = {0};
    for (int i = 0; i < c->row->dims.count; i++) {
        *list_push(c->a, &known) = c->row->dims.items[i].name;
    }
    fault_suggest(c->f, name, known.items, known.count);
    return false;
}

/* The name of a dim or pack item as it stands before "..", "@" or the end. */
static const char *
name_of(checker *c, const item *it)
{
    size_t size = strcspn(it->text, ".@");
    return arena_copy(c->a, it->text, size);
}

/* The name of pack `k` in "broadcast(A, B)", "reduced(A, axes)". */
static const char *
pack_name(checker *c, const item *it, int k)
{
    const char *at = strchr(it->text, '(') + 1;
    for (; k > 0; k--) {
        at = strchr(at, ',') + 2;
    }
    return arena_copy(c->a, at, strcspn(at, ",)"));
}

static bool
resolve(checker *c, int index, item *it, const char *name, bool pack, int *dim_index)
{
    *dim_index = *dim_index < 0 ? row_find_dim(c->row, name) : *dim_index;
    if (*dim_index < 0) {
        return unknown(c, index, it, name);
    }
    const dim *d = &c->row->dims.items[*dim_index];
    if (pack == (d->kind == DIM_PACK)) {
        return true;
    }
    return fault(
        c->f, "shape-name", it->where, context_of(c, index),
        pack ? "`%s` is a single dim elsewhere" : "`%s` is a pack elsewhere", name);
}

static bool
resolve_item(checker *c, int index, item *it)
{
    bool ok = true;
    switch (it->kind) {
    case ITEM_DIM:
    case ITEM_AXIS: return resolve(c, index, it, name_of(c, it), false, &it->dim);
    case ITEM_PACK: return resolve(c, index, it, name_of(c, it), true, &it->dim);
    case ITEM_REDUCED:
    case ITEM_PERMUTED: return resolve(c, index, it, pack_name(c, it, 0), true, &it->dim);
    case ITEM_BROADCAST:
        for (int i = 0; i < it->pack_count; i++) {
            ok = resolve(c, index, it, pack_name(c, it, i), true, &it->packs[i]) && ok;
        }
        return ok;
    case ITEM_VALUE: return true;
    }
    die("item %d", (int)it->kind);
}

/* ---- dims that nothing binds, and clashes -------------------------------------------------- */

static bool
check_bound(checker *c)
{
    bool ok = true;
    for (int i = 0; i < c->row->dims.count; i++) {
        const dim *d = &c->row->dims.items[i];
        if ((d->kind == DIM_PLAIN || d->kind == DIM_PACK) && d->bound_by < 0) {
            ok = fault(
                c->f, "shape-unbound", d->where, (context){c->row->name, NULL},
                "nothing binds `%s`: some argument must have it as a dim or pack of its own",
                d->name);
        }
    }
    return ok;
}

static bool
clash(checker *c, const dim *d, loc other, const char *what)
{
    fault(
        c->f, "shape-clash", d->where, (context){c->row->name, NULL},
        "`%s` is the name of a dim and of %s", d->name, what);
    fault_also(c->f, other, "the other one is here");
    return false;
}

static bool
check_clash(checker *c, int index)
{
    const op *row = c->row;
    const dim *d = &row->dims.items[index];
    int other = row_find_type(row, d->name);
    if (other >= 0) {
        return clash(c, d, row->types.items[other].where, "a type variable");
    }
    other = row_find_tensor(row, d->name);
    if (other >= 0) {
        bool out = row->params.items[other].role == ROLE_OUT;
        return clash(c, d, row->params.items[other].where, out ? "an out" : "an argument");
    }
    other = row_find_attr(row, d->name);
    if (other >= 0) {
        return clash(c, d, row->attrs.items[other].where, "an attribute");
    }
    other = row_find_dim(row, d->name);
    return other == index || clash(c, d, row->dims.items[other].where, "another one");
}

static bool
check_clashes(checker *c)
{
    bool ok = true;
    for (int i = 0; i < c->row->dims.count; i++) {
        ok = check_clash(c, i) && ok;
    }
    return ok;
}

/* ---- what varies over a list --------------------------------------------------------------- */

/* Whether arithmetic has the dim but under sum(). */
static bool
value_has(const op *row, const expr *e, int index)
{
    if (e->kind == EXPR_CALL && e->function == FN_SUM) {
        return false;
    }
    if (e->name && e->kind != EXPR_CALL && e->kind != EXPR_WORD &&
        row_find_dim(row, e->name) == index) {
        return true;
    }
    for (int i = 0; i < e->count; i++) {
        if (value_has(row, e->args[i], index)) {
            return true;
        }
    }
    return false;
}

static bool
item_has(const op *row, const item *it, int index)
{
    for (int i = 0; i < it->pack_count; i++) {
        if (it->packs[i] == index) {
            return true;
        }
    }
    return it->kind == ITEM_VALUE ? value_has(row, it->value, index) : it->dim == index;
}

static bool
shape_has(const op *row, const shape *s, int index)
{
    for (int i = 0; i < s->items.count; i++) {
        if (item_has(row, &s->items.items[i], index)) {
            return true;
        }
    }
    for (int i = 0; i < s->other.count; i++) {
        if (item_has(row, &s->other.items[i], index)) {
            return true;
        }
    }
    return false;
}

/* Bound by a list, and outside the lists of its length nowhere but under sum(). */
static bool
varies(const op *row, int index)
{
    const dim *d = &row->dims.items[index];
    bool bound = (d->kind == DIM_PLAIN || d->kind == DIM_PACK) && d->bound_by >= 0;
    int list = bound ? row->params.items[d->bound_by].list : -1;
    if (list < 0) {
        return false;
    }
    for (int i = 0; i < row->inputs + row->outs; i++) {
        const param *p = &row->params.items[i];
        if (p->list != list && shape_has(row, &p->shape, index)) {
            return false;
        }
    }
    for (int i = 0; i < row->dims.count; i++) {
        if (row->dims.items[i].value && value_has(row, row->dims.items[i].value, index)) {
            return false;
        }
    }
    return true;
}

/* ---- values, conditions, lets -------------------------------------------------------------- */

/* Outs have no shape yet where shapes and lets are computed, and frameworks compute them of shapes
   alone. */
static bool
check_inputs(checker *c, context of, const expr *e)
{
    if (e->kind == EXPR_PARAM && c->row->params.items[e->index].role == ROLE_OUT) {
        return fault(
            c->f, "shape-value", e->where, of, "out `%s` is not known where this is computed",
            e->name);
    }
    if (e->kind == EXPR_CALL &&
        (e->function == FN_ALIGNED || e->function == FN_STRIDE || e->function == FN_BATCHES)) {
        return fault(
            c->f, "shape-value", e->where, of,
            "%s() is of one call's memory: sizes follow from sizes and attributes", e->name);
    }
    bool ok = true;
    for (int i = 0; i < e->count; i++) {
        ok = check_inputs(c, of, e->args[i]) && ok;
    }
    return ok;
}

static bool
check_value(checker *c, int index, item *it)
{
    context of = context_of(c, index);
    return it->kind != ITEM_VALUE ||
           (expr_check(c->a, c->f, of, c->row, it->value, TYPE_INT, false) &&
            check_inputs(c, of, it->value));
}

static bool
check_tests(checker *c)
{
    bool ok = true;
    for (int i = 0; i < c->row->inputs + c->row->outs; i++) {
        expr *test = c->row->params.items[i].shape.test;
        if (test) {
            ok = expr_check(c->a, c->f, context_of(c, i), c->row, test, TYPE_BOOL, true) && ok;
        }
    }
    return ok;
}

/* Lets are computed in order. */
static bool
check_order(checker *c, context of, const expr *e, int index)
{
    bool let = e->kind == EXPR_DIM && c->row->dims.items[e->index].kind == DIM_LET;
    if (let && e->index >= index) {
        return fault(
            c->f, "let-order", e->where, of, "`%s` is computed from lets before it, not from `%s`",
            c->row->dims.items[index].name, e->name);
    }
    bool ok = true;
    for (int i = 0; i < e->count; i++) {
        ok = check_order(c, of, e->args[i], index) && ok;
    }
    return ok;
}

static bool
check_lets(checker *c)
{
    bool ok = true;
    for (int i = 0; i < c->row->dims.count; i++) {
        dim *d = &c->row->dims.items[i];
        if (d->kind == DIM_LET && d->value) {
            context of = {c->row->name, arena_print(c->a, "let %s", d->name)};
            ok = expr_check(c->a, c->f, of, c->row, d->value, TYPE_INT, false) &&
                 check_inputs(c, of, d->value) && check_order(c, of, d->value, i) && ok;
        }
    }
    return ok;
}

/* ---- packs --------------------------------------------------------------------------------- */

/* Whether an argument before `index` that is always there binds the pack. */
static bool
bound_before(const op *row, int index, int pack)
{
    for (int i = 0; i < index; i++) {
        const param *p = &row->params.items[i];
        for (int k = 0; !p->optional && !p->shape.test && k < p->shape.items.count; k++) {
            const item *it = &p->shape.items.items[k];
            if (it->kind == ITEM_PACK && it->dim == pack) {
                return true;
            }
        }
    }
    return false;
}

/* One branch of an argument's shape: between two packs there is an axis, where it must bind one; at
   every axis there is a pack before it. */
static bool
check_branch(checker *c, int index, const item *all, int count)
{
    const item *last = NULL, *loose = NULL;
    for (int i = 0; i < count; i++) {
        const item *it = &all[i];
        if (it->kind == ITEM_AXIS && !last) {
            return fault(
                c->f, "shape-axis", it->where, context_of(c, index),
                "`%s` needs a pack before it, which takes the dims before the axis", it->text);
        }
        if (it->kind == ITEM_AXIS) {
            last = NULL;
            loose = NULL;
        }
        if (!item_is_packs(it)) {
            continue;
        }
        bool binds = it->kind == ITEM_PACK && !bound_before(c->row, index, it->dim);
        loose = binds ? it : loose;
        if (last && loose) {
            return fault(
                c->f, "shape-packs", it->where, context_of(c, index),
                "where `%s` ends and `%s` begins cannot be told, and `%s` has to be bound here",
                last->text, it->text, loose->text);
        }
        last = it;
    }
    return true;
}

static bool
check_packs(checker *c)
{
    bool ok = true;
    for (int i = 0; i < c->row->inputs; i++) {
        const shape *s = &c->row->params.items[i].shape;
        ok = check_branch(c, i, s->items.items, s->items.count) && ok;
        ok = check_branch(c, i, s->other.items, s->other.count) && ok;
    }
    return ok;
}

bool
shape_check(arena *a, faults *f, op *row)
{
    checker c = {.a = a, .f = f, .row = row};
    bool ok = each_item(&c, resolve_item);
    for (int i = 0; i < row->dims.count; i++) {
        row->dims.items[i].varies = varies(row, i);
    }
    ok = each_item(&c, check_value) && ok;
    ok = check_tests(&c) && ok;
    ok = check_lets(&c) && ok;
    ok = check_bound(&c) && ok;
    ok = check_clashes(&c) && ok;
    return ok && check_packs(&c);
}
