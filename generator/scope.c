#include "scope.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

NUMBER_FIELD(index_text, c->index)

const char *
field_index(const cursor *c, buffer *scratch)
{
    return index_text(c, scratch);
}

bool
field_first(const cursor *c)
{
    return c->first;
}

/* ---- texts that several things give --------------------------------------------------------- */

const char *
scope_c_expr(const cursor *c, const expr *e, buffer *scratch)
{
    if (!e) {
        return NULL;
    }
    expr_emit_c(scratch, c->op, e);
    return buffer_text(scratch);
}

const char *
scope_python_expr(const cursor *c, const expr *e, buffer *scratch)
{
    if (!e) {
        return NULL;
    }
    expr_emit_python(scratch, c->op, e);
    return buffer_text(scratch);
}

const char *
scope_text_expr(const expr *e, buffer *scratch)
{
    if (!e) {
        return NULL;
    }
    expr_emit_text(scratch, e);
    return buffer_text(scratch);
}

/* Numbers of things are small: most are not printed at each use. */
const char *
scope_integer(int value, buffer *scratch)
{
    static const char *const small[] = {"-1", "0", "1", "2", "3", "4", "5", "6", "7", "8"};
    if (value >= -1 && value <= 8) {
        return small[value + 1];
    }
    buffer_print(scratch, "%d", value);
    return buffer_text(scratch);
}

const char *
scope_bits(uint64_t bits, buffer *scratch)
{
    buffer_print(scratch, "0x%" PRIx64, bits);
    return buffer_text(scratch);
}

const char *
scope_c_integer(int64_t value, buffer *scratch)
{
    if (value == INT64_MIN) {
        return "INT64_MIN";
    }
    bool wide = value > INT32_MAX || value < INT32_MIN;
    buffer_print(scratch, wide ? "INT64_C(%" PRId64 ")" : "%" PRId64, value);
    return buffer_text(scratch);
}

/* The shortest decimal that reads back as the same double, and is a float to C and Python. */
const char *
scope_real(double value, buffer *scratch)
{
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    buffer_puts(scratch, digits);
    if (!strpbrk(digits, ".en")) {
        buffer_puts(scratch, ".0");
    }
    return buffer_text(scratch);
}

/* ---- words, numbers ------------------------------------------------------------------------- */

TEXT_FIELD(word_text, (const char *)c->thing)

static const field word_fields[] = {
    FIELDS_COMMON,
    TEXT("text", word_text),
    NAME("name", word_text),
    FIELDS_END,
};
const thing thing_word = {"word", word_fields};

NUMBER_FIELD(number_value, *(const int *)c->thing)

static const field number_fields[] = {
    FIELDS_COMMON,
    NUMBER("value", number_value),
    FIELDS_END,
};
const thing thing_number = {"number", number_fields};

/* ---- devices and backends ------------------------------------------------------------------- */

#define DEVICE ((const device_type *)c->thing)
TEXT_FIELD(device_name, DEVICE->name)
NUMBER_FIELD(device_number, DEVICE->number)

static const field device_fields[] = {
    FIELDS_COMMON,
    NAME("name", device_name),
    NUMBER("number", device_number),
    FIELDS_END,
};
const thing thing_device = {"device", device_fields};

#define BACKEND ((const backend *)c->thing)
TEXT_FIELD(backend_name, BACKEND->name)
TEXT_FIELD(backend_suffix, BACKEND->suffix)
LIST_FIELD(backend_devices, BACKEND->devices.items, BACKEND->devices.count)

static const part *
part_of(const cursor *c)
{
    for (int i = 0; c->plan && i < c->plan->parts.count; i++) {
        if (&c->table->backends.items[c->plan->parts.items[i].backend] == BACKEND) {
            return &c->plan->parts.items[i];
        }
    }
    return NULL;
}

static int
backend_kernels(const cursor *c, int at, cursor *element)
{
    const part *p = part_of(c);
    if (!p || p->first + at >= p->end) {
        return -1;
    }
    element->kernel = c->plan->kernels[p->first + at];
    element->thing = element->kernel;
    element->index = p->first + at;
    return at + 1;
}

/* Dtypes of which some variant of the op reaches a kernel of the backend: its coverage. */
static int
backend_variants(const cursor *c, int at, cursor *element)
{
    const part *p = part_of(c);
    for (; p && at < c->op->variants.count; at++) {
        for (int k = p->first; k < p->end; k++) {
            if (c->plan->kernels[k]->variants[at]) {
                element->variant = &c->op->variants.items[at];
                element->thing = element->variant;
                element->index = at;
                return at + 1;
            }
        }
    }
    return -1;
}

NUMBER_FIELD(backend_first, part_of(c)->first)
NUMBER_FIELD(backend_end, part_of(c)->end)

static int
backend_without(const cursor *c, int at, cursor *element)
{
    for (; at < DTYPE_COUNT; at++) {
        if (BACKEND->without[at]) {
            element->thing = dtypes_of[at].name;
            return at + 1;
        }
    }
    return -1;
}

static const field backend_fields[] = {
    FIELDS_COMMON,
    NAME("name", backend_name),
    TEXT("suffix", backend_suffix),
    NUMBER("kernels_first", backend_first),
    NUMBER("kernels_end", backend_end),
    EACH("devices", backend_devices, thing_device),
    EACH("kernels", backend_kernels, thing_kernel),
    EACH("variants", backend_variants, thing_variant),
    EACH("without", backend_without, thing_word),
    FIELDS_END,
};
const thing thing_backend = {"backend", backend_fields};

/* ---- the table ------------------------------------------------------------------------------ */

TEXT_FIELD(table_package, c->table->package)
TEXT_FIELD(table_namespace, c->table->symbol)
TEXT_FIELD(table_hash, c->table->hash)
LIST_FIELD(table_backends, c->table->backends.items, c->table->backends.count)

static int
table_ops(const cursor *c, int at, cursor *element)
{
    if (at >= c->table->ops.count) {
        return -1;
    }
    element->op = &c->table->ops.items[at];
    element->plan = c->plans[at];
    element->thing = element->op;
    element->index = at;
    return at + 1;
}

static int
table_with_grad(const cursor *c, int at, cursor *element)
{
    for (; at < c->table->ops.count; at++) {
        if (c->table->ops.items[at].has_grad) {
            return table_ops(c, at, element);
        }
    }
    return -1;
}

static const field table_fields[] = {
    NAME("package", table_package),
    NAME("namespace", table_namespace),
    NAME("hash", table_hash),
    EACH("backends", table_backends, thing_backend),
    EACH("ops", table_ops, thing_op),
    EACH("with_grad", table_with_grad, thing_op),
    FIELDS_END,
};
const thing thing_table = {"table", table_fields};
