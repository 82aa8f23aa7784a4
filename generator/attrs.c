/* Attributes and scalars: kinds, bounds, defaults. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"

enum { INTS_MOST = 16, VALUES_MOST = 256 };

#define FAULTS(r) ((r)->checker->faults)

/* ---- which keys a kind has ------------------------------------------------------------------- */

enum { HAS_SIZE = 1, HAS_VALUES = 2, HAS_OF = 4, HAS_BOUNDS = 8 };

static const unsigned char kind_keys[] = {
    [ATTR_BOOL] = 0,
    [ATTR_INT] = HAS_BOUNDS,
    [ATTR_FLOAT] = HAS_BOUNDS,
    [ATTR_ENUM] = HAS_VALUES,
    [ATTR_INTS] = HAS_SIZE | HAS_BOUNDS,
    [ATTR_AXIS] = HAS_OF,
    [ATTR_AXES] = HAS_OF,
    [ATTR_SCALAR] = HAS_BOUNDS,
};

static bool
key_fits(row_check *r, const source *s, int key, bool has, bool required)
{
    const node *n = s->fields[key];
    const char *kind = s->fields[ARG_ATTR]->text, *name = arg_fields.items[key].key;
    if (n && !has) {
        return fault(
            FAULTS(r), "key-misfit", n->where, s->of, "an attribute of kind %s has no `%s`", kind,
            name);
    }
    if (!n && has && required) {
        return fault(
            FAULTS(r), "missing-key", s->where, s->of, "an attribute of kind %s needs the key `%s`",
            kind, name);
    }
    return true;
}

static bool
keys_check(row_check *r, const source *s, attr_kind kind)
{
    unsigned keys = kind_keys[kind];
    bool fine = key_fits(r, s, ARG_SIZE, keys & HAS_SIZE, true);
    fine &= key_fits(r, s, ARG_VALUES, keys & HAS_VALUES, true);
    fine &= key_fits(r, s, ARG_OF, keys & HAS_OF, true);
    fine &= key_fits(r, s, ARG_MIN, keys & HAS_BOUNDS, false);
    fine &= key_fits(r, s, ARG_MAX, keys & HAS_BOUNDS, false);
    return fine;
}

/* ---- numbers as Python writes them ----------------------------------------------------------- */

