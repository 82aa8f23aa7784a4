/* The vocabulary of ops.yaml, said once: the reader, its suggestions, `--schema` and the reference
   page all come from here. */
#ifndef OPGEN_FIELDS_H
#define OPGEN_FIELDS_H

#include "tree.h"

typedef enum field_form {
    FORM_ONE,  /* one value of the kind */
    FORM_LIST, /* a list of them, maybe empty */
    FORM_SOME, /* a list of at least one */
    FORM_MAP   /* a map from names to them, at least one */
} field_form;

typedef enum field_kind {
    KIND_TEXT, /* for people */
    KIND_NAME, /* a name, new or of something else in the table */
    KIND_WORD, /* one of `words` */
    KIND_BOOL,
    KIND_INT,
    KIND_LITERAL, /* a number, true or false, a word, or a list of whole numbers */
    KIND_EXPR,    /* an expression */
    KIND_SHAPE,
    KIND_DTYPE,   /* a dtype, a type variable, or a function of one: acc(T) */
    KIND_DTYPES,  /* a dtype, a class, or a list of such */
    KIND_CLASS,   /* a list of dtypes and classes, or a map from them to dtypes */
    KIND_LAYOUT,  /* a layout, or a list to choose from */
    KIND_LAYOUTS, /* that, or a map from tensors to that */
    KIND_NAMES,   /* a list of names */
    KIND_NUMBERS, /* a list of two numbers: rtol, atol */
    KIND_CALL,    /* ATen's call: "add.Tensor(a, b)" */
    KIND_GRAD,    /* a call of an op of this table */
    KIND_CASE,    /* shapes and attributes: "a=(2, 3), axis=0" */
    KIND_PATH,    /* a file of the tree */
    KIND_FIELDS   /* a map with the fields of `of` */
} field_kind;

typedef struct fields fields;

typedef struct field {
    const char *key;
    field_form form;
    field_kind kind;
    bool required;
    const fields *of;         /* of KIND_FIELDS */
    const char *const *words; /* of KIND_WORD, NULL at the end */
    const char *doc;
} field;

struct fields {
    const char *name; /* "row", "kernel" */
    const field *items;
    int count;
};

/* The order is the table's: rows are hashed and embedded in it. */
enum {
    TABLE_SCHEMA,
    TABLE_PACKAGE,
    TABLE_NAMESPACE,
    TABLE_BACKENDS,
    TABLE_DTYPES,
    TABLE_OPS,
    TABLE_COUNT
};
enum { BACKEND_DEVICES, BACKEND_SUFFIX, BACKEND_WITHOUT, BACKEND_COUNT };
enum {
    ROW_OP,
    ROW_FAMILY,
    ROW_OPS,
    ROW_DOC,
    ROW_ATEN,
    ROW_TYPES,
    ROW_PARTIAL,
    ROW_ARGS,
    ROW_LET,
    ROW_WHERE,
    ROW_OUTS,
    ROW_OVERLAP,
    ROW_KERNELS,
    ROW_GRAD,
    ROW_COST,
    ROW_TEST,
    ROW_COUNT
};
enum { MEMBER_FIRST = ROW_DOC }; /* a member's fields are the row's from here on */
enum {
    ARG_NAME,
    ARG_TENSOR,
    ARG_ATTR,
    ARG_SCALAR,
    ARG_LIST,
    ARG_SHAPE,
    ARG_SIZE,
    ARG_VALUES,
    ARG_OF,
    ARG_DEFAULT,
    ARG_MIN,
    ARG_MAX,
    ARG_OPTIONAL,
    ARG_INOUT,
    ARG_LAYOUT,
    ARG_COUNT
};
enum { OUT_NAME, OUT_TENSOR, OUT_SHAPE, OUT_OPTIONAL, OUT_ORDER, OUT_LAYOUT, OUT_COUNT };
enum {
    KERNEL_ID,
    KERNEL_BACKEND,
    KERNEL_LAYOUT,
    KERNEL_TYPES,
    KERNEL_WHEN,
    KERNEL_ARCH,
    KERNEL_SRC,
    KERNEL_WORKSPACE,
    KERNEL_LIBS,
    KERNEL_DETERMINISM,
    KERNEL_TOLERANCE,
    KERNEL_COUNT
};
enum { COST_FLOPS, COST_BYTES, COST_COUNT };
enum { TEST_ACCEPT, TEST_REJECT, TEST_TOLERANCE, TEST_COUNT };

enum { FIELDS_MOST = 32 }; /* of one map */

extern const fields table_fields, backend_fields, row_fields, member_fields, arg_fields, out_fields,
    kernel_fields, cost_fields, test_fields;

extern const char *const layout_words[];    /* NULL at the end; in the order of layout_bit */
extern const char *const attr_kind_words[]; /* likewise, of attr_kind */

/* Reads a map: got[i] is the value of field i, NULL where it is absent or has a fault. Records
   unknown keys, missing required ones (unless `partial`), values of the wrong form. False after a
   fault. */
bool
fields_read(faults *f, context of, const node *map, const fields *set, bool partial, node **got);

#endif
