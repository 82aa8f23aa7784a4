/* The shape language: "A.. M K", "L.. N@axis R..", "broadcast(A, B) M N", "4*H D",
   "reduced(A, axes, keepdim)", "permuted(A, perm)", "()", "N R.. if reduction == 'none' else ()" */
#ifndef OPGEN_SHAPE_H
#define OPGEN_SHAPE_H

#include "model.h"

/* Whether it stands for any number of dims. */
static inline bool
item_is_packs(const item *it)
{
    return it->kind == ITEM_PACK || it->kind >= ITEM_BROADCAST;
}

/* Parses the shape of parameter `index` of row->params (its role must be set); the first character
   of `source` stands at `where`. Call it for the arguments in the row's order, then for the outs.
   Requires the names of row->types and the names and kinds of row->attrs.

   Dims and packs that arguments mention are added to row->dims at their first mention; `bound_by`
   is the first argument whose shape has them where they can be bound: alone, as a pack, or at an
   axis. A plain name of an int attribute is a VALUE. Outs add nothing: what they mention and no
   argument does must be a let or a list length, and is found by shape_check, so those may be added
   to row->dims between the arguments and the outs or after both. */
bool shape_parse(
    arena *a, faults *f, context of, op *row, loc where, const char *source, int index, shape *out);

/* What can be said only of all shapes together: resolves the names in outs, values and conditions;
   finds which dims vary over a list; refuses names that nothing binds, shapes that cannot be bound,
   clashes of names. Also checks the values of the lets, which may use arguments' dims, attributes
   and lets before them. Requires all params, attrs, list lengths and lets, none of them
   with a fault; expressions that stand elsewhere are to be checked after it. */
bool shape_check(arena *a, faults *f, op *row);

/* A shape as the table says it, normalised. */
void shape_emit_text(buffer *out, const op *row, const shape *s);

#endif
