/* What every op demands of its tensors, before any shape is looked at. */
#ifndef AICF_CHECK_H
#define AICF_CHECK_H

#include <aicf/call.h>

#pragma GCC visibility push(hidden)

/* Tensors of the first `params` parameters and of the scalars are checked: finds the call's variant
   if it has none, its device, its backend's index, and whether it is plain. */
aicf_status check_tensors(const aicf_tensor *t, aicf_call *call, int params, int *backend);

/* Nothing that is written may share memory with anything else, but as the row allows. */
aicf_status check_overlaps(const aicf_tensor *t, const aicf_call *call);

/* Two tensors that share memory: parameters, and which of a list. */
typedef struct overlap {
    int param, index; /* of the one that is written; of both the first in memory */
    int other, other_index;
} overlap;

/* Finds them again, of a call with lists. False: there are none, or no memory to look. */
bool overlap_find(const aicf_tensor *t, const aicf_call *call, overlap *found);

#pragma GCC visibility pop

#endif
