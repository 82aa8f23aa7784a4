#include "expression.h"

#include <string.h>

#include "expression_check.h"

static const char *const type_names[] = {
    [TYPE_NONE] = "nothing",    [TYPE_BOOL] = "a bool",        [TYPE_INT] = "an integer",
    [TYPE_REAL] = "a float",    [TYPE_WORD] = "an enum value", [TYPE_INTS] = "several integers",
    [TYPE_TENSOR] = "a tensor",
};

static bool
is_number(const expr *e)
{
    return e->type == TYPE_INT || e->type == TYPE_REAL;
}

bool
checker_want(checker *c, const expr *e, expr_type type)
{
    if (e->type == type || (type == TYPE_REAL && e->type == TYPE_INT)) {
        return true;
    }
    return fault(
        c->f, "expression-type", e->where, c->of, "%s is wanted here, this is %s", type_names[type],
        type_names[e->type]);
}

static bool
want_number(checker *c, const expr *e)
{
    if (is_number(e)) {
        return true;
    }
    return fault(
        c->f, "expression-type", e->where, c->of, "a number is wanted here, this is %s",
        type_names[e->type]);
}

/* ---- names --------------------------------------------------------------------------------- */

/* The nearest name of the row, for a name it does not have. */
static void
suggest_name(checker *c, const char *name)
{
    LIST(const char *) known = {0};
    for (int i = 0; i < c->row->dims.count; i++) {
        *list_push(c->a, &known) = c->row->dims.items[i].name;
    }
    for (int i = 0; i < c->row->attrs.count; i++) {
        *list_push(c->a, &known) = c->row->attrs.items[i].name;
    }
    for (int i = 0; i < c->row->params.count; i++) {
        *list_push(c->a, &known) = c->row->params.items[i].name;
    }
    fault_suggest(c->f, name, known.items, known.count);
}

bool
checker_unknown_name(checker *c, const expr *e, const char *what)
{
    fault(c->f, "expression-name", e->where, c->of, "`%s` is no %s of this row", e->name, what);
    suggest_name(c, e->name);
    return false;
}

bool
checker_dim(checker *c, expr *e, int index)
{
    const dim *d = &c->row->dims.items[index];
    e->kind = d->kind == DIM_PACK ? EXPR_PACK : EXPR_DIM;
    e->index = index;
    e->type = TYPE_INT;
    if (c->attributes_only) {
        return fault(
            c->f, "expression-attributes-only", e->where, c->of,
            "only attributes and present() may decide here, `%s` is a size", e->name);
    }
    if (d->varies) {
        return fault(
            c->f, "expression-varies", e->where, c->of,
            "`%s` differs from one tensor of the list to the next: only sum(%s) has a value",
            e->name, e->name);
    }
    return true;
}

static bool
check_attr(checker *c, expr *e, int index)
{
    static const expr_type types[] = {
        [ATTR_BOOL] = TYPE_BOOL, [ATTR_INT] = TYPE_INT,     [ATTR_FLOAT] = TYPE_REAL,
        [ATTR_ENUM] = TYPE_WORD, [ATTR_INTS] = TYPE_INTS,   [ATTR_AXIS] = TYPE_INT,
        [ATTR_AXES] = TYPE_INTS, [ATTR_SCALAR] = TYPE_NONE,
    };
    e->kind = EXPR_ATTR;
    e->index = index;
    e->type = types[c->row->attrs.items[index].kind];
    if (e->type == TYPE_NONE) {
        return fault(
            c->f, "expression-scalar", e->where, c->of,
            "scalar `%s` may lie on the device: expressions cannot read it", e->name);
    }
    return true;
}

/* A name where a value is wanted. */
static bool
check_name(checker *c, expr *e)
{
    int index = row_find_dim(c->row, e->name);
    if (index >= 0) {
        return checker_dim(c, e, index);
    }
    index = row_find_attr(c->row, e->name);
    if (index >= 0) {
        return check_attr(c, e, index);
    }
    if (row_find_tensor(c->row, e->name) >= 0) {
        return fault(
            c->f, "expression-type", e->where, c->of,
            "tensor `%s` is no value: only functions take tensors", e->name);
    }
    if (row_find_type(c->row, e->name) >= 0) {
        return fault(
            c->f, "expression-type", e->where, c->of,
            "type `%s` is no value: sizeof(%s) is its bytes", e->name, e->name);
    }
    return checker_unknown_name(c, e, "dim or attribute");
}

