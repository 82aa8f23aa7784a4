/* Which stream a launch goes to, where the caller does not say. */
#include "core.h"

/* True if the source's framework can say which of its streams is current. */
static bool
has_streams(const source *s)
{
    return (s->exchange && s->exchange->stream) || s->framework == FRAMEWORK_TORCH ||
           s->framework == FRAMEWORK_CUPY;
}

const source *
stream_lead(const aicf_tensor *t, int count)
{
    for (int i = 0; i < count; i++) {
        const source *s = t[i].absent ? NULL : tensor_source(&t[i]);
        if (s && has_streams(s)) {
            return s;
        }
    }
    return NULL;
}

/* The handle in a stream's attribute, 0 where anything failed. Steals. */
static uintptr_t
handle_of(PyObject *stream, const char *attribute)
{
    PyObject *handle = stream ? PyObject_GetAttrString(stream, attribute) : NULL;
    uintptr_t number = handle ? (uintptr_t)PyLong_AsVoidPtr(handle) : 0;
    Py_XDECREF(stream);
    Py_XDECREF(handle);
    PyErr_Clear();
    return number;
}

/* Frameworks of before the exchange API are asked in Python. */
static uintptr_t
ask_framework(const source *s, aicf_device device)
{
    bool torch = s->framework == FRAMEWORK_TORCH;
    PyObject *module = PyImport_ImportModule(torch ? "torch.cuda" : "cupy.cuda");
    PyObject *stream = !module ? NULL
                       : torch ? PyObject_CallMethod(module, "current_stream", "i", device.index)
                               : PyObject_CallMethod(module, "get_current_stream", NULL);
    Py_XDECREF(module);
    return handle_of(stream, torch ? "cuda_stream" : "ptr");
}

aicf_stream
stream_current(const source *lead, aicf_device device)
{
    void *stream = NULL;
    if (!lead) {
        return STREAM_DEFAULT;
    }
    if (!lead->exchange || !lead->exchange->stream) {
        stream = (void *)ask_framework(lead, device);
    } else if (lead->exchange->stream(device.type, device.index, &stream) != 0) {
        PyErr_Clear();
        stream = NULL;
    }
    return stream ? stream : STREAM_DEFAULT;
}

aicf_stream
frame_stream(frame *f, aicf_device device)
{
    if (f->call->stream_given) {
        return f->call->stream;
    }
    if (!f->stream_found) {
        const source *lead = NULL;
        for (int i = 0; i < f->count && !lead; i++) {
            PyObject *object = f->objects[i];
            const source *s = object && object != Py_None ? source_find(f->core, object) : NULL;
            lead = s && has_streams(s) ? s : NULL;
        }
        PyErr_Clear();
        f->stream = stream_current(lead, device);
        f->stream_found = true;
    }
    return f->stream;
}

/* ---- what comes first ------------------------------------------------------------------------ */

/* One wait is kept until the launch: most calls have none, or several for one stream. */
void
frame_behind(frame *f, aicf_device device, aicf_stream theirs)
{
    aicf_stream ours = frame_stream(f, device);
    const aicf_backend *backend = backend_of_device(f->op, device.type);
    if (theirs == ours) {
        return;
    }
    if (f->waits && f->after != theirs && backend && backend->wait) {
        aicf_status status = backend->wait(device, ours, f->after);
        f->ordered = f->ordered.kind ? f->ordered : status;
    }
    f->after = theirs;
    f->waits = true;
}

/* Types of one framework share its functions. */
static bool
says_another(const source *s, const source *lead)
{
    return s && s != lead && s->exchange && s->exchange->stream &&
           !(lead && lead->exchange && lead->exchange->stream == s->exchange->stream);
}

bool
streams_differ(const aicf_tensor *t, int count, const source *lead)
{
    for (int i = 0; i < count; i++) {
        if (!t[i].absent && says_another(tensor_source(&t[i]), lead)) {
            return true;
        }
    }
    return false;
}

aicf_status
stream_join(
    const aicf_tensor *t, const source *lead, const aicf_backend *backend, aicf_device device,
    aicf_stream ours)
{
    const source *s = t->absent ? NULL : tensor_source(t);
    if (!says_another(s, lead) || !backend->wait) {
        return aicf_ok();
    }
    aicf_stream theirs = stream_current(s, device);
    return theirs == ours ? aicf_ok() : backend->wait(device, ours, theirs);
}

aicf_status
frame_order(frame *f, const aicf_backend *backend)
{
    aicf_call *call = f->call;
    const source *lead = stream_lead(f->t, f->count);
    aicf_status status = f->ordered;
    if (status.kind == AICF_OK && f->waits && backend->wait) {
        status = backend->wait(call->device, frame_stream(f, call->device), f->after);
    }
    for (int i = 0; status.kind == AICF_OK && i < f->count; i++) {
        const aicf_tensor *t = &f->t[i];
        if (!t->absent && says_another(tensor_source(t), lead)) {
            status = stream_join(t, lead, backend, call->device, frame_stream(f, call->device));
        }
    }
    status.backend = call->op->kernels[call->kernel].backend;
    return status;
}
