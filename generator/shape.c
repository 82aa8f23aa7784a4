#include "shape.h"

#include <string.h>

#include "expression_parse.h"
#include "names.h"

typedef LIST(item) items;

typedef struct reader {
    parser p;
    op *row;
    int param;
    bool binds; /* an argument: its names become dims */
} reader;

enum { SHAPE_ITEMS = 64 };

static bool
complain(reader *r, loc where, const char *message, const char *name)
{
    return fault(r->p.f, "shape-name", where, r->p.of, message, name);
}

/* ---- dims ---------------------------------------------------------------------------------- */

typedef enum mention {
    MENTION_VALUE, /* in arithmetic: says neither dim nor pack */
    MENTION_PACK,  /* inside a function of packs */
    BIND_DIM,
    BIND_PACK
} mention;

static int
dim_add(reader *r, const token *name)
{
    int index = r->row->dims.count;
    dim *d = list_push(r->p.a, &r->row->dims);
    *d = (dim){.name = name->text, .kind = DIM_PLAIN, .bound_by = -1, .where = name->where};
    return name_check(r->p.f, r->p.of, name->where, name->text, NAME_DIM) ? index : -1;
}

/* A dim that only arithmetic has mentioned may still turn out to be a pack. */
static bool
dim_fits(reader *r, const token *name, dim *d, mention how)
{
    bool pack = how == MENTION_PACK || how == BIND_PACK;
    if (d->kind == DIM_LET || d->kind == DIM_LIST) {
        return !r->binds ||
               complain(
                   r, name->where,
                   "`%s` is computed or counted: an argument's shape cannot bind it", d->name);
    }
    if (pack && d->kind == DIM_PLAIN && d->bound_by < 0 && r->binds) {
        d->kind = DIM_PACK;
    }
    if (pack == (d->kind == DIM_PACK)) {
        return true;
    }
    complain(
        r, name->where, pack ? "`%s` is a single dim elsewhere" : "`%s` is a pack elsewhere",
        d->name);
    fault_also(r->p.f, d->where, "the first one is here");
    return false;
}

/* The dim of a name in this shape: into *index, -1 where an out's is not known yet. */
static bool
dim_mention(reader *r, const token *name, mention how, int *index)
{
    *index = row_find_dim(r->row, name->text);
    if (*index < 0 && r->binds && (*index = dim_add(r, name)) < 0) {
        return false;
    }
    if (*index < 0 || how == MENTION_VALUE) {
        return true;
    }
    dim *d = &r->row->dims.items[*index];
    if (!dim_fits(r, name, d, how)) {
        return false;
    }
    if (r->binds && d->bound_by < 0 && (how == BIND_DIM || how == BIND_PACK)) {
        d->bound_by = r->param;
    }
    return true;
}

/* The names that arithmetic mentions, in order; those of tensors and types are none. */
static bool
mention_values(reader *r, const expr *e)
{
    bool names = e->kind != EXPR_CALL || e->function <= FN_CEIL_DIV;
    if (!names || (e->kind == EXPR_CALL && e->function == FN_LEN)) {
        return true;
    }
    if (e->kind == EXPR_DIM && row_find_attr(r->row, e->name) < 0) {
        token name = {.kind = TOKEN_NAME, .text = e->name, .where = e->where};
        int index;
        return dim_mention(r, &name, MENTION_VALUE, &index);
    }
    bool ok = true;
    for (int i = 0; i < e->count; i++) {
        ok = mention_values(r, e->args[i]) && ok;
    }
    return ok;
}

/* ---- items --------------------------------------------------------------------------------- */

static bool
expect_name(reader *r, const token **name, const char *what)
{
    if (r->p.at->kind != TOKEN_NAME) {
        return parse_fault(&r->p, what);
    }
    *name = r->p.at++;
    return true;
}

/* An attribute of one of two kinds by name. */
static bool
expect_attr(reader *r, attr_kind kind, attr_kind other, const char *what, int *index)
{
    const token *name = NULL;
    if (!expect_name(r, &name, what)) {
        return false;
    }
    *index = row_find_attr(r->row, name->text);
    if (*index < 0) {
        return complain(r, name->where, "`%s` is no attribute of this row", name->text);
    }
    attr_kind is = r->row->attrs.items[*index].kind;
    if (is != kind && is != other) {
        return fault(
            r->p.f, "shape-attribute", name->where, r->p.of, "%s is wanted here, not `%s`", what,
            name->text);
    }
    return true;
}

