/* A row's shapes as a function of Python that binds dims argument by argument: first those whose
   shape can be told at once, then those that may be absent or have two shapes. */
#include <inttypes.h>
#include <string.h>

#include "expression_parse.h"
#include "expression_text.h"
#include "python.h"
#include "python_line.h"
#include "shape.h"

/* What is known of a dim at a place in the function. MAYBE: its name is bound there, to ONE or ANY
   where what binds it was absent. */
typedef enum known { UNKNOWN, MAYBE, SURE } known;

enum { MOST = 64 }; /* dims and parameters of a row */

typedef struct writer {
    buffer *out;
    const op *row;
    known dims[MOST];
    int mentions[MOST]; /* of a dim in all of the row: what is mentioned once is bound for nobody */
    bool done[MOST];    /* the argument's shape has been matched, as far as it could be */
    bool waits[MOST];   /* some of its items are to be compared once all is bound */
    bool all_bound;     /* nothing is left to be bound, lets are computed */
} writer;

/* ---- what names what ------------------------------------------------------------------------ */

static bool
has_dim(const expr *e, int index)
{
    if ((e->kind == EXPR_DIM || e->kind == EXPR_PACK) && e->index == index) {
        return true;
    }
    for (int i = 0; i < e->count; i++) {
        if (has_dim(e->args[i], index)) {
            return true;
        }
    }
    return false;
}

static bool
has_attr(const expr *e, int index)
{
    if (e->kind == EXPR_ATTR && e->index == index) {
        return true;
    }
    for (int i = 0; i < e->count; i++) {
        if (has_attr(e->args[i], index)) {
            return true;
        }
    }
    return false;
}

static bool
item_has(const item *it, int dim)
{
    for (int i = 0; i < it->pack_count; i++) {
        if (it->packs[i] == dim) {
            return true;
        }
    }
    return it->kind == ITEM_VALUE ? has_dim(it->value, dim) : it->dim == dim;
}

static bool
item_binds(const item *it)
{
    return it->kind == ITEM_DIM || it->kind == ITEM_PACK || it->kind == ITEM_AXIS;
}

/* What is asked of strides, addresses and outs is not told by the shapes of arguments. */
static bool
told_by_shapes(const op *row, const expr *e)
{
    bool layout = e->kind == EXPR_CALL && (e->function == FN_ALIGNED || e->function == FN_STRIDE ||
                                           e->function == FN_BATCHES);
    bool out = e->kind == EXPR_PARAM && row->params.items[e->index].role == ROLE_OUT;
    bool told = !layout && !out;
    for (int i = 0; told && i < e->count; i++) {
        told = told_by_shapes(row, e->args[i]);
    }
    return told;
}

static void
count_expr(writer *w, const expr *e)
{
    if (e->kind == EXPR_DIM || e->kind == EXPR_PACK) {
        w->mentions[e->index]++;
    }
    for (int i = 0; i < e->count; i++) {
        count_expr(w, e->args[i]);
    }
}

static void
count_items(writer *w, const item *all, int count)
{
    for (int i = 0; i < count; i++) {
        if (all[i].kind == ITEM_VALUE) {
            count_expr(w, all[i].value);
        } else if (all[i].kind != ITEM_BROADCAST) {
            w->mentions[all[i].dim]++;
        }
        for (int k = 0; k < all[i].pack_count; k++) {
            w->mentions[all[i].packs[k]]++;
        }
    }
}

static void
count_mentions(writer *w)
{
    for (int i = 0; i < w->row->inputs + w->row->outs; i++) {
        const shape *s = &w->row->params.items[i].shape;
        count_items(w, s->items.items, s->items.count);
        count_items(w, s->other.items, s->other.count);
    }
    for (int i = 0; i < w->row->dims.count; i++) {
        if (w->row->dims.items[i].value) {
            count_expr(w, w->row->dims.items[i].value);
        }
    }
    for (int i = 0; i < w->row->wheres.count; i++) {
        if (told_by_shapes(w->row, w->row->wheres.items[i].test)) {
            count_expr(w, w->row->wheres.items[i].test);
        }
    }
}

