/* The combinations of dtypes that a row has, in the order of its type variables. */
#include <string.h>

#include "checker.h"

enum { VARIANTS_MOST = 4096 };

/* A row without type variables has one variant, whose suffix this is. */
static const char fixed_suffix[] = "fixed";

static bool
typevar_used(const op *o, int var)
{
    for (int i = 0; i < o->params.count; i++) {
        if (o->params.items[i].dtype.kind != DTYPE_FIXED && o->params.items[i].dtype.var == var) {
            return true;
        }
    }
    return false;
}

/* Tensor arguments of the very variable bind it: a function of it cannot be undone, and a scalar
   may be a plain number. */
static bool
typevars_bind(row_check *r)
{
    op *o = r->op;
    faults *f = r->checker->faults;
    const typevar *unbound = NULL;
    bool fine = true;
    for (int v = 0; v < o->types.count; v++) {
        typevar *var = &o->types.items[v];
        context of = {o->name, arena_join(r->checker->memory, "type ", var->name, "")};
        for (int i = 0; i < o->inputs && var->bound_by < 0; i++) {
            const dtype_rule *rule = &o->params.items[i].dtype;
            if (rule->kind == DTYPE_VAR && rule->var == v) {
                var->bound_by = i;
            }
        }
        if (!typevar_used(o, v)) {
            fine =
                fault(f, "unused-type", var->where, of, "nothing in the row is of `%s`", var->name);
        } else if (var->bound_by < 0 && unbound) {
            fine = fault(
                f, "unbound-types", var->where, of,
                "no argument says `%s`; only one variable may be left open", var->name);
            fault_also(f, unbound->where, "`%s` is another", unbound->name);
        }
        if (var->bound_by < 0 && !unbound) {
            unbound = var;
        }
    }
    return fine;
}

static const char *
suffix_of(arena *a, const op *o, const dtype_id *vars)
{
    char joined[DTYPE_COUNT * 40 + 1];
    size_t size = 0;
    for (int i = 0; i < o->types.count; i++) {
        const char *name = dtypes_of[vars[i]].name;
        if (size + strlen(name) + 1 >= sizeof joined) {
            die("a suffix of %d dtypes", o->types.count);
        }
        joined[size] = '_';
        memcpy(joined + size + 1, name, strlen(name));
        size += strlen(name) + 1;
    }
    return size ? arena_copy(a, joined + 1, size - 1) : fixed_suffix;
}

static void
variant_push(row_check *r, const int *at)
{
    arena *a = r->checker->memory;
    op *o = r->op;
    variant *v = list_push(a, &o->variants);
    v->vars = arena_alloc(a, ((size_t)o->types.count + 1) * sizeof *v->vars);
    v->params = arena_alloc(a, ((size_t)o->params.count + 1) * sizeof *v->params);
    for (int i = 0; i < o->types.count; i++) {
        v->vars[i] = o->types.items[i].values[at[i]];
    }
    for (int i = 0; i < o->params.count; i++) {
        v->params[i] = dtype_rule_apply(&o->params.items[i].dtype, v->vars);
    }
    v->suffix = suffix_of(a, o, v->vars);
}

bool
variants_make(row_check *r)
{
    op *o = r->op;
    context of = {o->name, NULL};
    const node *types = r->row->fields[ROW_TYPES];
    int64_t count = 1;
    for (int i = 0; i < o->types.count && count <= VARIANTS_MOST; i++) {
        count *= o->types.items[i].count;
    }
    if (count > VARIANTS_MOST || o->types.count > DTYPE_COUNT) {
        return fault(
            r->checker->faults, "too-many-variants", types->where, of,
            "more than %d combinations of dtypes", VARIANTS_MOST);
    }
    if (!typevars_bind(r)) {
        return false;
    }
    int at[DTYPE_COUNT] = {0};
    for (int64_t n = 0; n < count; n++) {
        variant_push(r, at);
        for (int i = o->types.count; i-- > 0 && ++at[i] == o->types.items[i].count;) {
            at[i] = 0;
        }
    }
    return true;
}
