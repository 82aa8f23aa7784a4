/* The parser's inside, for the shape and gradient languages: both hold expressions. */
#ifndef OPGEN_EXPRESSION_PARSE_H
#define OPGEN_EXPRESSION_PARSE_H

#include "expression.h"
#include "expression_token.h"

enum { EXPRESSION_DEPTH = 64, EXPRESSION_WEIGHT = 1000 };

typedef struct parser {
    arena *a;
    faults *f;
    context of;
    const token *at; /* the next token; never past TOKEN_END */
    int depth;       /* of the rule being read */
    bool items;      /* a shape: white space before `(` or `[` ends an item */
} parser;

/* Each reads one expression from parser->at on and leaves it behind; NULL after a fault. */
expr *parse_value(parser *p);     /* with `x if c else y` */
expr *parse_condition(parser *p); /* `or` and what binds tighter */
expr *parse_sum(parser *p);       /* `+` and what binds tighter */

bool parse_take(parser *p, const char *text); /* takes the token if it is `text` */
bool parse_expect(parser *p, const char *text, const char *after);
bool parse_fault(parser *p, const char *expected); /* at the next token */

/* The operators, by kind: NULL for other kinds. How tight they bind, from 1; all in Python's order.
 */
const char *expr_operator(expr_kind kind);
int expr_binding(expr_kind kind);
const char *expr_function_name(expr_function function);

/* By name, -1: there is none. A scalar is an attribute here and no tensor. */
int row_find_dim(const op *row, const char *name);
int row_find_attr(const op *row, const char *name);
int row_find_tensor(const op *row, const char *name);
int row_find_type(const op *row, const char *name);

#endif
