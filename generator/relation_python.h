/* Between the files that write a row's shapes as Python: what its expressions name, the matching of
   arguments, the function around it. Nobody else includes this. */
#ifndef OPGEN_RELATION_PYTHON_H
#define OPGEN_RELATION_PYTHON_H

#include "model.h"

/* What is known of a dim at a place in the function. MAYBE: its name is bound there, to ONE or ANY
   where what binds it was absent. */
typedef enum known { UNKNOWN, MAYBE, SURE } known;

enum { RELATION_MOST = 64 }; /* dims and parameters of a row */

/* One function being written. */
typedef struct relation_writer {
    buffer *out;
    const op *row;
    known dims[RELATION_MOST];
    int mentions[RELATION_MOST]; /* of a dim in all of the row: what is mentioned once is bound for
                                    nobody */
    bool done[RELATION_MOST];    /* the argument's shape has been matched, as far as it could be */
    bool waits[RELATION_MOST];   /* some of its items are to be compared once all is bound */
    bool all_bound;              /* nothing is left to be bound, lets are computed */
} relation_writer;

/* One shape of an argument or out. */
typedef struct items {
    const item *at;
    int count;
} items;

/* ---- relation_name.c: what names what ---- */

void relation_count_mentions(relation_writer *w);
bool relation_is_used(const relation_writer *w, int dim);
/* What is asked of strides, addresses and outs is not told by the shapes of arguments. */
bool relation_told_by_shapes(const op *row, const expr *e);
/* Whether the attribute stands in arithmetic. */
bool relation_computes_with(const relation_writer *w, int attr);
bool relation_item_has(const item *it, int dim);
/* Whether it is a dim or pack, which gets its value where it stands first. */
bool relation_item_binds(const item *it);

/* ---- relation_match.c: arguments, whose dims are bound or compared ---- */

/* All arguments, as far as they can be; those that wait are left to be matched again. */
void relation_emit_arguments(relation_writer *w);
void relation_emit_argument(relation_writer *w, int index);
/* An item as what it is computed from, all of which is bound. */
void relation_emit_computed(relation_writer *w, const item *it);

#endif
