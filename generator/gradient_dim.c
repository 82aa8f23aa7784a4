/* What the expressions of a row's gradients name, taken from the arguments: dims, list lengths,
   lets and axes, as lines above the computation. */
#include "gradient_python.h"

#include "expression_parse.h"
#include "python.h"
#include "python_line.h"

/* A bit each. */
typedef struct facts {
    uint64_t dims, attrs, types;
} facts;

static void
find_in_expr(facts *f, const expr *e)
{
    uint64_t bit = e->index >= 0 && e->index < GRADIENT_MOST ? UINT64_C(1) << e->index : 0;
    f->dims |= e->kind == EXPR_DIM || e->kind == EXPR_PACK ? bit : 0;
    f->attrs |= e->kind == EXPR_ATTR ? bit : 0;
    f->types |= e->kind == EXPR_TYPEVAR ? bit : 0;
    for (int i = 0; i < e->count; i++) {
        find_in_expr(f, e->args[i]);
    }
}

static void
find_in_grad(facts *f, const grad *g)
{
    if (g->value) {
        find_in_expr(f, g->value);
    }
    if (g->test) {
        find_in_expr(f, g->test);
    }
    if (g->dtype && g->dtype->kind == DTYPE_VAR) {
        f->types |= UINT64_C(1) << g->dtype->var;
    }
    for (int i = 0; i < g->count; i++) {
        if (g->args[i]) {
            find_in_grad(f, g->args[i]);
        }
    }
    for (int i = 0; i < g->attr_count; i++) {
        if (g->attrs[i]) {
            find_in_grad(f, g->attrs[i]);
        }
    }
}

static void
find_in_shape(facts *f, const shape *s)
{
    for (int i = 0; i < s->items.count; i++) {
        const item *it = &s->items.items[i];
        f->attrs |= it->kind == ITEM_AXIS ? UINT64_C(1) << it->axis : 0;
    }
}

/* What a let has which is named is named, and the axes of shapes that dims are taken from. */
static facts
facts_of(const op *row)
{
    facts f = {0};
    for (int i = 0; i < row->grads.count; i++) {
        find_in_grad(&f, row->grads.items[i].value);
    }
    for (int d = row->dims.count - 1; d >= 0; d--) {
        if (f.dims >> d & 1 && row->dims.items[d].value) {
            find_in_expr(&f, row->dims.items[d].value);
        }
    }
    for (int i = 0; f.dims && i < row->inputs; i++) {
        find_in_shape(&f, &row->params.items[i].shape);
    }
    return f;
}

/* ---- where an argument has a dim --------------------------------------------------------------
 */

/* Where an item of an argument begins or ends among its dims: so many after the front, after an
   axis, or before the end. */
typedef struct spot {
    enum { FROM_FRONT, FROM_AXIS, FROM_END } from;
    int axis; /* attribute */
    int steps;
    bool told;
} spot;

/* Going left from item `i`: over items of one dim each to the front or an axis. */
static spot
spot_from_left(const shape *s, int i)
{
    spot p = {.from = FROM_FRONT, .told = true};
    for (int k = i - 1; k >= 0; k--) {
        const item *it = &s->items.items[k];
        p.steps++;
        if (it->kind == ITEM_AXIS) {
            return (spot){FROM_AXIS, it->axis, p.steps, true};
        }
        if (it->kind != ITEM_DIM && it->kind != ITEM_VALUE) {
            return (spot){0};
        }
    }
    return p;
}

/* Going right likewise, to the end or an axis; the spot behind item `i`. */
static spot
spot_from_right(const shape *s, int i)
{
    spot p = {.from = FROM_END, .told = true};
    for (int k = i + 1; k < s->items.count; k++) {
        const item *it = &s->items.items[k];
        if (it->kind == ITEM_AXIS) {
            return (spot){FROM_AXIS, it->axis, p.steps, true};
        }
        p.steps--;
        if (it->kind != ITEM_DIM && it->kind != ITEM_VALUE) {
            return (spot){0};
        }
    }
    return p;
}

static void
emit_spot(buffer *out, const op *row, spot p)
{
    if (p.from != FROM_AXIS) {
        buffer_print(out, "%d", p.steps);
        return;
    }
    buffer_puts(out, row->attrs.items[p.axis].name);
    if (p.steps) {
        buffer_print(out, " %c %d", p.steps < 0 ? '-' : '+', p.steps < 0 ? -p.steps : p.steps);
    }
}

/* The dims from one spot to another: "1:", "axis + 1 : -2". */
static void
emit_range(buffer *out, const op *row, spot left, spot right)
{
    bool spaced =
        (left.from == FROM_AXIS && left.steps) || (right.from == FROM_AXIS && right.steps);
    if (left.from != FROM_FRONT || left.steps) {
        emit_spot(out, row, left);
    }
    buffer_puts(out, spaced && left.from != FROM_FRONT ? " :" : ":");
    if (right.from != FROM_END || right.steps) {
        buffer_puts(out, spaced ? " " : "");
        emit_spot(out, row, right);
    }
}

