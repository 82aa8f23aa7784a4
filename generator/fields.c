#include "fields.h"

#include <string.h>

#include "scalar.h"
#include "text.h"

const char *const layout_words[] = {"dense", "flat", "nhwc", "row", "col", "strided", NULL};
const char *const attr_kind_words[] = {"bool", "int",  "float", "enum",
                                       "ints", "axis", "axes",  NULL};
static const char *const determinism_words[] = {"bitwise", "run", NULL};

#define REQUIRED true
#define OPTIONAL false

/* clang-format off */
static const field table_items[] = {
    [TABLE_SCHEMA] = {"schema", FORM_ONE, KIND_INT, REQUIRED, NULL, NULL,
        "Version of the table's language: 1."},
    [TABLE_PACKAGE] = {"package", FORM_ONE, KIND_NAME, REQUIRED, NULL, NULL,
        "Name of the Python package."},
    [TABLE_NAMESPACE] = {"namespace", FORM_ONE, KIND_NAME, REQUIRED, NULL, NULL,
        "Prefix of C symbols, and the namespace under torch.ops."},
    [TABLE_BACKENDS] = {"backends", FORM_MAP, KIND_FIELDS, REQUIRED, &backend_fields, NULL,
        "What kernels can be written for, by name."},
    [TABLE_DTYPES] = {"dtypes", FORM_MAP, KIND_CLASS, OPTIONAL, NULL, NULL,
        "Classes of dtypes (a list, which may name classes) and functions of dtypes (a map, whose "
        "keys may be classes and whose values may be `same`)."},
    [TABLE_OPS] = {"ops", FORM_SOME, KIND_FIELDS, REQUIRED, &row_fields, NULL,
        "The rows, one an op or family."},
};

static const field backend_items[] = {
    [BACKEND_DEVICES] = {"devices", FORM_SOME, KIND_NAME, REQUIRED, NULL, NULL,
        "DLPack's device types whose tensors it serves: cpu, cuda, ..."},
    [BACKEND_SUFFIX] = {"suffix", FORM_ONE, KIND_TEXT, REQUIRED, NULL, NULL,
        "Suffix of its source files: .c"},
    [BACKEND_WITHOUT] = {"without", FORM_ONE, KIND_DTYPES, OPTIONAL, NULL, NULL,
        "Dtypes that its kernels leave out, unless a kernel's own `types` name them."},
};

static const field row_items[] = {
    [ROW_OP] = {"op", FORM_ONE, KIND_NAME, OPTIONAL, NULL, NULL,
        "Name of the op, its module and its functions."},
    [ROW_FAMILY] = {"family", FORM_ONE, KIND_NAME, OPTIONAL, NULL, NULL,
        "Instead of `op`: name of a family of near-equal rows, which share one source folder."},
    [ROW_OPS] = {"ops", FORM_MAP, KIND_FIELDS, OPTIONAL, &member_fields, NULL,
        "Of a family: its members by name. A key stands in the family or in its members, never in "
        "both; but a member's args are appended to the family's."},
    [ROW_DOC] = {"doc", FORM_ONE, KIND_TEXT, REQUIRED, NULL, NULL,
        "What the op computes."},
    [ROW_ATEN] = {"aten", FORM_ONE, KIND_CALL, OPTIONAL, NULL, NULL,
        "The op in ATen's terms: fallback, import, reference, peer. Absent: there is none."},
    [ROW_TYPES] = {"types", FORM_MAP, KIND_DTYPES, OPTIONAL, NULL, NULL,
        "Type variables and what each may be; their order is that of the functions' suffixes."},
    [ROW_PARTIAL] = {"partial", FORM_ONE, KIND_BOOL, OPTIONAL, NULL, NULL,
        "Some dtypes are covered by no unguarded kernel, and that is meant."},
    [ROW_ARGS] = {"args", FORM_LIST, KIND_FIELDS, REQUIRED, &arg_fields, NULL,
        "Tensors, attributes and scalars, in order."},
    [ROW_LET] = {"let", FORM_MAP, KIND_EXPR, OPTIONAL, NULL, NULL,
        "Derived dims; each may use those before it."},
    [ROW_WHERE] = {"where", FORM_MAP, KIND_TEXT, OPTIONAL, NULL, NULL,
        "What must hold, each with the message for when it does not."},
    [ROW_OUTS] = {"outs", FORM_LIST, KIND_FIELDS, REQUIRED, &out_fields, NULL,
        "The results; none only where an argument is inout."},
    [ROW_OVERLAP] = {"overlap", FORM_MAP, KIND_NAMES, OPTIONAL, NULL, NULL,
        "Which arguments an out may be exactly. Any other overlap is refused."},
    [ROW_KERNELS] = {"kernels", FORM_SOME, KIND_FIELDS, REQUIRED, &kernel_fields, NULL,
        "Tried in this order; the first that fits runs."},
    [ROW_GRAD] = {"grad", FORM_MAP, KIND_GRAD, OPTIONAL, NULL, NULL,
        "Gradients by argument, and intermediates by new names, in order."},
    [ROW_COST] = {"cost", FORM_ONE, KIND_FIELDS, OPTIONAL, &cost_fields, NULL,
        "What a call costs."},
    [ROW_TEST] = {"test", FORM_ONE, KIND_FIELDS, OPTIONAL, &test_fields, NULL,
        "What to test beyond what follows from the row."},
};