static bool
is_used(const writer *w, int dim)
{
    return w->mentions[dim] > 1;
}

/* ---- items ---------------------------------------------------------------------------------- */

/* Whether all that the item is computed from is there. */
static bool
is_told(const writer *w, const item *it)
{
    if (w->all_bound) {
        return true;
    }
    for (int d = 0; d < w->row->dims.count; d++) {
        if (w->dims[d] != SURE && item_has(it, d)) {
            return false;
        }
    }
    return true;
}

static void
emit_packs(writer *w, const item *it)
{
    for (int i = 0; i < it->pack_count; i++) {
        buffer_puts3(w->out, i ? ", " : "", w->row->dims.items[it->packs[i]].name, "");
    }
}

/* What is computed: arithmetic, or a function of packs. */
static void
emit_computed(writer *w, const item *it)
{
    const op *row = w->row;
    switch (it->kind) {
    case ITEM_VALUE: expr_emit_python_as(w->out, row, it->value, EXPR_OF_SHAPES, 1); return;
    case ITEM_BROADCAST:
        buffer_puts(w->out, "_e.broadcast(");
        emit_packs(w, it);
        break;
    case ITEM_REDUCED:
    case ITEM_PERMUTED:
        buffer_print(
            w->out, "_e.%s(%s, %s", it->kind == ITEM_REDUCED ? "reduced" : "permuted",
            row->dims.items[it->dim].name, row->attrs.items[it->axis].name);
        if (it->keep >= 0) {
            buffer_print(w->out, ", %s", row->attrs.items[it->keep].name);
        }
        break;
    case ITEM_DIM:
    case ITEM_PACK:
    case ITEM_AXIS: buffer_puts(w->out, row->dims.items[it->dim].name); return;
    }
    buffer_putc(w->out, ')');
}

/* The dims that vary over a list and stand in the item. */
static int
varying(const writer *w, const item *it, int found[MOST])
{
    int count = 0;
    for (int d = 0; d < w->row->dims.count; d++) {
        if (w->row->dims.items[d].varies && item_has(it, d)) {
            found[count++] = d;
        }
    }
    return count;
}

static void
emit_names(writer *w, const int dims[], int count)
{
    for (int i = 0; i < count; i++) {
        buffer_print(w->out, "%s%s", i ? ", " : "", w->row->dims.items[dims[i]].name);
    }
}

/* "_e.each([_e.mul(2, N) for N in N])": for each tensor of a list its own. */
static void
emit_each(writer *w, const item *it, const int dims[], int count)
{
    buffer_puts(w->out, "_e.each([");
    emit_computed(w, it);
    buffer_puts(w->out, " for ");
    emit_names(w, dims, count);
    buffer_puts(w->out, count > 1 ? " in _e.zipped(" : " in ");
    emit_names(w, dims, count);
    buffer_puts(w->out, count > 1 ? ")])" : "])");
}

/* What match() takes for an item of an argument: its value, else what it is to bind. */
static void
emit_expected(writer *w, const item *it, bool list)
{
    int dims[MOST], count = list ? varying(w, it, dims) : 0;
    bool told =
        item_binds(it) ? is_used(w, it->dim) && w->dims[it->dim] != UNKNOWN : is_told(w, it);
    const char *open = item_is_packs(it) ? "_e.ANY" : "_e.ONE";
    if (it->kind == ITEM_AXIS) {
        buffer_print(w->out, "_e.placed(%s, ", w->row->attrs.items[it->axis].name);
    }
    if (count && told && !item_binds(it)) {
        emit_each(w, it, dims, count);
    } else {
        buffer_puts(w->out, count ? "_e.each(" : "");
        if (told) {
            emit_computed(w, it);
        } else {
            buffer_puts(w->out, open);
        }
        buffer_puts(w->out, count ? ")" : "");
    }
    buffer_puts(w->out, it->kind == ITEM_AXIS ? ")" : "");
}

