/* aicf_rt.copy: bytes from one tensor to another, on the host, on a device or between them. It is
   an op with a launcher of its own, the backend's `copy`: producers, streams and devices are dealt
   with as everywhere. */
#include "block.h"

#include <aicf/backend/cpu.h>
#include <aicf/backend/cuda.h>

enum { SOURCE, OUT, TENSORS };
enum { ON_HOST, ON_CUDA };

static aicf_status
copy_launch(const aicf_call *call)
{
    const aicf_backend *backend = call->op->backends[call->kernel].backend;
    const aicf_view *views = aicf_call_views(call);
    return backend->copy(
        call->device, call->stream, views[OUT].data, views[SOURCE].data, call->work);
}

static bool
on_device(const aicf_tensor *t)
{
    return t->device.type == DL_CUDA || t->device.type == DL_CUDA_MANAGED;
}

/* The device is the one that is none of the host's, if there is one. */
static aicf_status
copy_prepare(const aicf_tensor *t, aicf_call *call)
{
    const aicf_tensor *where = on_device(&t[OUT]) ? &t[OUT] : &t[SOURCE];
    call->kernel = on_device(where) ? ON_CUDA : ON_HOST;
    call->device = call->kernel == ON_HOST ? (aicf_device){DL_CPU, 0} : where->device;
    call->work = t[OUT].numel * aicf_dtype_size(t[OUT].dtype);
    call->launch = t[OUT].numel ? copy_launch : NULL;
    for (int i = 0; i < TENSORS; i++) {
        aicf_call_views(call)[i] = (aicf_view){.data = t[i].data};
    }
    return aicf_ok();
}

static const aicf_param params[] = {
    [SOURCE] = {.name = "source", .role = AICF_IN, .list = -1, .order = -1},
    [OUT] = {.name = "out", .role = AICF_OUT, .list = -1, .order = -1},
};
static const aicf_dtype any_dtype[TENSORS];
static const char *const suffixes[] = {"any"};
static const aicf_kernel kernels[] = {
    [ON_HOST] = {.id = "copy", .backend = ON_HOST, .model = -1},
    [ON_CUDA] = {.id = "copy", .backend = ON_CUDA, .model = -1},
};
static const int32_t host_types[] = {DL_CPU, DL_CUDA_HOST, 0};
static const int32_t cuda_types[] = {DL_CUDA, DL_CUDA_MANAGED, 0};
static const aicf_op_backend backends[] = {
    [ON_HOST] = {&aicf_backend_cpu, host_types, ON_HOST, ON_HOST + 1},
    [ON_CUDA] = {&aicf_backend_cuda, cuda_types, ON_CUDA, ON_CUDA + 1},
};
static const aicf_op copy_op = {
    .size = sizeof copy_op,
    .version = AICF_CALL_VERSION,
    .name = "copy",
    .package = "aicf_rt",
    .call_size = (sizeof(aicf_call) + 15) / 16 * 16,
    .dims_offset = (sizeof(aicf_call) + 15) / 16 * 16,
    .inputs = 1,
    .outs = 1,
    .params = TENSORS,
    .variants = 1,
    .kernel_count = 2,
    .backend_count = 2,
    .written = UINT64_C(1) << OUT,
    .params_of = params,
    .dtypes = any_dtype,
    .suffixes = suffixes,
    .kernels = kernels,
    .backends = backends,
    .prepare = copy_prepare,
};

/* ---- checks ---------------------------------------------------------------------------------- */

static int
refuse(const core_state *core, int i, const char *what)
{
    const char *name = params[i].name;
    PyObject *text = PyUnicode_FromFormat("copy: %s: %s", name, what);
    if (text) {
        PyObject *values[] = {PyUnicode_FromString("copy"), PyUnicode_FromString(name)};
        raise_with(
            core->unsupported, PyUnicode_AsUTF8AndSize(text, NULL),
            (const char *const[]){"op", "arg", NULL}, values);
        Py_DECREF(text);
    }
    return -1;
}

static int
check_one(aicf_handle *handle, const aicf_call *call, const aicf_tensor *both, int i)
{
    const aicf_tensor *t = &both[i];
    if (t->refused) {
        raise_status(handle, call, both, aicf_unsupported(t->refused, i, 0));
        return -1;
    }
    if (!t->dense) {
        return refuse(
            handle->core, i,
            "it is not dense and row-major: an op of the table copies strided ones");
    }
    for (int type = 0; type < 2; type++) {
        for (const int32_t *served = backends[type].devices; *served; served++) {
            if (*served == t->device.type) {
                return 0;
            }
        }
    }
    return refuse(handle->core, i, "it lies neither on the host nor on cuda");
}