static bool
read_pack(reader *r, item *it)
{
    const token *name = r->p.at;
    r->p.at += 2;
    it->kind = ITEM_PACK;
    it->text = arena_print(r->p.a, "%s..", name->text);
    return dim_mention(r, name, BIND_PACK, &it->dim);
}

static bool
read_axis(reader *r, item *it)
{
    const token *name = r->p.at;
    r->p.at += 2;
    it->kind = ITEM_AXIS;
    if (!expect_attr(r, ATTR_AXIS, ATTR_AXIS, "an axis attribute", &it->axis)) {
        return false;
    }
    it->text = arena_print(r->p.a, "%s@%s", name->text, r->row->attrs.items[it->axis].name);
    return dim_mention(r, name, BIND_DIM, &it->dim);
}

static bool
read_broadcast(reader *r, item *it)
{
    it->kind = ITEM_BROADCAST;
    it->text = "broadcast(";
    do {
        const token *name = NULL;
        if (!expect_name(r, &name, "a pack")) {
            return false;
        }
        if (it->pack_count == 8) {
            return fault(
                r->p.f, "shape-syntax", name->where, r->p.of, "broadcast() takes at most 8 packs");
        }
        it->text = arena_print(r->p.a, "%s%s%s", it->text, it->pack_count ? ", " : "", name->text);
        if (!dim_mention(r, name, MENTION_PACK, &it->packs[it->pack_count++])) {
            return false;
        }
    } while (parse_take(&r->p, ","));
    it->text = arena_print(r->p.a, "%s)", it->text);
    return parse_expect(&r->p, ")", "after the packs");
}

/* reduced(A, axes), reduced(A, axes, keepdim), permuted(A, perm) */
static bool
read_function(reader *r, item *it)
{
    bool reduced = it->kind == ITEM_REDUCED;
    const token *name = NULL;
    if (!expect_name(r, &name, "a pack") || !dim_mention(r, name, MENTION_PACK, &it->dim) ||
        !parse_expect(&r->p, ",", "after the pack") ||
        !expect_attr(
            r, ATTR_AXES, reduced ? ATTR_AXIS : ATTR_AXES, "an axes attribute", &it->axis)) {
        return false;
    }
    const char *axis = r->row->attrs.items[it->axis].name, *keep = "";
    if (reduced && parse_take(&r->p, ",")) {
        if (!expect_attr(r, ATTR_BOOL, ATTR_BOOL, "a bool attribute", &it->keep)) {
            return false;
        }
        keep = arena_print(r->p.a, ", %s", r->row->attrs.items[it->keep].name);
    }
    it->text = arena_print(
        r->p.a, "%s(%s, %s%s)", reduced ? "reduced" : "permuted", name->text, axis, keep);
    return parse_expect(&r->p, ")", "after the attributes");
}

static bool
read_call(reader *r, item *it)
{
    const token *name = r->p.at;
    r->p.at += 2;
    if (token_is(name, "broadcast")) {
        return read_broadcast(r, it);
    }
    it->kind = token_is(name, "reduced") ? ITEM_REDUCED : ITEM_PERMUTED;
    return read_function(r, it);
}

/* In parentheses where the item before would take it for its own end, or the shape for its `if`. */
static const char *
text_of(arena *a, const expr *e)
{
    buffer b = {0};
    expr_emit_text(&b, e);
    bool inside = b.data[0] == '-' || expr_binding(e->kind) < expr_binding(EXPR_ADD);
    const char *copy =
        arena_print(a, "%s%s%s", inside ? "(" : "", buffer_text(&b), inside ? ")" : "");
    buffer_finish(&b);
    return copy;
}

