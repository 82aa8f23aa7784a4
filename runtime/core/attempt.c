/* The typed call that is made most: tensors alone, one a parameter, of types that are known and can
   be borrowed. Nothing is held and no Python runs from the first look to the launch. */
#include "core.h"

#include <string.h>

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

/* Sets whether torch has to be asked for the negative bit where there is one element. */
static inline bool
read_all(aicf_handle *handle, PyObject *const *args, int count, aicf_tensor *t, bool *torch)
{
    *torch = false;
    for (int i = 0; i < count; i++) {
        if (args[i] == Py_None) {
            t[i] = (aicf_tensor){.absent = true, .dense = true};
            continue;
        }
        const source *s = source_seen(handle, i, args[i]);
        if (!tensor_borrow(s, args[i], &t[i])) {
            return false;
        }
        *torch |= s->framework == FRAMEWORK_TORCH;
    }
    return true;
}

/* Settles what the short way of prepare did not take. False: something has to be asked, or said. */
static bool
settle_all(const aicf_op *op, aicf_tensor *t)
{
    for (int i = 0; i < op->params; i++) {
        if (t[i].absent) {
            if (!op->params_of[i].optional) {
                return false;
            }
            continue;
        }
        aicf_tensor_settle(&t[i]);
        if (tensor_source(&t[i])->framework == FRAMEWORK_TORCH && torch_may_be_negative(&t[i])) {
            return false;
        }
    }
    return true;
}

/* Whose framework says which stream is current: on a device, the first tensor's that has any. */
static inline const source *
lead_of(const aicf_call *call, const aicf_tensor *t)
{
    return backend_of_call(call)->host ? NULL : stream_lead(t, call->count);
}

PyObject *
attempt_borrowed(aicf_handle *handle, int variant, PyObject *const *args)
{
    const aicf_op *op = handle->op;
    FRAME_ROOM(handle);
    aicf_call *call = (aicf_call *)room;
    aicf_tensor *t = (aicf_tensor *)(void *)(room + handle->tensors);
    aicf_status status = aicf_ok();
    bool torch;

    if (!read_all(handle, args, op->params, t, &torch)) {
        return NULL;
    }
    const void *begun = handle->images + (size_t)variant * op->call_size;
    if (!op->plain || !op->plain(t, call, begun) || (torch && t->numel == 1)) {
        if (!settle_all(op, t)) {
            return NULL;
        }
        memcpy(call, begun, op->call_size);
        status = op->prepare(t, call);
    }
    if (status.kind == AICF_OK && call->launch) {
        if (launch_is_brief(handle, call)) {
            status = call->launch(call);
        } else {
            const source *lead = lead_of(call, t);
            if (lead && streams_differ(t, call->count, lead)) {
                return NULL; /* one stream has to wait for another */
            }
            status = launch(handle, call, lead);
        }
    }
    return status.kind == AICF_OK            ? Py_NewRef(Py_True)
           : status.kind == AICF_UNSUPPORTED ? Py_NewRef(Py_False)
                                             : raise_status(handle, call, t, status);
}
