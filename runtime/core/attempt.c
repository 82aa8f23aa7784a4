/* The typed call that is made most: tensors alone, one a parameter, of types that are known and can
   be borrowed. Nothing is held and no Python runs from the first look to the launch. */
#include "borrowed.h"
#include "storage.h"

#include <string.h>

/* What the tensors of a call have in common. */
typedef struct reading {
    const source *first; /* whose the first tensor is; NULL: there is none */
    bool mixed;          /* types other than that */
    unsigned frameworks; /* of the types, a bit each */
} reading;

static inline bool
read_all(aicf_handle *handle, PyObject *const *args, int count, aicf_tensor *t, reading *r)
{
    reading all = {NULL, false, 0};
    for (int i = 0; i < count; i++) {
        if (args[i] == Py_None) {
            t[i] = (aicf_tensor){.absent = true, .dense = true};
            continue;
        }
        const source *s = source_seen(handle, i, args[i]);
        if (!tensor_borrow(s, args[i], &t[i])) {
            return false;
        }
        all.first = all.first ? all.first : s;
        all.mixed |= s != all.first;
        all.frameworks |= s->bit;
    }
    *r = all;
    return true;
}

static inline bool
has_any(const reading *r, framework of)
{
    return r->frameworks & FRAMEWORK_BIT(of);
}

/* Settles what the short way of prepare did not take. False: something has to be asked, or said. */
static __attribute__((noinline)) bool
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

/* Tensors of ours may have a stream of their own, behind which the launch has to be. */
static __attribute__((noinline)) bool
is_behind_none(const reading *r, PyObject *const *args, int count)
{
    for (int i = 0; i < count; i++) {
        if (r->mixed || (args[i] != Py_None && storage_of(args[i])->stream != STREAM_DEFAULT)) {
            return false;
        }
    }
    return true;
}

/* NULL without an exception: it is no call for this, and nothing happened. */
static inline PyObject *
attempt_borrowed(aicf_handle *handle, int variant, PyObject *const *args, void *room)
{
    const aicf_op *op = handle->op;
    aicf_call *call = room;
    aicf_tensor *t = (aicf_tensor *)(void *)((char *)room + handle->tensors);
    aicf_status status = aicf_ok();
    reading r;

    if (!read_all(handle, args, op->params, t, &r)) {
        return NULL;
    }
    const void *begun = handle->images + (size_t)variant * op->call_size;
    if (!op->plain || !op->plain(t, call, begun) ||
        (t->numel == 1 && has_any(&r, FRAMEWORK_TORCH))) {
        if (!settle_all(op, t)) {
            return NULL;
        }
        memcpy(call, begun, op->call_size);
        status = op->prepare(t, call);
    }
    if (status.kind == AICF_OK && call->launch) {
        if ((has_any(&r, FRAMEWORK_OWN) && !backend_of_call(call)->host &&
             !is_behind_none(&r, args, op->params)) ||
            !launch_borrowed(handle, r.mixed ? NULL : r.first, call, t, &status)) {
            return NULL;
        }
    }
    return status.kind == AICF_OK            ? Py_NewRef(Py_True)
           : status.kind == AICF_UNSUPPORTED ? Py_NewRef(Py_False)
                                             : raise_status(handle, call, t, status);
}

PyObject *
form_attempt(
    aicf_handle *handle, int variant, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (!kwnames && nargs == handle->alone) {
        FRAME_ROOM(handle);
        PyObject *verdict = attempt_borrowed(handle, variant, args, room);
        if (verdict || PyErr_Occurred()) {
            return verdict;
        }
    }
    return attempt_framed(handle, variant, args, nargs, kwnames);
}
