/* Why each kernel of an op runs or does not. */
#ifndef AICF_EXPLAIN_H
#define AICF_EXPLAIN_H

#include <aicf/call.h>

#ifdef __cplusplus
extern "C" {
#endif

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
