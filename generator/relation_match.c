/* The arguments of a row, matched one by one: first those whose shape can be told at once, then
   those that may be absent or have two shapes. */
#include "relation_python.h"

#include <string.h>

#include "expression_parse.h"
#include "python_line.h"
#include "shape.h"

/* ---- items ---------------------------------------------------------------------------------- */

/* Whether all that the item is computed from is there. */
static bool
is_told(const relation_writer *w, const item *it)
{
    if (w->all_bound) {
        return true;
    }
    for (int d = 0; d < w->row->dims.count; d++) {
        if (w->dims[d] != SURE && relation_item_has(it, d)) {
            return false;
        }
    }
    return true;
}

static void
emit_packs(relation_writer *w, const item *it)
{
    for (int i = 0; i < it->pack_count; i++) {
        buffer_puts3(w->out, i ? ", " : "", w->row->dims.items[it->packs[i]].name, "");
    }
}

/* What is computed: arithmetic, or a function of packs. */
void
relation_emit_computed(relation_writer *w, const item *it)
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
varying(const relation_writer *w, const item *it, int found[RELATION_MOST])
{
    int count = 0;
    for (int d = 0; d < w->row->dims.count; d++) {
        if (w->row->dims.items[d].varies && relation_item_has(it, d)) {
            found[count++] = d;
        }
    }
    return count;
}

static void
emit_names(relation_writer *w, const int dims[], int count)
{
    for (int i = 0; i < count; i++) {
        buffer_print(w->out, "%s%s", i ? ", " : "", w->row->dims.items[dims[i]].name);
    }
}

/* "_e.each([_e.mul(2, N) for N in N])": for each tensor of a list its own. */
static void
emit_each(relation_writer *w, const item *it, const int dims[], int count)
{
    buffer_puts(w->out, "_e.each([");
    relation_emit_computed(w, it);
    buffer_puts(w->out, " for ");
    emit_names(w, dims, count);
    buffer_puts(w->out, count > 1 ? " in _e.zipped(" : " in ");
    emit_names(w, dims, count);
    buffer_puts(w->out, count > 1 ? ")])" : "])");
}

/* What match() takes for an item of an argument: its value, else what it is to bind. */
static void
emit_expected(relation_writer *w, const item *it, bool list)
{
    int dims[RELATION_MOST], count = list ? varying(w, it, dims) : 0;
    bool told = relation_item_binds(it)
                    ? relation_is_used(w, it->dim) && w->dims[it->dim] != UNKNOWN
                    : is_told(w, it);
    const char *open = item_is_packs(it) ? "_e.ANY" : "_e.ONE";
    if (it->kind == ITEM_AXIS) {
        buffer_print(w->out, "_e.placed(%s, ", w->row->attrs.items[it->axis].name);
    }
    if (count && told && !relation_item_binds(it)) {
        emit_each(w, it, dims, count);
    } else {
        buffer_puts(w->out, count ? "_e.each(" : "");
        if (told) {
            relation_emit_computed(w, it);
        } else {
            buffer_puts(w->out, open);
        }
        buffer_puts(w->out, count ? ")" : "");
    }
    buffer_puts(w->out, it->kind == ITEM_AXIS ? ")" : "");
}

/* ---- matching ------------------------------------------------------------------------------- */

/* Whether an item is the first of its shape to have the dim, which something else will want. */
static bool
is_target(const relation_writer *w, items all, int i)
{
    const item *it = &all.at[i];
    if (!relation_item_binds(it) || w->all_bound || w->dims[it->dim] == SURE ||
        !relation_is_used(w, it->dim)) {
        return false;
    }
    for (int k = 0; k < i; k++) {
        if (relation_item_binds(&all.at[k]) && all.at[k].dim == it->dim) {
            return false;
        }
    }
    return true;
}

static bool
has_target(const relation_writer *w, items all)
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
has_twice(const relation_writer *w, items all)
{
    for (int i = 0; i < all.count; i++) {
        bool open = relation_item_binds(&all.at[i]) && w->dims[all.at[i].dim] != SURE;
        if (open && !w->all_bound && relation_is_used(w, all.at[i].dim) && !is_target(w, all, i)) {
            return true;
        }
    }
    return false;
}

static void
emit_targets(relation_writer *w, items all)
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
set_known(relation_writer *w, items all, known how)
{
    for (int i = 0; i < all.count; i++) {
        if (relation_item_binds(&all.at[i]) && w->dims[all.at[i].dim] < how) {
            w->dims[all.at[i].dim] = how;
        }
    }
}

