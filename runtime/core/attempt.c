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
        all.frameworks |= 1U << s->framework;
    }
    *r = all;
    return true;
}

static inline bool
has_any(const reading *r, framework of)
{
    return r->frameworks >> of & 1;
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
static bool
is_behind_none(PyObject *const *args, int count, aicf_stream stream)
{
    for (int i = 0; i < count; i++) {
        if (args[i] != Py_None && storage_of(args[i])->stream != stream) {
            return false;
        }
    }
    return true;
}

/* The stream of a call on a device whose tensors are all of one type, where it is known without
   Python and without waiting. */
static inline bool
find_stream(const reading *r, PyObject *const *args, aicf_call *call)
{
    if (!has_any(r, FRAMEWORK_OWN)) {
        return stream_at_once(r->first, call->device, &call->stream);
    }
    call->stream = STREAM_DEFAULT;
    return is_behind_none(args, call->op->params, STREAM_DEFAULT);
}

/* False: one stream has to wait for another. */
static __attribute__((noinline)) bool
launch_on_device(
    aicf_handle *handle, const reading *r, PyObject *const *args, aicf_call *call,
    const aicf_tensor *t, aicf_status *status)
{
    const source *lead = stream_lead(t, call->count);
    if (streams_differ(t, call->count, lead) ||
        (has_any(r, FRAMEWORK_OWN) && (r->mixed || !find_stream(r, args, call)))) {
        return false;
    }
    *status = launch(handle, call, lead);
    return true;
}

/* The same. */
static inline bool
launch_read(
    aicf_handle *handle, const reading *r, PyObject *const *args, aicf_call *call,
    const aicf_tensor *t, aicf_status *status)
{
    const aicf_backend *backend = backend_of_call(call);
    if (launch_is_brief(handle, call)) {
        *status = call->launch(call);
    } else if (backend->host) {
        *status = launch(handle, call, NULL);
    } else if (
        r->first && !r->mixed && launch_is_swift(handle, call, backend) &&
        find_stream(r, args, call)) {
        *status = launch_swiftly(backend->launch, call);
    } else {
        return launch_on_device(handle, r, args, call, t, status);
    }
    return true;
}

PyObject *
attempt_borrowed(aicf_handle *handle, int variant, PyObject *const *args)
{
    const aicf_op *op = handle->op;
    FRAME_ROOM(handle);
    aicf_call *call = (aicf_call *)room;
    aicf_tensor *t = (aicf_tensor *)(void *)(room + handle->tensors);
    aicf_status status = aicf_ok();
    reading r;

    if (!read_all(handle, args, op->params, t, &r)) {
        return NULL;
    }
    const void *begun = handle->images + (size_t)variant * op->call_size;
    if (!op->plain || !op->plain(t, call, begun) ||
        (has_any(&r, FRAMEWORK_TORCH) && t->numel == 1)) {
        if (!settle_all(op, t)) {
            return NULL;
        }
        memcpy(call, begun, op->call_size);
        status = op->prepare(t, call);
    }
    if (status.kind == AICF_OK && call->launch &&
        !launch_read(handle, &r, args, call, t, &status)) {
        return NULL;
    }
    return status.kind == AICF_OK            ? Py_NewRef(Py_True)
           : status.kind == AICF_UNSUPPORTED ? Py_NewRef(Py_False)
                                             : raise_status(handle, call, t, status);
}
