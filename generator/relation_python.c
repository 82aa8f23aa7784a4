/* A row's shapes as a function of Python: attributes within their bounds, arguments matched, lets
   computed, wheres asked, outs given. */
#include "relation_python.h"

#include <inttypes.h>

#include "expression_parse.h"
#include "expression_text.h"
#include "python.h"
#include "python_line.h"
#include "shape.h"

static void
emit_bound(buffer *out, const attr *a, const char *which, int64_t integer, double real)
{
    buffer_print(out, ", %s=", which);
    if (a->real) {
        expr_emit_real(out, real);
    } else {
        buffer_print(out, "%" PRId64, integer);
    }
}

static void
emit_attributes(relation_writer *w)
{
    for (int i = 0; i < w->row->attrs.count; i++) {
        const attr *a = &w->row->attrs.items[i];
        bool counts = (a->kind == ATTR_INT || a->kind == ATTR_INTS) && relation_computes_with(w, i);
        if (counts || (a->kind != ATTR_SCALAR && (a->has_min || a->has_max))) {
            size_t start = python_line_begin(w->out, PYTHON_INDENT);
            buffer_print(w->out, counts ? "%s = " : "", a->name);
            buffer_print(w->out, "_e.bounded(\"%s\", %s", a->name, a->name);
            if (a->has_min) {
                emit_bound(w->out, a, "least", a->min_integer, a->min_real);
            }
            if (a->has_max) {
                emit_bound(w->out, a, "most", a->max_integer, a->max_real);
            }
            buffer_putc(w->out, ')');
            python_line_end(w->out, start);
        }
    }
    for (int i = 0; i < w->row->attrs.count; i++) {
        python_emit_fold(w->out, w->row, &w->row->attrs.items[i], false);
    }
}

/* The length of lists, where something asks for it or several must agree in it. */
static void
emit_lists(relation_writer *w)
{
    for (int d = 0; d < w->row->dims.count; d++) {
        int lists = 0;
        for (int i = 0; i < w->row->inputs; i++) {
            lists += w->row->params.items[i].list == d;
        }
        if (w->row->dims.items[d].kind != DIM_LIST || (lists < 2 && !w->mentions[d])) {
            continue;
        }
        const char *name = w->row->dims.items[d].name;
        size_t start = python_line_begin(w->out, PYTHON_INDENT);
        buffer_print(w->out, w->mentions[d] ? "%s = " : "", name);
        buffer_print(w->out, "_e.count(\"%s\"", name);
        for (int i = 0; i < w->row->inputs; i++) {
            if (w->row->params.items[i].list == d) {
                buffer_print(w->out, ", %s", w->row->params.items[i].name);
            }
        }
        buffer_putc(w->out, ')');
        python_line_end(w->out, start);
        w->dims[d] = SURE;
    }
}

static void
emit_let(relation_writer *w, const dim *d)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_print(w->out, "%s = ", d->name);
    expr_emit_python_as(w->out, w->row, d->value, EXPR_OF_SHAPES, 1);
    python_line_end(w->out, start);
}

static void
emit_where(relation_writer *w, const condition *c)
{
    if (!relation_told_by_shapes(w->row, c->test)) {
        return;
    }
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_puts(w->out, "_e.require(");
    expr_emit_python_as(w->out, w->row, c->test, EXPR_OF_SHAPES, 1);
    buffer_puts(w->out, ", ");
    python_emit_string(w->out, c->message);
    buffer_putc(w->out, ')');
    python_line_end(w->out, start);
}

/* An item of an out, in a tuple or alone. */
static void
emit_out_item(relation_writer *w, const item *it, bool alone)
{
    bool pack = item_is_packs(it), maybe = it->kind == ITEM_PACK && w->dims[it->dim] != SURE;
    buffer_puts(w->out, pack && !alone ? "*" : "");
    buffer_puts(w->out, maybe ? "_e.sizes(" : "");
    relation_emit_computed(w, it);
    buffer_puts(w->out, maybe ? ")" : "");
}

static void
emit_sizes(relation_writer *w, items all)
{
    bool alone = all.count == 1 && item_is_packs(all.at);
    buffer_puts(w->out, alone ? "" : "(");
    for (int i = 0; i < all.count; i++) {
        buffer_puts(w->out, i ? ", " : "");
        emit_out_item(w, &all.at[i], alone);
    }
    buffer_puts(w->out, alone ? "" : all.count == 1 ? ",)" : ")");
}

static void
emit_out(relation_writer *w, const param *p)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_puts3(w->out, p->name, " = ", "");
    emit_sizes(w, (items){p->shape.items.items, p->shape.items.count});
    if (p->shape.test) {
        buffer_puts(w->out, " if ");
        expr_emit_python_as(w->out, w->row, p->shape.test, EXPR_OF_SHAPES, 2);
        buffer_puts(w->out, " else ");
        emit_sizes(w, (items){p->shape.other.items, p->shape.other.count});
    }
    python_line_end(w->out, start);
}

static void
emit_outs(relation_writer *w)
{
    const param *outs = w->row->params.items + w->row->inputs;
    for (int i = 0; i < w->row->outs; i++) {
        emit_out(w, &outs[i]);
    }
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_puts(w->out, "return _e.outs(");
    for (int i = 0; i < w->row->outs; i++) {
        buffer_puts3(w->out, i ? ", " : "", outs[i].name, "");
    }
    buffer_putc(w->out, ')');
    python_line_end(w->out, start);
}

void
relation_emit_body(buffer *out, const op *row)
{
    relation_writer w = {.out = out, .row = row};
    relation_count_mentions(&w);
    emit_attributes(&w);
    emit_lists(&w);
    relation_emit_arguments(&w);
    for (int d = 0; d < row->dims.count; d++) {
        if (row->dims.items[d].kind == DIM_LET) {
            emit_let(&w, &row->dims.items[d]);
        }
    }
    w.all_bound = true;
    for (int i = 0; i < row->inputs; i++) {
        if (w.waits[i]) {
            relation_emit_argument(&w, i);
        }
    }
    for (int i = 0; i < row->wheres.count; i++) {
        emit_where(&w, &row->wheres.items[i]);
    }
    emit_outs(&w);
}

void
relation_emit_signature(buffer *out, const op *row)
{
    size_t start = out->size;
    buffer_puts3(out, "def _", row->name, "(");
    for (int i = 0; i < row->inputs; i++) {
        const param *p = &row->params.items[i];
        const char *type = p->list >= 0 ? "_e.List" : "_e.Shape";
        const char *absent = p->optional ? " | None" : "";
        buffer_puts3(out, i ? ", " : "", p->name, ": ");
        buffer_puts3(out, type, absent, "");
    }
    python_emit_attributes(out, row, false);
    buffer_puts(out, ") -> _e.Shapes:");
    python_line_end(out, start);
}