/* ---- matching ------------------------------------------------------------------------------- */

typedef struct items {
    const item *at;
    int count;
} items;

/* Whether an item is the first of its shape to have the dim, which something else will want. */
static bool
is_target(const writer *w, items all, int i)
{
    const item *it = &all.at[i];
    if (!item_binds(it) || w->all_bound || w->dims[it->dim] == SURE || !is_used(w, it->dim)) {
        return false;
    }
    for (int k = 0; k < i; k++) {
        if (item_binds(&all.at[k]) && all.at[k].dim == it->dim) {
            return false;
        }
    }
    return true;
}

static bool
has_target(const writer *w, items all)
{
    for (int i = 0; i < all.count; i++) {
        if (is_target(w, all, i)) {
            return true;
        }
    }
    return false;
}

/* A dim twice in one shape is compared with itself once it is bound. */
static bool
has_twice(const writer *w, items all)
{
    for (int i = 0; i < all.count; i++) {
        bool open = item_binds(&all.at[i]) && w->dims[all.at[i].dim] != SURE;
        if (open && !w->all_bound && is_used(w, all.at[i].dim) && !is_target(w, all, i)) {
            return true;
        }
    }
    return false;
}

static void
emit_targets(writer *w, items all)
{
    bool one = all.count == 1;
    buffer_puts(w->out, one ? "(" : "");
    for (int i = 0; i < all.count; i++) {
        const char *name = is_target(w, all, i) ? w->row->dims.items[all.at[i].dim].name : "_";
        buffer_puts3(w->out, i ? ", " : "", name, "");
    }
    buffer_puts(w->out, one ? ",) = " : " = ");
}

static void
set_known(writer *w, items all, known how)
{
    for (int i = 0; i < all.count; i++) {
        if (item_binds(&all.at[i]) && w->dims[all.at[i].dim] < how) {
            w->dims[all.at[i].dim] = how;
        }
    }
}

static void
emit_match(writer *w, const param *p, items all, int indent)
{
    size_t start = python_line_begin(w->out, indent);
    if (has_target(w, all)) {
        emit_targets(w, all);
    }
    buffer_puts(w->out, p->list >= 0 ? "_e.match_each(\"" : "_e.match(\"");
    buffer_puts3(w->out, p->name, ": ", "");
    for (int i = 0; i < all.count; i++) {
        buffer_puts3(w->out, i ? " " : "", all.at[i].text, "");
    }
    buffer_puts3(w->out, all.count ? "" : "()", "\", ", p->name);
    for (int i = 0; i < all.count; i++) {
        buffer_puts(w->out, ", ");
        emit_expected(w, &all.at[i], p->list >= 0);
    }
    buffer_putc(w->out, ')');
    python_line_end(w->out, start);
}

/* One shape of an argument. */
static void
emit_shape(writer *w, const param *p, items all, int indent)
{
    known before[MOST];
    emit_match(w, p, all, indent);
    if (has_twice(w, all)) {
        memcpy(before, w->dims, sizeof before);
        set_known(w, all, SURE);
        emit_match(w, p, all, indent);
        memcpy(w->dims, before, sizeof before);
    }
}

/* Names that an `if` may or may not bind. */
static void
emit_open(writer *w, items all)
{
    for (int i = 0; i < all.count; i++) {
        if (is_target(w, all, i) && w->dims[all.at[i].dim] == UNKNOWN) {
            const dim *d = &w->row->dims.items[all.at[i].dim];
            python_line(w->out, 4, "%s = _e.%s", d->name, d->kind == DIM_PACK ? "ANY" : "ONE");
            w->dims[all.at[i].dim] = MAYBE;
        }
    }
}

