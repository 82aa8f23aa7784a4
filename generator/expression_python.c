#include <inttypes.h>

#include "expression_parse.h"
#include "expression_text.h"
#include "model.h"

/* Functions of aicf_rt.expressions stand behind `_e`, a name that no table can hold. */

static void emit(buffer *out, const expr *e, int binding);

/* Where a float is wanted: integers are converted, and exactly so or there is no answer. */
static void
emit_real(buffer *out, const expr *e, int binding)
{
    int64_t exact = INT64_C(1) << 53;
    if (e->type == TYPE_REAL) {
        emit(out, e, binding);
    } else if (e->kind == EXPR_INT && e->integer >= -exact && e->integer <= exact) {
        expr_emit_real(out, (double)e->integer);
    } else {
        buffer_puts(out, "_e.exact(");
        emit(out, e, 1);
        buffer_putc(out, ')');
    }
}

static void
emit_number(buffer *out, const expr *e, bool real, int binding)
{
    if (real) {
        emit_real(out, e, binding);
    } else {
        emit(out, e, binding);
    }
}

/* "_e.add(a, b)" */
static void
emit_function(buffer *out, const expr *e, const char *function, bool real)
{
    buffer_print(out, "_e.%s(", function);
    for (int i = 0; i < e->count; i++) {
        buffer_puts(out, i ? ", " : "");
        emit_number(out, e->args[i], real, 1);
    }
    buffer_putc(out, ')');
}

static void
emit_operands(buffer *out, const expr *e, bool real, int left, int right)
{
    emit_number(out, e->args[0], real, left);
    buffer_print(out, " %s ", expr_operator(e->kind));
    emit_number(out, e->args[1], real, right);
}

static void
emit_arithmetic(buffer *out, const expr *e, const char *function)
{
    if (e->type == TYPE_INT) {
        emit_function(out, e, function, false);
        return;
    }
    int binding = expr_binding(e->kind);
    buffer_puts(out, "_e.finite(");
    emit_operands(out, e, true, binding, binding + 1);
    buffer_putc(out, ')');
}

static void
emit_comparison(buffer *out, const expr *e)
{
    bool real = e->args[0]->type == TYPE_REAL || e->args[1]->type == TYPE_REAL;
    emit_operands(out, e, real, 6, 6);
}

static void
emit_if(buffer *out, const expr *e)
{
    emit_number(out, e->args[0], e->type == TYPE_REAL, 2);
    buffer_puts(out, " if ");
    emit(out, e->args[1], 2);
    buffer_puts(out, " else ");
    emit_number(out, e->args[2], e->type == TYPE_REAL, 1);
}

/* A pack is the tuple of its sizes here, and so is an attribute of several integers. */
static void
emit_call(buffer *out, const expr *e)
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
    bool whole = e->function == FN_LEN || e->function == FN_PROD || e->function == FN_SUM;
    bool of = (e->function == FN_MIN || e->function == FN_MAX) && e->count == 1;
    if (whole && e->args[0]->kind == EXPR_PACK) {
        buffer_print(out, "_e.%s(%s)", names[e->function], e->args[0]->name);
    } else {
        const char *name =
            of ? (e->function == FN_MIN ? "least_of" : "most_of") : names[e->function];
        emit_function(out, e, name, e->type == TYPE_REAL);
    }
}

static void
emit_broadcast(buffer *out, const expr *e)
{
    buffer_puts(out, "_e.broadcast(");
    for (int i = 0; i < e->count; i++) {
        buffer_print(out, "%s%s", i ? ", " : "", e->args[i]->name);
    }
    buffer_putc(out, ')');
}

static void
emit_index(buffer *out, const expr *e)
{
    buffer_print(out, "_e.at(%s, ", e->args[0]->name);
    emit(out, e->args[1], 1);
    buffer_putc(out, ')');
}

static void
emit_bare(buffer *out, const expr *e)
{
    switch (e->kind) {
    case EXPR_INT: buffer_print(out, "%" PRId64, e->integer); return;
    case EXPR_REAL: expr_emit_real(out, e->real); return;
    case EXPR_WORD: buffer_print(out, "\"%s\"", e->name); return;
    case EXPR_BOOL: buffer_puts(out, e->integer ? "True" : "False"); return;
    case EXPR_PACK: buffer_print(out, "_e.prod(%s)", e->name); return;
    case EXPR_DIM:
    case EXPR_ATTR:
    case EXPR_PARAM:
    case EXPR_TYPEVAR: buffer_puts(out, e->name); return;
    case EXPR_NEG:
        if (e->type == TYPE_INT) {
            emit_function(out, e, "neg", false);
        } else {
            buffer_putc(out, '-');
            emit(out, e->args[0], 8);
        }
        return;
    case EXPR_NOT:
        buffer_puts(out, "not ");
        emit(out, e->args[0], 4);
        return;
    case EXPR_ADD: emit_arithmetic(out, e, "add"); return;
    case EXPR_SUB: emit_arithmetic(out, e, "sub"); return;
    case EXPR_MUL: emit_arithmetic(out, e, "mul"); return;
    case EXPR_FLOORDIV: emit_function(out, e, "floordiv", false); return;
    case EXPR_MOD: emit_function(out, e, "mod", false); return;
    case EXPR_DIV: emit_function(out, e, "div", true); return;
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
    case EXPR_EQ:
    case EXPR_NE: emit_comparison(out, e); return;
    case EXPR_AND:
    case EXPR_OR:
        emit_operands(out, e, false, expr_binding(e->kind), expr_binding(e->kind) + 1);
        return;
    case EXPR_IF: emit_if(out, e); return;
    case EXPR_INDEX: emit_index(out, e); return;
    case EXPR_CALL: emit_call(out, e); return;
    case EXPR_BROADCAST: emit_broadcast(out, e); return;
    }
}

static void
emit(buffer *out, const expr *e, int binding)
{
    bool inside = expr_binding(e->kind) < binding;
    buffer_puts(out, inside ? "(" : "");
    emit_bare(out, e);
    buffer_puts(out, inside ? ")" : "");
}

void
expr_emit_python(buffer *out, const op *row, const expr *e)
{
    (void)row; /* names stand as in the table */
    emit(out, e, 1);
}
