/* A row's gradients as two functions of Python: which values they read, and their computation. */
#include "gradient_python.h"

#include <stdlib.h>
#include <string.h>

#include "python.h"
#include "python_line.h"

static bool *
asked_create(const op *row)
{
    buffer flags = {0};
    buffer_reserve(&flags, (size_t)row->grads.count + 1);
    memset(flags.data, 0, (size_t)row->grads.count + 1);
    return (bool *)flags.data;
}

/* ---- what is saved --------------------------------------------------------------------------- */

static bool
saves_tensors(const op *row)
{
    bool any = false;
    for (int i = 0; i < row->inputs + row->outs; i++) {
        any = any || row->saves >> i & 1;
    }
    return any;
}

void
gradient_emit_saved_body(buffer *out, const table *t, const op *row)
{
    if (!saves_tensors(row)) {
        buffer_puts(out, "    return ()\n");
        return;
    }
    buffer body = {0};
    gradient_writer w = {.out = out, .t = t, .row = row, .asked = asked_create(row)};
    bool first = true;
    size_t start = python_line_begin(&body, PYTHON_INDENT);
    buffer_puts(&body, "return _e.names(");
    for (int i = 0; i < row->inputs + row->outs; i++) {
        const param *p = &row->params.items[i];
        if (!(row->saves >> i & 1)) {
            continue;
        }
        bool absent = p->optional && p->role != ROLE_OUT;
        buffer_print(&body, "%s%s=", first ? "" : ", ", p->name);
        buffer_puts(&body, absent ? p->name : "");
        buffer_puts(&body, absent ? " is not None and " : "");
        gradient_emit_reasons(&w, &body, (gradient_target){i, -1, -1}, absent);
        first = false;
    }
    buffer_putc(&body, ')');
    python_line_end(&body, start);
    gradient_emit_needs(&w);
    buffer_add(out, body.data, body.size);
    buffer_finish(&body);
    free(w.asked);
}

/* ---- what is computed ------------------------------------------------------------------------ */

static bool
has_gradient(const gradient_writer *w, int param)
{
    int entry = gradient_entry_of(w, param);
    return entry >= 0 && gradient_entry_at(w, entry)->value->kind != GRAD_NONE;
}

/* "_g_out, _g_hn = _g" */
static void
emit_incoming_all(gradient_writer *w)
{
    const param *outs = w->row->params.items + w->row->inputs;
    if (gradient_required_outs(w->row) < 2) {
        return;
    }
    bool first = true;
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    for (int i = 0; i < w->row->outs; i++) {
        if (!outs[i].optional) {
            buffer_print(w->out, "%s_g_%s", first ? "" : ", ", outs[i].name);
            first = false;
        }
    }
    buffer_puts(w->out, " = _g");
    python_line_end(w->out, start);
}

static void
emit_results(gradient_writer *w, bool start_them)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    bool any = false;
    buffer_puts(w->out, start_them ? "" : "return (");
    for (int i = 0; i < w->row->inputs; i++) {
        bool has = has_gradient(w, i);
        const char *name = w->row->params.items[i].name;
        any = any || has;
        if (start_them) {
            buffer_puts3(w->out, has ? "_d" : "", has ? name : "", has ? " = " : "");
        } else {
            buffer_puts3(w->out, i ? ", " : "", has ? "_d" : "None", has ? name : "");
        }
    }
    if (start_them && !any) {
        w->out->size = start;
        return;
    }
    buffer_puts(w->out, start_them ? "None" : w->row->inputs == 1 ? ",)" : ")");
    python_line_end(w->out, start);
}

void
gradient_emit_backward_body(buffer *out, const table *t, const op *row)
{
    gradient_writer w = {.out = out, .t = t, .row = row, .asked = asked_create(row)};
    bool any = false;
    for (int i = 0; i < row->grads.count; i++) {
        const grad_entry *e = &row->grads.items[i];
        w.asked[i] = gradient_root_of(&w, i) == i && e->value->kind != GRAD_NONE;
        any = any || (w.asked[i] && e->param >= 0);
    }
    if (any) {
        gradient_emit_needs(&w);
        emit_incoming_all(&w);
        gradient_emit_dims(&w);
        emit_results(&w, true);
        for (int i = 0; i < row->grads.count; i++) {
            gradient_emit_entry(&w, i);
        }
    }
    emit_results(&w, false);
    free(w.asked);
}

/* ---- signatures ------------------------------------------------------------------------------ */

void
gradient_emit_saved_signature(buffer *out, const op *row)
{
    size_t start = out->size;
    buffer_puts3(out, "def _", row->name, "_saved(_need: _e.Needs");
    for (int i = 0; i < row->inputs; i++) {
        buffer_puts3(out, ", ", row->params.items[i].name, ": Any");
    }
    python_emit_attributes(out, row, false);
    buffer_puts(out, ") -> _e.Names:");
    python_line_end(out, start);
}

/* Scalars come with the attributes, in their order; then the type variables that a call names. */
void
gradient_emit_backward_signature(buffer *out, const op *row)
{
    size_t start = out->size;
    buffer_puts3(out, "def _", row->name, "_backward(_f: Any, _need: _e.Needs, _g: Any");
    for (int i = 0; i < row->inputs + row->outs; i++) {
        buffer_puts3(out, ", ", row->params.items[i].name, ": Any");
    }
    bool keywords = python_emit_attributes(out, row, true);
    const uint64_t types = gradient_types_of(row);
    for (int i = 0; types && i < row->types.count; i++) {
        if (types >> i & 1) {
            buffer_print(out, "%s%s: str", keywords ? ", " : ", *, ", row->types.items[i].name);
            keywords = true;
        }
    }
    buffer_puts(out, ") -> _e.Gradients:");
    python_line_end(out, start);
}
