/* Why each kernel of an op runs or does not. */
#ifndef AICF_EXPLAIN_H
#define AICF_EXPLAIN_H

#include <aicf/call.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `native` of AICF_CHECK_LIST: the length of the first list, shifted, and that of the one which is
   named; 0 where one is longer than the most; negative where a length is none. */
enum { AICF_LENGTHS_SHIFT = 15, AICF_LENGTHS_MOST = (1 << AICF_LENGTHS_SHIFT) - 1 };

/* A line on kernel `index`, as aicf_call_explain puts it; a negative answer ends the telling. */
typedef int (*aicf_explained_fn)(void *context, int index, bool fits, const char *line);

/* What aicf_call_explain says of all kernels, in the table's order, for one reading of the tensors.
   Returns the last answer. */
int aicf_call_explain_each(
    const aicf_tensor *t, const aicf_call *call, aicf_explained_fn tell, void *context);

#ifdef __cplusplus
}
#endif

#endif
