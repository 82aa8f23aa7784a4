#include <inttypes.h>
#include <string.h>

#include "scope.h"

/* ---- attributes and scalars ----------------------------------------------------------------- */

#define ATTR ((const attr *)c->thing)

static const char *
attr_kind_name(const cursor *c, buffer *scratch)
{
    static const char *const kinds[] = {"BOOL", "INT",  "FLOAT", "ENUM",
                                        "INTS", "AXIS", "AXES",  "SCALAR"};
    (void)scratch;
    return kinds[ATTR->kind];
}

static const char *
enum_type(const cursor *c, buffer *scratch)
{
    buffer_print(scratch, "%s_%s_%s", c->table->symbol, c->op->name, ATTR->name);
    return buffer_text(scratch);
}

/* What stands before its name where it is a member of the call, or a parameter of a launcher. */
static const char *
attr_c_member(const cursor *c, buffer *scratch)
{
    static const char *const types[] = {"bool",    "int64_t", "double",    NULL,
                                        "int64_t", "int64_t", "aicf_ints", "aicf_scalar"};
    const char *type = types[ATTR->kind];
    return type ? type : enum_type(c, scratch);
}

static const char *
attr_c_argument(const cursor *c, buffer *scratch)
{
    static const char *const types[] = {
        "bool ",          "int64_t ", "double ",           NULL,
        "const int64_t ", "int64_t ", "const aicf_ints *", "const aicf_scalar *",
    };
    const char *type = types[ATTR->kind];
    if (!type) {
        enum_type(c, scratch);
        buffer_putc(scratch, ' ');
        type = buffer_text(scratch);
    }
    return type;
}

static bool
is_integer_scalar(const cursor *c)
{
    return ATTR->kind == ATTR_SCALAR && !ATTR->real;
}

static const char *
attr_python_type(const cursor *c, buffer *scratch)
{
    switch (ATTR->kind) {
    case ATTR_BOOL: return "bool";
    case ATTR_INT:
    case ATTR_AXIS: return "int";
    case ATTR_FLOAT: return "float";
    case ATTR_INTS: return "int | Sequence[int]";
    case ATTR_AXES: return ATTR->all ? "int | Sequence[int] | None" : "int | Sequence[int]";
    case ATTR_SCALAR: return is_integer_scalar(c) ? "int | TensorLike" : "float | TensorLike";
    case ATTR_ENUM: break;
    }
    buffer_puts(scratch, "Literal[");
    for (int i = 0; i < ATTR->values.count; i++) {
        buffer_print(scratch, "%s\"%s\"", i ? ", " : "", ATTR->values.items[i]);
    }
    buffer_putc(scratch, ']');
    return buffer_text(scratch);
}

static const char *
attr_bound(const cursor *c, buffer *scratch, int64_t integer, double real)
{
    return ATTR->real ? scope_real(real, scratch) : scope_c_integer(integer, scratch);
}

static const char *
attr_least(const cursor *c, buffer *scratch)
{
    return attr_bound(c, scratch, ATTR->min_integer, ATTR->min_real);
}

static const char *
attr_most(const cursor *c, buffer *scratch)
{
    return attr_bound(c, scratch, ATTR->max_integer, ATTR->max_real);
}

static const char *
attr_bound_text(const cursor *c, buffer *scratch, int64_t integer, double real)
{
    if (ATTR->real) {
        return scope_real(real, scratch);
    }
    buffer_print(scratch, "%" PRId64, integer);
    return buffer_text(scratch);
}

static const char *
attr_min(const cursor *c, buffer *scratch)
{
    return attr_bound_text(c, scratch, ATTR->min_integer, ATTR->min_real);
}

static const char *
attr_max(const cursor *c, buffer *scratch)
{
    return attr_bound_text(c, scratch, ATTR->max_integer, ATTR->max_real);
}

TEXT_FIELD(attr_name, ATTR->name)
TEXT_FIELD(attr_default, ATTR->has_default ? ATTR->default_text : NULL)
TEXT_FIELD(
    attr_of_name, (ATTR->kind == ATTR_AXIS || ATTR->kind == ATTR_AXES) && ATTR->of >= 0
                      ? c->op->params.items[ATTR->of].name
                      : NULL)
TEXT_FIELD(attr_union, ATTR->real ? "real" : "integer")
NUMBER_FIELD(attr_size, ATTR->size)
NUMBER_FIELD(
    attr_of,
    ATTR->kind == ATTR_AXIS || ATTR->kind == ATTR_AXES || ATTR->kind == ATTR_SCALAR ? ATTR->of : -1)
