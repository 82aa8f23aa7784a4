/* The two small notations beside expressions and gradients: a call of ATen's, and a test's shapes.
 */
#include <ctype.h>
#include <string.h>

#include "checker.h"

typedef enum literal_kind {
    LITERAL_INT,
    LITERAL_REAL,
    LITERAL_TEXT,
    LITERAL_NAME,
    LITERAL_LIST
} literal_kind;

typedef struct literal literal;
struct literal {
    literal_kind kind;
    loc where;
    const char *name; /* of NAME, TEXT and numbers: as written */
    bool negative;
    LIST(literal *) items;
};

/* A place in the text. After the first fault nothing more is read. */
typedef struct reader {
    row_check *check;
    context of;
    const char *id; /* of its faults */
    loc start;
    const char *begin, *at;
    int depth;
    bool failed;
} reader;

enum { LITERAL_DEPTH = 8 };

static loc
place_of(const reader *r)
{
    loc where = r->start;
    where.column += (int)(r->at - r->begin);
    return where;
}

static void
fail(reader *r, const char *wanted)
{
    if (!r->failed) {
        fault(
            r->check->checker->faults, r->id, place_of(r), r->of,
            *r->at ? "expected %s, not `%.10s`" : "expected %s at the end", wanted, r->at);
    }
    r->failed = true;
}

static void
skip_spaces(reader *r)
{
    r->at += strspn(r->at, " \n");
}

static bool
eat(reader *r, char c)
{
    skip_spaces(r);
    if (r->failed || *r->at != c) {
        return false;
    }
    r->at++;
    return true;
}

static void
expect(reader *r, char c, const char *wanted)
{
    if (!eat(r, c)) {
        fail(r, wanted);
    }
}

static const char *
name_read(reader *r)
{
    skip_spaces(r);
    const char *end = r->at;
    if (isalpha((unsigned char)*end) || *end == '_') {
        while (isalnum((unsigned char)*end) || *end == '_') {
            end++;
        }
    }
    const char *name = arena_copy(r->check->checker->memory, r->at, (size_t)(end - r->at));
    r->at = end;
    return *name ? name : NULL;
}

static literal *literal_read(reader *r);

static void
items_read(reader *r, literal *list, char close, const char *wanted)
{
    list->kind = LITERAL_LIST;
    if (++r->depth > LITERAL_DEPTH) {
        fail(r, "less nesting");
    }
    while (!r->failed && !eat(r, close)) {
        *list_push(r->check->checker->memory, &list->items) = literal_read(r);
        if (!eat(r, ',')) {
            expect(r, close, wanted);
            break;
        }
    }
    r->depth--;
}

static void
text_read(reader *r, literal *out, char quote)
{
    const char *end = strchr(r->at, quote);
    out->kind = LITERAL_TEXT;
    if (!end) {
        fail(r, "the end of the quoted text");
        return;
    }
    out->name = arena_copy(r->check->checker->memory, r->at, (size_t)(end - r->at));
    r->at = end + 1;
}

static void
number_read(reader *r, literal *out)
{
    size_t size = strspn(r->at, "0123456789.eE");
    if (size && strchr("eE", r->at[size - 1]) && (r->at[size] == '-' || r->at[size] == '+')) {
        size += 1 + strspn(r->at + size + 1, "0123456789");
    }
    out->name = arena_copy(r->check->checker->memory, r->at, size);
    out->kind = scalar_looks_int(out->name) ? LITERAL_INT : LITERAL_REAL;
    if (!scalar_looks_int(out->name) && !scalar_looks_real(out->name)) {
        fail(r, "a value");
        return;
    }
    r->at += size;
}

static literal *
literal_read(reader *r)
{
    literal *out = arena_alloc(r->check->checker->memory, sizeof *out);
    skip_spaces(r);
    out->where = place_of(r);
    if (eat(r, '[')) {
        items_read(r, out, ']', "`,` or `]`");
    } else if (eat(r, '(')) {
        items_read(r, out, ')', "`,` or `)`");
    } else if (eat(r, '\'')) {
        text_read(r, out, '\'');
    } else if (eat(r, '"')) {
        text_read(r, out, '"');
    } else if (isalpha((unsigned char)*r->at) || *r->at == '_') {
        out->kind = LITERAL_NAME;
        out->name = name_read(r);
    } else {
        out->negative = eat(r, '-');
        number_read(r, out);
    }
    return out;
}

