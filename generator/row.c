/* One row: from its fields to the model's op. */
#include <string.h>

#include "checker.h"
#include "sha256.h"

#define FAULTS(r) ((r)->checker->faults)

bool
name_take(row_check *r, context of, loc where, const char *name)
{
    int first = dict_add(r->checker->names, name, r->name_places.count);
    if (first >= 0) {
        fault(FAULTS(r), "name-taken", where, of, "`%s` names something else in this row", name);
        fault_also(FAULTS(r), r->name_places.items[first], "it is here");
        return false;
    }
    *list_push(r->checker->memory, &r->name_places) = where;
    return true;
}

static expr *
expr_of(row_check *r, context of, loc where, const char *written, expr_type wanted)
{
    checker *c = r->checker;
    expr *e = expr_parse(c->memory, c->faults, of, where, written);
    if (e && r->sound && !expr_check(c->memory, c->faults, of, r->op, e, wanted, false)) {
        return NULL;
    }
    return e;
}

static loc
key_text_loc(const pair *p)
{
    loc where = p->where;
    where.column += p->quoted;
    return where;
}

static bool
wheres_read(row_check *r)
{
    const node *map = r->row->fields[ROW_WHERE];
    context of = {r->op->name, "where"};
    bool fine = true;
    for (int i = 0; map && i < map->pairs.count; i++) {
        const pair *p = &map->pairs.items[i];
        condition *w = list_push(r->checker->memory, &r->op->wheres);
        w->text = p->key;
        w->message = p->value->text;
        w->where = p->where;
        w->test = expr_of(r, of, key_text_loc(p), p->key, TYPE_BOOL);
        fine &= w->test != NULL;
    }
    return fine;
}

/* ---- overlap --------------------------------------------------------------------------------- */

static int
param_named(
    row_check *r, context of, loc where, const char *name, int first, int end, const char *what)
{
    const op *o = r->op;
    int found = param_find(o, name);
    if (found >= first && found < end) {
        return found;
    }
    LIST(const char *) known = {0};
    for (int i = first; i < end; i++) {
        *list_push(r->checker->memory, &known) = o->params.items[i].name;
    }
    fault(FAULTS(r), "unknown-arg", where, of, "`%s` is no %s of this row", name, what);
    fault_suggest(FAULTS(r), name, known.items, known.count);
    return -1;
}

static bool
dtypes_ever_same(const op *o, int a, int b)
{
    for (int v = 0; v < o->variants.count; v++) {
        if (o->variants.items[v].params[a] == o->variants.items[v].params[b]) {
            return true;
        }
    }
    return false;
}

static bool
overlap_pair_read(row_check *r, context of, const node *name, int out)
{
    op *o = r->op;
    int in = param_named(r, of, name->where, name->text, 0, o->inputs, "tensor argument");
    if (in < 0) {
        return false;
    }
    if (o->params.items[out].exact >> in & 1) {
        return fault(
            FAULTS(r), "duplicate-overlap", name->where, of, "`%s` is named twice", name->text);
    }
    if (!dtypes_ever_same(o, out, in)) {
        return fault(
            FAULTS(r), "overlap-dtype", name->where, of,
            "`%s` is never of the out's dtype: the out cannot be exactly it", name->text);
    }
    o->params.items[out].exact |= UINT64_C(1) << in;
    return true;
}

static bool
overlap_read(row_check *r)
{
    op *o = r->op;
    const node *map = r->row->fields[ROW_OVERLAP];
    context of = {o->name, "overlap"};
    bool fine = true;
    for (int i = 0; map && i < map->pairs.count; i++) {
        const pair *p = &map->pairs.items[i];
        int out = param_named(r, of, p->where, p->key, o->inputs, o->inputs + o->outs, "out");
        for (int j = 0; out >= 0 && j < p->value->items.count; j++) {
            fine &= overlap_pair_read(r, of, p->value->items.items[j], out);
        }
        fine &= out >= 0;
    }
    return fine;
}

/* ---- cost, test, grad ------------------------------------------------------------------------ */

