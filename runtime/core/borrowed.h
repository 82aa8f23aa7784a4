/* What the short ways of both forms share: calls of tensors alone that are all borrowed. */
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

#endif