/* What selects the dim among those of an argument: "2", "axis", ":-2"; false if nothing does. */
static bool
emit_selection(buffer *out, const op *row, const shape *s, int dim)
{
    for (int i = 0; i < s->items.count; i++) {
        const item *it = &s->items.items[i];
        bool binds = it->kind == ITEM_DIM || it->kind == ITEM_PACK || it->kind == ITEM_AXIS;
        if (!binds || it->dim != dim) {
            continue;
        }
        spot left = spot_from_left(s, i), right = spot_from_right(s, i);
        if (it->kind == ITEM_AXIS) {
            buffer_puts(out, row->attrs.items[it->axis].name);
            return true;
        }
        if (it->kind == ITEM_DIM && (left.told || right.told)) {
            right.steps--;
            emit_spot(out, row, left.told ? left : right);
            return true;
        }
        if (it->kind == ITEM_PACK && left.told && right.told) {
            emit_range(out, row, left, right);
            return true;
        }
    }
    return false;
}

/* The dim as one argument has it, after the condition that it has; false if it has not. */
static bool
emit_source(buffer *out, const op *row, int dim, int argument, bool *always)
{
    const param *p = &row->params.items[argument];
    buffer selection = {0};
    bool found = emit_selection(&selection, row, &p->shape, dim);
    *always = found && !p->optional && !p->shape.test && p->list < 0;
    if (found && row->dims.items[dim].varies) {
        *always = !p->optional;
        buffer_print(out, "[_x.shape[%s] for _x in %s]", buffer_text(&selection), p->name);
    } else if (found) {
        const char *of = p->list >= 0 ? "[0]" : "";
        buffer_print(out, "%s%s.shape[%s]", p->name, of, buffer_text(&selection));
    }
    if (found && !*always) {
        bool list = p->list >= 0 && !row->dims.items[dim].varies;
        buffer_print(out, list ? " if %s" : " if %s is not None", p->name);
        if (p->shape.test) {
            buffer_puts(out, " and ");
            expr_emit_python_as(out, row, p->shape.test, EXPR_OF_GRADIENTS, 4);
        }
        buffer_puts(out, " else ");
    }
    buffer_finish(&selection);
    return found;
}

/* ---- the lines ------------------------------------------------------------------------------- */

static void
emit_dim(gradient_writer *w, int dim)
{
    const struct dim *d = &w->row->dims.items[dim];
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_print(w->out, "%s = ", d->name);
    size_t value = w->out->size;
    bool always = false;
    for (int i = 0; i < w->row->inputs && !always; i++) { /* one that is always there */
        w->out->size = value;
        always = emit_source(w->out, w->row, dim, i, &always) && always;
    }
    for (int i = 0; i < w->row->inputs && !always; i++) {
        w->out->size = i ? w->out->size : value;
        emit_source(w->out, w->row, dim, i, &always);
    }
    if (!always) {
        buffer_puts(w->out, d->varies ? "()" : d->kind == DIM_PACK ? "None" : "0");
    }
    python_line_end(w->out, start);
}

/* Of a list's length any list of it that is there. */
static void
emit_length(gradient_writer *w, int dim)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    const char *name = w->row->dims.items[dim].name;
    buffer_print(w->out, "%s = _e.count(\"%s\"", name, name);
    for (int i = 0; i < w->row->inputs; i++) {
        if (w->row->params.items[i].list == dim) {
            buffer_print(w->out, ", %s", w->row->params.items[i].name);
        }
    }
    buffer_putc(w->out, ')');
    python_line_end(w->out, start);
}

void
gradient_emit_dims(gradient_writer *w)
{
    const op *row = w->row;
    const facts f = facts_of(row);
    for (int i = 0; f.attrs && i < row->attrs.count; i++) {
        if (f.attrs >> i & 1) {
            python_emit_fold(w->out, row, &row->attrs.items[i], true);
        }
    }
    for (int d = 0; f.dims && d < row->dims.count; d++) {
        const struct dim *of = &row->dims.items[d];
        bool used = f.dims >> d & 1;
        if (used && of->kind == DIM_LIST) {
            emit_length(w, d);
        } else if (used && of->kind == DIM_LET) {
            size_t start = python_line_begin(w->out, PYTHON_INDENT);
            buffer_print(w->out, "%s = ", of->name);
            expr_emit_python_as(w->out, row, of->value, EXPR_OF_GRADIENTS, 1);
            python_line_end(w->out, start);
        } else if (used) {
            emit_dim(w, d);
        }
    }
}

uint64_t
gradient_types_of(const op *row)
{
    return facts_of(row).types;
}
