/* The computation of an entry, under the condition that something asked for needs it: each call is
   a line of its own, and what is no name is computed in a line before. */
#include "gradient_python.h"

#include <stdio.h>
#include <string.h>

#include "expression_parse.h"
#include "grad_parse.h"
#include "names.h"
#include "python_line.h"

static void assign(gradient_writer *w, const char *to, const grad *g, int indent);

/* The gradient that came for an out; where one of several may be absent and is needed, zeros. */
static void
emit_incoming(const gradient_writer *w, buffer *out, const grad *g, bool optional)
{
    const char *name = w->row->params.items[g->index].name;
    if (gradient_required_outs(w->row) == 1) {
        buffer_puts(out, "_g");
    } else if (optional) {
        buffer_print(out, "_g_%s", name);
    } else {
        buffer_print(out, "_f.zeros(%s) if _g_%s is None else _g_%s", name, name, name);
    }
}

static void
emit_name(const gradient_writer *w, buffer *out, int entry, int of_out)
{
    int root = gradient_root_of(w, entry);
    const op *callee = gradient_outs_of(w, root);
    buffer_puts(out, gradient_entry_at(w, root)->name);
    if (callee && callee->outs > 1) {
        buffer_print(out, "[%d]", of_out >= 0 ? of_out : gradient_only_out(callee));
    }
}

/* What needs no step of its own; false if it does. */
static bool
emit_simple(const gradient_writer *w, buffer *out, const grad *g, bool optional)
{
    switch (g->kind) {
    case GRAD_NONE: buffer_puts(out, "None"); return true;
    case GRAD_PARAM: buffer_puts(out, g->name); return true;
    case GRAD_G: emit_incoming(w, out, g, optional); return true;
    case GRAD_NAME: emit_name(w, out, g->index, -1); return true;
    case GRAD_VALUE: expr_emit_python_as(out, w->row, g->value, EXPR_OF_GRADIENTS, 1); return true;
    case GRAD_OUT_OF:
        if (g->args[0]->kind != GRAD_NAME) {
            return false;
        }
        emit_name(w, out, g->args[0]->index, g->index - w->t->ops.items[g->op_index].inputs);
        return true;
    case GRAD_FIXED:
        if (strcmp(g->name, "inverse") == 0) {
            buffer_puts(out, "_e.inverse(");
            emit_simple(w, out, g->args[0], false);
            buffer_putc(out, ')');
            return true;
        }
        return false;
    case GRAD_CALL:
    case GRAD_IF: return false;
    }
    return false;
}

static bool
is_turned(const grad *g)
{
    return g->kind == GRAD_FIXED && g->name[0] == 't'; /* no other function begins so */
}

/* Whether it is written where it is used: a name, or t() of one. */
static bool
is_simple(const grad *g)
{
    bool call = g->kind == GRAD_CALL || g->kind == GRAD_IF;
    bool turned = is_turned(g) && is_simple(g->args[0]);
    bool inverse = g->kind == GRAD_FIXED && g->name[0] == 'i';
    bool out = g->kind == GRAD_OUT_OF && g->args[0]->kind == GRAD_CALL;
    return !call && !out && (g->kind != GRAD_FIXED || turned || inverse);
}

/* What is no name is computed before. `first`: the number of the first such step; the operand that
   comes next is the next one. */
static int
emit_steps(gradient_writer *w, const grad *g, int count, int indent)
{
    int first = w->steps + 1;
    for (int i = 0; i < count; i++) {
        w->steps += g->args[i] && !is_simple(g->args[i]);
    }
    for (int i = 0, step = first; i < count; i++) {
        if (g->args[i] && !is_simple(g->args[i])) {
            char name[16] = "_";
            snprintf(name + 1, sizeof name - 1, "%d", step++);
            assign(w, name, g->args[i], indent);
        }
    }
    return first;
}

static void
emit_operand(gradient_writer *w, const grad *g, bool optional, int *step)
{
    if (!is_simple(g)) {
        buffer_print(w->out, "_%d", (*step)++);
    } else if (is_turned(g)) {
        buffer_puts(w->out, "_f.t(");
        emit_operand(w, g->args[0], false, step);
        buffer_putc(w->out, ')');
    } else {
        emit_simple(w, w->out, g, optional);
    }
}

/* Of a call of an op with several outs which of them are wanted; -1: those that others need. */
static void
emit_wanted(gradient_writer *w, const op *callee, int entry, int only)
{
    buffer_puts(w->out, ", want=(");
    for (int i = 0; i < callee->outs; i++) {
        buffer_puts(w->out, i ? ", " : "");
        if (only >= 0) {
            buffer_puts(w->out, i == only ? "True" : "False");
        } else {
            gradient_emit_reasons(w, w->out, (gradient_target){-1, entry, i}, false);
        }
    }
    buffer_putc(w->out, ')');
}

