#include <string.h>

#include "grad_parse.h"

typedef struct inferrer {
    arena *a;
    faults *f;
    context of;
    const table *t;
    const op *row;
    int entry;
    grad_value *const *known;
    bool here[64]; /* by param: it is there, optional or not */
} inferrer;

static grad_value *infer(inferrer *n, const grad *g);

static grad_value *
value(inferrer *n)
{
    grad_value *v = arena_alloc(n->a, sizeof *v);
    v->list = -1;
    v->dtype.var = -1;
    v->dtype.text = "none";
    return v;
}

static grad_value *
value_of_param(inferrer *n, int index)
{
    const param *p = &n->row->params.items[index];
    grad_value *v = value(n);
    v->kind = GRAD_IS_TENSOR;
    v->dtype = symbol_dtype_of(n->row, &p->dtype, NULL);
    v->shape = symbol_shape_of(n->a, &p->shape);
    v->list = p->list;
    v->absent = p->optional && p->role != ROLE_OUT && !n->here[index];
    return v;
}

/* One tensor, or none: of a call its one out. */
static grad_value *
single(inferrer *n, const grad *g, grad_value *v)
{
    if (!v || v->kind != GRAD_IS_OUTS) {
        return v;
    }
    int only = -1, required = 0;
    for (int i = 0; i < v->callee->outs; i++) {
        bool optional = v->callee->params.items[v->callee->inputs + i].optional;
        required += !optional;
        only = v->callee->outs == 1 || !optional ? i : only;
    }
    if (only >= 0 && required <= 1) {
        return &v->outs[only];
    }
    fault(
        n->f, "grad-outs", g->where, n->of, "`%s` has %d outs: say which with .NAME",
        v->callee->name, v->callee->outs);
    return NULL;
}

static grad_value *
infer_single(inferrer *n, const grad *g)
{
    return single(n, g, infer(n, g));
}

/* A tensor that is there. */
static grad_value *
infer_present(inferrer *n, const grad *g, const char *by)
{
    grad_value *v = infer_single(n, g);
    if (v && (v->kind == GRAD_IS_NONE || v->absent)) {
        fault(
            n->f, "grad-absent", g->where, n->of,
            "this may be absent, and `%s` needs it: use present()", by);
        return NULL;
    }
    return v;
}

/* ---- calls --------------------------------------------------------------------------------- */

typedef struct call {
    const grad *g;
    const op *callee;
    symbol_dtype *vars;
    bool *bound; /* [callee->types] */
    symbol_binding binding;
    grad_value **args; /* [callee->inputs], NULL: absent */
} call;

static bool
refuse_dtype(inferrer *n, const call *c, int index, const symbol_dtype *is, const char *wanted)
{
    return fault(
        n->f, "grad-dtype", c->g->args[index]->where, n->of,
        "argument `%s` of `%s` is %s here, not %s", c->callee->params.items[index].name,
        c->callee->name, wanted, is->text);
}

/* Arguments that are exactly a variable of the callee say what it stands for. */
static bool
bind_variable(inferrer *n, call *c, int index)
{
    const dtype_rule *rule = &c->callee->params.items[index].dtype;
    const symbol_dtype *is = &c->args[index]->dtype;
    if (rule->kind != DTYPE_VAR) {
        return true;
    }
    if (c->bound[rule->var]) {
        return symbol_dtype_same(n->row, &c->vars[rule->var], is) ||
               refuse_dtype(n, c, index, is, c->vars[rule->var].text);
    }
    const typevar *takes = &c->callee->types.items[rule->var];
    int beyond = symbol_dtype_beyond(n->row, is, takes);
    c->bound[rule->var] = true;
    c->vars[rule->var] = *is;
    return beyond < 0 ||
           fault(
               n->f, "grad-dtype", c->g->args[index]->where, n->of,
               "this may be %s, which argument `%s` of `%s` does not take", dtypes_of[beyond].name,
               c->callee->params.items[index].name, c->callee->name);
}

/* `dtype=` says the variable that no argument does. */
static bool
bind_rest(inferrer *n, call *c)
{
    int open = -1;
    for (int i = 0; i < c->callee->types.count; i++) {
        open = c->bound[i] ? open : i;
    }
    if ((c->g->dtype != NULL) != (open >= 0)) {
        return fault(
            n->f, "grad-dtype", c->g->where, n->of,
            open < 0 ? "the arguments say every dtype of `%s`: it takes no dtype="
                     : "no argument says what `%s` gives: it needs dtype=",
            c->callee->name);
    }
    if (open < 0) {
        return true;
    }
    c->vars[open] = symbol_dtype_of(n->row, c->g->dtype, NULL);
    c->bound[open] = true;
    int beyond = symbol_dtype_beyond(n->row, &c->vars[open], &c->callee->types.items[open]);
    if (beyond >= 0) {
        return fault(
            n->f, "grad-dtype", c->g->where, n->of, "`%s` gives no %s", c->callee->name,
            dtypes_of[beyond].name);
    }
    for (int i = 0; i < c->callee->types.count; i++) {
        if (!c->bound[i]) {
            return fault(
                n->f, "grad-dtype", c->g->where, n->of, "nothing says the dtype `%s` of `%s`",
                c->callee->types.items[i].name, c->callee->name);
        }
    }
    return true;
}