static void
emit_match(relation_writer *w, const param *p, items all, int indent)
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
emit_shape(relation_writer *w, const param *p, items all, int indent)
{
    known before[RELATION_MOST];
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
emit_open(relation_writer *w, items all)
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
emit_if(relation_writer *w, const param *p, int indent)
{
    size_t start = python_line_begin(w->out, indent);
    buffer_puts(w->out, "if ");
    expr_emit_python_as(w->out, w->row, p->shape.test, EXPR_OF_SHAPES, 1);
    buffer_putc(w->out, ':');
    python_line_end(w->out, start);
}

/* The shape of an argument, or one of its two. */
static void
emit_shapes(relation_writer *w, const param *p, int indent)
{
    items first = {p->shape.items.items, p->shape.items.count};
    items other = {p->shape.other.items, p->shape.other.count};
    if (p->shape.test) {
        emit_if(w, p, indent);
        emit_shape(w, p, first, indent + PYTHON_INDENT);
        python_line(w->out, indent, "else:");
        emit_shape(w, p, other, indent + PYTHON_INDENT);
    } else {
        emit_shape(w, p, first, indent);
    }
}

/* What a match has bound: surely, if the argument is always there and of one shape, and what it
   binds is not of a list that may be empty. */
static void
set_bound(relation_writer *w, const param *p)
{
    items first = {p->shape.items.items, p->shape.items.count};
    items other = {p->shape.other.items, p->shape.other.count};
    bool sure = !p->optional && !p->shape.test;
    for (int i = 0; i < first.count; i++) {
        bool varies =
            relation_item_binds(&first.at[i]) && w->row->dims.items[first.at[i].dim].varies;
        items one = {&first.at[i], 1};
        set_known(w, one, sure && (p->list < 0 || varies) ? SURE : MAYBE);
    }
    set_known(w, other, MAYBE);
}

/* The lines that match an argument; "A = x" where the whole of it is a pack that nothing has bound.
 */
void
relation_emit_argument(relation_writer *w, int index)
{
    const param *p = &w->row->params.items[index];
    items first = {p->shape.items.items, p->shape.items.count};
    items other = {p->shape.other.items, p->shape.other.count};
    bool whole = first.count == 1 && first.at->kind == ITEM_PACK && !p->shape.test && p->list < 0;
    int indent = PYTHON_INDENT;
    if (whole && w->dims[first.at->dim] == UNKNOWN && !w->all_bound) {
        if (relation_is_used(w, first.at->dim)) {
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
    emit_shapes(w, p, indent);
    set_bound(w, p);
}

/* ---- in which order ------------------------------------------------------------------------- */

/* Whether the dims of each item can be told: between two axes one item at most is open. */
static bool
can_be_located(const relation_writer *w, items all)
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
is_whole(const relation_writer *w, items all)
{
    for (int i = 0; i < all.count; i++) {
        if (!relation_item_binds(&all.at[i]) && !is_told(w, &all.at[i])) {
            return false;
        }
    }
    return true;
}

typedef enum readiness { NEVER, PARTLY, WHOLLY } readiness;

static readiness
readiness_of(const relation_writer *w, const param *p)
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
next_argument(const relation_writer *w)
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
binds_nothing(const relation_writer *w, const param *p)
{
    items first = {p->shape.items.items, p->shape.items.count};
    items other = {p->shape.other.items, p->shape.other.count};
    return !has_target(w, first) && !has_target(w, other);
}

void
relation_emit_arguments(relation_writer *w)
{
    for (int i; (i = next_argument(w)) >= 0; w->done[i] = true) {
        const param *p = &w->row->params.items[i];
        w->waits[i] = readiness_of(w, p) != WHOLLY;
        if (!w->waits[i] || !binds_nothing(w, p)) {
            relation_emit_argument(w, i);
        }
    }
    for (int d = 0; d < w->row->dims.count; d++) {
        const dim *of = &w->row->dims.items[d];
        if (w->dims[d] == MAYBE && relation_is_used(w, d) &&
            (of->kind == DIM_PLAIN || of->varies)) {
            python_line(
                w->out, PYTHON_INDENT, "%s = _e.%s(%s)", of->name, of->varies ? "sizes" : "size",
                of->name);
        }
    }
}
