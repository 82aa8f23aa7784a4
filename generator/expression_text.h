/* What the three emitters share. */
#ifndef OPGEN_EXPRESSION_TEXT_H
#define OPGEN_EXPRESSION_TEXT_H

#include "expression.h"

/* The shortest decimal that reads back as `value`, always with a point or an exponent: the same
   literal in the table, in C and in Python. */
void expr_emit_real(buffer *out, double value);

#endif