static const field arg_items[] = {
    [ARG_NAME] = {"name", FORM_ONE, KIND_NAME, REQUIRED, NULL, NULL,
        "Its name in Python and C."},
    [ARG_TENSOR] = {"tensor", FORM_ONE, KIND_DTYPE, OPTIONAL, NULL, NULL,
        "A tensor of this dtype: fixed, a type variable, or a function of one."},
    [ARG_ATTR] = {"attr", FORM_ONE, KIND_WORD, OPTIONAL, NULL, attr_kind_words,
        "An attribute of this kind."},
    [ARG_SCALAR] = {"scalar", FORM_ONE, KIND_DTYPE, OPTIONAL, NULL, NULL,
        "A scalar of this dtype: a host number, or a one-element tensor on the op's device."},
    [ARG_LIST] = {"list", FORM_ONE, KIND_NAME, OPTIONAL, NULL, NULL,
        "A list of so many tensors; lists of one length agree index by index."},
    [ARG_SHAPE] = {"shape", FORM_ONE, KIND_SHAPE, OPTIONAL, NULL, NULL,
        "Shape of a tensor."},
    [ARG_SIZE] = {"size", FORM_ONE, KIND_INT, OPTIONAL, NULL, NULL,
        "How many numbers an `ints` attribute has."},
    [ARG_VALUES] = {"values", FORM_SOME, KIND_NAME, OPTIONAL, NULL, NULL,
        "What an `enum` attribute may be."},
    [ARG_OF] = {"of", FORM_ONE, KIND_NAME, OPTIONAL, NULL, NULL,
        "Whose axes an `axis` or `axes` attribute names."},
    [ARG_DEFAULT] = {"default", FORM_ONE, KIND_LITERAL, OPTIONAL, NULL, NULL,
        "Value of an attribute or scalar that is not given."},
    [ARG_MIN] = {"min", FORM_ONE, KIND_LITERAL, OPTIONAL, NULL, NULL,
        "Least value of an attribute or scalar."},
    [ARG_MAX] = {"max", FORM_ONE, KIND_LITERAL, OPTIONAL, NULL, NULL,
        "Greatest value of an attribute or scalar."},
    [ARG_OPTIONAL] = {"optional", FORM_ONE, KIND_BOOL, OPTIONAL, NULL, NULL,
        "The tensor may be left out; so may be those after it."},
    [ARG_INOUT] = {"inout", FORM_ONE, KIND_BOOL, OPTIONAL, NULL, NULL,
        "The tensor is read and written in place."},
    [ARG_LAYOUT] = {"layout", FORM_ONE, KIND_LAYOUT, OPTIONAL, NULL, NULL,
        "Default of its kernels' layouts for it."},
};