static int
check(aicf_handle *handle, const aicf_call *call, const aicf_tensor *both)
{
    const core_state *core = handle->core;
    const aicf_tensor *source = &both[SOURCE], *out = &both[OUT];
    if (check_one(handle, call, both, SOURCE) < 0 || check_one(handle, call, both, OUT) < 0) {
        return -1;
    }
    const aicf_tensor *pair[] = {source, out};
    return out->read_only                ? refuse(core, OUT, "it is read-only")
           : source->dtype != out->dtype ? refuse(core, OUT, "its dtype is not that of source")
           : !aicf_tensors_same_shape(pair, TENSORS)
               ? refuse(core, OUT, "its shape is not that of source")
           : aicf_tensors_overlap(out, source, true) ? refuse(core, OUT, "it overlaps source")
           : on_device(source) && on_device(out) && !aicf_device_same(source->device, out->device)
               ? refuse(core, OUT, "it is on another device than source")
               : 0;
}

/* ---- the function ---------------------------------------------------------------------------- */

/* The host's side of it is in use until the stream gets there. */
static aicf_status
settle(const frame *f)
{
    const aicf_backend *backend = backends[f->call->kernel].backend;
    aicf_status status;
    if (backend->host || (on_device(&f->t[SOURCE]) && on_device(&f->t[OUT]))) {
        return aicf_ok();
    }
    Py_BEGIN_ALLOW_THREADS;
    status = backend->synchronize(f->call->device, f->call->stream);
    Py_END_ALLOW_THREADS;
    status.backend = (uint8_t)f->call->kernel;
    return status;
}

static PyObject *
copy_framed(frame *f)
{
    aicf_status status = check(f->handle, f->call, f->t) < 0 ? (aicf_status){.kind = AICF_INTERNAL}
                                                             : copy_prepare(f->t, f->call);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (f->call->launch) {
        status = frame_launch(f);
        status = status.kind ? status : settle(f);
    }
    if (status.kind) {
        return raise_refusal(f, status);
    }
    const source *s = tensor_source(&f->t[OUT]);
    bool torch = s && s->framework == FRAMEWORK_TORCH;
    return torch && torch_written(f->core, f->objects[OUT]) < 0 ? NULL : Py_NewRef(Py_None);
}

/* Borrowed: made once, and the state's, whose module it does not keep. */
static aicf_handle *
handle_of_copies(core_state *core)
{
    aicf_handle *stands = __atomic_load_n(&core->copies, __ATOMIC_ACQUIRE);
    aicf_handle *made = stands ? NULL : handle_of_reader(&copy_op);
    if (!made) {
        return stands;
    }
    made->core = core;
    Py_CLEAR(made->module);
    if (__atomic_compare_exchange_n(
            &core->copies, &stands, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        return made;
    }
    handle_close(made);
    return stands;
}

PyObject *
tensor_copy(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"source", "out", "stream", NULL};
    PyObject *objects[TENSORS], *stream = Py_None, *done = NULL;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "OO|$O:copy", names, &objects[SOURCE], &objects[OUT], &stream)) {
        return NULL;
    }
    aicf_handle *handle = handle_of_copies(PyModule_GetState(module));
    if (!handle) {
        return NULL;
    }
    FRAME_ROOM(handle);
    frame f;
    if (frame_begin(&f, handle, room, 0, FORM_TYPED, objects, TENSORS, NULL) == 0) {
        if (option_stream(&f, stream) == 0 && frame_read(&f, false) == 0) {
            done = copy_framed(&f);
            frame_drop(&f);
        }
        frame_end(&f);
    }
    return done;
}

/* ---- a copy that is bound -------------------------------------------------------------------- */

block *
copy_bind(PyObject *source, PyObject *out)
{
    PyObject *objects[TENSORS] = {source, out};
    aicf_handle *handle = handle_of_reader(&copy_op);
    if (!handle) {
        return NULL;
    }
    FRAME_ROOM(handle);
    frame f;
    block *b = NULL;
    if (frame_begin(&f, handle, room, 0, FORM_TYPED, objects, TENSORS, NULL) == 0) {
        b = block_create(&f);
        if (b && block_prepare(b, &f) < 0) {
            block_drop(b);
            b = NULL;
        }
        frame_drop(&f);
        frame_end(&f);
    }
    if (b) {
        const aicf_tensor both[TENSORS] = {b->tensors[SOURCE]->t, b->tensors[OUT]->t};
        if (check(handle, b->call, both) < 0) {
            block_drop(b);
            b = NULL;
        }
    }
    handle_close(handle);
    return b;
}

bool
copy_crosses(const block *b)
{
    return on_device(&b->tensors[SOURCE]->t) != on_device(&b->tensors[OUT]->t);
}

bool
copy_goes_up(const block *b)
{
    return !on_device(&b->tensors[SOURCE]->t) && on_device(&b->tensors[OUT]->t);
}
