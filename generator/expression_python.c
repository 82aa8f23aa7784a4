#include <inttypes.h>

#include "expression_parse.h"
#include "expression_text.h"
#include "model.h"

/* Functions of aicf_rt.expressions stand behind `_e`, a name that no table can hold; in relations
   and gradients that is aicf_rt.relations, which has them too. */

typedef struct writer {
    buffer *out;
    const op *row;
    expr_names names;
} writer;

static void emit(const writer *w, const expr *e, int binding);

/* Whether arithmetic is written as people do: dims and attributes of a shape relation are ints that
   do not leave 64 bits, and a gradient is computed only of what was checked. */
static bool
is_natural(const writer *w, const expr *e)
{
    return w->names == EXPR_OF_GRADIENTS || (w->names == EXPR_OF_SHAPES && e->type == TYPE_INT);
}

/* Where a float is wanted: integers are converted, and exactly so or there is no answer. */
static void
emit_real(const writer *w, const expr *e, int binding)
{
    int64_t exact = INT64_C(1) << 53;
    if (e->type == TYPE_REAL || w->names == EXPR_OF_GRADIENTS) {
        emit(w, e, binding);
    } else if (e->kind == EXPR_INT && e->integer >= -exact && e->integer <= exact) {
        expr_emit_real(w->out, (double)e->integer);
    } else {
        buffer_puts(w->out, "_e.exact(");
        emit(w, e, 1);
        buffer_putc(w->out, ')');
    }
}

static void
emit_number(const writer *w, const expr *e, bool real, int binding)
{
    if (real) {
        emit_real(w, e, binding);
    } else {
        emit(w, e, binding);
    }
}

/* "_e.add(a, b)" */
static void
emit_function(const writer *w, const expr *e, const char *function, bool real)
{
    buffer_print(w->out, "_e.%s(", function);
    for (int i = 0; i < e->count; i++) {
        buffer_puts(w->out, i ? ", " : "");
        emit_number(w, e->args[i], real, 1);
    }
    buffer_putc(w->out, ')');
}

static void
emit_operands(const writer *w, const expr *e, bool real, int left, int right)
{
    emit_number(w, e->args[0], real, left);
    buffer_print(w->out, " %s ", expr_operator(e->kind));
    emit_number(w, e->args[1], real, right);
}

static void
emit_arithmetic(const writer *w, const expr *e, const char *function)
{
    int binding = expr_binding(e->kind);
    if (is_natural(w, e)) {
        emit_operands(w, e, e->type == TYPE_REAL, binding, binding + 1);
        return;
    }
    if (e->type == TYPE_INT || e->kind == EXPR_DIV) {
        emit_function(w, e, function, e->type == TYPE_REAL);
        return;
    }
    buffer_puts(w->out, "_e.finite(");
    emit_operands(w, e, true, binding, binding + 1);
    buffer_putc(w->out, ')');
}

static void
emit_comparison(const writer *w, const expr *e)
{
    bool real = e->args[0]->type == TYPE_REAL || e->args[1]->type == TYPE_REAL;
    emit_operands(w, e, real, 6, 6);
}

static void
emit_if(const writer *w, const expr *e)
{
    emit_number(w, e->args[0], e->type == TYPE_REAL, 2);
    buffer_puts(w->out, " if ");
    emit(w, e->args[1], 2);
    buffer_puts(w->out, " else ");
    emit_number(w, e->args[2], e->type == TYPE_REAL, 1);
}

/* An out that a gradient names is there. */
static void
emit_present(const writer *w, const expr *x, bool is)
{
    const param *p = &w->row->params.items[x->index];
    if (p->role == ROLE_OUT) {
        buffer_puts(w->out, is ? "True" : "False");
    } else if (p->list >= 0) {
        buffer_print(w->out, is ? "_e.length(%s) > 0" : "_e.length(%s) == 0", x->name);
    } else {
        buffer_print(w->out, is ? "%s is not None" : "%s is None", x->name);
    }
}

static bool
asks_present(const writer *w, const expr *e)
{
    return e->kind == EXPR_CALL && e->function == FN_PRESENT && w->names != EXPR_OF_TENSORS;
}

/* Where the name of a tensor is that of its shape. */
static bool
emit_of_shapes(const writer *w, const expr *e)
{
    if (e->function == FN_NUMEL) {
        bool list = w->row->params.items[e->args[0]->index].list >= 0;
        buffer_print(w->out, list ? "_e.total(%s)" : "_e.prod(%s)", e->args[0]->name);
        return true;
    }
    if (e->function != FN_SAME_SHAPE) {
        return false;
    }
    buffer_puts(w->out, "_e.same_shapes(");
    for (int i = 0; i < e->count; i++) {
        bool list = w->row->params.items[e->args[i]->index].list >= 0;
        buffer_print(w->out, list ? "%s*_e.sizes(%s)" : "%s%s", i ? ", " : "", e->args[i]->name);
    }
    buffer_putc(w->out, ')');
    return true;
}

