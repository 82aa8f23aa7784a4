/* What the two files of the type check share. */
#ifndef OPGEN_EXPRESSION_CHECK_H
#define OPGEN_EXPRESSION_CHECK_H

#include "expression_parse.h"
#include "model.h"

typedef struct checker {
    arena *a;
    faults *f;
    context of;
    const op *row;
    bool attributes_only;
} checker;

/* All of these are false after a fault. A node that was visited has its type. */
bool checker_visit(checker *c, expr *e);
bool checker_call(checker *c, expr *e); /* of EXPR_CALL */
bool checker_want(checker *c, const expr *e, expr_type type);
bool checker_arithmetic(checker *c, expr *e); /* numbers: an integer if all operands are */
bool checker_integers(checker *c, expr *e);

/* A name of whatever kind; a dim, by its index; the fault of a name that is no `what`. */
bool checker_is_name(const expr *e);
bool checker_dim(checker *c, expr *e, int index);
bool checker_unknown_name(checker *c, const expr *e, const char *what);

#endif