static const field out_items[] = {
    [OUT_NAME] = {"name", FORM_ONE, KIND_NAME, REQUIRED, NULL, NULL,
        "Its name in Python and C."},
    [OUT_TENSOR] = {"tensor", FORM_ONE, KIND_DTYPE, REQUIRED, NULL, NULL,
        "Its dtype: fixed, a type variable, or a function of one."},
    [OUT_SHAPE] = {"shape", FORM_ONE, KIND_SHAPE, REQUIRED, NULL, NULL,
        "Its shape, from the arguments'."},
    [OUT_OPTIONAL] = {"optional", FORM_ONE, KIND_BOOL, OPTIONAL, NULL, NULL,
        "Computed only when asked for; optional outs come last."},
    [OUT_ORDER] = {"order", FORM_ONE, KIND_NAME, OPTIONAL, NULL, NULL,
        "The argument whose memory order an omitted out takes; absent: row-major."},
    [OUT_LAYOUT] = {"layout", FORM_ONE, KIND_LAYOUT, OPTIONAL, NULL, NULL,
        "Default of the kernels' layouts for it."},
};

static const field kernel_items[] = {
    [KERNEL_ID] = {"id", FORM_ONE, KIND_NAME, REQUIRED, NULL, NULL,
        "Its name in the row."},
    [KERNEL_BACKEND] = {"backend", FORM_ONE, KIND_NAME, REQUIRED, NULL, NULL,
        "What it runs on."},
    [KERNEL_LAYOUT] = {"layout", FORM_ONE, KIND_LAYOUTS, OPTIONAL, NULL, NULL,
        "How the tensors must lie: for all of them, or by name; absent: their own defaults, dense."},
    [KERNEL_TYPES] = {"types", FORM_MAP, KIND_DTYPES, OPTIONAL, NULL, NULL,
        "What type variables may be here; absent: the row's, without the backend's `without`."},
    [KERNEL_WHEN] = {"when", FORM_LIST, KIND_EXPR, OPTIONAL, NULL, NULL,
        "Guards: it runs only where all of them hold."},
    [KERNEL_ARCH] = {"arch", FORM_ONE, KIND_TEXT, OPTIONAL, NULL, NULL,
        "sm_80: that arch and later; sm_90a: that arch alone; absent: all."},
    [KERNEL_SRC] = {"src", FORM_ONE, KIND_PATH, OPTIONAL, NULL, NULL,
        "Its source; absent: kernels/<op or family>/<op or family>[_<arch>]<suffix>."},
    [KERNEL_WORKSPACE] = {"workspace", FORM_ONE, KIND_EXPR, OPTIONAL, NULL, NULL,
        "Bytes of scratch memory that it needs."},
    [KERNEL_LIBS] = {"libs", FORM_LIST, KIND_NAME, OPTIONAL, NULL, NULL,
        "Libraries that it opens at first use, and that may be absent."},
    [KERNEL_DETERMINISM] = {"determinism", FORM_ONE, KIND_WORD, OPTIONAL, NULL, determinism_words,
        "bitwise (the default): the same bits at every run; run: not."},
    [KERNEL_TOLERANCE] = {"tolerance", FORM_MAP, KIND_NUMBERS, OPTIONAL, NULL, NULL,
        "[rtol, atol] by dtype, where the dtype's own do not do."},
};

static const field cost_items[] = {
    [COST_FLOPS] = {"flops", FORM_ONE, KIND_EXPR, OPTIONAL, NULL, NULL,
        "Floating-point operations."},
    [COST_BYTES] = {"bytes", FORM_ONE, KIND_EXPR, OPTIONAL, NULL, NULL,
        "Bytes moved, where that is not what the tensors weigh."},
};

static const field test_items[] = {
    [TEST_ACCEPT] = {"accept", FORM_LIST, KIND_CASE, OPTIONAL, NULL, NULL,
        "Further calls to accept, as shapes and attributes."},
    [TEST_REJECT] = {"reject", FORM_LIST, KIND_CASE, OPTIONAL, NULL, NULL,
        "Further calls to refuse."},
    [TEST_TOLERANCE] = {"tolerance", FORM_MAP, KIND_NUMBERS, OPTIONAL, NULL, NULL,
        "[rtol, atol] by dtype, where the dtype's own do not do."},
};

