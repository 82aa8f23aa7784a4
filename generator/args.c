/* Arguments and outs: from the row's lists to parameters and attributes in the model's order. */
#include <string.h>

#include "checker.h"
#include "shape.h"

enum { PARAMS_MOST = 64, ATTRS_MOST = 64, DIMS_MOST = 64 }; /* of libaicf */

int
param_find(const op *o, const char *name)
{
    for (int i = 0; i < o->params.count; i++) {
        if (strcmp(o->params.items[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int
attr_find(const op *o, const char *name)
{
    for (int i = 0; i < o->attrs.count; i++) {
        if (strcmp(o->attrs.items[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int
dim_find(const op *o, const char *name)
{
    for (int i = 0; i < o->dims.count; i++) {
        if (strcmp(o->dims.items[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* ---- what an argument may say ---------------------------------------------------------------- */

enum { KEYS_TENSOR = 1, KEYS_SCALAR = 2, KEYS_ATTR = 4 };

/* Which kinds of arguments each key is for; attributes look closer in attrs.c. */
static const unsigned char key_users[ARG_COUNT] = {
    [ARG_NAME] = KEYS_TENSOR | KEYS_SCALAR | KEYS_ATTR,
    [ARG_TENSOR] = KEYS_TENSOR,
    [ARG_ATTR] = KEYS_ATTR,
    [ARG_SCALAR] = KEYS_SCALAR,
    [ARG_LIST] = KEYS_TENSOR,
    [ARG_SHAPE] = KEYS_TENSOR,
    [ARG_SIZE] = KEYS_ATTR,
    [ARG_VALUES] = KEYS_ATTR,
    [ARG_OF] = KEYS_ATTR,
    [ARG_DEFAULT] = KEYS_SCALAR | KEYS_ATTR,
    [ARG_MIN] = KEYS_SCALAR | KEYS_ATTR,
    [ARG_MAX] = KEYS_SCALAR | KEYS_ATTR,
    [ARG_OPTIONAL] = KEYS_TENSOR,
    [ARG_INOUT] = KEYS_TENSOR,
    [ARG_LAYOUT] = KEYS_TENSOR,
};

static bool
keys_fit(row_check *r, const source *s, const node *map, unsigned user, const char *what)
{
    bool fine = true;
    for (int i = 0; i < map->pairs.count; i++) {
        const pair *p = &map->pairs.items[i];
        if (p->field >= 0 && !(key_users[p->field] & user)) {
            fine = fault(
                r->checker->faults, "key-misfit", p->where, s->of, "%s has no `%s`", what, p->key);
        }
    }
    return fine;
}

static bool
kind_check(row_check *r, const source *s, const node *map)
{
    int kinds = (node_find(map, "tensor") != NULL) + (node_find(map, "attr") != NULL) +
                (node_find(map, "scalar") != NULL);
    if (kinds != 1) {
        return fault(
            r->checker->faults, "arg-kind", map->where, s->of,
            "an argument is one of `tensor`, `attr` and `scalar`%s",
            kinds ? ", this is several" : ", this is none");
    }
    if (node_find(map, "attr")) {
        return keys_fit(r, s, map, KEYS_ATTR, "an attribute");
    }
    if (node_find(map, "scalar")) {
        return keys_fit(r, s, map, KEYS_SCALAR, "a scalar");
    }
    if (!node_find(map, "shape")) {
        return fault(
            r->checker->faults, "missing-key", map->where, s->of, "a tensor needs the key `shape`");
    }
    return keys_fit(r, s, map, KEYS_TENSOR, "a tensor");
}

static const char *
source_part(row_check *r, const char *word, const node *map, int index)
{
    const pair *p = node_find(map, "name");
    if (p && p->value->kind == NODE_SCALAR) {
        return arena_join(r->checker->memory, word, " ", p->value->text);
    }
    return arena_print(r->checker->memory, "%s number %d", word, index + 1);
}

static bool
source_name_check(row_check *r, source *s, name_kind kind)
{
    const node *name = s->fields[ARG_NAME];
    if (!name) {
        return false;
    }
    s->name = name->text;
    return name_check(r->checker->faults, s->of, name->where, name->text, kind) &&
           name_take(r, s->of, name->where, name->text);
}

static bool
arg_source_read(row_check *r, const node *map, int index)
{
    source *s = list_push(r->checker->memory, &r->args);
    s->of = (context){r->op->name, source_part(r, "arg", map, index)};
    s->where = map->where;
    s->param = s->attr = -1;
    bool fine = fields_read(r->checker->faults, s->of, map, &arg_fields, false, s->fields);
    fine &= kind_check(r, s, map);
    bool size = s->fields[ARG_ATTR] && strcmp(s->fields[ARG_ATTR]->text, "int") == 0;
    fine &= source_name_check(r, s, size ? NAME_SIZE : NAME_ARG);
    return fine;
}

/* Several outs are a named tuple, which has methods of its own. */
static bool
several_check(row_check *r, const source *s)
{
    bool taken = strcmp(s->name, "count") == 0 || strcmp(s->name, "index") == 0;
    if (!taken || r->row->fields[ROW_OUTS]->items.count == 1) {
        return true;
    }
    return fault(
        r->checker->faults, "name-reserved", s->fields[ARG_NAME]->where, s->of,
        "`%s` cannot be one of several outs: a tuple has a method of that name", s->name);
}

static bool
out_source_read(row_check *r, const node *map, int index)
{
    source *s = list_push(r->checker->memory, &r->outs);
    s->of = (context){r->op->name, source_part(r, "out", map, index)};
    s->where = map->where;
    s->param = s->attr = -1;
    bool fine = fields_read(r->checker->faults, s->of, map, &out_fields, false, s->fields);
    fine &= source_name_check(r, s, NAME_OUT) && several_check(r, s);
    return fine;
}

static bool
sources_read(row_check *r)
{
    const node *args = r->row->fields[ROW_ARGS], *outs = r->row->fields[ROW_OUTS];
    bool fine = args && outs;
    int count = (args ? args->items.count : 0) + (outs ? outs->items.count : 0);
    list_reserve(r->checker->memory, &r->args, args ? args->items.count : 0);
    list_reserve(r->checker->memory, &r->outs, outs ? outs->items.count : 0);
    list_reserve(r->checker->memory, &r->op->params, count);
    for (int i = 0; args && i < args->items.count; i++) {
        fine &= arg_source_read(r, args->items.items[i], i);
    }
    for (int i = 0; outs && i < outs->items.count; i++) {
        fine &= out_source_read(r, outs->items.items[i], i);
    }
    return fine;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static param *
param_push(row_check *r, source *s, role role_of, const node *dtype, bool *fine)
{
    s->param = r->op->params.count;
    param *p = list_push(r->checker->memory, &r->op->params);
    p->name = s->name;
    p->role = role_of;
    p->list = p->order = p->attr = -1;
    p->where = s->where;
    *fine &= dtype_rule_read(r, s->of, dtype, &p->dtype);
    return p;
}

static bool
flag_of(const node *n)
{
    return n && strcmp(n->text, "true") == 0;
}

static bool
inputs_push(row_check *r)
{
    bool fine = true;
    for (int i = 0; i < r->args.count; i++) {
        source *s = &r->args.items[i];
        if (s->fields[ARG_TENSOR]) {
            bool inout = flag_of(s->fields[ARG_INOUT]);
            param *p = param_push(r, s, inout ? ROLE_INOUT : ROLE_IN, s->fields[ARG_TENSOR], &fine);
            p->optional = flag_of(s->fields[ARG_OPTIONAL]);
            if (s->fields[ARG_LAYOUT]) {
                fine &= layout_read(r->checker, s->of, s->fields[ARG_LAYOUT], &p->layouts);
            }
            r->op->inputs++;
        }
    }
    return fine;
}

static bool
outs_push(row_check *r)
{
    bool fine = true;
    for (int i = 0; i < r->outs.count; i++) {
        source *s = &r->outs.items[i];
        param *p = param_push(r, s, ROLE_OUT, s->fields[OUT_TENSOR], &fine);
        p->optional = flag_of(s->fields[OUT_OPTIONAL]);
        if (s->fields[OUT_LAYOUT]) {
            fine &= layout_read(r->checker, s->of, s->fields[OUT_LAYOUT], &p->layouts);
        }
        r->op->outs++;
    }
    return fine;
}

static bool
attrs_push(row_check *r)
{
    bool fine = true;
    for (int i = 0; i < r->args.count; i++) {
        source *s = &r->args.items[i];
        if (s->fields[ARG_TENSOR]) {
            continue;
        }
        s->attr = r->op->attrs.count;
        attr *out = list_push(r->checker->memory, &r->op->attrs);
        out->name = s->name;
        out->where = s->where;
        out->of = -1;
        if (s->fields[ARG_ATTR]) {
            fine &= attr_read(r, s, out);
            continue;
        }
        out->kind = ATTR_SCALAR;
        param *p = param_push(r, s, ROLE_SCALAR, s->fields[ARG_SCALAR], &fine);
        p->attr = s->attr;
        out->of = s->param;
        r->op->scalars++;
        fine = fine && scalar_attr_read(r, s, p, out);
    }
    return fine;
}

/* ---- shapes, lists --------------------------------------------------------------------------- */

static bool
shape_read(row_check *r, const source *s, const node *n)
{
    shape found = {0};
    op *o = r->op;
    bool fine = shape_parse(
        r->checker->memory, r->checker->faults, s->of, o, node_text_loc(n), n->text, s->param,
        &found);
    o->params.items[s->param].shape = found;
    return fine;
}

static bool
arg_shapes_read(row_check *r)
{
    bool fine = true;
    for (int i = 0; i < r->args.count; i++) {
        const source *s = &r->args.items[i];
        if (s->fields[ARG_TENSOR]) {
            fine &= shape_read(r, s, s->fields[ARG_SHAPE]);
        }
    }
    return fine;
}

static bool
list_length_read(row_check *r, const source *s, int first_list)
{
    op *o = r->op;
    const node *n = s->fields[ARG_LIST];
    int known = dim_find(o, n->text);
    if (known >= first_list) {
        o->params.items[s->param].list = known;
        return true;
    }
    if (!name_check(r->checker->faults, s->of, n->where, n->text, NAME_DIM)) {
        return false;
    }
    o->params.items[s->param].list = o->dims.count;
    dim *d = list_push(r->checker->memory, &o->dims);
    d->name = n->text;
    d->kind = DIM_LIST;
    d->bound_by = s->param;
    d->where = n->where;
    return true;
}

static bool
lists_read(row_check *r)
{
    bool fine = true;
    int first_list = r->op->dims.count;
    for (int i = 0; i < r->args.count; i++) {
        if (r->args.items[i].fields[ARG_LIST]) {
            fine &= list_length_read(r, &r->args.items[i], first_list);
        }
    }
    return fine;
}

static bool
lets_read(row_check *r)
{
    checker *c = r->checker;
    const node *map = r->row->fields[ROW_LET];
    bool fine = true;
    for (int i = 0; map && i < map->pairs.count; i++) {
        const pair *p = &map->pairs.items[i];
        context of = {r->op->name, arena_join(c->memory, "let ", p->key, "")};
        expr *value = expr_parse(c->memory, c->faults, of, node_text_loc(p->value), p->value->text);
        if (!name_check(c->faults, of, p->where, p->key, NAME_DIM) || !value) {
            fine = false;
            continue;
        }
        dim *d = list_push(c->memory, &r->op->dims);
        d->name = p->key;
        d->kind = DIM_LET;
        d->bound_by = -1;
        d->value = value;
        d->where = p->where;
    }
    return fine;
}

static bool
out_shapes_read(row_check *r)
{
    bool fine = true;
    for (int i = 0; i < r->outs.count; i++) {
        fine &= shape_read(r, &r->outs.items[i], r->outs.items[i].fields[OUT_SHAPE]);
    }
    return fine;
}

/* ---- rules over all of them ------------------------------------------------------------------ */

static bool
optional_check(row_check *r, const source *list, int count, const char *what)
{
    const source *first = NULL;
    bool fine = true;
    for (int i = 0; i < count; i++) {
        const source *s = &list[i];
        if (s->param < 0 || r->op->params.items[s->param].role == ROLE_SCALAR) {
            continue;
        }
        if (r->op->params.items[s->param].optional) {
            first = first ? first : s;
        } else if (first) {
            fine = fault(
                r->checker->faults, "optional-order", s->where, s->of,
                "%s after an optional one is optional too", what);
            fault_also(r->checker->faults, first->where, "`%s` is optional", first->name);
        }
    }
    return fine;
}

static bool
order_read(row_check *r, const source *s)
{
    const node *n = s->fields[OUT_ORDER];
    if (!n) {
        return true;
    }
    op *o = r->op;
    int found = param_find(o, n->text);
    if (found < 0 || found >= o->inputs) {
        const char *known[PARAMS_MOST];
        for (int i = 0; i < o->inputs; i++) {
            known[i] = o->params.items[i].name;
        }
        fault(
            r->checker->faults, "unknown-arg", n->where, s->of, "`%s` is no tensor argument",
            n->text);
        fault_suggest(r->checker->faults, n->text, known, o->inputs);
        return false;
    }
    if (o->params.items[found].list >= 0) {
        return fault(
            r->checker->faults, "order-list", n->where, s->of,
            "`%s` is a list: its tensors have no one memory order", n->text);
    }
    o->params.items[s->param].order = found;
    return true;
}

static bool
counts_check(row_check *r)
{
    const op *o = r->op;
    context of = {o->name, NULL};
    const loc where = r->row->fields[ROW_OUTS]->where;
    bool inout = false;
    for (int i = 0; i < o->inputs; i++) {
        inout |= o->params.items[i].role == ROLE_INOUT;
    }
    if (o->params.count > PARAMS_MOST) {
        return fault(
            r->checker->faults, "too-many-params", where, of,
            "a row has at most %d tensors and scalars, this one %d", PARAMS_MOST, o->params.count);
    }
    if (o->attrs.count > ATTRS_MOST) {
        return fault(
            r->checker->faults, "too-many-attrs", r->row->fields[ROW_ARGS]->where, of,
            "a row has at most %d attributes and scalars, this one %d", ATTRS_MOST, o->attrs.count);
    }
    if (o->outs == 0 && !inout) {
        return fault(
            r->checker->faults, "no-outs", where, of,
            "a row without outs needs an inout argument: it would do nothing");
    }
    if (o->inputs == 0) {
        return fault(
            r->checker->faults, "no-inputs", r->row->fields[ROW_ARGS]->where, of,
            "a row needs a tensor argument: it says where the op runs");
    }
    return true;
}

/* After the last of them is known. */
static bool
dims_check(row_check *r)
{
    const op *o = r->op;
    if (o->dims.count <= DIMS_MOST) {
        return true;
    }
    return fault(
        r->checker->faults, "too-many-dims", o->where, (context){o->name, NULL},
        "a row has at most %d dims, lengths of lists and `let`s, this one %d", DIMS_MOST,
        o->dims.count);
}

bool
args_read(row_check *r, bool typed)
{
    if (!sources_read(r) || !typed) {
        return false;
    }
    bool fine = inputs_push(r);
    fine &= outs_push(r);
    fine &= attrs_push(r);
    fine = fine && counts_check(r);
    fine &= optional_check(r, r->args.items, r->args.count, "a tensor");
    fine &= optional_check(r, r->outs.items, r->outs.count, "an out");
    if (!fine) {
        return false;
    }
    for (int i = 0; i < r->args.count; i++) {
        const source *s = &r->args.items[i];
        fine &= s->attr < 0 || attr_of_resolve(r, s, &r->op->attrs.items[s->attr]);
    }
    fine &= arg_shapes_read(r);
    fine &= lists_read(r);
    for (int i = 0; i < r->outs.count; i++) {
        fine &= order_read(r, &r->outs.items[i]);
    }
    fine &= lets_read(r);
    fine &= out_shapes_read(r);
    return fine && dims_check(r) && shape_check(r->checker->memory, r->checker->faults, r->op);
}