static void
emit_if(writer *w, const param *p, int indent)
{
    size_t start = python_line_begin(w->out, indent);
    buffer_puts(w->out, "if ");
    expr_emit_python_as(w->out, w->row, p->shape.test, EXPR_OF_SHAPES, 1);
    buffer_putc(w->out, ':');
    python_line_end(w->out, start);
}

/* An argument that is always there and of one shape; `x` where the whole of it is a new pack. */
static void
emit_argument(writer *w, int index)
{
    const param *p = &w->row->params.items[index];
    items first = {p->shape.items.items, p->shape.items.count};
    items other = {p->shape.other.items, p->shape.other.count};
    bool whole = first.count == 1 && first.at->kind == ITEM_PACK && !p->shape.test && p->list < 0;
    int indent = PYTHON_INDENT;
    if (whole && w->dims[first.at->dim] == UNKNOWN && !w->all_bound) {
        if (is_used(w, first.at->dim)) {
            python_assign(w->out, indent, w->row->dims.items[first.at->dim].name, p->name);
        }
        set_known(w, first, p->optional ? MAYBE : SURE);
        return;
    }
    if (p->optional || p->shape.test) {
        emit_open(w, first);
        emit_open(w, other);
    }
    if (p->optional) {
        python_line(w->out, indent, "if %s is not None:", p->name);
        indent += PYTHON_INDENT;
    }
    if (p->shape.test) {
        emit_if(w, p, indent);
        emit_shape(w, p, first, indent + PYTHON_INDENT);
        python_line(w->out, indent, "else:");
        emit_shape(w, p, other, indent + PYTHON_INDENT);
    } else {
        emit_shape(w, p, first, indent);
    }
    bool sure = !p->optional && !p->shape.test;
    for (int i = 0; i < first.count; i++) {
        bool varies = item_binds(&first.at[i]) && w->row->dims.items[first.at[i].dim].varies;
        items one = {&first.at[i], 1};
        set_known(w, one, sure && (p->list < 0 || varies) ? SURE : MAYBE);
    }
    set_known(w, other, MAYBE);
}

/* ---- in which order ------------------------------------------------------------------------- */

/* Whether the dims of each item can be told: between two axes one item at most is open. */
static bool
can_be_located(const writer *w, items all)
{
    int open = 0;
    for (int i = 0; i < all.count; i++) {
        const item *it = &all.at[i];
        open = it->kind == ITEM_AXIS ? 0 : open + (item_is_packs(it) && !is_told(w, it));
        if (open > 1) {
            return false;
        }
    }
    return true;
}

static bool
is_whole(const writer *w, items all)
{
    for (int i = 0; i < all.count; i++) {
        if (!item_binds(&all.at[i]) && !is_told(w, &all.at[i])) {
            return false;
        }
    }
    return true;
}

typedef enum readiness { NEVER, PARTLY, WHOLLY } readiness;

static readiness
readiness_of(const writer *w, const param *p)
{
    items first = {p->shape.items.items, p->shape.items.count};
    items other = {p->shape.other.items, p->shape.other.count};
    if (!can_be_located(w, first) || !can_be_located(w, other)) {
        return NEVER;
    }
    return is_whole(w, first) && is_whole(w, other) ? WHOLLY : PARTLY;
}

/* The next argument to be matched: one that is always there before one that is not, one of which
   all is known before one of which some is; -1: all are. */
static int
next_argument(const writer *w)
{
    int best = -1, most = -1;
    for (int i = 0; i < w->row->inputs; i++) {
        const param *p = &w->row->params.items[i];
        if (w->done[i]) {
            continue;
        }
        int ready = (int)readiness_of(w, p);
        int rank = ready + (ready != NEVER && !p->optional && !p->shape.test ? 2 : 0);
        if (rank > most) {
            most = rank;
            best = i;
        }
    }
    return best;
}

