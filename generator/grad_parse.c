#include "grad_parse.h"

#include <string.h>

static const grad_fixed fixed_functions[] = {
    {"t", "x"},       {"reshape", "xl"}, {"sum_to", "xl"}, {"unreduce", "xlak"},
    {"split", "xLi"}, {"inverse", "a"},  {NULL, NULL},
};

const grad_fixed *
grad_fixed_find(const char *name)
{
    for (const grad_fixed *f = fixed_functions; f->name; f++) {
        if (strcmp(f->name, name) == 0) {
            return f;
        }
    }
    return NULL;
}

static grad *read_grad(grad_reader *r);

grad *
grad_node(grad_reader *r, grad_kind kind, const token *at)
{
    grad *g = arena_alloc(r->p.a, sizeof *g);
    *g = (grad){.kind = kind, .name = at->text, .index = -1, .op_index = -1, .where = at->where};
    return g;
}

bool
grad_add(grad_reader *r, grad *g, grad *arg)
{
    if (!arg) {
        return false;
    }
    grad **args = arena_alloc(r->p.a, sizeof *args * ((size_t)g->count + 1));
    if (g->count) {
        memcpy(args, g->args, sizeof *args * (size_t)g->count);
    }
    args[g->count++] = arg;
    g->args = args;
    return true;
}

/* ---- names --------------------------------------------------------------------------------- */

