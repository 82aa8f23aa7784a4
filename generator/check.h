/* From the tree to the frozen model. */
#ifndef OPGEN_CHECK_H
#define OPGEN_CHECK_H

#include "model.h"
#include "tree.h"

/* NULL after any fault, those of the reader included. All faults of the tree are recorded. */
table *check_table(arena *a, faults *f, const node *root);

#endif
