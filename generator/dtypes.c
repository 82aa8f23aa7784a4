/* Dtypes: classes and functions of the table, type variables and rules of the rows. */
#include <string.h>

#include "checker.h"

enum { FUNCTION_BASE = -2 }; /* in checker->kinds, function i is FUNCTION_BASE - i */

static bool name_dtypes_add(checker *c, context of, loc where, const char *name, dtype_set *out);

static void
suggest_dtypes(checker *c, const char *name, bool classes, const op *o)
{
    LIST(const char *) known = {0};
    for (int i = 0; i < DTYPE_COUNT; i++) {
        *list_push(c->memory, &known) = dtypes_of[i].name;
    }
    for (int i = 0; classes && i < c->table->classes.count; i++) {
        *list_push(c->memory, &known) = c->table->classes.items[i].name;
    }
    for (int i = 0; o && i < o->types.count; i++) {
        *list_push(c->memory, &known) = o->types.items[i].name;
    }
    for (int i = 0; o && i < c->functions.count; i++) {
        *list_push(c->memory, &known) = c->functions.items[i].name;
    }
    fault_suggest(c->faults, name, known.items, known.count);
}

static bool
dtype_unknown(checker *c, context of, loc where, const char *name, const char *what, bool classes)
{
    if (!c->classes_faulty) {
        fault(c->faults, "unknown-dtype", where, of, "`%s` is %s", name, what);
        suggest_dtypes(c, name, classes, NULL);
    }
    return false;
}

static bool
dtype_add(checker *c, context of, loc where, const char *name, dtype_id dtype, dtype_set *out)
{
    for (int i = 0; i < out->count; i++) {
        if (out->values[i] == dtype) {
            return fault(
                c->faults, "duplicate-dtype", where, of, "`%s` brings %s a second time", name,
                dtypes_of[dtype].name);
        }
    }
    out->values[out->count++] = dtype;
    return true;
}

/* ---- classes --------------------------------------------------------------------------------- */

static bool
names_add(checker *c, context of, const node *n, dtype_set *out)
{
    if (n->kind == NODE_SCALAR) {
        return name_dtypes_add(c, of, n->where, n->text, out);
    }
    bool fine = true;
    for (int i = 0; i < n->items.count; i++) {
        const node *one = n->items.items[i];
        fine &= one->kind == NODE_SCALAR && name_dtypes_add(c, of, one->where, one->text, out);
    }
    return fine;
}

/* Resolves class `index` if it is not yet. */
static bool
class_resolve(checker *c, context of, loc where, int index)
{
    if (c->table->classes.items[index].count) {
        return true;
    }
    const char *name = c->table->classes.items[index].name;
    if (c->classes_open[index]) {
        return fault(c->faults, "class-cycle", where, of, "class `%s` contains itself", name);
    }
    const pair *p = node_find(c->classes, name);
    dtype_set found = {0};
    c->classes_open[index] = true;
    bool fine = names_add(c, (context){NULL, name}, p->value, &found);
    c->classes_open[index] = false;
    memcpy(c->table->classes.items[index].values, found.values, sizeof found.values);
    c->table->classes.items[index].count = found.count;
    return fine;
}

/* A dtype, or all of a class. */
static bool
name_dtypes_add(checker *c, context of, loc where, const char *name, dtype_set *out)
{
    int dtype = dtype_find(name);
    if (dtype >= 0) {
        return dtype_add(c, of, where, name, (dtype_id)dtype, out);
    }
    int kind = dict_find(c->kinds, name);
    if (kind < 0) {
        return dtype_unknown(
            c, of, where, name,
            kind < -1 ? "a function of dtypes, not a class" : "no dtype and no class of dtypes",
            true);
    }
    if (!class_resolve(c, of, where, kind)) {
        return false;
    }
    bool fine = true;
    for (int i = 0; i < c->table->classes.items[kind].count; i++) {
        fine &= dtype_add(c, of, where, name, c->table->classes.items[kind].values[i], out);
    }
    return fine;
}

