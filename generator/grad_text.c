#include "grad_parse.h"

static void emit(buffer *out, const table *t, const op *row, const grad *g);

static void
emit_operands(buffer *out, const table *t, const op *row, const grad *g)
{
    buffer_print(out, "%s(", g->name);
    for (int i = 0; i < g->count; i++) {
        buffer_puts(out, i ? ", " : "");
        emit(out, t, row, g->args[i]);
    }
    buffer_putc(out, ')');
}

static void
emit_keyword(
    buffer *out, const table *t, const op *row, const char *name, const grad *value, bool first)
{
    buffer_print(out, "%s%s=", first ? "" : ", ", name);
    emit(out, t, row, value);
}

/* Tensors by place up to the first that is left out, then all by name. */
static void
emit_call(buffer *out, const table *t, const op *row, const grad *g)
{
    const op *callee = &t->ops.items[g->op_index];
    bool first = true, named = false;
    buffer_print(out, "%s(", callee->name);
    for (int i = 0; i < callee->inputs; i++) {
        named = named || !g->args[i];
        if (g->args[i] && named) {
            emit_keyword(out, t, row, callee->params.items[i].name, g->args[i], first);
        } else if (g->args[i]) {
            buffer_puts(out, first ? "" : ", ");
            emit(out, t, row, g->args[i]);
        }
        first = first && !g->args[i];
    }
    for (int i = 0; i < callee->attrs.count; i++) {
        if (g->attrs[i]) {
            emit_keyword(out, t, row, callee->attrs.items[i].name, g->attrs[i], first);
            first = false;
        }
    }
    if (g->dtype) {
        buffer_print(out, "%sdtype=%s", first ? "" : ", ", g->dtype->text);
    }
    buffer_putc(out, ')');
}

/* What stands before `if` or `.` is put into parentheses if it is a choice itself. */
static void
emit_inner(buffer *out, const table *t, const op *row, const grad *g)
{
    buffer_puts(out, g->kind == GRAD_IF ? "(" : "");
    emit(out, t, row, g);
    buffer_puts(out, g->kind == GRAD_IF ? ")" : "");
}

static void
emit(buffer *out, const table *t, const op *row, const grad *g)
{
    switch (g->kind) {
    case GRAD_NONE: buffer_puts(out, "none"); return;
    case GRAD_PARAM:
    case GRAD_NAME: buffer_puts(out, g->name); return;
    case GRAD_G:
        buffer_print(out, g->name[0] == 'g' && !g->name[1] ? "g" : "g.%s", g->name);
        return;
    case GRAD_OUT_OF:
        emit_inner(out, t, row, g->args[0]);
        buffer_print(out, ".%s", g->name);
        return;
    case GRAD_CALL: emit_call(out, t, row, g); return;
    case GRAD_FIXED: emit_operands(out, t, row, g); return;
    case GRAD_IF:
        emit_inner(out, t, row, g->args[0]);
        buffer_puts(out, " if ");
        expr_emit_text(out, g->test);
        buffer_puts(out, " else ");
        emit(out, t, row, g->args[1]);
        return;
    case GRAD_VALUE: expr_emit_text(out, g->value); return;
    }
}

void
grad_emit_text(buffer *out, const table *t, const op *row, const grad *g)
{
    emit(out, t, row, g);
}
