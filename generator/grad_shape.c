#include <string.h>

#include "grad_parse.h"
#include "shape.h"

/* ---- of the row itself --------------------------------------------------------------------- */

static void
push(arena *a, symbol_shape *s, symbol one)
{
    *list_push(a, &s->items) = one;
}

symbol_shape
symbol_shape_unknown(arena *a)
{
    symbol_shape s = {0};
    push(a, &s, (symbol){.kind = SYMBOL_SEVERAL});
    return s;
}

symbol_shape
symbol_shape_of(arena *a, const shape *from)
{
    static const symbol_kind kinds[] = {
        [ITEM_DIM] = SYMBOL_DIM,           [ITEM_PACK] = SYMBOL_PACK,
        [ITEM_AXIS] = SYMBOL_DIM,          [ITEM_VALUE] = SYMBOL_ONE,
        [ITEM_BROADCAST] = SYMBOL_SEVERAL, [ITEM_REDUCED] = SYMBOL_SEVERAL,
        [ITEM_PERMUTED] = SYMBOL_SEVERAL,
    };
    if (from->test) {
        return symbol_shape_unknown(a);
    }
    symbol_shape s = {0};
    for (int i = 0; i < from->items.count; i++) {
        const item *it = &from->items.items[i];
        push(a, &s, (symbol){.kind = kinds[it->kind], .dim = it->dim, .text = it->text});
    }
    return s;
}

static bool
is_several(const symbol *s)
{
    return s->kind == SYMBOL_PACK || s->kind == SYMBOL_SEVERAL;
}

static bool
has_unknown(const symbol_shape *s)
{
    for (int i = 0; i < s->items.count; i++) {
        if (s->items.items[i].kind == SYMBOL_SEVERAL && !s->items.items[i].text) {
            return true;
        }
    }
    return false;
}

bool
symbol_shape_transpose(arena *a, const symbol_shape *s, symbol_shape *out)
{
    int count = s->items.count, several = 0;
    for (int i = 0; i < count; i++) {
        several += is_several(&s->items.items[i]);
    }
    const symbol *last = s->items.items + count - 1;
    if (count < 2 || is_several(last) || is_several(last - 1)) {
        *out = symbol_shape_unknown(a);
        return several || count >= 2;
    }
    *out = (symbol_shape){0};
    for (int i = 0; i < count - 2; i++) {
        push(a, out, s->items.items[i]);
    }
    push(a, out, last[0]);
    push(a, out, last[-1]);
    return true;
}

const char *
symbol_shape_text(arena *a, const op *row, const symbol_shape *s)
{
    const char *out = s->items.count ? "" : "()";
    for (int i = 0; i < s->items.count; i++) {
        const symbol *one = &s->items.items[i];
        bool named = one->kind == SYMBOL_DIM || one->kind == SYMBOL_PACK;
        const char *name = named ? row->dims.items[one->dim].name : one->text ? one->text : "?";
        const char *dots = one->kind == SYMBOL_PACK ? ".." : "";
        out = arena_print(a, "%s%s%s%s", out, i ? " " : "", name, dots);
    }
    return out;
}

/* ---- comparing ----------------------------------------------------------------------------- */

static bool
mentions(const expr *e, const char *name)
{
    bool is_name = e->name && e->kind != EXPR_CALL && e->kind != EXPR_WORD;
    if (is_name && strcmp(e->name, name) == 0) {
        return true;
    }
    for (int i = 0; i < e->count; i++) {
        if (mentions(e->args[i], name)) {
            return true;
        }
    }
    return false;
}

/* Two plain dims differ, unless a condition of the row may make them equal. */
static bool
dims_differ(const op *row, int x, int y)
{
    if (x == y || row->dims.items[x].kind == DIM_LET || row->dims.items[y].kind == DIM_LET) {
        return false;
    }
    for (int i = 0; i < row->wheres.count; i++) {
        const expr *test = row->wheres.items[i].test;
        if (test &&
            (mentions(test, row->dims.items[x].name) || mentions(test, row->dims.items[y].name))) {
            return false;
        }
    }
    return true;
}