/* The attributes of a call, and its `dtype`. */
static void
emit_keywords(gradient_writer *w, const grad *g, const op *callee)
{
    for (int i = 0; i < g->attr_count; i++) {
        if (g->attrs[i]) {
            buffer_puts3(w->out, ", ", callee->attrs.items[i].name, "=");
            emit_simple(w, w->out, g->attrs[i], false);
        }
    }
    if (g->dtype) {
        const char *quote = g->dtype->kind == DTYPE_FIXED ? "\"" : "";
        buffer_print(w->out, ", dtype=%s%s%s", quote, g->dtype->text, quote);
    }
}

/* A call of a row. `entry`: it is this intermediate; -1: its out `only` is the value. */
static void
emit_call(gradient_writer *w, const grad *g, int entry, int only, int step)
{
    const op *callee = &w->t->ops.items[g->op_index];
    buffer_puts3(w->out, "_f.", callee->name, "(");
    for (int i = 0; i < callee->inputs; i++) {
        buffer_puts(w->out, i ? ", " : "");
        if (g->args[i]) {
            emit_operand(w, g->args[i], callee->params.items[i].optional, &step);
        } else {
            buffer_puts(w->out, "None");
        }
    }
    emit_keywords(w, g, callee);
    if (callee->outs > 1) {
        emit_wanted(w, callee, entry, entry >= 0 ? -1 : only);
    }
    buffer_putc(w->out, ')');
    if (callee->outs > 1 && entry < 0) {
        buffer_print(w->out, "[%d]", only);
    }
}

static void
emit_fixed(gradient_writer *w, const grad *g, int step)
{
    buffer_puts3(w->out, "_f.", g->name, "(");
    for (int i = 0; i < g->count; i++) {
        buffer_puts(w->out, i ? ", " : "");
        emit_operand(w, g->args[i], gradient_is_like(g, i), &step);
    }
    buffer_putc(w->out, ')');
}

/* One value, after the steps to it. */
static void
assign_step(gradient_writer *w, const char *to, const grad *g, int entry, int indent)
{
    bool out = g->kind == GRAD_OUT_OF && g->args[0]->kind == GRAD_CALL;
    const grad *call = out ? g->args[0] : g;
    const op *callee = call->kind == GRAD_CALL ? &w->t->ops.items[call->op_index] : NULL;
    int only = out ? g->index - callee->inputs : callee ? gradient_only_out(callee) : 0;
    int step = is_simple(g) ? 0 : emit_steps(w, call, callee ? callee->inputs : g->count, indent);
    size_t start = python_line_begin(w->out, indent);
    buffer_puts3(w->out, to, " = ", "");
    if (callee) {
        emit_call(w, call, entry, only, step);
    } else if (g->kind == GRAD_FIXED && !is_simple(g)) {
        emit_fixed(w, g, step);
    } else {
        emit_operand(w, g, entry < 0, &step);
    }
    python_line_end(w->out, start);
}

static void
emit_fork(gradient_writer *w, const char *word, const expr *test, int indent)
{
    size_t start = python_line_begin(w->out, indent);
    buffer_print(w->out, "%s ", word);
    gradient_emit_test(w, w->out, test, 1);
    buffer_putc(w->out, ':');
    python_line_end(w->out, start);
}

static void
assign(gradient_writer *w, const char *to, const grad *g, int indent)
{
    const char *word = "if";
    for (; g->kind == GRAD_IF; g = g->args[1], word = "elif") {
        emit_fork(w, word, g->test, indent);
        assign(w, to, g->args[0], indent + PYTHON_INDENT);
    }
    if (*word == 'e') {
        python_line(w->out, indent, "else:");
        indent += PYTHON_INDENT;
    }
    assign_step(w, to, g, -1, indent);
}

/* Whether it is more than one call of what has a name. */
static bool
takes_steps(const grad *g)
{
    bool several = g->kind == GRAD_IF;
    for (int i = 0; !several && i < g->count; i++) {
        several = g->args[i] && !is_simple(g->args[i]);
    }
    return several;
}

/* What takes several steps stands above them as the row says it. */
static void
emit_comment(gradient_writer *w, const grad_entry *e)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_print(w->out, "# %s: ", e->name);
    grad_emit_text(w->out, w->t, w->row, e->value);
    if (w->out->size - start > PYTHON_COLUMNS) {
        w->out->size = start;
    } else {
        buffer_putc(w->out, '\n');
    }
}

void
gradient_emit_entry(gradient_writer *w, int index)
{
    const grad_entry *e = gradient_entry_at(w, index);
    if (!w->asked[index]) {
        return;
    }
    if (takes_steps(e->value)) {
        emit_comment(w, e);
    }
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_puts(w->out, "if ");
    gradient_emit_need(w, w->out, index);
    buffer_putc(w->out, ':');
    python_line_end(w->out, start);
    if (gradient_outs_of(w, index)) {
        assign_step(w, e->name, e->value, index, 2 * PYTHON_INDENT);
        return;
    }
    char name[NAME_LENGTH + 4];
    snprintf(name, sizeof name, "%s%s", e->param < 0 ? "" : "_d", e->name);
    assign(w, name, e->value, 2 * PYTHON_INDENT);
}