static int
find_entry(const op *row, const char *name)
{
    for (int i = 0; i < row->grads.count; i++) {
        if (row->grads.items[i].param < 0 && strcmp(row->grads.items[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static void
suggest(grad_reader *r, const char *name)
{
    LIST(const char *) known = {0};
    for (int i = 0; i < r->row->params.count; i++) {
        *list_push(r->p.a, &known) = r->row->params.items[i].name;
    }
    for (int i = 0; i < r->entry; i++) {
        *list_push(r->p.a, &known) = r->row->grads.items[i].name;
    }
    fault_suggest(r->p.f, name, known.items, known.count);
}

/* An argument, an out, or an intermediate that stands before. */
static grad *
read_name(grad_reader *r, const token *name)
{
    grad *g = grad_node(r, GRAD_PARAM, name);
    g->index = row_find_tensor(r->row, name->text);
    if (g->index >= 0) {
        return g;
    }
    g->kind = GRAD_NAME;
    g->index = find_entry(r->row, name->text);
    if (g->index >= 0 && g->index < r->entry) {
        return r->row->grads.items[g->index].value ? g : NULL; /* its fault is told already */
    }
    if (g->index >= 0) {
        fault(
            r->p.f, "grad-order", name->where, r->p.of,
            "`%s` is computed after this: an intermediate stands before what uses it", name->text);
        fault_also(r->p.f, r->row->grads.items[g->index].where, "it is computed here");
        return NULL;
    }
    fault(
        r->p.f, "grad-name", name->where, r->p.of,
        "`%s` is no tensor of this row and no intermediate", name->text);
    suggest(r, name->text);
    return NULL;
}

/* The one required out; -1: there are none or several. */
static int
only_out(const op *o)
{
    int only = -1;
    for (int i = o->inputs; i < o->inputs + o->outs; i++) {
        if (!o->params.items[i].optional) {
            if (only >= 0) {
                return -1;
            }
            only = i;
        }
    }
    return only;
}

/* "g", "g.hn" */
static grad *
read_incoming(grad_reader *r, const token *at)
{
    grad *g = grad_node(r, GRAD_G, at);
    if (!token_is(r->p.at, ".")) {
        g->index = only_out(r->row);
        if (g->index < 0) {
            fault(
                r->p.f, "grad-name", at->where, r->p.of,
                "`g` alone is the gradient of the one required out, this row has none or "
                "several: write g.NAME");
            return NULL;
        }
        return g;
    }
    const token *name = ++r->p.at;
    g->index = name->kind == TOKEN_NAME ? row_find_tensor(r->row, name->text) : -1;
    if (g->index < 0 || r->row->params.items[g->index].role != ROLE_OUT) {
        fault(
            r->p.f, "grad-name", name->where, r->p.of, "%s is no out of this row",
            token_describe(r->p.a, name));
        return NULL;
    }
    if (r->row->params.items[g->index].optional) {
        fault(
            r->p.f, "grad-name", name->where, r->p.of, "out `%s` is optional: it has no gradient",
            name->text);
        return NULL;
    }
    g->name = name->text;
    r->p.at++;
    return g;
}

/* ---- calls --------------------------------------------------------------------------------- */

static bool
twice(grad_reader *r, const token *at, const char *name)
{
    return fault(r->p.f, "grad-argument", at->where, r->p.of, "`%s` is given twice", name);
}

static bool
read_dtype(grad_reader *r, grad *call)
{
    const token *at = r->p.at++;
    if (at->kind != TOKEN_NAME) {
        return fault(
            r->p.f, "expression-syntax", at->where, r->p.of, "a dtype is expected here, not %s",
            token_describe(r->p.a, at));
    }
    if (call->dtype) {
        return twice(r, at, "dtype");
    }
    dtype_rule *said = arena_alloc(r->p.a, sizeof *said);
    call->dtype = said;
    said->kind = DTYPE_VAR;
    said->text = at->text;
    said->var = row_find_type(r->row, at->text);
    int fixed = dtype_find(at->text);
    if (said->var < 0 && fixed >= 0) {
        said->kind = DTYPE_FIXED;
        said->fixed = (dtype_id)fixed;
        return true;
    }
    return said->var >= 0 || fault(
                                 r->p.f, "grad-name", at->where, r->p.of,
                                 "`%s` is no dtype and no type variable of this row", at->text);
}

static bool
unknown_keyword(grad_reader *r, const op *callee, const token *name)
{
    fault(
        r->p.f, "grad-argument", name->where, r->p.of, "`%s` has no argument `%s`", callee->name,
        name->text);
    LIST(const char *) known = {0};
    for (int i = 0; i < callee->inputs; i++) {
        *list_push(r->p.a, &known) = callee->params.items[i].name;
    }
    for (int i = 0; i < callee->attrs.count; i++) {
        *list_push(r->p.a, &known) = callee->attrs.items[i].name;
    }
    fault_suggest(r->p.f, name->text, known.items, known.count);
    return false;
}

/* "name=value" */
static bool
read_keyword(grad_reader *r, const op *callee, grad *call)
{
    const token *name = r->p.at;
    r->p.at += 2;
    if (token_is(name, "dtype")) {
        return read_dtype(r, call);
    }
    int index = row_find_attr(callee, name->text);
    if (index >= 0) {
        if (call->attrs[index]) {
            return twice(r, name, name->text);
        }
        return (call->attrs[index] = grad_read_attribute(r, callee, &callee->attrs.items[index])) !=
               NULL;
    }
    index = row_find_tensor(callee, name->text);
    if (index < 0 || index >= callee->inputs) {
        return unknown_keyword(r, callee, name);
    }
    if (call->args[index]) {
        return twice(r, name, name->text);
    }
    return (call->args[index] = read_grad(r)) != NULL;
}

static bool
read_positional(grad_reader *r, const op *callee, grad *call, int index)
{
    if (index >= callee->inputs) {
        return fault(
            r->p.f, "grad-argument", r->p.at->where, r->p.of,
            "`%s` takes %d tensor%s; attributes are given by name", callee->name, callee->inputs,
            callee->inputs == 1 ? "" : "s");
    }
    return (call->args[index] = read_grad(r)) != NULL;
}

static bool
read_arguments(grad_reader *r, const op *callee, grad *call)
{
    bool named = false;
    int index = 0;
    if (parse_take(&r->p, ")")) {
        return true;
    }
    do {
        bool keyword = r->p.at->kind == TOKEN_NAME && token_is(r->p.at + 1, "=");
        if (named && !keyword) {
            return parse_fault(&r->p, "name=value");
        }
        named = keyword;
        bool ok =
            keyword ? read_keyword(r, callee, call) : read_positional(r, callee, call, index++);
        if (!ok) {
            return false;
        }
    } while (parse_take(&r->p, ","));
    return parse_expect(&r->p, ")", "after the arguments");
}

static bool
missing(grad_reader *r, const op *callee, const grad *call, const char *what, const char *name)
{
    return fault(
        r->p.f, "grad-argument", call->where, r->p.of, "`%s` needs %s `%s`", callee->name, what,
        name);
}

static bool
check_given(grad_reader *r, const op *callee, const grad *call)
{
    for (int i = 0; i < callee->inputs; i++) {
        const param *p = &callee->params.items[i];
        if (!call->args[i] && !p->optional) {
            return missing(r, callee, call, "argument", p->name);
        }
        if (p->role == ROLE_INOUT) {
            return fault(
                r->p.f, "grad-call", call->where, r->p.of,
                "`%s` writes to its argument `%s`: a gradient cannot call it", callee->name,
                p->name);
        }
    }
    for (int i = 0; i < callee->attrs.count; i++) {
        const attr *at = &callee->attrs.items[i];
        if (!call->attrs[i] && !at->has_default && !at->all) {
            return missing(
                r, callee, call, at->kind == ATTR_SCALAR ? "scalar" : "attribute", at->name);
        }
    }
    return true;
}

static grad *
read_row_call(grad_reader *r, const token *name)
{
    grad *call = grad_node(r, GRAD_CALL, name);
    call->op_index = op_find(r->t, name->text);
    if (call->op_index < 0) {
        fault(r->p.f, "grad-call", name->where, r->p.of, "no op `%s` in this table", name->text);
        LIST(const char *) known = {0};
        for (int i = 0; i < r->t->ops.count; i++) {
            *list_push(r->p.a, &known) = r->t->ops.items[i].name;
        }
        for (const grad_fixed *f = fixed_functions; f->name; f++) {
            *list_push(r->p.a, &known) = f->name;
        }
        fault_suggest(r->p.f, name->text, known.items, known.count);
        return NULL;
    }
    const op *callee = &r->t->ops.items[call->op_index];
    call->count = callee->params.count;
    call->args = arena_alloc(r->p.a, sizeof *call->args * ((size_t)call->count + 1));
    call->attr_count = callee->attrs.count;
    call->attrs = arena_alloc(r->p.a, sizeof *call->attrs * ((size_t)call->attr_count + 1));
    return read_arguments(r, callee, call) && check_given(r, callee, call) ? call : NULL;
}

/* ---- fixed functions ----------------------------------------------------------------------- */

static grad *
read_like(grad_reader *r, const char *what)
{
    const token *name = r->p.at;
    if (name->kind != TOKEN_NAME) {
        parse_fault(&r->p, what);
        return NULL;
    }
    r->p.at++;
    return token_is(name, "g") ? read_incoming(r, name) : read_name(r, name);
}

static grad *
read_list(grad_reader *r)
{
    const token *at = r->p.at;
    grad *g = read_like(r, "a list argument");
    if (g && (g->kind != GRAD_PARAM || r->row->params.items[g->index].list < 0)) {
        fault(r->p.f, "grad-value", at->where, r->p.of, "`%s` is no list argument", at->text);
        return NULL;
    }
    return g;
}

static grad *
read_operand(grad_reader *r, char takes)
{
    switch (takes) {
    case 'x': return read_grad(r);
    case 'l': return read_like(r, "a name whose shape is meant");
    case 'L': return read_list(r);
    case 'k': return grad_read_expression(r, TYPE_BOOL);
    case 'i': return grad_read_expression(r, TYPE_INT);
    default: break;
    }
    int index = r->p.at->kind == TOKEN_NAME ? row_find_attr(r->row, r->p.at->text) : -1;
    bool axes = index >= 0 && r->row->attrs.items[index].kind == ATTR_AXES;
    return grad_read_expression(r, axes ? TYPE_INTS : TYPE_INT);
}

static grad *
read_fixed(grad_reader *r, const token *name, const grad_fixed *function)
{
    grad *g = grad_node(r, GRAD_FIXED, name);
    if (token_is(name, "inverse")) {
        fault(
            r->p.f, "grad-call", name->where, r->p.of,
            "inverse() gives an order of axes: it stands only as the value of an axes attribute");
        return NULL;
    }
    for (const char *takes = function->takes; *takes; takes++) {
        if (takes != function->takes && !parse_take(&r->p, ",")) {
            fault(
                r->p.f, "grad-argument", r->p.at->where, r->p.of, "`%s` takes %d operands",
                name->text, (int)strlen(function->takes));
            return NULL;
        }
        if (!grad_add(r, g, read_operand(r, *takes))) {
            return NULL;
        }
    }
    return parse_expect(&r->p, ")", "after the operands") ? g : NULL;
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* The op whose outs a value has: of a call, of an intermediate that is one; NULL: it is a tensor */
static const op *
outs_of(const grad_reader *r, const grad *g)
{
    while (g->kind == GRAD_NAME) {
        g = r->row->grads.items[g->index].value;
    }
    return g->kind == GRAD_CALL ? &r->t->ops.items[g->op_index] : NULL;
}

static grad *
read_out(grad_reader *r, grad *of)
{
    const token *name = ++r->p.at;
    const op *callee = outs_of(r, of);
    grad *g = grad_node(r, GRAD_OUT_OF, name);
    if (!callee || name->kind != TOKEN_NAME) {
        fault(
            r->p.f, "grad-name", name->where, r->p.of,
            callee ? "the name of an out is expected here" : "only calls have outs");
        return NULL;
    }
    g->op_index = op_find(r->t, callee->name);
    g->index = row_find_tensor(callee, name->text);
    if (g->index < 0 || callee->params.items[g->index].role != ROLE_OUT) {
        fault(
            r->p.f, "grad-name", name->where, r->p.of, "`%s` has no out `%s`", callee->name,
            name->text);
        LIST(const char *) known = {0};
        for (int i = callee->inputs; i < callee->inputs + callee->outs; i++) {
            *list_push(r->p.a, &known) = callee->params.items[i].name;
        }
        fault_suggest(r->p.f, name->text, known.items, known.count);
        return NULL;
    }
    r->p.at++;
    return grad_add(r, g, of) ? g : NULL;
}

static grad *
read_atom(grad_reader *r)
{
    const token *t = r->p.at;
    if (parse_take(&r->p, "(")) {
        grad *g = read_grad(r);
        return g && parse_expect(&r->p, ")", "to close the parenthesis") ? g : NULL;
    }
    if (t->kind != TOKEN_NAME) {
        parse_fault(&r->p, "a tensor");
        return NULL;
    }
    r->p.at++;
    if (token_is(t, "none")) {
        return grad_node(r, GRAD_NONE, t);
    }
    if (token_is(t, "g")) {
        return read_incoming(r, t);
    }
    if (!parse_take(&r->p, "(")) {
        return read_name(r, t);
    }
    const grad_fixed *function = grad_fixed_find(t->text);
    return function ? read_fixed(r, t, function) : read_row_call(r, t);
}

static grad *
read_choice(grad_reader *r, grad *then)
{
    grad *g = grad_node(r, GRAD_IF, r->p.at++);
    g->test = parse_condition(&r->p);
    bool ok = g->test && expr_check(r->p.a, r->p.f, r->p.of, r->row, g->test, TYPE_BOOL, true) &&
              parse_expect(&r->p, "else", "after the condition") && grad_add(r, g, then) &&
              grad_add(r, g, read_grad(r));
    return ok ? g : NULL;
}

static grad *
read_grad(grad_reader *r)
{
    grad *g = NULL;
    if (++r->p.depth > EXPRESSION_DEPTH) {
        fault(
            r->p.f, "expression-size", r->p.at->where, r->p.of, "a gradient is at most %d deep",
            EXPRESSION_DEPTH);
    } else {
        g = read_atom(r);
    }
    while (g && token_is(r->p.at, ".")) {
        g = read_out(r, g);
    }
    if (g && token_is(r->p.at, "if")) {
        g = read_choice(r, g);
    }
    r->p.depth--;
    return g;
}

context
grad_context(arena *a, const op *row, int entry)
{
    return (context){row->name, arena_print(a, "grad %s", row->grads.items[entry].name)};
}

grad *
grad_parse(arena *a, faults *f, const table *t, op *row, int entry)
{
    const grad_entry *e = &row->grads.items[entry];
    context of = grad_context(a, row, entry);
    token few[TOKENS_FEW], *tokens = tokens_read(a, f, of, e->where, e->text, few);
    if (!tokens) {
        return NULL;
    }
    grad_reader r = {
        .p = {.a = a, .f = f, .of = of, .at = tokens}, .t = t, .row = row, .entry = entry};
    grad *g = read_grad(&r);
    if (g && r.p.at->kind != TOKEN_END) {
        parse_fault(&r.p, "the end");
        return NULL;
    }
    return g;
}