static reader
reader_make(row_check *check, context of, const node *n, const char *id)
{
    return (reader){check, of, id, node_text_loc(n), n->text, n->text, 0, false};
}

/* ---- "sum.dim_IntList(x, axes, keepdim)" ----------------------------------------------------- */

static bool
word_is_value(const char *name)
{
    static const char *const words[] = {"True", "False", "None", "true", "false", "none", NULL};
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void
aten_value_check(reader *r, const literal *value)
{
    const op *o = r->check->op;
    for (int i = 0; i < value->items.count; i++) {
        aten_value_check(r, value->items.items[i]);
    }
    if (value->kind != LITERAL_NAME || word_is_value(value->name)) {
        return;
    }
    int param_index = param_find(o, value->name);
    bool type = false;
    for (int i = 0; i < o->types.count; i++) {
        type |= strcmp(o->types.items[i].name, value->name) == 0;
    }
    bool out = param_index >= o->inputs && param_index < o->inputs + o->outs;
    if (!type && (param_index < 0 || out) && attr_find(o, value->name) < 0 &&
        dim_find(o, value->name) < 0) {
        LIST(const char *) known = {0};
        for (int i = 0; i < o->inputs; i++) {
            *list_push(r->check->checker->memory, &known) = o->params.items[i].name;
        }
        for (int i = 0; i < o->attrs.count; i++) {
            *list_push(r->check->checker->memory, &known) = o->attrs.items[i].name;
        }
        fault(
            r->check->checker->faults, "aten-name", value->where, r->of,
            "`%s` is no argument, attribute, dim or type of this row", value->name);
        fault_suggest(r->check->checker->faults, value->name, known.items, known.count);
        r->failed = true;
    }
}

static void
aten_argument_read(reader *r)
{
    const char *before = r->at;
    const char *name = name_read(r);
    if (!name || !eat(r, '=')) {
        r->at = before;
    }
    const literal *value = literal_read(r);
    if (value->kind == LITERAL_NAME && eat(r, '[')) { /* stride[0] */
        const literal *index = literal_read(r);
        if (index->kind != LITERAL_INT) {
            fail(r, "an index");
        }
        expect(r, ']', "`]`");
    }
    if (!r->failed) {
        aten_value_check(r, value);
    }
}

bool
aten_check(row_check *check, const node *n)
{
    reader r = reader_make(check, (context){check->op->name, "aten"}, n, "aten");
    if (!name_read(&r) || (eat(&r, '.') && !name_read(&r))) {
        fail(&r, "the name of an ATen op");
    }
    expect(&r, '(', "`(`");
    while (!r.failed && !eat(&r, ')')) {
        aten_argument_read(&r);
        if (!eat(&r, ',')) {
            expect(&r, ')', "`,` or `)`");
            break;
        }
    }
    if (eat(&r, '[')) { /* one of several results */
        if (literal_read(&r)->kind != LITERAL_INT) {
            fail(&r, "an index");
        }
        expect(&r, ']', "`]`");
    }
    skip_spaces(&r);
    if (*r.at) {
        fail(&r, "nothing more");
    }
    return !r.failed;
}

/* ---- "a=(2, 3), axis=0" ---------------------------------------------------------------------- */

static bool
is_none(const literal *v)
{
    return v->kind == LITERAL_NAME && strcmp(v->name, "none") == 0;
}

static bool
is_shape(const literal *v)
{
    bool good = v->kind == LITERAL_LIST;
    for (int i = 0; i < v->items.count; i++) {
        good &= v->items.items[i]->kind == LITERAL_INT && !v->items.items[i]->negative;
    }
    return good;
}

static const char *
tensor_value_wrong(const param *p, const literal *v)
{
    if (is_none(v)) {
        return p->optional ? NULL : "is not optional";
    }
    if (p->list < 0) {
        return is_shape(v) ? NULL : "is a tensor: its value is a shape, as (2, 3)";
    }
    bool good = v->kind == LITERAL_LIST;
    for (int i = 0; i < v->items.count; i++) {
        good &= is_shape(v->items.items[i]);
    }
    return good ? NULL : "is a list: its value is a list of shapes, as [(2, 3), (4, 3)]";
}

static bool
is_ints(const literal *v, int size)
{
    bool good = v->kind == LITERAL_LIST && (size < 0 || v->items.count == size);
    for (int i = 0; good && i < v->items.count; i++) {
        good &= v->items.items[i]->kind == LITERAL_INT;
    }
    return good || v->kind == LITERAL_INT;
}

static const char *
attr_value_wrong(const attr *a, const literal *v)
{
    bool truth =
        v->kind == LITERAL_NAME && (strcmp(v->name, "true") == 0 || strcmp(v->name, "false") == 0);
    bool number = v->kind == LITERAL_INT || v->kind == LITERAL_REAL, word = false;
    for (int i = 0; i < a->values.count && v->kind == LITERAL_TEXT; i++) {
        word |= strcmp(a->values.items[i], v->name) == 0;
    }
    switch (a->kind) {
    case ATTR_BOOL: return truth ? NULL : "is true or false";
    case ATTR_INT:
    case ATTR_AXIS: return v->kind == LITERAL_INT ? NULL : "is a whole number";
    case ATTR_FLOAT:
    case ATTR_SCALAR: return number ? NULL : "is a number";
    case ATTR_ENUM: return word ? NULL : "is one of its values, quoted";
    case ATTR_INTS: return is_ints(v, a->size) ? NULL : "is a list of its size, or one number";
    case ATTR_AXES:
        return is_ints(v, -1) || is_none(v) ? NULL : "is a list of axes, or none for all";
    }
    die("an attribute of kind %d", a->kind);
}

static void
case_pair_read(reader *r, bool *params, bool *attrs)
{
    const op *o = r->check->op;
    skip_spaces(r);
    loc where = place_of(r);
    const char *name = name_read(r);
    if (!name) {
        fail(r, "a name");
        return;
    }
    expect(r, '=', "`=`");
    const literal *value = literal_read(r);
    int p = param_find(o, name), a = attr_find(o, name);
    bool *seen = p >= 0 && p < o->inputs ? &params[p] : a >= 0 ? &attrs[a] : NULL;
    const char *wrong = !seen   ? "is no argument of this row"
                        : *seen ? "is given twice"
                        : a < 0 ? tensor_value_wrong(&o->params.items[p], value)
                                : attr_value_wrong(&o->attrs.items[a], value);
    if (seen) {
        *seen = true;
    }
    if (wrong && !r->failed) {
        fault(r->check->checker->faults, r->id, where, r->of, "`%s` %s", name, wrong);
        r->failed = true;
    }
}

bool
case_check(row_check *check, context of, const node *n)
{
    const op *o = check->op;
    arena *a = check->checker->memory;
    reader r = reader_make(check, of, n, "test-case");
    bool *params = arena_alloc(a, (size_t)o->params.count + 1);
    bool *attrs = arena_alloc(a, (size_t)o->attrs.count + 1);
    do {
        case_pair_read(&r, params, attrs);
    } while (!r.failed && eat(&r, ','));
    skip_spaces(&r);
    if (*r.at) {
        fail(&r, "`,` or nothing more");
    }
    const char *absent = NULL;
    for (int i = 0; i < o->inputs; i++) {
        absent = params[i] || o->params.items[i].optional ? absent : o->params.items[i].name;
    }
    for (int i = 0; i < o->attrs.count; i++) {
        absent = attrs[i] || o->attrs.items[i].has_default ? absent : o->attrs.items[i].name;
    }
    if (absent && !r.failed) {
        return fault(check->checker->faults, r.id, n->where, of, "`%s` is not given", absent);
    }
    return !r.failed;
}
