/* What people read of a guard or a `where` that does not hold. */
#ifndef AICF_CONDITION_H
#define AICF_CONDITION_H

#include "text.h"

#pragma GCC visibility push(hidden)

/* "K % 8 == 0: K = 30": each name once, tensors with their addresses or without. The call's dims
   are bound; `t` is its tensors, or NULL. */
void condition_put(
    text *out, const aicf_call *call, const aicf_tensor *t, const char *condition, bool addresses);

#pragma GCC visibility pop

#endif
