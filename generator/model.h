/* The frozen model: what check makes of the tree and render reads. Plain rows: families are spread,
   classes are lists of dtypes, names are resolved to indexes. Read only once made. */
#ifndef OPGEN_MODEL_H
#define OPGEN_MODEL_H

#include <aicf/dtype.h>

#include "arena.h"
#include "expression.h"
#include "fault.h"

typedef enum dtype_id {
#define MODEL_DTYPE(id, name, code, bits, ctype, numpy, typestr, format) DTYPE_##id,
    AICF_DTYPES(MODEL_DTYPE)
#undef MODEL_DTYPE
        DTYPE_COUNT
} dtype_id;

typedef struct dtype_info {
    const char *name, *enum_name, *ctype; /* "f32", "AICF_F32", "float" */
    int bits;
    bool is_float, is_integer;
} dtype_info;
extern const dtype_info dtypes_of[DTYPE_COUNT];
int dtype_find(const char *name); /* -1: none */

typedef struct text { /* any bytes of valid UTF-8, as the table says them */
    const char *data;
    loc where;
} text;

typedef struct device_type {
    const char *name;
    int number; /* DLPack's */
} device_type;

typedef struct backend {
    const char *name, *suffix;
    LIST(device_type) devices;
    bool without[DTYPE_COUNT];
    loc where;
} backend;

/* A type variable of a row and what it may be, in the row's order. */
typedef struct typevar {
    const char *name;
    dtype_id values[DTYPE_COUNT];
    int count;
    int bound_by; /* the first parameter whose dtype it is, -1: none (suffix, given out, dtype=) */
    loc where;
} typevar;

/* The dtype of a parameter: fixed, a variable, or a function of one: then the map is spread out. */
typedef struct dtype_rule {
    enum { DTYPE_FIXED, DTYPE_VAR, DTYPE_FUNCTION } kind;
    dtype_id fixed;
    int var;              /* index into op->types */
    const char *function; /* its name */
    const int *map;       /* the function, by the variable's dtype; -1: undefined */
    const char *text;     /* as in the row: "acc(T)" */
} dtype_rule;

/* How far results may be off. */
typedef struct tolerance {
    dtype_id dtype;
    double rtol, atol;
} tolerance;
typedef LIST(tolerance) tolerance_list;

typedef enum role { ROLE_IN, ROLE_OUT, ROLE_INOUT, ROLE_SCALAR } role;

typedef enum layout_bit {
    LAYOUT_DENSE = 1,
    LAYOUT_FLAT = 2,
    LAYOUT_NHWC = 4,
    LAYOUT_ROW = 8,
    LAYOUT_COL = 16,
    LAYOUT_STRIDED = 32
} layout_bit;

typedef enum item_kind {
    ITEM_DIM,
    ITEM_PACK,
    ITEM_AXIS,
    ITEM_VALUE,
    ITEM_BROADCAST,
    ITEM_REDUCED,
    ITEM_PERMUTED
} item_kind;

typedef struct item {
    item_kind kind;
    int dim;        /* into op->dims; of DIM, PACK, AXIS, REDUCED, PERMUTED */
    int axis, keep; /* into op->attrs; -1: none */
    expr *value;    /* of VALUE; an int attribute used as a dim is a VALUE too */
    int packs[8], pack_count;
    const char *text;
    loc where;
} item;

typedef struct shape {
    LIST(item) items;
    LIST(item) other; /* of `X if cond else Y` */
    expr *test;
    const char *text;
} shape;

/* A tensor argument, an out, or a scalar. op->params has them in this order, whatever the row's:
   tensor arguments as in the row, outs, scalars. */
typedef struct param {
    const char *name;
    role role;
    bool optional;
    int list; /* the dim that counts its tensors, -1: not a list */
    dtype_rule dtype;
    shape shape;      /* not of a scalar */
    unsigned layouts; /* its own default, 0: the kernel's */
    int order;        /* param index, -1 */
    uint64_t exact;   /* `overlap`, a bit a param */
    int attr;         /* of a scalar: its entry in op->attrs, -1 */
    loc where;
} param;

typedef enum dim_kind { DIM_PLAIN, DIM_PACK, DIM_LIST, DIM_LET } dim_kind;

typedef struct dim {
    const char *name;
    dim_kind kind;
    bool varies;  /* from one index of a list to the next: has no value of its own */
    int bound_by; /* the param that first mentions it, -1 */
    expr *value;  /* of a let */
    loc where;
} dim;

typedef enum attr_kind {
    ATTR_BOOL,
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_ENUM,
    ATTR_INTS,
    ATTR_AXIS,
    ATTR_AXES,
    ATTR_SCALAR
} attr_kind;