static bool
symbols_differ(const op *row, const symbol *x, const symbol *y)
{
    return x->kind == SYMBOL_DIM && y->kind == SYMBOL_DIM && dims_differ(row, x->dim, y->dim);
}

static bool
same_several(const symbol *x, const symbol *y)
{
    if (x->kind != y->kind) {
        return false;
    }
    return x->kind == SYMBOL_PACK ? x->dim == y->dim
                                  : x->text && y->text && strcmp(x->text, y->text) == 0;
}

/* Whether a function of packs is in it: what that gives may be what a pack is. */
static bool
computed(const symbol_shape *s)
{
    for (int i = 0; i < s->items.count; i++) {
        if (s->items.items[i].kind == SYMBOL_SEVERAL) {
            return true;
        }
    }
    return false;
}

/* Those of `x` that `y` has not; each of y's stands for one. */
static int
unmatched(const symbol_shape *x, const symbol_shape *y)
{
    int count = 0;
    for (int i = 0; i < x->items.count; i++) {
        const symbol *one = &x->items.items[i];
        int here = 0, there = 0;
        for (int k = 0; k < x->items.count && is_several(one); k++) {
            here += is_several(&x->items.items[k]) && same_several(&x->items.items[k], one);
        }
        for (int k = 0; k < y->items.count && is_several(one); k++) {
            there += is_several(&y->items.items[k]) && same_several(&y->items.items[k], one);
        }
        count += here > there;
    }
    return count;
}

bool
symbol_shape_fits(const op *row, const symbol_shape *x, const symbol_shape *y)
{
    if (has_unknown(x) || has_unknown(y)) {
        return true;
    }
    if (unmatched(x, y) || unmatched(y, x)) {
        return computed(x) || computed(y) || row->wheres.count; /* else one rank is not the other */
    }
    if (x->items.count != y->items.count) {
        return false;
    }
    for (int i = 0; i < x->items.count; i++) {
        const symbol *one = &x->items.items[i], *other = &y->items.items[i];
        if (is_several(one) != is_several(other)) {
            return true;
        }
        if (symbols_differ(row, one, other)) {
            return false;
        }
    }
    return true;
}

/* ---- calls --------------------------------------------------------------------------------- */

static symbol_shape
slice(arena *a, const symbol_shape *s, int from, int end)
{
    symbol_shape part = {0};
    for (int i = from; i < end; i++) {
        push(a, &part, s->items.items[i]);
    }
    return part;
}

/* A dim or pack of the callee stands for this part, or already does for one that fits it. */
static bool
bind_item(arena *a, symbol_binding *b, const item *it, symbol_shape part)
{
    if (it->kind > ITEM_AXIS) {
        return true; /* arithmetic and functions of packs bind nothing */
    }
    if (b->dims[it->dim]) {
        return symbol_shape_fits(b->row, b->dims[it->dim], &part);
    }
    b->dims[it->dim] = arena_alloc(a, sizeof part);
    *b->dims[it->dim] = part;
    return true;
}

/* As many singles as there are before the first pack of either, from the left. */
static int
bind_left(arena *a, symbol_binding *b, const shape *formal, const symbol_shape *given, bool *ok)
{
    int i = 0;
    while (i < formal->items.count && i < given->items.count &&
           !item_is_packs(&formal->items.items[i]) && !is_several(&given->items.items[i])) {
        *ok = bind_item(a, b, &formal->items.items[i], slice(a, given, i, i + 1)) && *ok;
        i++;
    }
    return i;
}

/* The same from the right, but not what the left has taken. */
static int
bind_right(
    arena *a, symbol_binding *b, const shape *formal, const symbol_shape *given, int left, bool *ok)
{
    int n = formal->items.count, m = given->items.count, i = 0;
    while (n - i > left && m - i > left && !item_is_packs(&formal->items.items[n - 1 - i]) &&
           !is_several(&given->items.items[m - 1 - i])) {
        symbol_shape part = slice(a, given, m - 1 - i, m - i);
        *ok = bind_item(a, b, &formal->items.items[n - 1 - i], part) && *ok;
        i++;
    }
    return i;
}