static bool
binds_nothing(const writer *w, const param *p)
{
    items first = {p->shape.items.items, p->shape.items.count};
    items other = {p->shape.other.items, p->shape.other.count};
    return !has_target(w, first) && !has_target(w, other);
}

static void
emit_arguments(writer *w)
{
    for (int i; (i = next_argument(w)) >= 0; w->done[i] = true) {
        const param *p = &w->row->params.items[i];
        w->waits[i] = readiness_of(w, p) != WHOLLY;
        if (!w->waits[i] || !binds_nothing(w, p)) {
            emit_argument(w, i);
        }
    }
    for (int d = 0; d < w->row->dims.count; d++) {
        const dim *of = &w->row->dims.items[d];
        if (w->dims[d] == MAYBE && is_used(w, d) && (of->kind == DIM_PLAIN || of->varies)) {
            python_line(
                w->out, PYTHON_INDENT, "%s = _e.%s(%s)", of->name, of->varies ? "sizes" : "size",
                of->name);
        }
    }
}

/* ---- attributes, lists, lets, wheres, outs --------------------------------------------------- */

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

static bool
items_have_attr(const shape *s, int attr)
{
    for (int i = 0; i < s->items.count; i++) {
        if (s->items.items[i].value && has_attr(s->items.items[i].value, attr)) {
            return true;
        }
    }
    for (int i = 0; i < s->other.count; i++) {
        if (s->other.items[i].value && has_attr(s->other.items[i].value, attr)) {
            return true;
        }
    }
    return false;
}

/* Whether the attribute stands in arithmetic. */
static bool
is_computed_with(const writer *w, int attr)
{
    const op *row = w->row;
    bool found = false;
    for (int i = 0; !found && i < row->inputs + row->outs; i++) {
        found = items_have_attr(&row->params.items[i].shape, attr);
    }
    for (int i = 0; !found && i < row->dims.count; i++) {
        found = row->dims.items[i].value && has_attr(row->dims.items[i].value, attr);
    }
    for (int i = 0; !found && i < row->wheres.count; i++) {
        found = has_attr(row->wheres.items[i].test, attr);
    }
    return found;
}

static void
emit_attributes(writer *w)
{
    for (int i = 0; i < w->row->attrs.count; i++) {
        const attr *a = &w->row->attrs.items[i];
        bool counts = (a->kind == ATTR_INT || a->kind == ATTR_INTS) && is_computed_with(w, i);
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
emit_lists(writer *w)
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
emit_let(writer *w, const dim *d)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_print(w->out, "%s = ", d->name);
    expr_emit_python_as(w->out, w->row, d->value, EXPR_OF_SHAPES, 1);
    python_line_end(w->out, start);
}

static void
emit_where(writer *w, const condition *c)
{
    if (!told_by_shapes(w->row, c->test)) {
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
emit_out_item(writer *w, const item *it, bool alone)
{
    bool pack = item_is_packs(it), maybe = it->kind == ITEM_PACK && w->dims[it->dim] != SURE;
    buffer_puts(w->out, pack && !alone ? "*" : "");
    buffer_puts(w->out, maybe ? "_e.sizes(" : "");
    emit_computed(w, it);
    buffer_puts(w->out, maybe ? ")" : "");
}

static void
emit_sizes(writer *w, items all)
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
emit_out(writer *w, const param *p)
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
emit_outs(writer *w)
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
    writer w = {.out = out, .row = row};
    count_mentions(&w);
    emit_attributes(&w);
    emit_lists(&w);
    emit_arguments(&w);
    for (int d = 0; d < row->dims.count; d++) {
        if (row->dims.items[d].kind == DIM_LET) {
            emit_let(&w, &row->dims.items[d]);
        }
    }
    w.all_bound = true;
    for (int i = 0; i < row->inputs; i++) {
        if (w.waits[i]) {
            emit_argument(&w, i);
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