const fields table_fields = {"table", table_items, TABLE_COUNT};
const fields backend_fields = {"backend", backend_items, BACKEND_COUNT};
const fields row_fields = {"row", row_items, ROW_COUNT};
const fields member_fields = {"member", row_items + MEMBER_FIRST, ROW_COUNT - MEMBER_FIRST};
const fields arg_fields = {"arg", arg_items, ARG_COUNT};
const fields out_fields = {"out", out_items, OUT_COUNT};
const fields kernel_fields = {"kernel", kernel_items, KERNEL_COUNT};
const fields cost_fields = {"cost", cost_items, COST_COUNT};
const fields test_fields = {"test", test_items, TEST_COUNT};
/* clang-format on */

/* ---- reading --------------------------------------------------------------------------------- */

static bool
value_wrong(faults *f, context of, const node *n, const char *what, const char *wanted)
{
    if (n->kind == NODE_BAD) {
        return false;
    }
    if (node_is_null(n)) {
        return fault(f, "empty-value", n->where, of, "`%s` has no value", what);
    }
    return fault(
        f, "wrong-kind", n->where, of, "`%s` must be %s, this is %s", what, wanted,
        node_describe(n));
}

static bool
texts_check(faults *f, context of, const node *list, const char *what, bool numbers)
{
    if (list->items.count == 0) {
        return fault(f, "empty-list", list->where, of, "`%s` is empty", what);
    }
    bool fine = true;
    for (int i = 0; i < list->items.count; i++) {
        fine &= scalar_text(f, of, list->items.items[i], what, numbers);
    }
    return fine;
}

/* Text, or a list of texts. */
static bool
one_or_more_check(faults *f, context of, const node *n, const char *what)
{
    if (n->kind == NODE_LIST) {
        return texts_check(f, of, n, what, true);
    }
    return n->kind == NODE_MAP ? value_wrong(f, of, n, what, "a name or a list of names")
                               : scalar_text(f, of, n, what, true);
}

static bool
word_check(faults *f, context of, const node *n, const char *what, const char *const *words)
{
    if (!scalar_text(f, of, n, what, true)) {
        return false;
    }
    int count = 0;
    for (; words[count]; count++) {
        if (strcmp(words[count], n->text) == 0) {
            return true;
        }
    }
    fault(f, "unknown-word", n->where, of, "`%s` cannot be `%s`", what, n->text);
    fault_suggest(f, n->text, words, count);
    return false;
}

static bool
map_check(faults *f, context of, const node *n, const char *what)
{
    if (n->kind != NODE_MAP) {
        return value_wrong(f, of, n, what, "a map");
    }
    if (n->pairs.count == 0) {
        return fault(f, "empty-map", n->where, of, "`%s` is empty", what);
    }
    bool fine = true;
    for (int i = 0; i < n->pairs.count; i++) {
        fine &= scalar_key(f, of, &n->pairs.items[i]);
    }
    return fine;
}

static bool
layouts_check(faults *f, context of, const node *n, const char *what)
{
    if (n->kind != NODE_MAP) {
        return one_or_more_check(f, of, n, what);
    }
    bool fine = map_check(f, of, n, what);
    for (int i = 0; i < n->pairs.count; i++) {
        fine &= one_or_more_check(f, of, n->pairs.items[i].value, what);
    }
    return fine;
}

static bool
class_check(faults *f, context of, const node *n, const char *what)
{
    if (n->kind == NODE_LIST) {
        return texts_check(f, of, n, what, true);
    }
    bool fine = n->kind == NODE_MAP ? map_check(f, of, n, what)
                                    : value_wrong(f, of, n, what, "a list or a map of dtypes");
    for (int i = 0; i < n->pairs.count; i++) {
        fine &= scalar_text(f, of, n->pairs.items[i].value, what, true);
    }
    return fine;
}

