/* The Python functions that a row's shapes and gradients become. Names of the table stand in them
   as they are; what these functions need besides begins with `_`, which no name of a table does. */
#ifndef OPGEN_PYTHON_H
#define OPGEN_PYTHON_H

#include "model.h"

/* "def _add(a: _e.Shape, b: _e.Shape) -> _e.Shapes:" */
void relation_emit_signature(buffer *out, const op *row);
/* Its body: from the shapes of the arguments to those of all outs. */
void relation_emit_body(buffer *out, const op *row);

/* Of a row with gradients: "def _add_saved(...)" and "def _add_backward(...)". */
void gradient_emit_saved_signature(buffer *out, const op *row);
void gradient_emit_saved_body(buffer *out, const table *t, const op *row);
void gradient_emit_backward_signature(buffer *out, const op *row);
void gradient_emit_backward_body(buffer *out, const table *t, const op *row);

/* ", *, axis: int" and so on for attributes, for scalars too if they are asked for; whether there
   are any. */
bool python_emit_attributes(buffer *out, const op *row, bool scalars);
/* A text as a literal. */
void python_emit_string(buffer *out, const char *text);

/* "axis = _e.axis("axis", axis, x)": counts an axis or axes from the front, of the argument that
   the attribute says; its name stands for its shape, or for a tensor. */
void python_emit_fold(buffer *out, const op *row, const attr *a, bool tensors);

#endif
