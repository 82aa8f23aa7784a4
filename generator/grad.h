/* Gradients: the calls under a row's `grad`, parsed and checked against the table. */
#ifndef OPGEN_GRAD_H
#define OPGEN_GRAD_H

#include "model.h"

/* A GRAD_IF has its two branches in args and the condition in test. A scalar of the row that a call
   gets by name is a GRAD_PARAM among its attrs. inverse() stands only among attrs, with its axes a
   GRAD_VALUE; so are the axes, the bool and the axis that unreduce() and split() end with. */

/* Parses and checks all of row->grads: name, text and where (of the text's first character) are
   set, param and value are filled in, row->saves too. Requires every other part of every row of the
   table to be checked. Of a row without `grad` nothing is asked. */
bool grad_check(arena *a, faults *f, table *t, op *row);

/* As in the table, normalised: optional arguments that are left out stay left out. */
void grad_emit_text(buffer *out, const table *t, const op *row, const grad *g);

#endif
