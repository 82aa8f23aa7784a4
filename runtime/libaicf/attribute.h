/* Attributes and scalars as they lie in an op's call structure. */
#ifndef AICF_ATTRIBUTE_H
#define AICF_ATTRIBUTE_H

#include <aicf/call.h>

#pragma GCC visibility push(hidden)

static inline void *
attribute_at(const aicf_call *call, int attr)
{
    return (char *)call + call->op->attrs[attr].offset;
}

static inline bool
attribute_bool(const aicf_call *call, int attr)
{
    return *(const bool *)attribute_at(call, attr);
}

/* Of an axis that is folded. */
static inline int64_t
attribute_axis(const aicf_call *call, int attr)
{
    return *(const int64_t *)attribute_at(call, attr);
}

/* Of folded axes, or of one axis: how many, and which as bits, if `bits` is not NULL. */
int attribute_axes(const aicf_call *call, int attr, uint64_t *bits);

/* Checks every value against its bounds, and scalars against their dtypes, which they take on.
   Requires the call's variant and device. */
aicf_status attributes_check(aicf_call *call, const aicf_tensor *t);

/* Folds axes against the ranks of their parameters. */
aicf_status attributes_fold(aicf_call *call, const aicf_tensor *t);

#pragma GCC visibility pop

#endif