/* What is between must be one pack of the callee, or stand item for item. */
bool
symbol_bind(arena *a, symbol_binding *b, const shape *formal, const symbol_shape *given)
{
    if (formal->test || has_unknown(given)) {
        return true;
    }
    bool ok = true;
    int left = bind_left(a, b, formal, given, &ok);
    int right = bind_right(a, b, formal, given, left, &ok);
    int n = formal->items.count - left - right, m = given->items.count - left - right;
    const item *rest = formal->items.items + left;
    if (n == 1 && item_is_packs(rest)) {
        return bind_item(a, b, rest, slice(a, given, left, left + m)) && ok;
    }
    int packs = 0, several = 0;
    bool alike = n == m;
    for (int i = 0; i < n; i++) {
        packs += item_is_packs(&rest[i]);
        alike = alike && item_is_packs(&rest[i]) == is_several(&given->items.items[left + i]);
    }
    for (int i = 0; i < m; i++) {
        several += is_several(&given->items.items[left + i]);
    }
    for (int i = 0; alike && i < n; i++) {
        ok = bind_item(a, b, &rest[i], slice(a, given, left + i, left + i + 1)) && ok;
    }
    return ok && (packs || m - several <= n) && (several || n - packs <= m);
}

/* A size of the callee that is an attribute of it: what the call gives for it. */
static symbol
apply_value(const symbol_binding *b, const item *it, grad *const *attrs)
{
    symbol unknown = {.kind = SYMBOL_ONE};
    int index = it->value->kind == EXPR_ATTR ? it->value->index : -1;
    const grad *given = index >= 0 ? attrs[index] : NULL;
    const expr *e = given ? given->value : NULL;
    if (e && e->kind == EXPR_DIM) {
        return (symbol){.kind = SYMBOL_DIM, .dim = e->index};
    }
    if (e && e->kind == EXPR_ATTR) {
        return (symbol){.kind = SYMBOL_ONE, .text = b->row->attrs.items[e->index].name};
    }
    return unknown;
}

static const symbol_shape *
apply_broadcast(const symbol_binding *b, const item *it)
{
    const symbol_shape *first = b->dims[it->packs[0]];
    for (int i = 1; first && i < it->pack_count; i++) {
        const symbol_shape *other = b->dims[it->packs[i]];
        bool same = other && other->items.count == first->items.count;
        for (int k = 0; same && k < first->items.count; k++) {
            const symbol *x = &first->items.items[k], *y = &other->items.items[k];
            same = is_several(x)
                       ? same_several(x, y)
                       : x->kind == SYMBOL_DIM && y->kind == SYMBOL_DIM && x->dim == y->dim;
        }
        first = same ? first : NULL;
    }
    return first;
}

symbol_shape
symbol_apply(arena *a, const symbol_binding *b, const shape *formal, grad *const *attrs)
{
    if (formal->test) {
        return symbol_shape_unknown(a);
    }
    symbol_shape s = {0};
    for (int i = 0; i < formal->items.count; i++) {
        const item *it = &formal->items.items[i];
        const symbol_shape *part = it->kind <= ITEM_AXIS        ? b->dims[it->dim]
                                   : it->kind == ITEM_BROADCAST ? apply_broadcast(b, it)
                                                                : NULL;
        for (int k = 0; part && k < part->items.count; k++) {
            push(a, &s, part->items.items[k]);
        }
        if (!part && it->kind == ITEM_VALUE) {
            push(a, &s, apply_value(b, it, attrs));
        } else if (!part) {
            push(a, &s, (symbol){.kind = item_is_packs(it) ? SYMBOL_SEVERAL : SYMBOL_ONE});
        }
    }
    return s;
}