FLAG_FIELD(attr_required, !ATTR->has_default)
FLAG_FIELD(attr_has_min, ATTR->has_min)
FLAG_FIELD(attr_has_max, ATTR->has_max)
FLAG_FIELD(attr_is_ints, ATTR->kind == ATTR_INTS)
FLAG_FIELD(attr_is_scalar, ATTR->kind == ATTR_SCALAR)
FLAG_FIELD(attr_by_address, ATTR->kind == ATTR_AXES || ATTR->kind == ATTR_SCALAR)

static int
attr_values(const cursor *c, int at, cursor *element)
{
    if (at >= ATTR->values.count) {
        return -1;
    }
    element->thing = ATTR->values.items[at];
    return at + 1;
}

/* ---- defaults ------------------------------------------------------------------------------- */

/* How many assignments set the default. */
static int
assign_count(const attr *a)
{
    if (!a->has_default) {
        return 0;
    }
    switch (a->kind) {
    case ATTR_BOOL:
    case ATTR_INT:
    case ATTR_FLOAT:
    case ATTR_ENUM:
    case ATTR_AXIS:
    case ATTR_SCALAR: return 1;
    case ATTR_INTS: return a->size;
    case ATTR_AXES: return a->all ? 1 : 1 + a->default_ints.count;
    }
    return 0;
}

static int
attr_assigns(const cursor *c, int at, cursor *element)
{
    element->index = at;
    return at < assign_count(ATTR) ? at + 1 : -1;
}

/* The member, as `pad[0]`, `axes.count`, `lr.host.real`. */
static const char *
assign_target(const cursor *c, buffer *scratch)
{
    buffer_puts(scratch, ATTR->name);
    if (ATTR->kind == ATTR_INTS) {
        buffer_print(scratch, "[%d]", c->index);
    } else if (ATTR->kind == ATTR_AXES && c->index == 0) {
        buffer_puts(scratch, ".count");
    } else if (ATTR->kind == ATTR_AXES) {
        buffer_print(scratch, ".values[%d]", c->index - 1);
    } else if (ATTR->kind == ATTR_SCALAR) {
        buffer_print(scratch, ".host.%s", ATTR->real ? "real" : "integer");
    }
    return buffer_text(scratch);
}

static const char *
enumerator(const cursor *c, buffer *scratch)
{
    const char *const parts[] = {
        c->table->symbol, c->op->name, ATTR->name, ATTR->values.items[ATTR->default_integer]};
    for (int i = 0; i < 4; i++) {
        buffer_print(scratch, "%s%s", i ? "_" : "", parts[i]);
    }
    for (size_t i = 0; i < scratch->size; i++) {
        char *letter = &scratch->data[i];
        *letter = *letter >= 'a' && *letter <= 'z' ? (char)(*letter - 'a' + 'A') : *letter;
    }
    return buffer_text(scratch);
}

static const char *
assign_value(const cursor *c, buffer *scratch)
{
    switch (ATTR->kind) {
    case ATTR_BOOL: return ATTR->default_integer ? "true" : "false";
    case ATTR_ENUM: return enumerator(c, scratch);
    case ATTR_INTS: return scope_c_integer(ATTR->default_ints.items[c->index], scratch);
    case ATTR_AXES:
        return scope_c_integer(
            ATTR->all       ? -1
            : c->index == 0 ? ATTR->default_ints.count
                            : ATTR->default_ints.items[c->index - 1],
            scratch);
    case ATTR_INT:
    case ATTR_FLOAT:
    case ATTR_AXIS:
    case ATTR_SCALAR: break;
    }
    return ATTR->real ? scope_real(ATTR->default_real, scratch)
                      : scope_c_integer(ATTR->default_integer, scratch);
}

static const field assign_fields[] = {
    FIELDS_COMMON,
    CODE("target", assign_target),
    CODE("value", assign_value),
    FIELDS_END,
};
const thing thing_assign = {"assignment", assign_fields};

static const field attr_fields[] = {
    FIELDS_COMMON,
    NAME("name", attr_name),
    NAME("kind", attr_kind_name),
    NUMBER("size", attr_size),
    NUMBER("of", attr_of),
    NAME("of_name", attr_of_name),
    CODE("c_member", attr_c_member),
    CODE("c_argument", attr_c_argument),
    CODE("least", attr_least),
    CODE("most", attr_most),
    NUMBER("min", attr_min),
    NUMBER("max", attr_max),
    NAME("union", attr_union),
    PYTHON("python_type", attr_python_type),
    PYTHON("default", attr_default),
    FLAG("required", attr_required),
    FLAG("has_min", attr_has_min),
    FLAG("has_max", attr_has_max),
    FLAG("is_ints", attr_is_ints),
    FLAG("is_scalar", attr_is_scalar),
    FLAG("by_address", attr_by_address),
    EACH("values", attr_values, thing_word),
    EACH("assigns", attr_assigns, thing_assign),
    FIELDS_END,
};
const thing thing_attr = {"attribute", attr_fields};