/* What can be said of one value without knowing the rest of the table. */
static bool
value_check(faults *f, context of, const field *d, const node *n, const char *what)
{
    bool flag;
    int64_t integer;
    switch (d->kind) {
    case KIND_TEXT:
    case KIND_NAME:
    case KIND_DTYPE:
    case KIND_CALL:
    case KIND_GRAD:
    case KIND_CASE:
    case KIND_PATH: return scalar_text(f, of, n, what, true);
    case KIND_EXPR:
    case KIND_SHAPE: return scalar_text(f, of, n, what, false);
    case KIND_WORD: return word_check(f, of, n, what, d->words);
    case KIND_BOOL: return scalar_bool(f, of, n, what, &flag);
    case KIND_INT: return scalar_int(f, of, n, what, 0, INT32_MAX, &integer);
    case KIND_LITERAL:
        return n->kind == NODE_MAP || n->kind == NODE_BAD || node_is_null(n)
                   ? value_wrong(f, of, n, what, "a number, a word or a list")
                   : true;
    case KIND_DTYPES:
    case KIND_LAYOUT: return one_or_more_check(f, of, n, what);
    case KIND_LAYOUTS: return layouts_check(f, of, n, what);
    case KIND_CLASS: return class_check(f, of, n, what);
    case KIND_NAMES:
        return n->kind == NODE_LIST ? texts_check(f, of, n, what, true)
                                    : value_wrong(f, of, n, what, "a list of names");
    case KIND_NUMBERS:
        return n->kind == NODE_LIST ? true : value_wrong(f, of, n, what, "[rtol, atol]");
    case KIND_FIELDS:
        if (d->form == FORM_ONE && n->kind == NODE_MAP && n->pairs.count == 0) {
            return fault(f, "empty-map", n->where, of, "`%s` is empty", what);
        }
        return n->kind == NODE_MAP ? true : value_wrong(f, of, n, what, "a map");
    }
    die("a field of kind %d", d->kind);
}

static bool
list_check(faults *f, context of, const field *d, const node *n, const char *what)
{
    if (n->kind != NODE_LIST) {
        return value_wrong(f, of, n, what, "a list");
    }
    if (n->items.count == 0 && d->form == FORM_SOME) {
        return fault(f, "empty-list", n->where, of, "`%s` is empty", what);
    }
    bool fine = true;
    for (int i = 0; i < n->items.count; i++) {
        fine &= value_check(f, of, d, n->items.items[i], what);
    }
    return fine;
}

static bool
form_check(faults *f, context of, const field *d, const node *n)
{
    const char *what = d->key;
    if (d->form == FORM_ONE) {
        return value_check(f, of, d, n, what);
    }
    if (d->form != FORM_MAP) {
        return list_check(f, of, d, n, what);
    }
    bool fine = map_check(f, of, n, what);
    for (int i = 0; n->kind == NODE_MAP && i < n->pairs.count; i++) {
        const pair *p = &n->pairs.items[i];
        fine &= value_check(f, of, d, p->value, p->key);
    }
    return fine;
}

static int
field_find(const fields *set, const char *key)
{
    for (int i = 0; i < set->count; i++) {
        if (text_same(set->items[i].key, key)) {
            return i;
        }
    }
    return -1;
}

static const char *
article(const fields *set)
{
    return strchr("aeiou", *set->name) ? "an" : "a";
}

static void
unknown_key(faults *f, context of, const fields *set, const pair *p)
{
    const char *known[FIELDS_MOST];
    for (int i = 0; i < set->count; i++) {
        known[i] = set->items[i].key;
    }
    fault(f, "unknown-key", p->where, of, "%s %s has no key `%s`", article(set), set->name, p->key);
    fault_suggest(f, p->key, known, set->count);
}

bool
fields_read(faults *f, context of, const node *map, const fields *set, bool partial, node **got)
{
    bool fine = true, seen[FIELDS_MOST] = {false};
    memset(got, 0, (size_t)set->count * sizeof *got);
    for (int i = 0; i < map->pairs.count; i++) {
        const pair *p = &map->pairs.items[i];
        int found = field_find(set, p->key);
        if (found < 0) {
            unknown_key(f, of, set, p);
            map->pairs.items[i].field = -1;
            fine = false;
        } else {
            seen[found] = true;
            bool good = form_check(f, of, &set->items[found], p->value);
            got[found] = good ? p->value : NULL;
            map->pairs.items[i].field = found;
            fine &= good;
        }
    }
    for (int i = 0; i < set->count; i++) {
        if (set->items[i].required && !seen[i] && !partial) {
            fine = fault(
                f, "missing-key", map->where, of, "%s %s needs the key `%s`", article(set),
                set->name, set->items[i].key);
        }
    }
    return fine;
}