/* Fixed dtypes and functions of the variables. */
static bool
check_derived(inferrer *n, const call *c, int index)
{
    const dtype_rule *rule = &c->callee->params.items[index].dtype;
    if (rule->kind == DTYPE_VAR) {
        return true;
    }
    symbol_dtype wanted = symbol_dtype_of(c->callee, rule, c->vars);
    const symbol_dtype *is = &c->args[index]->dtype;
    return symbol_dtype_same(n->row, &wanted, is) || refuse_dtype(n, c, index, is, wanted.text);
}

static bool
check_list(inferrer *n, const call *c, int index)
{
    const param *p = &c->callee->params.items[index];
    bool list = c->args[index]->list >= 0;
    return list == (p->list >= 0) ||
           fault(
               n->f, "grad-list", c->g->args[index]->where, n->of,
               list ? "this is a list, argument `%s` of `%s` is one tensor"
                    : "this is one tensor, argument `%s` of `%s` is a list",
               p->name, c->callee->name);
}

static bool
check_shape(inferrer *n, call *c, int index)
{
    const param *p = &c->callee->params.items[index];
    return p->list >= 0 || symbol_bind(n->a, &c->binding, &p->shape, &c->args[index]->shape) ||
           fault(
               n->f, "grad-shape", c->g->args[index]->where, n->of,
               "argument `%s` of `%s` is %s, this is %s", p->name, c->callee->name, p->shape.text,
               symbol_shape_text(n->a, n->row, &c->args[index]->shape));
}

static bool
infer_argument(inferrer *n, call *c, int index)
{
    const param *p = &c->callee->params.items[index];
    const grad *g = c->g->args[index];
    if (!g) {
        return true;
    }
    grad_value *v = p->optional ? infer_single(n, g) : infer_present(n, g, c->callee->name);
    c->args[index] = v && v->kind == GRAD_IS_TENSOR ? v : NULL;
    return v && (!c->args[index] || (check_list(n, c, index) && bind_variable(n, c, index)));
}

static grad_value *
outs_of(inferrer *n, const call *c)
{
    grad_value *v = value(n);
    v->kind = GRAD_IS_OUTS;
    v->callee = c->callee;
    v->outs = arena_alloc(n->a, sizeof *v->outs * ((size_t)c->callee->outs + 1));
    for (int i = 0; i < c->callee->outs; i++) {
        const param *p = &c->callee->params.items[c->callee->inputs + i];
        v->outs[i] = *value(n);
        v->outs[i].kind = GRAD_IS_TENSOR;
        v->outs[i].dtype = symbol_dtype_of(c->callee, &p->dtype, c->vars);
        v->outs[i].shape = symbol_apply(n->a, &c->binding, &p->shape, c->g->attrs);
    }
    return v;
}

static grad_value *
infer_call(inferrer *n, const grad *g)
{
    const op *callee = &n->t->ops.items[g->op_index];
    call c = {
        .g = g,
        .callee = callee,
        .vars = arena_alloc(n->a, sizeof *c.vars * ((size_t)callee->types.count + 1)),
        .bound = arena_alloc(n->a, sizeof *c.bound * ((size_t)callee->types.count + 1)),
        .binding = {.row = n->row, .callee = callee},
        .args = arena_alloc(n->a, sizeof *c.args * ((size_t)callee->inputs + 1)),
    };
    c.binding.dims = arena_alloc(n->a, sizeof *c.binding.dims * ((size_t)callee->dims.count + 1));
    bool ok = true;
    for (int i = 0; i < callee->inputs; i++) {
        ok = infer_argument(n, &c, i) && ok;
    }
    if (!ok || !bind_rest(n, &c)) {
        return NULL;
    }
    for (int i = 0; i < callee->inputs; i++) {
        ok = !c.args[i] || (check_derived(n, &c, i) && check_shape(n, &c, i) && ok);
        if (!ok) {
            return NULL;
        }
    }
    return outs_of(n, &c);
}

/* ---- the other kinds ----------------------------------------------------------------------- */

static grad_value *
infer_incoming(inferrer *n, const grad *g)
{
    const param *p = &n->row->params.items[g->index];
    if (!dtype_rule_is_float(n->row, &p->dtype)) {
        fault(
            n->f, "grad-dtype", g->where, n->of, "out `%s` is no float: it has no gradient",
            p->name);
        return NULL;
    }
    return value_of_param(n, g->index);
}

static grad_value *
infer_fixed(inferrer *n, const grad *g)
{
    grad_value *x = infer_present(n, g->args[0], g->name);
    if (!x) {
        return NULL;
    }
    grad_value *v = value(n);
    *v = *x;
    if (strcmp(g->name, "t") == 0) {
        if (!symbol_shape_transpose(n->a, &x->shape, &v->shape)) {
            fault(n->f, "grad-shape", g->where, n->of, "t() needs at least two dims");
            return NULL;
        }
        return v;
    }
    grad_value *like = infer_present(n, g->args[1], g->name);
    if (!like) {
        return NULL;
    }
    v->shape = like->shape;
    v->list = like->list;
    return v;
}

