/* One shape of the row against one tensor. */
#ifndef AICF_MATCH_H
#define AICF_MATCH_H

#include "binding.h"

#pragma GCC visibility push(hidden)

typedef enum match {
    MATCH_YES,
    MATCH_NO,
    MATCH_LATER /* where its packs lie follows only from those of other shapes */
} match;

/* Binds the dims and packs that are not bound yet, and compares those that are. Items that bind
   nothing are not looked at. */
match match_bind(binding *b, int param, const aicf_tensor *t);

/* Compares all items; everything is bound. The status names what failed. */
aicf_status match_check(binding *b, int param, const aicf_tensor *t);

/* The sizes that the shape says. The rank, or -1: more than AICF_MAX_DIMS, or no answer. */
int match_sizes(const binding *b, int param, int64_t sizes[AICF_MAX_DIMS]);

#pragma GCC visibility pop

#endif
