/* The one small language of the table: guards, `let`, `where`, `cost`, workspaces, conditions of
   shapes and gradients. Parsed once into a tree, type-checked against the row, then emitted as C
   and as Python from that same tree. */
#ifndef OPGEN_EXPRESSION_H
#define OPGEN_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "buffer.h"
#include "fault.h"

typedef enum expr_type {
    TYPE_NONE,
    TYPE_BOOL,
    TYPE_INT,
    TYPE_REAL,
    TYPE_WORD,
    TYPE_INTS,
    TYPE_TENSOR
} expr_type;

typedef enum expr_kind {
    EXPR_INT,     /* integer */
    EXPR_REAL,    /* real */
    EXPR_WORD,    /* a quoted enum value; `index` is its position once it met its attribute */
    EXPR_BOOL,    /* true, false */
    EXPR_DIM,     /* a dim, a let, a list's length: `index` into op->dims */
    EXPR_PACK,    /* likewise, a pack: its product */
    EXPR_ATTR,    /* `index` into op->attrs */
    EXPR_PARAM,   /* `index` into op->params: only as an argument of functions */
    EXPR_TYPEVAR, /* `index` into op->types: only under sizeof */
    EXPR_NEG,
    EXPR_NOT,
    EXPR_ADD,
    EXPR_SUB,
    EXPR_MUL,
    EXPR_FLOORDIV,
    EXPR_MOD,
    EXPR_DIV,
    EXPR_LT,
    EXPR_LE,
    EXPR_GT,
    EXPR_GE,
    EXPR_EQ,
    EXPR_NE, /* chains a < b < c become EXPR_AND */
    EXPR_AND,
    EXPR_OR,
    EXPR_IF,       /* args: then, condition, else */
    EXPR_INDEX,    /* args: attribute, index */
    EXPR_CALL,     /* `function`, args */
    EXPR_BROADCAST /* broadcast(A, B): only under prod; args are packs */
} expr_kind;

typedef enum expr_function {
    FN_LEN,
    FN_PROD,
    FN_SUM,
    FN_MIN,
    FN_MAX,
    FN_CEIL_DIV,
    FN_NUMEL,
    FN_SIZEOF,
    FN_PRESENT,
    FN_SAME_SHAPE,
    FN_ALIGNED,
    FN_STRIDE,
    FN_BATCHES
} expr_function;

typedef struct expr expr;
struct expr {
    expr_kind kind : 8;
    expr_type type : 8; /* after the check */
    expr_function function : 8;
    loc where;
    const char *name; /* as written, of names and words */
    int index;
    int64_t integer;
    double real;
    expr **args;
    int count;
    int weight; /* nodes as emitted: the middle of a chain of comparisons counts twice */
};

typedef struct op op;

/* Parses `text`, whose first character (after the quote of a quoted scalar) stands at `where` in
   the file. NULL after a fault. */
expr *expr_parse(arena *a, faults *f, context of, loc where, const char *text);

/* Resolves names in the row and gives every node its type. `attributes_only`: dims and tensors but
   present() are faults (conditions of shapes, of gradients). False after a fault. */
bool expr_check(
    arena *a, faults *f, context of, const op *row, expr *e, expr_type wanted,
    bool attributes_only);

/* A C expression over `scope` (a const aicf_scope *), `call` (the op's own structure) and `bad` (a
   bool *); literals are exact. Requires a checked tree. Parenthesised only where needed. */
void expr_emit_c(buffer *out, const op *row, const expr *e);
/* The same in Python over names as in the table: dims, attributes and packs by name, functions of
   aicf_rt.expressions, every integer result within 64 bits or ArithmeticError. */
void expr_emit_python(buffer *out, const op *row, const expr *e);

/* What the name of a tensor stands for there: itself; its shape; in a gradient, which has only some
   tensors, what has a shape at least. `binding`: how tight what stands around it binds, 1 where
   nothing does. */
typedef enum expr_names { EXPR_OF_TENSORS, EXPR_OF_SHAPES, EXPR_OF_GRADIENTS } expr_names;
void expr_emit_python_as(buffer *out, const op *row, const expr *e, expr_names names, int binding);
/* As in the table, normalised: one space around operators, fewest parentheses. */
void expr_emit_text(buffer *out, const expr *e);

/* Whether the C of `e` uses these: unused locals are not written. */
typedef struct expr_uses {
    bool scope, call, bad;
} expr_uses;
expr_uses expr_uses_of(const op *row, const expr *e);

#endif