bool
checker_is_name(const expr *e)
{
    return e->kind == EXPR_DIM || e->kind == EXPR_PACK || e->kind == EXPR_ATTR ||
           e->kind == EXPR_PARAM || e->kind == EXPR_TYPEVAR;
}

/* ---- operators ----------------------------------------------------------------------------- */

static bool
check_args(checker *c, expr *e)
{
    bool ok = true;
    for (int i = 0; i < e->count; i++) {
        ok = checker_visit(c, e->args[i]) && ok;
    }
    return ok;
}

static bool
want_args(checker *c, const expr *e, expr_type type)
{
    bool ok = true;
    for (int i = 0; i < e->count; i++) {
        ok = checker_want(c, e->args[i], type) && ok;
    }
    return ok;
}

/* Integers stay integers; with a float among them all are floats. */
bool
checker_arithmetic(checker *c, expr *e)
{
    bool ok = check_args(c, e);
    e->type = TYPE_INT;
    for (int i = 0; ok && i < e->count; i++) {
        ok = want_number(c, e->args[i]);
        e->type = e->args[i]->type == TYPE_REAL ? TYPE_REAL : e->type;
    }
    e->type = e->kind == EXPR_DIV ? TYPE_REAL : e->type;
    return ok;
}

bool
checker_integers(checker *c, expr *e)
{
    e->type = TYPE_INT;
    return check_args(c, e) && want_args(c, e, TYPE_INT);
}

static bool
same(const expr *x, const expr *y)
{
    bool ok = x->kind == y->kind && x->count == y->count && x->integer == y->integer &&
              memcmp(&x->real, &y->real, sizeof x->real) == 0 && x->function == y->function &&
              !x->name == !y->name && (!x->name || strcmp(x->name, y->name) == 0);
    for (int i = 0; ok && i < x->count; i++) {
        ok = same(x->args[i], y->args[i]);
    }
    return ok;
}

/* An enum attribute with a word, whichever stands first. */
static bool
check_word(checker *c, const expr *e, const expr *name, expr *word)
{
    const attr *owner = &c->row->attrs.items[name->index];
    for (int i = 0; i < owner->values.count; i++) {
        if (strcmp(owner->values.items[i], word->name) == 0) {
            word->index = i;
            word->type = TYPE_WORD;
            break;
        }
    }
    if (word->index < 0) {
        fault(
            c->f, "expression-word", word->where, c->of, "`%s` has no value '%s'", owner->name,
            word->name);
        fault_suggest(c->f, word->name, owner->values.items, owner->values.count);
        return false;
    }
    if (e->kind != EXPR_EQ && e->kind != EXPR_NE) {
        return fault(
            c->f, "expression-type", e->where, c->of, "enum values have no order, only == and !=");
    }
    return true;
}

static bool
check_words(checker *c, expr *e)
{
    expr *x = e->args[0], *y = e->args[1];
    expr *word = x->kind == EXPR_WORD ? x : y, *other = x->kind == EXPR_WORD ? y : x;
    word->index = -1;
    if (!checker_is_name(other)) {
        return fault(
            c->f, "expression-type", word->where, c->of,
            "a quoted value is compared with an enum attribute, with nothing else");
    }
    return check_name(c, other) && checker_want(c, other, TYPE_WORD) &&
           check_word(c, e, other, word);
}

static bool
check_comparison(checker *c, expr *e)
{
    expr *x = e->args[0], *y = e->args[1];
    e->type = TYPE_BOOL;
    if (x->kind == EXPR_WORD || y->kind == EXPR_WORD) {
        return check_words(c, e);
    }
    if (!check_args(c, e)) {
        return false;
    }
    bool equality = e->kind == EXPR_EQ || e->kind == EXPR_NE;
    bool bools = x->type == TYPE_BOOL && y->type == TYPE_BOOL && equality;
    if (!bools && !(want_number(c, x) && want_number(c, y))) {
        return false;
    }
    if (same(x, y)) {
        return fault(
            c->f, "expression-constant", e->where, c->of, "both sides of `%s` are the same",
            expr_operator(e->kind));
    }
    return true;
}

/* The word that an enum attribute is compared with by `kind`; NULL: that is not what `e` is. */
static const expr *
word_of(const expr *e, expr_kind kind, int *attribute)
{
    if (e->kind != kind || e->args[0]->type != TYPE_WORD) {
        return NULL;
    }
    bool first = e->args[0]->kind == EXPR_WORD;
    *attribute = e->args[first]->index;
    return e->args[!first];
}

/* In the chain of `joint` that ends in `e`, a comparison by `kind` of the same enum as in `with`,
   with another word. */
