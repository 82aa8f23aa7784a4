/* What the short ways of the forms share: calls of one tensor a parameter. */
#ifndef AICF_CORE_BORROWED_H
#define AICF_CORE_BORROWED_H

#include "core.h"

/* The record of the object's type, NULL where none was learned yet. */
static inline const source *
source_seen(aicf_handle *handle, int param, PyObject *object)
{
    const source **seen = &handle->sources[param];
    const source *s = __atomic_load_n(seen, __ATOMIC_ACQUIRE);
    if (!s || !source_is(s, Py_TYPE(object))) {
        s = source_known(handle->core, Py_TYPE(object));
        if (s) {
            __atomic_store_n(seen, s, __ATOMIC_RELEASE);
        }
    }
    return s;
}

/* The first variant that takes the inputs, -1: none. Requires that no dtype= says it. */
static inline int
variant_first(const aicf_op *op, const aicf_tensor *t)
{
    for (int v = 0; v < op->variants; v++) {
        const aicf_dtype *dtypes = op->dtypes + v * op->params;
        int i = 0;
        while (i < op->inputs && (!dtypes[i] || t[i].absent || dtypes[i] == t[i].dtype)) {
            i++;
        }
        if (i == op->inputs) {
            return v;
        }
    }
    return -1;
}

/* Launches a prepared call. `all`: whose all its tensors are, NULL: of several types. False: one
   stream has to wait for another, and nothing happened. */
static inline bool
launch_borrowed(
    aicf_handle *handle, const source *all, aicf_call *call, const aicf_tensor *t,
    aicf_status *status)
{
    if (launch_is_brief(handle, call)) {
        *status = call->launch(call);
        return true;
    }
    const aicf_backend *backend = backend_of_call(call);
    if (!backend->host && all && launch_is_swift(handle, call, backend) &&
        stream_at_once(all, call->device, &call->stream)) {
        *status = launch_swiftly(backend->launch, call);
        return true;
    }
    const source *lead = backend->host ? NULL : stream_lead(t, call->count);
    if (lead && streams_differ(t, call->count, lead)) {
        return false;
    }
    *status = launch(handle, call, lead);
    return true;
}

#endif