/* An attribute or a scalar, in the row's order. */
typedef struct attr {
    const char *name;
    attr_kind kind;
    int size; /* of ints */
    int of;   /* of axis, axes: the param; of a scalar: its own param */
    LIST(const char *) values;
    bool real; /* bounds and default are in `real`, else in `integer` (bool and enum index too) */
    bool has_default, has_min, has_max, all; /* all: `default: all` of axes */
    LIST(int64_t) default_ints;              /* of ints and axes */
    int64_t default_integer, min_integer, max_integer;
    double default_real, min_real, max_real;
    const char *default_text; /* as Python writes it in a signature */
    loc where;
} attr;

typedef struct condition {
    expr *test;
    const char *text, *message;
    loc where;
} condition;

typedef enum place { PLACE_POINTER, PLACE_OWN, PLACE_JOINT, PLACE_MATRIX } place;

typedef struct kernel {
    const char *id;
    int backend;             /* into table->backends */
    unsigned *layouts;       /* [params] */
    place *places;           /* [params] */
    int model;               /* param, -1 */
    const char *layout_text; /* "layout flat", "layout x: nhwc, out: nhwc" */
    bool *variants;          /* [op->variants]: it takes this combination */
    LIST(condition) guards;
    const char *arch; /* "sm_90a", NULL */
    int arch_number;  /* 90 */
    bool arch_exact;
    const char *src; /* kernels/add/add.cu; never absolute, never above the tree */
    expr *workspace;
    LIST(const char *) libs;
    bool bitwise;
    tolerance_list tolerances;
    loc where;
} kernel;

/* A gradient: a tree of calls. */
typedef enum grad_kind {
    GRAD_NONE,
    GRAD_PARAM /* index */,
    GRAD_G /* of out `index` */,
    GRAD_NAME /* intermediate `index` */,
    GRAD_OUT_OF /* args[0] `.name`: an out of a call or of an intermediate */,
    GRAD_CALL /* op `name` of the table: op_index; args by param, attrs by attr */,
    GRAD_FIXED /* t reshape sum_to unreduce split inverse */,
    GRAD_IF /* then, test, else */,
    GRAD_VALUE /* an expression, for attributes and scalars */
} grad_kind;

typedef struct grad grad;
struct grad {
    grad_kind kind;
    const char *name;
    int index;
    int op_index;
    grad **args; /* GRAD_CALL: one a param of the called op, NULL where absent; else operands */
    int count;
    grad **attrs; /* GRAD_CALL: one an attr of the called op, NULL: its default */
    int attr_count;
    expr *test, *value;
    const dtype_rule *dtype; /* GRAD_CALL: `dtype=`, in the type variables of the row that the
                                gradient is of; NULL: not said */
    loc where;
};

typedef struct grad_entry {
    const char *name;
    int param; /* the argument it is the gradient of; -1: an intermediate */
    grad *value;
    const char *text;
    loc where;
} grad_entry;

typedef struct variant {
    dtype_id *vars;     /* [types] */
    dtype_id *params;   /* [params] */
    const char *suffix; /* "f32", "bf16_i64" */
} variant;

typedef struct test_shapes { /* `test` of a row */
    LIST(text) accept, reject;
    tolerance_list tolerances;
} test_shapes;

struct op {
    const char *name;
    const char *symbol; /* the table's */
    const char *family; /* NULL: a row of its own */
    text doc;
    text aten; /* .data NULL: none */
    bool partial;
    LIST(typevar) types;
    LIST(param) params;
    int inputs, outs, scalars; /* params.count is their sum */
    LIST(attr) attrs;
    LIST(dim) dims; /* by first mention in the arguments, then list lengths, then lets */
    LIST(condition) wheres;
    LIST(kernel) kernels; /* in the row's order */
    LIST(variant) variants;
    LIST(grad_entry) grads;
    bool has_grad;
    uint64_t saves; /* a bit a param: its gradients need its values, not its shape alone */
    expr *flops, *bytes;
    test_shapes test;
    bool elementwise; /* every shape is one pack or a broadcast of packs */
    const char *json; /* the row, families spread, keys in the table's order */
    char hash[65];    /* sha256 of json, hex */
    loc where;
};

typedef struct table {
    const char *file;
    const char *package, *symbol; /* `namespace` is a C++ keyword to clang-format */
    LIST(backend) backends;
    LIST(op) ops;
    LIST(struct {
        const char *name;
        dtype_id values[DTYPE_COUNT];
        int count;
    })
    classes;
    const struct dict *ops_by_name; /* for op_find */
    char hash[65];                  /* of the whole table: all rows, backends, dtypes, names */
} table;

int op_find(const table *t, const char *name);

#endif