bool
dtypes_read(checker *c, context of, const node *n, dtype_set *out)
{
    *out = (dtype_set){0};
    return names_add(c, of, n, out);
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool
function_entry_read(checker *c, context of, const pair *p, dtype_function *out)
{
    dtype_set keys = {0};
    bool same = strcmp(p->value->text, "same") == 0, fine = true;
    int value = dtype_find(p->value->text);
    if (!name_dtypes_add(c, of, p->where, p->key, &keys)) {
        return false;
    }
    if (!same && value < 0) {
        return dtype_unknown(
            c, of, p->value->where, p->value->text, "neither a dtype nor `same`", false);
    }
    for (int i = 0; i < keys.count; i++) {
        dtype_id key = keys.values[i];
        if (out->map[key] >= 0) {
            fine = fault(
                c->faults, "duplicate-dtype", p->where, of, "`%s` brings %s a second time", p->key,
                dtypes_of[key].name);
        }
        out->map[key] = same ? (int)key : value;
    }
    return fine;
}

static bool
function_read(checker *c, int index, const node *map)
{
    dtype_function *f = &c->functions.items[index];
    context of = {NULL, f->name};
    bool fine = true;
    for (int i = 0; i < map->pairs.count; i++) {
        fine &= function_entry_read(c, of, &map->pairs.items[i], f);
    }
    return fine;
}

static void
class_declare(checker *c, const pair *p)
{
    context of = {NULL, "dtypes"};
    if (dtype_find(p->key) >= 0) {
        fault(c->faults, "name-taken", p->where, of, "`%s` is a dtype already", p->key);
        return;
    }
    name_check(c->faults, of, p->where, p->key, NAME_CLASS);
    if (p->value->kind == NODE_LIST) {
        dict_add(c->kinds, p->key, c->table->classes.count);
        list_push(c->memory, &c->table->classes)->name = p->key;
    } else {
        dict_add(c->kinds, p->key, FUNCTION_BASE - c->functions.count);
        dtype_function *f = list_push(c->memory, &c->functions);
        f->name = p->key;
        f->where = p->where;
        for (int i = 0; i < DTYPE_COUNT; i++) {
            f->map[i] = -1;
        }
    }
}

void
classes_read(checker *c, const node *map)
{
    bool fine = true;
    c->kinds = dict_create(c->memory);
    c->classes = map;
    for (int i = 0; map && i < map->pairs.count; i++) {
        class_declare(c, &map->pairs.items[i]);
    }
    c->classes_open = arena_alloc(c->memory, (size_t)c->table->classes.count + 1);
    for (int i = 0; map && i < map->pairs.count; i++) {
        const pair *p = &map->pairs.items[i];
        int kind = dict_find(c->kinds, p->key);
        if (kind >= 0) {
            fine &= class_resolve(c, (context){NULL, "dtypes"}, p->where, kind);
        } else if (kind <= FUNCTION_BASE) {
            fine &= function_read(c, FUNCTION_BASE - kind, p->value);
        }
    }
    c->classes_faulty |= !fine;
}

/* ---- type variables -------------------------------------------------------------------------- */

bool
typevars_read(row_check *r)
{
    checker *c = r->checker;
    const node *map = r->row->fields[ROW_TYPES];
    bool fine = true;
    for (int i = 0; map && i < map->pairs.count; i++) {
        const pair *p = &map->pairs.items[i];
        context of = {r->op->name, arena_join(c->memory, "type ", p->key, "")};
        dtype_set set = {0};
        if (dtype_find(p->key) >= 0 || dict_find(c->kinds, p->key) != -1) {
            fine = fault(
                c->faults, "name-taken", p->where, of, "`%s` is a dtype or a class already",
                p->key);
        }
        fine &= name_check(c->faults, of, p->where, p->key, NAME_TYPE);
        fine &= name_take(r, of, p->where, p->key);
        fine &= dtypes_read(c, of, p->value, &set);
        typevar *v = list_push(c->memory, &r->op->types);
        v->name = p->key;
        v->where = p->where;
        v->bound_by = -1;
        v->count = set.count;
        memcpy(v->values, set.values, sizeof set.values);
    }
    return fine;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static int
typevar_find(const op *o, const char *name)
{
    for (int i = 0; i < o->types.count; i++) {
        if (strcmp(o->types.items[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool
rule_unknown(row_check *r, context of, const node *n, const char *name, const char *what)
{
    checker *c = r->checker;
    if (c->classes_faulty) {
        return false;
    }
    const char *hint =
        dict_find(c->kinds, name) >= 0 ? " (a class: give it to a type variable)" : "";
    fault(c->faults, "unknown-dtype", n->where, of, "`%s` is %s%s", name, what, hint);
    suggest_dtypes(c, name, false, r->op);
    return false;
}

/* `function(variable)`: the map is taken over, and must be defined for all that the variable may
 * be. */
static bool
function_rule_read(row_check *r, context of, const node *n, const char *open, dtype_rule *out)
{
    checker *c = r->checker;
    const char *name = arena_copy(c->memory, n->text, (size_t)(open - n->text));
    size_t rest = strlen(open + 1);
    if (rest < 2 || open[rest] != ')') {
        return rule_unknown(r, of, n, n->text, "no dtype");
    }
    const char *var = arena_copy(c->memory, open + 1, rest - 1);
    int kind = dict_find(c->kinds, name);
    out->var = typevar_find(r->op, var);
    if (kind > FUNCTION_BASE) {
        return rule_unknown(r, of, n, name, "no function of dtypes");
    }
    if (out->var < 0) {
        return rule_unknown(r, of, n, var, "no type variable of this row");
    }
    const dtype_function *f = &c->functions.items[FUNCTION_BASE - kind];
    out->kind = DTYPE_FUNCTION;
    out->function = f->name;
    out->map = f->map;
    bool fine = true;
    const typevar *v = &r->op->types.items[out->var];
    for (int i = 0; i < v->count; i++) {
        if (f->map[v->values[i]] < 0 && !c->classes_faulty) {
            fine = fault(
                c->faults, "undefined-function", n->where, of,
                "%s is not defined for %s, which %s "
                "may be",
                name, dtypes_of[v->values[i]].name, var);
            fault_also(c->faults, f->where, "%s is defined here", name);
        }
    }
    return fine;
}

bool
dtype_rule_read(row_check *r, context of, const node *n, dtype_rule *out)
{
    const char *open = strchr(n->text, '(');
    int dtype = dtype_find(n->text);
    out->text = n->text;
    out->var = -1;
    if (open) {
        return function_rule_read(r, of, n, open, out);
    }
    if (dtype >= 0) {
        out->kind = DTYPE_FIXED;
        out->fixed = (dtype_id)dtype;
        return true;
    }
    out->kind = DTYPE_VAR;
    out->var = typevar_find(r->op, n->text);
    return out->var >= 0 ||
           rule_unknown(r, of, n, n->text, "no dtype and no type variable of this row");
}

dtype_id
dtype_rule_apply(const dtype_rule *rule, const dtype_id *vars)
{
    if (rule->kind == DTYPE_FIXED) {
        return rule->fixed;
    }
    dtype_id given = vars[rule->var];
    return rule->kind == DTYPE_VAR ? given : (dtype_id)rule->map[given];
}

/* ---- tolerances ------------------------------------------------------------------------------ */

static bool
tolerance_read(checker *c, context of, const pair *p, tolerance *out)
{
    double *const both[] = {&out->rtol, &out->atol};
    int found = dtype_find(p->key);
    if (found < 0) {
        return dtype_unknown(c, of, p->where, p->key, "no dtype", false);
    }
    out->dtype = (dtype_id)found;
    if (p->value->items.count != 2) {
        return fault(
            c->faults, "tolerance", p->value->where, of,
            "a tolerance is [rtol, atol], this list has %d items", p->value->items.count);
    }
    for (int i = 0; i < 2; i++) {
        const node *one = p->value->items.items[i];
        if (!scalar_real(c->faults, of, one, "tolerance", both[i])) {
            return false;
        }
        if (*both[i] < 0) {
            return fault(c->faults, "tolerance", one->where, of, "a tolerance is not negative");
        }
    }
    return true;
}

bool
tolerances_read(checker *c, context of, const node *map, tolerance_list *out)
{
    bool fine = true;
    for (int i = 0; map && i < map->pairs.count; i++) {
        fine &= tolerance_read(c, of, &map->pairs.items[i], list_push(c->memory, out));
    }
    return fine;
}