static const expr *
find_other_word(const expr *e, expr_kind joint, expr_kind kind, const expr *with)
{
    int mine = -1, its = -1;
    const expr *found = NULL;
    for (int i = 0; e->kind == joint && i < e->count && !found; i++) {
        found = find_other_word(e->args[i], joint, kind, with);
    }
    const expr *word = word_of(with, kind, &mine), *other = word_of(e, kind, &its);
    return word && other && mine == its && word->index != other->index ? e : found;
}

/* An enum has one value: it cannot be two, and is always another than one of two. */
static bool
check_words_apart(checker *c, const expr *chain, const expr *more, expr_kind joint)
{
    if (more->kind == joint) {
        return check_words_apart(c, chain, more->args[0], joint) &&
               check_words_apart(c, chain, more->args[1], joint);
    }
    bool never = joint == EXPR_AND;
    const expr *other = find_other_word(chain, joint, never ? EXPR_EQ : EXPR_NE, more);
    if (other) {
        fault(
            c->f, "expression-constant", more->where, c->of, "this %s",
            never ? "is never so where the other is: an enum has one value"
                  : "is always so where the other is not: an enum has one value");
        fault_also(c->f, other->where, "the other is here");
    }
    return !other;
}

static bool
check_logic(checker *c, expr *e)
{
    e->type = TYPE_BOOL;
    if (!check_args(c, e) || !want_args(c, e, TYPE_BOOL)) {
        return false;
    }
    return e->kind == EXPR_NOT || check_words_apart(c, e->args[0], e->args[1], e->kind);
}

static bool
check_if(checker *c, expr *e)
{
    expr *then = e->args[0], *other = e->args[2];
    if (!check_args(c, e) || !checker_want(c, e->args[1], TYPE_BOOL)) {
        return false;
    }
    e->type = then->type;
    if (is_number(then) && is_number(other)) {
        e->type = then->type == TYPE_REAL ? TYPE_REAL : other->type;
        return true;
    }
    return checker_want(c, other, then->type);
}

static bool
check_index(checker *c, expr *e)
{
    expr *x = e->args[0], *i = e->args[1];
    e->type = TYPE_INT;
    if (!check_args(c, e) || !checker_want(c, x, TYPE_INTS) || !checker_want(c, i, TYPE_INT)) {
        return false;
    }
    if (x->kind != EXPR_ATTR) {
        return fault(
            c->f, "expression-type", e->where, c->of, "only the name of an attribute is indexed");
    }
    const attr *owner = &c->row->attrs.items[x->index];
    if (i->kind == EXPR_INT && owner->kind == ATTR_INTS &&
        (i->integer >= owner->size || i->integer < -owner->size)) {
        return fault(
            c->f, "expression-index", i->where, c->of, "`%s` has %d values", owner->name,
            owner->size);
    }
    return true;
}

bool
checker_visit(checker *c, expr *e)
{
    switch (e->kind) {
    case EXPR_INT: e->type = TYPE_INT; return true;
    case EXPR_REAL: e->type = TYPE_REAL; return true;
    case EXPR_BOOL: e->type = TYPE_BOOL; return true;
    case EXPR_WORD: e->type = TYPE_WORD; return true;
    case EXPR_DIM:
    case EXPR_PACK:
    case EXPR_ATTR:
    case EXPR_PARAM:
    case EXPR_TYPEVAR: return check_name(c, e);
    case EXPR_NEG:
    case EXPR_ADD:
    case EXPR_SUB:
    case EXPR_MUL:
    case EXPR_DIV: return checker_arithmetic(c, e);
    case EXPR_FLOORDIV:
    case EXPR_MOD: return checker_integers(c, e);
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
    case EXPR_EQ:
    case EXPR_NE: return check_comparison(c, e);
    case EXPR_NOT:
    case EXPR_AND:
    case EXPR_OR: return check_logic(c, e);
    case EXPR_IF: return check_if(c, e);
    case EXPR_INDEX: return check_index(c, e);
    case EXPR_CALL: return checker_call(c, e);
    case EXPR_BROADCAST:
        return fault(
            c->f, "expression-type", e->where, c->of, "broadcast() stands only under prod()");
    }
    die("expression %d", (int)e->kind);
}

bool
expr_check(
    arena *a, faults *f, context of, const op *row, expr *e, expr_type wanted, bool attributes_only)
{
    checker c = {.a = a, .f = f, .of = of, .row = row, .attributes_only = attributes_only};
    return checker_visit(&c, e) && checker_want(&c, e, wanted);
}