/* A plain name, of a dim or of an int attribute, or arithmetic. */
static bool
read_value(reader *r, item *it)
{
    const token *name = r->p.at;
    expr *e = parse_sum(&r->p);
    if (!e) {
        return false;
    }
    int index = e->kind == EXPR_DIM ? row_find_attr(r->row, e->name) : -1;
    it->text = text_of(r->p.a, e);
    if (e->kind == EXPR_DIM && index < 0) {
        it->kind = ITEM_DIM;
        return dim_mention(r, name, BIND_DIM, &it->dim);
    }
    if (index >= 0 && r->row->attrs.items[index].kind != ATTR_INT) {
        return fault(
            r->p.f, "shape-attribute", name->where, r->p.of,
            "only an int attribute is a dim, `%s` is none", name->text);
    }
    if (e->kind == EXPR_INT && e->integer < 0) {
        return fault(r->p.f, "shape-value", name->where, r->p.of, "a dim has no negative size");
    }
    it->kind = ITEM_VALUE;
    it->value = e;
    return mention_values(r, e);
}

static bool
read_item(reader *r, items *out)
{
    const token *t = r->p.at;
    if (out->count == SHAPE_ITEMS) {
        return fault(
            r->p.f, "shape-syntax", t->where, r->p.of, "a shape has at most %d items", SHAPE_ITEMS);
    }
    item *it = list_push(r->p.a, out);
    *it = (item){.dim = -1, .axis = -1, .keep = -1, .where = t->where};
    if (t->kind == TOKEN_NAME && token_is(t + 1, "..")) {
        return read_pack(r, it);
    }
    if (t->kind == TOKEN_NAME && token_is(t + 1, "@")) {
        return read_axis(r, it);
    }
    bool function = token_is(t, "broadcast") || token_is(t, "reduced") || token_is(t, "permuted");
    if (function && token_is(t + 1, "(") && !t[1].spaced) {
        return read_call(r, it);
    }
    return read_value(r, it);
}

static bool
at_end(const reader *r)
{
    const token *t = r->p.at;
    return t->kind == TOKEN_END || token_is(t, "if") || token_is(t, "else");
}

/* Items up to `if`, `else` or the end; "()" alone is none. */
static bool
read_items(reader *r, items *out)
{
    if (token_is(r->p.at, "(") && token_is(r->p.at + 1, ")")) {
        r->p.at += 2;
        return at_end(r) || parse_fault(&r->p, "nothing more");
    }
    do {
        if (!read_item(r, out)) {
            return false;
        }
    } while (!at_end(r));
    return true;
}

static bool
read_shape(reader *r, shape *out)
{
    items first = {0}, other = {0};
    bool ok = read_items(r, &first);
    if (ok && parse_take(&r->p, "if")) {
        r->p.items = false;
        out->test = parse_condition(&r->p);
        r->p.items = true;
        ok = out->test && parse_expect(&r->p, "else", "after the condition") &&
             read_items(r, &other);
    }
    out->items.items = first.items;
    out->items.count = first.count;
    out->other.items = other.items;
    out->other.count = other.count;
    return ok && (r->p.at->kind == TOKEN_END || parse_fault(&r->p, "the end"));
}

bool
shape_parse(
    arena *a, faults *f, context of, op *row, loc where, const char *source, int index, shape *out)
{
    token few[TOKENS_FEW], *tokens = tokens_read(a, f, of, where, source, few);
    if (!tokens) {
        return false;
    }
    role is = row->params.items[index].role;
    reader r = {
        .p = {.a = a, .f = f, .of = of, .at = tokens, .items = true},
        .row = row,
        .param = index,
        .binds = is == ROLE_IN || is == ROLE_INOUT,
    };
    out->text = source;
    return read_shape(&r, out);
}

/* ---- text ---------------------------------------------------------------------------------- */

static void
emit_items(buffer *out, const item *all, int count)
{
    for (int i = 0; i < count; i++) {
        buffer_print(out, "%s%s", i ? " " : "", all[i].text);
    }
    if (!count) {
        buffer_puts(out, "()");
    }
}

void
shape_emit_text(buffer *out, const op *row, const shape *s)
{
    (void)row; /* names stand as in the table */
    emit_items(out, s->items.items, s->items.count);
    if (s->test) {
        buffer_puts(out, " if ");
        expr_emit_text(out, s->test);
        buffer_puts(out, " else ");
        emit_items(out, s->other.items, s->other.count);
    }
}
