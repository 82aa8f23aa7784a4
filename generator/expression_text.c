#include "expression_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expression_parse.h"

void
expr_emit_real(buffer *out, double value)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    buffer_puts(out, text);
    if (!strpbrk(text, ".e")) {
        buffer_puts(out, ".0");
    }
}

static void emit(buffer *out, const expr *e, int binding);

static void
emit_args(buffer *out, const expr *e)
{
    buffer_puts(out, e->name);
    buffer_putc(out, '(');
    for (int i = 0; i < e->count; i++) {
        buffer_puts(out, i ? ", " : "");
        emit(out, e->args[i], 1);
    }
    buffer_putc(out, ')');
}

static void
emit_if(buffer *out, const expr *e)
{
    emit(out, e->args[0], 2);
    buffer_puts(out, " if ");
    emit(out, e->args[1], 2);
    buffer_puts(out, " else ");
    emit(out, e->args[2], 1);
}

/* Operators take what binds as tight on their left, what binds tighter on their right; comparisons
   make chains of what is as tight, so they take it on neither side. */
static void
emit_pair(buffer *out, const expr *e)
{
    int binding = expr_binding(e->kind);
    emit(out, e->args[0], binding == 5 ? 6 : binding);
    buffer_print(out, " %s ", expr_operator(e->kind));
    emit(out, e->args[1], binding + 1);
}

static void
emit_bare(buffer *out, const expr *e)
{
    switch (e->kind) {
    case EXPR_INT: buffer_print(out, "%" PRId64, e->integer); return;
    case EXPR_REAL: expr_emit_real(out, e->real); return;
    case EXPR_WORD: buffer_print(out, strchr(e->name, '\'') ? "\"%s\"" : "'%s'", e->name); return;
    case EXPR_BOOL: buffer_puts(out, e->integer ? "true" : "false"); return;
    case EXPR_DIM:
    case EXPR_PACK:
    case EXPR_ATTR:
    case EXPR_PARAM:
    case EXPR_TYPEVAR: buffer_puts(out, e->name); return;
    case EXPR_NEG:
        buffer_putc(out, '-');
        emit(out, e->args[0], 8);
        return;
    case EXPR_NOT:
        buffer_puts(out, "not ");
        emit(out, e->args[0], 4);
        return;
    case EXPR_IF: emit_if(out, e); return;
    case EXPR_INDEX:
        emit(out, e->args[0], 9);
        buffer_putc(out, '[');
        emit(out, e->args[1], 1);
        buffer_putc(out, ']');
        return;
    case EXPR_CALL:
    case EXPR_BROADCAST: emit_args(out, e); return;
    case EXPR_ADD:
    case EXPR_SUB:
    case EXPR_MUL:
    case EXPR_FLOORDIV:
    case EXPR_MOD:
    case EXPR_DIV:
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
    case EXPR_EQ:
    case EXPR_NE:
    case EXPR_AND:
    case EXPR_OR: emit_pair(out, e); return;
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
expr_emit_text(buffer *out, const expr *e)
{
    emit(out, e, 1);
}
