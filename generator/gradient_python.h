/* Between the files that write a row's gradients as Python: entries, what needs them, the dims that
   they name, their steps. Nobody else includes this. */
#ifndef OPGEN_GRADIENT_PYTHON_H
#define OPGEN_GRADIENT_PYTHON_H

#include "model.h"

enum { GRADIENT_MOST = 64 }; /* dims, attributes, nested conditions */

/* One function being written. */
typedef struct gradient_writer {
    buffer *out;
    const table *t;
    const op *row;
    bool *asked; /* by entry: some text names its need */
    int steps;   /* unnamed results so far */
} gradient_writer;

/* ---- gradient_entry.c: an entry is an intermediate, or the gradient of an argument ---- */

const grad_entry *gradient_entry_at(const gradient_writer *w, int index);
/* The gradient of an argument; -1: it has none. */
int gradient_entry_of(const gradient_writer *w, int param);
/* An intermediate that is but another name of one before it stands for that. */
int gradient_root_of(const gradient_writer *w, int entry);
/* The op whose outs an entry has; NULL: it is a tensor. */
const op *gradient_outs_of(const gradient_writer *w, int entry);
/* The out that a call stands for where one tensor is wanted: its only one, its required one. */
int gradient_only_out(const op *callee);
int gradient_required_outs(const op *row);
/* Whether an operand of a fixed function stands for its shape alone. */
bool gradient_is_like(const grad *g, int operand);

/* ---- gradient_need.c: what is needed, and why ---- */

/* What trees are searched for: the value of a parameter; an intermediate, or one out of it. */
typedef struct gradient_target {
    int param, entry, out; /* -1: not asked for */
} gradient_target;

/* "_need_a", whose line will be there. */
void gradient_emit_need(gradient_writer *w, buffer *out, int entry);
/* "_need_a or (_need_gz and act == "gelu")"; "False" without a reason. `inside`: a conjunction. */
void gradient_emit_reasons(gradient_writer *w, buffer *out, gradient_target of, bool inside);
/* The lines that compute them. Needs: every text that names a need is written. */
void gradient_emit_needs(gradient_writer *w);
/* A condition, by an operator or in brackets where `binding` asks for them. */
void gradient_emit_test(const gradient_writer *w, buffer *out, const expr *test, int binding);

/* ---- gradient_dim.c: dims, axes and type variables that gradients name ---- */

/* The type variables, a bit each. */
uint64_t gradient_types_of(const op *row);
/* The lines that take axes and dims from the arguments, which have a shape at least. */
void gradient_emit_dims(gradient_writer *w);

/* ---- gradient_step.c: the computation ---- */

/* An entry that is asked for: an intermediate by its name, the gradient of `a` as `_da`. */
void gradient_emit_entry(gradient_writer *w, int index);

#endif
