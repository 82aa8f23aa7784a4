/* The fields of the things that templates may speak of. One file a thing or two; all share these */
#ifndef OPGEN_SCOPE_H
#define OPGEN_SCOPE_H

#include "expression.h"
#include "value.h"

/* A small C function that an op needs for one of its expressions. */
typedef struct function {
    const char *name;
    const expr *e;
} function;

/* A file of kernels, compiled once an op and backend and arch. */
typedef struct source {
    const char *path, *arch;
    int backend;          /* into table->backends */
    const kernel *kernel; /* the first in it */
} source;

/* The kernels of one backend, which stand together in the op. */
typedef struct part {
    int backend;    /* into table->backends */
    int first, end; /* into plan->kernels */
} part;

struct plan {
    const char *symbol;     /* of the op in C, without what follows: "aicf_add" */
    const char **tails;     /* [variants]: "_f32"; empty where there is no suffix */
    const char **functions; /* [variants]: the Python function */
    const kernel **kernels; /* op->kernels, grouped by backend in the table's order */
    struct {
        const char *launcher, *launch; /* NULL where the kernel does not take the variant */
    } *launches;                       /* [op->kernels][variants] */
    LIST(part) parts;
    LIST(function) values, tests;
    LIST(source) sources;
    LIST(const char *) libs;
};

#define TEXT_FIELD(function, value)                               \
    static const char *function(const cursor *c, buffer *scratch) \
    {                                                             \
        (void)scratch;                                            \
        return value;                                             \
    }

#define FLAG_FIELD(function, value)       \
    static bool function(const cursor *c) \
    {                                     \
        return value;                     \
    }

/* A list that is an array of the model. */
#define LIST_FIELD(function, array, length)                       \
    static int function(const cursor *c, int at, cursor *element) \
    {                                                             \
        if (at >= (length)) {                                     \
            return -1;                                            \
        }                                                         \
        element->thing = &(array)[at];                            \
        element->index = at;                                      \
        return at + 1;                                            \
    }

/* Those elements of an array for which `wanted` holds, which may look at `e`. */
#define FILTER_FIELD(function, type, array, length, wanted)       \
    static int function(const cursor *c, int at, cursor *element) \
    {                                                             \
        for (; at < (length); at++) {                             \
            const type *e = &(array)[at];                         \
            if (wanted) {                                         \
                element->thing = e;                               \
                element->index = at;                              \
                return at + 1;                                    \
            }                                                     \
        }                                                         \
        return -1;                                                \
    }

#define NUMBER_FIELD(function, value)                             \
    static const char *function(const cursor *c, buffer *scratch) \
    {                                                             \
        return scope_integer(value, scratch);                     \
    }

/* Rows of a thing's table. */
#define NAME(name, function) {name, FIELD_NAME, NULL, function, NULL, NULL}
#define NUMBER(name, function) {name, FIELD_NUMBER, NULL, function, NULL, NULL}
#define TEXT(name, function) {name, FIELD_TEXT, NULL, function, NULL, NULL}
#define CODE(name, function) {name, FIELD_C, NULL, function, NULL, NULL}
#define PYTHON(name, function) {name, FIELD_PYTHON, NULL, function, NULL, NULL}
#define JSON(name, function) {name, FIELD_JSON, NULL, function, NULL, NULL}
#define FLAG(name, function) {name, FIELD_FLAG, NULL, NULL, function, NULL}
#define EACH(name, function, of) {name, FIELD_LIST, &of, NULL, NULL, function}
#define FIELDS_END {NULL, FIELD_FLAG, NULL, NULL, NULL, NULL}

/* Fields that elements of every list have. */
const char *field_index(const cursor *c, buffer *scratch);
bool field_first(const cursor *c);
#define FIELDS_COMMON NUMBER("index", field_index), FLAG("first", field_first)

/* Texts that several things give. */
const char *scope_c_expr(const cursor *c, const expr *e, buffer *scratch);
const char *scope_python_expr(const cursor *c, const expr *e, buffer *scratch);
const char *scope_text_expr(const expr *e, buffer *scratch);
const char *scope_integer(int value, buffer *scratch);
const char *scope_bits(uint64_t bits, buffer *scratch);
const char *scope_c_integer(int64_t value, buffer *scratch);
const char *scope_real(double value, buffer *scratch);

extern const thing thing_word, thing_number, thing_device, thing_backend, thing_typevar,
    thing_param, thing_item, thing_dim, thing_attr, thing_assign, thing_kernel, thing_variant,
    thing_source, thing_function, thing_where, thing_grad, thing_tolerance;

#endif