/* The shortest text that reads back as the same double, with a point or exponent. */
static const char *
real_text(arena *a, double value)
{
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    if (strpbrk(digits, "e")) {
        double size = fabs(value);
        if (size >= 1e-4 && size < 1e16) { /* as repr() does: no exponent within these */
            snprintf(digits, sizeof digits, "%.0f", value);
        }
    }
    return arena_print(a, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
}

static const char *
ints_text(arena *a, const int64_t *values, int count)
{
    const char *digits = "";
    for (int i = 0; i < count; i++) {
        digits = arena_print(a, "%s%s%lld", digits, i ? ", " : "", (long long)values[i]);
    }
    return arena_print(a, "(%s%s)", digits, count == 1 ? "," : "");
}

/* ---- bounds and defaults --------------------------------------------------------------------- */

static bool
bound_read(
    row_check *r, const source *s, int key, const attr *out, bool *has, int64_t *integer,
    double *real)
{
    const node *n = s->fields[key];
    const char *what = arg_fields.items[key].key;
    if (!n) {
        return true;
    }
    *has = true;
    if (out->real) {
        return scalar_real(FAULTS(r), s->of, n, what, real);
    }
    bool fine = scalar_int(FAULTS(r), s->of, n, what, INT64_MIN, INT64_MAX, integer);
    *real = (double)*integer;
    return fine;
}

static bool
bounds_read(row_check *r, const source *s, attr *out)
{
    bool fine = bound_read(r, s, ARG_MIN, out, &out->has_min, &out->min_integer, &out->min_real);
    fine &= bound_read(r, s, ARG_MAX, out, &out->has_max, &out->max_integer, &out->max_real);
    bool crossed = out->real ? out->min_real > out->max_real : out->min_integer > out->max_integer;
    if (fine && out->has_min && out->has_max && crossed) {
        return fault(
            FAULTS(r), "bounds-crossed", s->fields[ARG_MIN]->where, s->of, "`min` is above `max`");
    }
    return fine;
}

static bool
default_outside(row_check *r, const source *s, const node *n, const char *what)
{
    return fault(FAULTS(r), "default-range", n->where, s->of, "the default %s", what);
}

static bool
integer_within(row_check *r, const source *s, const node *n, const attr *out, int64_t value)
{
    if (out->has_min && value < out->min_integer) {
        return default_outside(r, s, n, "is below `min`");
    }
    if (out->has_max && value > out->max_integer) {
        return default_outside(r, s, n, "is above `max`");
    }
    return true;
}

static bool
real_within(row_check *r, const source *s, const node *n, const attr *out, double value)
{
    if (out->has_min && value < out->min_real) {
        return default_outside(r, s, n, "is below `min`");
    }
    if (out->has_max && value > out->max_real) {
        return default_outside(r, s, n, "is above `max`");
    }
    return true;
}

static bool
default_int(row_check *r, const source *s, const node *n, int64_t *value)
{
    return scalar_int(FAULTS(r), s->of, n, "default", INT64_MIN, INT64_MAX, value);
}

static bool
default_bool_read(row_check *r, const source *s, const node *n, attr *out)
{
    bool value = false;
    if (!scalar_bool(FAULTS(r), s->of, n, "default", &value)) {
        return false;
    }
    out->default_integer = value;
    out->default_text = value ? "True" : "False";
    return true;
}

static bool
default_number_read(row_check *r, const source *s, const node *n, attr *out)
{
    arena *a = r->checker->memory;
    if (out->real) {
        bool fine = scalar_real(FAULTS(r), s->of, n, "default", &out->default_real);
        out->default_text = real_text(a, out->default_real);
        return fine && real_within(r, s, n, out, out->default_real);
    }
    bool fine = default_int(r, s, n, &out->default_integer);
    out->default_real = (double)out->default_integer;
    out->default_text = arena_print(a, "%lld", (long long)out->default_integer);
    return fine && integer_within(r, s, n, out, out->default_integer);
}

static bool
default_enum_read(row_check *r, const source *s, const node *n, attr *out)
{
    if (!scalar_text(FAULTS(r), s->of, n, "default", true)) {
        return false;
    }
    for (int i = 0; i < out->values.count; i++) {
        if (strcmp(out->values.items[i], n->text) == 0) {
            out->default_integer = i;
            out->default_text = arena_print(r->checker->memory, "'%s'", n->text);
            return true;
        }
    }
    fault(
        FAULTS(r), "unknown-word", n->where, s->of, "`default` is none of `values`: `%s`", n->text);
    fault_suggest(FAULTS(r), n->text, out->values.items, out->values.count);
    return false;
}

static bool
default_list_read(row_check *r, const source *s, const node *n, attr *out)
{
    bool fine = true;
    for (int i = 0; i < n->items.count; i++) {
        int64_t value = 0;
        fine &= default_int(r, s, n->items.items[i], &value) &&
                integer_within(r, s, n->items.items[i], out, value);
        for (int j = 0; fine && out->kind == ATTR_AXES && j < out->default_ints.count; j++) {
            if (out->default_ints.items[j] == value) {
                fine = fault(
                    FAULTS(r), "duplicate-axis", n->items.items[i]->where, s->of,
                    "axis %lld is named twice", (long long)value);
            }
        }
        *list_push(r->checker->memory, &out->default_ints) = value;
    }
    out->default_text =
        ints_text(r->checker->memory, out->default_ints.items, out->default_ints.count);
    return fine;
}

static bool
default_ints_read(row_check *r, const source *s, const node *n, attr *out)
{
    if (n->kind == NODE_LIST && n->items.count != out->size) {
        return fault(
            FAULTS(r), "default-size", n->where, s->of, "the default has %d numbers, `size` is %d",
            n->items.count, out->size);
    }
    if (n->kind == NODE_LIST) {
        return default_list_read(r, s, n, out);
    }
    int64_t value = 0;
    bool fine = default_int(r, s, n, &value) && integer_within(r, s, n, out, value);
    for (int i = 0; i < out->size; i++) {
        *list_push(r->checker->memory, &out->default_ints) = value;
    }
    out->default_text = arena_print(r->checker->memory, "%lld", (long long)value);
    return fine;
}

static bool
default_axes_read(row_check *r, const source *s, const node *n, attr *out)
{
    if (n->kind == NODE_LIST) {
        return default_list_read(r, s, n, out);
    }
    out->all = strcmp(n->text, "all") == 0;
    if (!out->all) {
        int64_t value = 0;
        bool fine = default_int(r, s, n, &value);
        *list_push(r->checker->memory, &out->default_ints) = value;
        out->default_text = arena_print(r->checker->memory, "%lld", (long long)value);
        return fine;
    }
    out->default_text = "None";
    return true;
}

typedef bool default_reader(row_check *r, const source *s, const node *n, attr *out);

static bool
default_read(row_check *r, const source *s, attr *out)
{
    static default_reader *const readers[] = {
        [ATTR_BOOL] = default_bool_read,    [ATTR_INT] = default_number_read,
        [ATTR_FLOAT] = default_number_read, [ATTR_ENUM] = default_enum_read,
        [ATTR_INTS] = default_ints_read,    [ATTR_AXIS] = default_number_read,
        [ATTR_AXES] = default_axes_read,    [ATTR_SCALAR] = default_number_read,
    };
    const node *n = s->fields[ARG_DEFAULT];
    if (!n) {
        return true;
    }
    out->has_default = true;
    bool lists = out->kind == ATTR_INTS || out->kind == ATTR_AXES;
    if (n->kind == NODE_LIST && !lists) {
        return fault(
            FAULTS(r), "wrong-kind", n->where, s->of,
            "`default` must be one value, this is a list");
    }
    return readers[out->kind](r, s, n, out);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool
values_read(row_check *r, const source *s, attr *out)
{
    const node *list = s->fields[ARG_VALUES];
    bool fine = true;
    for (int i = 0; i < list->items.count; i++) {
        const node *word = list->items.items[i];
        fine &= name_check(FAULTS(r), s->of, word->where, word->text, NAME_WORD);
        for (int j = 0; j < i; j++) {
            if (strcmp(list->items.items[j]->text, word->text) == 0) {
                fine = fault(
                    FAULTS(r), "duplicate-word", word->where, s->of, "`%s` is here a second time",
                    word->text);
                fault_also(FAULTS(r), list->items.items[j]->where, "the first one is here");
                break;
            }
        }
        *list_push(r->checker->memory, &out->values) = word->text;
    }
    if (list->items.count > VALUES_MOST) {
        return fault(
            FAULTS(r), "too-many-words", list->where, s->of, "an enum has at most %d values",
            VALUES_MOST);
    }
    return fine;
}

static bool
size_read(row_check *r, const source *s, attr *out)
{
    int64_t size = 0;
    bool fine = scalar_int(FAULTS(r), s->of, s->fields[ARG_SIZE], "size", 1, INTS_MOST, &size);
    out->size = (int)size;
    return fine;
}

static attr_kind
kind_find(const char *word)
{
    int i = 0;
    while (strcmp(attr_kind_words[i], word) != 0) {
        i++;
    }
    return (attr_kind)i;
}

bool
attr_read(row_check *r, source *s, attr *out)
{
    out->kind = kind_find(s->fields[ARG_ATTR]->text);
    out->real = out->kind == ATTR_FLOAT;
    bool fine = keys_check(r, s, out->kind);
    if (!fine) {
        return false;
    }
    if (out->kind == ATTR_ENUM) {
        fine &= values_read(r, s, out);
    }
    if (out->kind == ATTR_INTS) {
        fine &= size_read(r, s, out);
    }
    fine = fine && bounds_read(r, s, out);
    return fine && default_read(r, s, out);
}

bool
attr_of_resolve(row_check *r, const source *s, attr *out)
{
    const node *n = s->fields[ARG_OF];
    if (!n) {
        return true;
    }
    int found = param_find(r->op, n->text);
    if (found >= 0 && found < r->op->inputs) {
        out->of = found;
        return true;
    }
    LIST(const char *) known = {0};
    for (int i = 0; i < r->op->inputs; i++) {
        *list_push(r->checker->memory, &known) = r->op->params.items[i].name;
    }
    fault(FAULTS(r), "unknown-arg", n->where, s->of, "`%s` is no tensor argument", n->text);
    fault_suggest(FAULTS(r), n->text, known.items, known.count);
    return false;
}

/* ---- scalars --------------------------------------------------------------------------------- */

/* The largest finite value of a float dtype. */
static double
float_most(dtype_id dtype)
{
    switch (dtype) {
    case DTYPE_F16: return 65504.0;
    case DTYPE_BF16: return 3.3895313892515355e38;
    case DTYPE_F32: return (double)FLT_MAX;
    default: return DBL_MAX;
    }
}

/* A bound or default must be one in every dtype that the scalar may have. */
static bool
scalar_value_fits(
    row_check *r, const source *s, int key, dtype_id dtype, int64_t integer, double real)
{
    const node *n = s->fields[key];
    const dtype_info *d = &dtypes_of[dtype];
    bool fits = true;
    if (!n) {
        return true;
    }
    if (d->is_float) {
        fits = fabs(real) <= float_most(dtype);
    } else if (!d->is_integer) {
        fits = integer == 0 || integer == 1;
    } else if (d->bits < 64) {
        bool is_signed = d->name[0] == 'i';
        int64_t most = (INT64_C(1) << (d->bits - is_signed)) - 1;
        fits = integer <= most && integer >= (is_signed ? -most - 1 : 0);
    }
    return fits || fault(
                       FAULTS(r), "scalar-range", n->where, s->of, "`%s` is no value of %s",
                       arg_fields.items[key].key, d->name);
}

static bool
scalar_fits(row_check *r, const source *s, const attr *a, dtype_id dtype)
{
    bool fine = scalar_value_fits(r, s, ARG_DEFAULT, dtype, a->default_integer, a->default_real);
    fine &= scalar_value_fits(r, s, ARG_MIN, dtype, a->min_integer, a->min_real);
    fine &= scalar_value_fits(r, s, ARG_MAX, dtype, a->max_integer, a->max_real);
    return fine;
}

/* Its bounds and default are reals only if it is a float in every variant: a whole number is a
   value of any dtype. */
bool
scalar_attr_read(row_check *r, const source *s, const param *p, attr *out)
{
    dtype_id may[DTYPE_COUNT], vars[DTYPE_COUNT];
    int count = 1;
    may[0] = p->dtype.fixed;
    if (p->dtype.kind != DTYPE_FIXED) {
        const typevar *v = &r->op->types.items[p->dtype.var];
        count = v->count;
        dtype_rule own = p->dtype;
        own.var = 0;
        for (int i = 0; i < count; i++) {
            vars[0] = v->values[i];
            may[i] = dtype_rule_apply(&own, vars);
        }
    }
    out->real = true;
    for (int i = 0; i < count; i++) {
        if (may[i] >= DTYPE_COUNT) {
            return false; /* undefined, for a faulty class of dtypes: that was said */
        }
        out->real &= dtypes_of[may[i]].is_float;
    }
    if (!bounds_read(r, s, out) || !default_read(r, s, out)) {
        return false;
    }
    bool fine = true;
    for (int i = 0; i < count && fine; i++) {
        fine &= scalar_fits(r, s, out, may[i]);
    }
    return fine;
}
