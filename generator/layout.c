/* Layouts: what memory a kernel takes, and how each tensor then reaches its launcher. */
#include <string.h>

#include "checker.h"

/* ---- words ----------------------------------------------------------------------------------- */

static bool
layout_word_read(checker *c, context of, const node *n, unsigned *out)
{
    int count = 0;
    for (; layout_words[count]; count++) {
        unsigned bit = 1U << count;
        if (strcmp(layout_words[count], n->text) == 0) {
            if (*out & bit) {
                return fault(
                    c->faults, "duplicate-layout", n->where, of, "`%s` is named twice", n->text);
            }
            *out |= bit;
            return true;
        }
    }
    fault(c->faults, "unknown-layout", n->where, of, "`%s` is no layout", n->text);
    fault_suggest(c->faults, n->text, layout_words, count);
    return false;
}

bool
layout_read(checker *c, context of, const node *n, unsigned *out)
{
    *out = 0;
    if (n->kind == NODE_SCALAR) {
        return layout_word_read(c, of, n, out);
    }
    bool fine = true;
    for (int i = 0; i < n->items.count; i++) {
        fine &= layout_word_read(c, of, n->items.items[i], out);
    }
    return fine;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* The rank, or -1 if it depends. */
static int
shape_rank(const shape *s)
{
    if (s->test) {
        return -1;
    }
    for (int i = 0; i < s->items.count; i++) {
        item_kind kind = s->items.items[i].kind;
        if (kind != ITEM_DIM && kind != ITEM_VALUE && kind != ITEM_AXIS) {
            return -1;
        }
    }
    return s->items.count;
}

static bool
is_packs(const item *i)
{
    return i->kind == ITEM_PACK || i->kind == ITEM_BROADCAST;
}

bool
shape_is_packs(const shape *s)
{
    return !s->test && s->items.count == 1 && is_packs(&s->items.items[0]);
}

/* Two single dims at the end, nothing before them or packs alone. */
static bool
shape_is_matrix(const shape *s)
{
    int count = s->items.count;
    if (s->test || count < 2 || count > 3) {
        return false;
    }
    for (int i = count - 2; i < count; i++) {
        if (s->items.items[i].kind != ITEM_DIM && s->items.items[i].kind != ITEM_VALUE) {
            return false;
        }
    }
    return count == 2 || is_packs(&s->items.items[0]);
}

/* ---- a kernel's ------------------------------------------------------------------------------ */

static bool
rank_fits(row_check *r, context of, loc where, const param *p, unsigned layouts)
{
    int rank = p->role == ROLE_SCALAR ? -1 : shape_rank(&p->shape);
    const char *wanted = NULL;
    if (rank >= 0 && rank != 4 && (layouts & LAYOUT_NHWC)) {
        wanted = "nhwc is for rank 4";
    } else if (rank >= 0 && rank < 2 && (layouts & (LAYOUT_ROW | LAYOUT_COL))) {
        wanted = "row and col are for rank 2 and above";
    }
    return !wanted || fault(
                          r->checker->faults, "layout-rank", where, of, "%s, `%s` has rank %d",
                          wanted, p->name, rank);
}

static bool
layout_pair_read(row_check *r, context of, const pair *p, unsigned *layouts)
{
    const op *o = r->op;
    int found = param_find(o, p->key);
    if (found >= 0 && found < o->inputs + o->outs) {
        return layout_read(r->checker, of, p->value, &layouts[found]);
    }
    LIST(const char *) known = {0};
    for (int i = 0; i < o->inputs + o->outs; i++) {
        *list_push(r->checker->memory, &known) = o->params.items[i].name;
    }
    fault(r->checker->faults, "unknown-arg", p->where, of, "`%s` is no tensor of this row", p->key);
    fault_suggest(r->checker->faults, p->key, known.items, known.count);
    return false;
}

/* "row or col" */
static const char *
layout_set_text(arena *a, unsigned layouts)
{
    const char *said = "";
    for (int i = 0; layout_words[i]; i++) {
        if (layouts == 1U << i) {
            return layout_words[i];
        }
        if (layouts & 1U << i) {
            said = arena_join(a, said, *said ? " or " : "", layout_words[i]);
        }
    }
    return said;
}

/* "layout flat" if it is one for all, else those that are not dense, by name. */
static const char *
layouts_text(arena *a, const op *o, const unsigned *layouts)
{
    int tensors = o->inputs + o->outs;
    bool alike = true;
    for (int i = 1; i < tensors; i++) {
        alike &= layouts[i] == layouts[0];
    }
    if (alike) {
        return arena_join(a, "layout ", layout_set_text(a, layouts[0]), "");
    }
    const char *said = "layout", *separator = " ";
    for (int i = 0; i < tensors; i++) {
        if (layouts[i] != LAYOUT_DENSE) {
            said = arena_join(a, said, separator, o->params.items[i].name);
            said = arena_join(a, said, ": ", layout_set_text(a, layouts[i]));
            separator = ", ";
        }
    }
    return said;
}

/* The kernel's own, for all or by name, goes before the argument's default. */
bool
kernel_layouts_read(row_check *r, context of, const node *n, kernel *k)
{
    arena *a = r->checker->memory;
    const op *o = r->op;
    unsigned all = 0;
    bool fine = true;
    k->layouts = arena_alloc(a, ((size_t)o->params.count + 1) * sizeof *k->layouts);
    if (n && n->kind != NODE_MAP) {
        fine &= layout_read(r->checker, of, n, &all);
    }
    for (int i = 0; n && n->kind == NODE_MAP && i < n->pairs.count; i++) {
        fine &= layout_pair_read(r, of, &n->pairs.items[i], k->layouts);
    }
    for (int i = 0; i < o->inputs + o->outs; i++) {
        const param *p = &o->params.items[i];
        if (!k->layouts[i]) {
            k->layouts[i] = all ? all : p->layouts ? p->layouts : LAYOUT_DENSE;
        }
        fine &= rank_fits(r, of, n ? n->where : k->where, p, k->layouts[i]);
    }
    k->layout_text = layouts_text(a, o, k->layouts);
    return fine;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool
is_pointer(unsigned layouts)
{
    return layouts == LAYOUT_DENSE || layouts == LAYOUT_FLAT || layouts == LAYOUT_NHWC;
}

static int
model_find(const op *o)
{
    if (o->outs) {
        return o->inputs;
    }
    for (int i = 0; i < o->inputs; i++) {
        if (o->params.items[i].role == ROLE_INOUT) {
            return i;
        }
    }
    return -1;
}

/* Whether an attribute counts the dims of a tensor: then views keep them. */
static bool
has_axes(const op *o)
{
    for (int i = 0; i < o->attrs.count; i++) {
        if (o->attrs.items[i].kind == ATTR_AXIS || o->attrs.items[i].kind == ATTR_AXES) {
            return true;
        }
    }
    return false;
}

/* A list's tensors are views of their own: the launcher has no other way to learn their sizes. */
static place
place_of(const op *o, const kernel *k, int index)
{
    const param *p = &o->params.items[index];
    const param *model = k->model < 0 ? NULL : &o->params.items[k->model];
    unsigned layouts = k->layouts[index];
    if (p->list >= 0 || is_pointer(layouts) || !model || model->list >= 0) {
        return p->list < 0 && is_pointer(layouts) ? PLACE_POINTER : PLACE_OWN;
    }
    if (layouts == LAYOUT_STRIDED && !has_axes(o) && shape_is_packs(&p->shape) &&
        shape_is_packs(&model->shape)) {
        return PLACE_JOINT;
    }
    bool matrix = (layouts & ~(unsigned)(LAYOUT_ROW | LAYOUT_COL)) == 0;
    if (matrix && shape_is_matrix(&p->shape) && shape_is_matrix(&model->shape)) {
        return PLACE_MATRIX;
    }
    return PLACE_OWN;
}

void
kernel_places(checker *c, const op *o, kernel *k)
{
    k->places = arena_alloc(c->memory, ((size_t)o->params.count + 1) * sizeof *k->places);
    k->model = model_find(o);
    for (int i = 0; i < o->inputs + o->outs; i++) {
        k->places[i] = place_of(o, k, i);
    }
}

/* ---- what a kernel covers -------------------------------------------------------------------- */

bool
kernel_takes_dense(const op *o, const kernel *k)
{
    const unsigned fits = LAYOUT_DENSE | LAYOUT_FLAT | LAYOUT_ROW | LAYOUT_STRIDED;
    for (int i = 0; i < o->inputs + o->outs; i++) {
        if (!(k->layouts[i] & fits)) {
            return false;
        }
    }
    return true;
}

/* All layouts whose tensors a kernel with `layouts` takes too. `flat` speaks of several tensors, so
   a dense one is flat only where all that must be flat are dense. */
static unsigned
layouts_closure(unsigned layouts, bool flat_takes_dense)
{
    if (layouts & LAYOUT_STRIDED) {
        return ~0U;
    }
    if (layouts & LAYOUT_ROW) {
        layouts |= LAYOUT_DENSE;
    }
    if ((layouts & LAYOUT_FLAT) && flat_takes_dense) {
        layouts |= LAYOUT_DENSE;
    }
    return layouts;
}

bool
kernel_layouts_cover(const op *o, const kernel *wide, const kernel *narrow)
{
    bool all_dense = true, same_flat = true;
    for (int i = 0; i < o->inputs + o->outs; i++) {
        if (wide->layouts[i] & LAYOUT_FLAT) {
            all_dense &= narrow->layouts[i] == LAYOUT_DENSE;
            same_flat &= (narrow->layouts[i] & ~(unsigned)LAYOUT_FLAT) == 0;
        }
    }
    for (int i = 0; i < o->inputs + o->outs; i++) {
        unsigned takes = layouts_closure(wide->layouts[i], all_dense);
        bool flat_alone = (wide->layouts[i] & LAYOUT_FLAT) && !all_dense && !same_flat;
        if (flat_alone || (narrow->layouts[i] & ~takes)) {
            return false;
        }
    }
    return true;
}
