/* What the files of the gradient language share. */
#ifndef OPGEN_GRAD_PARSE_H
#define OPGEN_GRAD_PARSE_H

#include "expression_parse.h"
#include "grad.h"

/* What a fixed function takes, one letter an operand: x a tensor, l a name whose shape is meant, L
   a list argument, a axes, k a bool, i an axis. */
typedef struct grad_fixed {
    const char *name, *takes;
} grad_fixed;
const grad_fixed *grad_fixed_find(const char *name); /* NULL: none */

/* ---- reading, of grad_parse.c and grad_attribute.c ----------------------------------------- */

typedef struct grad_reader {
    parser p;
    const table *t;
    op *row;
    int entry; /* index into row->grads */
} grad_reader;

grad *grad_node(grad_reader *r, grad_kind kind, const token *at);
bool grad_add(grad_reader *r, grad *g, grad *arg); /* an operand; false if there is none */
grad *grad_read_expression(grad_reader *r, expr_type wanted);
/* What a call gives for attribute or scalar `to` of the op it calls. */
grad *grad_read_attribute(grad_reader *r, const op *callee, const attr *to);

/* The text of row->grads[entry] as a tree, names resolved; NULL after a fault. */
grad *grad_parse(arena *a, faults *f, const table *t, op *row, int entry);

/* The entry in the context of a fault. */
context grad_context(arena *a, const op *row, int entry);

/* ---- dtypes, with the row's type variables as symbols -------------------------------------- */

/* A dtype that depends on one variable of the row, or on none. */
typedef struct symbol_dtype {
    int var;              /* -1: none, then it is map[0] */
    int map[DTYPE_COUNT]; /* by the variable's dtype; -1: undefined */
    const char *text;
} symbol_dtype;

/* By a rule of `owner`, whose variables stand for `vars`; NULL: for themselves. */
symbol_dtype symbol_dtype_of(const op *owner, const dtype_rule *rule, const symbol_dtype *vars);
/* Of a variable that may be floats only those count: the others have no gradient. */
bool symbol_dtype_same(const op *row, const symbol_dtype *x, const symbol_dtype *y);
/* A dtype that `x` may be and `values` does not have; -1: there is none. */
int symbol_dtype_beyond(const op *row, const symbol_dtype *x, const typevar *values);
bool dtype_rule_is_float(const op *owner, const dtype_rule *rule);

/* ---- shapes, with the row's dims as symbols ------------------------------------------------ */

typedef enum symbol_kind {
    SYMBOL_DIM,    /* `dim` of the row */
    SYMBOL_PACK,   /* likewise, any number of dims */
    SYMBOL_ONE,    /* one dim; `text` says which, NULL: unknown */
    SYMBOL_SEVERAL /* any number of dims; likewise */
} symbol_kind;

typedef struct symbol {
    symbol_kind kind;
    int dim;
    const char *text;
} symbol;

typedef struct symbol_shape {
    LIST(symbol) items;
} symbol_shape;

/* Of a parameter of the row itself. */
symbol_shape symbol_shape_of(arena *a, const shape *s);
symbol_shape symbol_shape_unknown(arena *a);
/* False if it has fewer than two dims. */
bool symbol_shape_transpose(arena *a, const symbol_shape *s, symbol_shape *out);
/* False only where they can be told apart. */
bool symbol_shape_fits(const op *row, const symbol_shape *x, const symbol_shape *y);
const char *symbol_shape_text(arena *a, const op *row, const symbol_shape *s);

/* What the dims of a called op stand for: one shape a dim, NULL where unknown. */
typedef struct symbol_binding {
    const op *row, *callee;
    symbol_shape **dims;
} symbol_binding;
/* Unifies a shape of the callee with what is given; false where it cannot be. */
bool symbol_bind(arena *a, symbol_binding *b, const shape *formal, const symbol_shape *given);
/* A shape of the callee's in terms of the row. `attrs`: of the call. */
symbol_shape
symbol_apply(arena *a, const symbol_binding *b, const shape *formal, grad *const *attrs);

/* ---- inference ----------------------------------------------------------------------------- */

/* What an entry's tree gives; `known` has one an entry of the row. */
typedef struct grad_value grad_value;
struct grad_value {
    enum { GRAD_IS_NONE, GRAD_IS_TENSOR, GRAD_IS_OUTS } kind;
    symbol_dtype dtype;
    symbol_shape shape;
    bool absent;      /* it may be */
    int list;         /* the dim that counts its tensors, -1: it is one */
    const op *callee; /* whose outs these are */
    grad_value *outs; /* [callee->outs] */
};

/* NULL after a fault, or where an entry that it needs has one. */
grad_value *
grad_infer(arena *a, faults *f, const table *t, const op *row, int entry, grad_value *const *known);

#endif