/* A pack is the tuple of its sizes here, and so is an attribute of several integers. */
static void
emit_call(const writer *w, const expr *e)
{
    static const char *const names[] = {
        [FN_LEN] = "length",      [FN_PROD] = "prod",
        [FN_SUM] = "total",       [FN_MIN] = "least",
        [FN_MAX] = "most",        [FN_CEIL_DIV] = "ceil_div",
        [FN_NUMEL] = "numel",     [FN_SIZEOF] = "sizeof",
        [FN_PRESENT] = "present", [FN_SAME_SHAPE] = "same_shape",
        [FN_ALIGNED] = "aligned", [FN_STRIDE] = "stride",
        [FN_BATCHES] = "batches",
    };
    if (asks_present(w, e)) {
        emit_present(w, e->args[0], true);
        return;
    }
    if (e->function >= FN_NUMEL && w->names == EXPR_OF_SHAPES && emit_of_shapes(w, e)) {
        return;
    }
    bool whole = e->function == FN_LEN || e->function == FN_PROD || e->function == FN_SUM;
    bool of = (e->function == FN_MIN || e->function == FN_MAX) && e->count == 1;
    if (whole && e->args[0]->kind == EXPR_PACK) {
        buffer_print(w->out, "_e.%s(%s)", names[e->function], e->args[0]->name);
    } else {
        const char *name =
            of ? (e->function == FN_MIN ? "least_of" : "most_of") : names[e->function];
        emit_function(w, e, name, e->type == TYPE_REAL);
    }
}

static void
emit_broadcast(const writer *w, const expr *e)
{
    buffer_puts(w->out, "_e.broadcast(");
    for (int i = 0; i < e->count; i++) {
        buffer_print(w->out, "%s%s", i ? ", " : "", e->args[i]->name);
    }
    buffer_putc(w->out, ')');
}

static void
emit_index(const writer *w, const expr *e)
{
    bool natural = is_natural(w, e);
    buffer_print(w->out, natural ? "%s[" : "_e.at(%s, ", e->args[0]->name);
    emit(w, e->args[1], 1);
    buffer_putc(w->out, natural ? ']' : ')');
}

static void
emit_bare(const writer *w, const expr *e)
{
    switch (e->kind) {
    case EXPR_INT: buffer_print(w->out, "%" PRId64, e->integer); return;
    case EXPR_REAL: expr_emit_real(w->out, e->real); return;
    case EXPR_WORD: buffer_print(w->out, "\"%s\"", e->name); return;
    case EXPR_BOOL: buffer_puts(w->out, e->integer ? "True" : "False"); return;
    case EXPR_PACK: buffer_print(w->out, "_e.prod(%s)", e->name); return;
    case EXPR_DIM:
    case EXPR_ATTR:
    case EXPR_PARAM:
    case EXPR_TYPEVAR: buffer_puts(w->out, e->name); return;
    case EXPR_NEG:
        if (e->type == TYPE_INT && !is_natural(w, e)) {
            emit_function(w, e, "neg", false);
        } else {
            buffer_putc(w->out, '-');
            emit(w, e->args[0], 8);
        }
        return;
    case EXPR_NOT:
        if (asks_present(w, e->args[0])) {
            emit_present(w, e->args[0]->args[0], false);
            return;
        }
        buffer_puts(w->out, "not ");
        emit(w, e->args[0], 4);
        return;
    case EXPR_ADD: emit_arithmetic(w, e, "add"); return;
    case EXPR_SUB: emit_arithmetic(w, e, "sub"); return;
    case EXPR_MUL: emit_arithmetic(w, e, "mul"); return;
    case EXPR_FLOORDIV: emit_arithmetic(w, e, "floordiv"); return;
    case EXPR_MOD: emit_arithmetic(w, e, "mod"); return;
    case EXPR_DIV: emit_arithmetic(w, e, "div"); return;
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
    case EXPR_EQ:
    case EXPR_NE: emit_comparison(w, e); return;
    case EXPR_AND:
    case EXPR_OR:
        emit_operands(w, e, false, expr_binding(e->kind), expr_binding(e->kind) + 1);
        return;
    case EXPR_IF: emit_if(w, e); return;
    case EXPR_INDEX: emit_index(w, e); return;
    case EXPR_CALL: emit_call(w, e); return;
    case EXPR_BROADCAST: emit_broadcast(w, e); return;
    }
}

static void
emit(const writer *w, const expr *e, int binding)
{
    bool inside = expr_binding(asks_present(w, e) ? EXPR_EQ : e->kind) < binding;
    buffer_puts(w->out, inside ? "(" : "");
    emit_bare(w, e);
    buffer_puts(w->out, inside ? ")" : "");
}

void
expr_emit_python(buffer *out, const op *row, const expr *e)
{
    expr_emit_python_as(out, row, e, EXPR_OF_TENSORS, 1);
}

void
expr_emit_python_as(buffer *out, const op *row, const expr *e, expr_names names, int binding)
{
    const writer w = {out, row, names};
    emit(&w, e, binding);
}