/* Optional arguments that a condition which holds, or does not, says are there. */
static void
learn(inferrer *n, const expr *test, bool holds)
{
    if (test->kind == EXPR_NOT) {
        learn(n, test->args[0], !holds);
    }
    if (test->kind == (holds ? EXPR_AND : EXPR_OR)) {
        learn(n, test->args[0], holds);
        learn(n, test->args[1], holds);
    }
    if (holds && test->kind == EXPR_CALL && test->function == FN_PRESENT) {
        n->here[test->args[0]->index] = true;
    }
}

static grad_value *
infer_branch(inferrer *n, const grad *g, int branch)
{
    inferrer inside = *n;
    learn(&inside, g->test, branch == 0);
    return infer_single(&inside, g->args[branch]);
}

static grad_value *
infer_if(inferrer *n, const grad *g)
{
    grad_value *x = infer_branch(n, g, 0), *y = infer_branch(n, g, 1);
    if (!x || !y) {
        return NULL;
    }
    grad_value *v = value(n);
    *v = x->kind == GRAD_IS_NONE ? *y : *x;
    v->absent = x->kind == GRAD_IS_NONE || y->kind == GRAD_IS_NONE || x->absent || y->absent;
    if (x->kind == GRAD_IS_NONE || y->kind == GRAD_IS_NONE) {
        return v;
    }
    if (!symbol_dtype_same(n->row, &x->dtype, &y->dtype) || x->list != y->list) {
        fault(
            n->f, "grad-dtype", g->where, n->of, "the two branches differ: %s and %s",
            x->dtype.text, y->dtype.text);
        return NULL;
    }
    const char *one = symbol_shape_text(n->a, n->row, &x->shape);
    bool same = strcmp(one, symbol_shape_text(n->a, n->row, &y->shape)) == 0;
    if (!symbol_shape_fits(n->row, &x->shape, &y->shape)) {
        fault(
            n->f, "grad-shape", g->where, n->of, "the two branches differ: %s and %s", one,
            symbol_shape_text(n->a, n->row, &y->shape));
        return NULL;
    }
    v->shape = same ? x->shape : symbol_shape_unknown(n->a);
    return v;
}

static grad_value *
infer(inferrer *n, const grad *g)
{
    switch (g->kind) {
    case GRAD_NONE: return value(n);
    case GRAD_PARAM: return value_of_param(n, g->index);
    case GRAD_G: return infer_incoming(n, g);
    case GRAD_NAME: return n->known[g->index];
    case GRAD_OUT_OF: {
        grad_value *v = infer(n, g->args[0]);
        return v ? &v->outs[g->index - v->callee->inputs] : NULL;
    }
    case GRAD_CALL: return infer_call(n, g);
    case GRAD_FIXED: return infer_fixed(n, g);
    case GRAD_IF: return infer_if(n, g);
    case GRAD_VALUE: break;
    }
    die("gradient %d is no tensor", (int)g->kind);
}

/* The gradient of an argument is a tensor, or a list, as the argument is. */
static grad_value *
check_result(inferrer *n, const grad *g, grad_value *v, int index)
{
    if (!v || v->kind == GRAD_IS_NONE) {
        return v;
    }
    const param *p = &n->row->params.items[index];
    const grad_value *wanted = value_of_param(n, index);
    if (!symbol_dtype_same(n->row, &v->dtype, &wanted->dtype)) {
        fault(
            n->f, "grad-dtype", g->where, n->of, "`%s` is %s, this gradient is %s", p->name,
            wanted->dtype.text, v->dtype.text);
        return NULL;
    }
    if (v->list != wanted->list) {
        fault(
            n->f, "grad-list", g->where, n->of,
            wanted->list >= 0 ? "`%s` is a list, this gradient is none"
                              : "`%s` is one tensor, this gradient is a list",
            p->name);
        return NULL;
    }
    if (!symbol_shape_fits(n->row, &v->shape, &wanted->shape)) {
        fault(
            n->f, "grad-shape", g->where, n->of, "`%s` is %s, this gradient is %s", p->name,
            symbol_shape_text(n->a, n->row, &wanted->shape),
            symbol_shape_text(n->a, n->row, &v->shape));
        return NULL;
    }
    return v;
}

grad_value *
grad_infer(arena *a, faults *f, const table *t, const op *row, int entry, grad_value *const *known)
{
    const grad_entry *e = &row->grads.items[entry];
    inferrer n = {
        .a = a,
        .f = f,
        .of = grad_context(a, row, entry),
        .t = t,
        .row = row,
        .entry = entry,
        .known = known,
    };
    if (e->param < 0) {
        return infer(&n, e->value);
    }
    n.here[e->param] = true; /* else nobody asks for its gradient */
    return check_result(&n, e->value, infer_single(&n, e->value), e->param);
}
