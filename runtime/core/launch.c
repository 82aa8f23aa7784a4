/* The launch: which stream, whose workspace, without the GIL where it takes long. */
#include "core.h"

/* ---- backends -------------------------------------------------------------------------------- */

const aicf_backend *
backend_of_device(const aicf_op *op, int32_t type)
{
    for (int b = 0; b < op->backend_count; b++) {
        for (const int32_t *device = op->backends[b].devices; *device; device++) {
            if (*device == type) {
                return op->backends[b].backend;
            }
        }
    }
    return NULL;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* A kernel's first launch loads its code, which may take seconds. */
static bool
is_first(aicf_handle *handle, const aicf_call *call)
{
    uint64_t bit = launch_bit(handle, call);
    return !(__atomic_load_n(&handle->warm, __ATOMIC_RELAXED) & bit) &&
           !(__atomic_fetch_or(&handle->warm, bit, __ATOMIC_RELAXED) & bit);
}

static bool
is_long(aicf_handle *handle, const aicf_call *call, const aicf_backend *backend)
{
    if (!backend->host) {
        return is_first(handle, call);
    }
    return call->work >= (call->op->elementwise ? LONG_BYTES : LONG_BYTES_COMPUTED);
}

static aicf_status
launch_alone(aicf_handle *handle, const aicf_call *call, const aicf_backend *backend)
{
    aicf_status status;
    if (!is_long(handle, call, backend)) {
        return aicf_call_launch(call);
    }
    Py_BEGIN_ALLOW_THREADS;
    status = aicf_call_launch(call);
    Py_END_ALLOW_THREADS;
    return status;
}

/* AICF_DEBUG=sync: what fails is then reported by the call that did it. */
static aicf_status
synchronize(const aicf_call *call, const aicf_backend *backend)
{
    aicf_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = backend->synchronize(call->device, call->stream);
    Py_END_ALLOW_THREADS;
    status.backend = call->op->kernels[call->kernel].backend;
    return status;
}

static aicf_status
launch_kernel(aicf_handle *handle, const aicf_call *call, const aicf_backend *backend)
{
    aicf_status status = launch_alone(handle, call, backend);
    if (status.kind == AICF_OK && handle->core->sync && backend->synchronize) {
        status = synchronize(call, backend);
    }
    return status;
}

/* ---- the workspace --------------------------------------------------------------------------- */

static void
ignore(void *context, const char *kind, const char *message)
{
    (void)context, (void)kind, (void)message;
}

/* From the framework's own allocator, given back after the launch: it is ordered by the framework's
   current stream, which therefore has to be the launch's. */
static dl_managed *
framework_memory(const aicf_call *call, const source *lead)
{
    const dl_exchange *exchange = lead ? lead->exchange : NULL;
    int64_t bytes = call->workspace_size;
    dl_tensor prototype = {.device = call->device, .rank = 1, .dtype = AICF_U8, .sizes = &bytes};
    dl_managed *managed = NULL;
    if (!exchange || !exchange->allocate || call->stream != stream_current(lead, call->device) ||
        exchange->allocate(&prototype, &managed, NULL, ignore) != 0) {
        PyErr_Clear();
        return NULL;
    }
    return managed;
}

static aicf_status
with_backend_memory(aicf_handle *handle, aicf_call *call, const aicf_backend *backend)
{
    if (!backend->allocate) {
        return (aicf_status){.kind = AICF_NO_MEMORY};
    }
    aicf_status status;
    Py_BEGIN_ALLOW_THREADS; /* may wait for the device */
    status = backend->allocate(call->device, call->stream, call->workspace_size, &call->workspace);
    Py_END_ALLOW_THREADS;
    if (status.kind == AICF_OK) {
        status = launch_kernel(handle, call, backend);
        aicf_status released = backend->release(call->device, call->stream, call->workspace);
        status = status.kind ? status : released;
    }
    status.backend = call->op->kernels[call->kernel].backend;
    return status;
}

static aicf_status
with_workspace(
    aicf_handle *handle, aicf_call *call, const aicf_backend *backend, const source *lead)
{
    dl_managed *managed = backend->host ? NULL : framework_memory(call, lead);
    if (!managed) {
        return with_backend_memory(handle, call, backend);
    }
    call->workspace = managed->tensor.data;
    aicf_status status = launch_kernel(handle, call, backend);
    if (managed->deleter) {
        managed->deleter(managed);
    }
    return status;
}

/* On the current stream of the tensors' framework; on one that the caller gave, behind what that
   framework has queued so far. */
static aicf_status
find_stream(aicf_call *call, const aicf_backend *backend, const source *lead)
{
    if (backend->host || (call->stream_given && !lead)) {
        return aicf_ok();
    }
    aicf_stream current = stream_current(lead, call->device);
    if (!call->stream_given) {
        call->stream = current;
        return aicf_ok();
    }
    if (current == call->stream || !backend->wait) {
        return aicf_ok();
    }
    aicf_status status = backend->wait(call->device, call->stream, current);
    status.backend = call->op->kernels[call->kernel].backend;
    return status;
}

aicf_status
launch(aicf_handle *handle, aicf_call *call, const source *lead)
{
    if (!call->launch) {
        return aicf_ok();
    }
    const aicf_backend *backend = backend_of_call(call);
    aicf_status status = find_stream(call, backend, lead);
    if (status.kind) {
        return status;
    }
    return call_lacks_memory(call) ? with_workspace(handle, call, backend, lead)
                                   : launch_kernel(handle, call, backend);
}

aicf_status
frame_launch(frame *f)
{
    aicf_call *call = f->call;
    if (!call->launch) {
        return aicf_ok();
    }
    const aicf_backend *backend = backend_of_call(call);
    if (backend->host) {
        return launch_is_brief(f->handle, call) ? call->launch(call)
                                                : launch(f->handle, call, NULL);
    }
    if (f->stream_found && !call->stream_given) {
        call->stream = f->stream;
        call->stream_given = true;
    }
    aicf_status status = frame_order(f, backend);
    if (status.kind) {
        return status;
    }
    return launch(f->handle, call, stream_lead(f->t, f->count));
}