static bool
cost_read(row_check *r)
{
    const node *map = r->row->fields[ROW_COST];
    context of = {r->op->name, "cost"};
    node *got[COST_COUNT] = {0};
    if (!map) {
        return true;
    }
    bool fine = fields_read(FAULTS(r), of, map, &cost_fields, false, got);
    expr **targets[COST_COUNT] = {&r->op->flops, &r->op->bytes};
    for (int i = 0; i < COST_COUNT; i++) {
        if (got[i]) {
            *targets[i] = expr_of(r, of, node_text_loc(got[i]), got[i]->text, TYPE_INT);
            fine &= *targets[i] != NULL;
        }
    }
    return fine;
}

static bool
test_read(row_check *r)
{
    const node *map = r->row->fields[ROW_TEST];
    context of = {r->op->name, "test"};
    node *got[TEST_COUNT] = {0};
    if (!map) {
        return true;
    }
    bool fine = fields_read(FAULTS(r), of, map, &test_fields, false, got);
    for (int which = TEST_ACCEPT; which <= TEST_REJECT; which++) {
        for (int i = 0; got[which] && i < got[which]->items.count; i++) {
            const node *n = got[which]->items.items[i];
            text *t = which == TEST_ACCEPT ? list_push(r->checker->memory, &r->op->test.accept)
                                           : list_push(r->checker->memory, &r->op->test.reject);
            *t = (text){n->text, n->where};
            fine &= !r->sound || case_check(r, of, n);
        }
    }
    return tolerances_read(r->checker, of, got[TEST_TOLERANCE], &r->op->test.tolerances) && fine;
}

static void
grad_read(row_check *r)
{
    op *o = r->op;
    const node *map = r->row->fields[ROW_GRAD];
    o->has_grad = map != NULL;
    for (int i = 0; map && i < map->pairs.count; i++) {
        const pair *p = &map->pairs.items[i];
        grad_entry *g = list_push(r->checker->memory, &o->grads);
        g->name = p->key;
        g->text = p->value->text;
        g->where = node_text_loc(p->value);
        g->param = -1;
    }
}

/* ---- the row --------------------------------------------------------------------------------- */

static void
head_read(row_check *r)
{
    const row *from = r->row;
    op *o = r->op;
    const node *doc = from->fields[ROW_DOC], *aten = from->fields[ROW_ATEN];
    const node *partial = from->fields[ROW_PARTIAL];
    o->name = from->name ? from->name : "without a name";
    o->symbol = r->checker->table->symbol;
    o->family = from->family;
    o->where = from->name_where;
    o->partial = partial && strcmp(partial->text, "true") == 0;
    o->doc = doc ? (text){doc->text, doc->where} : (text){NULL, from->where};
    o->aten = aten ? (text){aten->text, node_text_loc(aten)} : (text){NULL, from->where};
}

static bool
is_elementwise(const op *o)
{
    for (int i = 0; i < o->inputs + o->outs; i++) {
        if (o->params.items[i].list >= 0 || !shape_is_packs(&o->params.items[i].shape)) {
            return false;
        }
    }
    return true;
}

bool
row_check_all(checker *c, const row *from, op *to)
{
    row_check r = {.checker = c, .row = from, .op = to};
    dict_clear(c->names);
    head_read(&r);
    bool typed = typevars_read(&r) && !from->faulty[ROW_TYPES];
    r.sound = args_read(&r, typed) && !from->faulty[ROW_LET] && variants_make(&r);
    bool fine = r.sound && from->whole;
    fine &= wheres_read(&r);
    fine &= !r.sound || overlap_read(&r);
    fine &= kernels_read(&r);
    fine &= cost_read(&r);
    fine &= test_read(&r);
    fine &= !r.sound || !from->fields[ROW_ATEN] || aten_check(&r, from->fields[ROW_ATEN]);
    grad_read(&r);
    if (fine) {
        to->elementwise = is_elementwise(to);
        to->json = row_json(c->memory, from);
        sha256_hex(to->json, strlen(to->json), to->hash);
    }
    return fine;
}
