/* What the shapes, lets and wheres of a row name. */
#include "relation_python.h"

#include "shape.h"

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

bool
relation_item_has(const item *it, int dim)
{
    for (int i = 0; i < it->pack_count; i++) {
        if (it->packs[i] == dim) {
            return true;
        }
    }
    return it->kind == ITEM_VALUE ? has_dim(it->value, dim) : it->dim == dim;
}

bool
relation_item_binds(const item *it)
{
    return it->kind == ITEM_DIM || it->kind == ITEM_PACK || it->kind == ITEM_AXIS;
}

bool
relation_told_by_shapes(const op *row, const expr *e)
{
    bool layout = e->kind == EXPR_CALL && (e->function == FN_ALIGNED || e->function == FN_STRIDE ||
                                           e->function == FN_BATCHES);
    bool out = e->kind == EXPR_PARAM && row->params.items[e->index].role == ROLE_OUT;
    bool told = !layout && !out;
    for (int i = 0; told && i < e->count; i++) {
        told = relation_told_by_shapes(row, e->args[i]);
    }
    return told;
}

static void
count_expr(relation_writer *w, const expr *e)
{
    if (e->kind == EXPR_DIM || e->kind == EXPR_PACK) {
        w->mentions[e->index]++;
    }
    for (int i = 0; i < e->count; i++) {
        count_expr(w, e->args[i]);
    }
}

static void
count_items(relation_writer *w, const item *all, int count)
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

void
relation_count_mentions(relation_writer *w)
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
        if (relation_told_by_shapes(w->row, w->row->wheres.items[i].test)) {
            count_expr(w, w->row->wheres.items[i].test);
        }
    }
}

bool
relation_is_used(const relation_writer *w, int dim)
{
    return w->mentions[dim] > 1;
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

bool
relation_computes_with(const relation_writer *w, int attr)
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
