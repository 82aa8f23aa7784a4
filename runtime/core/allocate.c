/* New outs, by the framework of the inputs. Memory is taken in the order it shall have and turned
   into the out's shape afterwards, because allocators know row-major alone. */
#include "storage.h"

#include <string.h>

/* Dims by falling stride: perm[k] is the dim that lies k-th in memory. */
static void
memory_order(const aicf_inferred *out, int perm[])
{
    for (int i = 0; i < out->rank; i++) {
        int at = i;
        while (out->ordered && at > 0 && out->strides[perm[at - 1]] < out->strides[i]) {
            perm[at] = perm[at - 1];
            at--;
        }
        perm[at] = i;
    }
}

/* ---- by ourselves ---------------------------------------------------------------------------- */

static bool
is_host(const frame *f, aicf_device device)
{
    const aicf_backend *backend = backend_of_device(f->op, device.type);
    return backend && backend->host;
}

static PyObject *
by_ourselves(frame *f, const aicf_inferred *out)
{
    return tensor_new(
        f->core, out->dtype, out->device,
        is_host(f, out->device) ? NULL : frame_stream(f, out->device), out->rank, out->sizes,
        out->ordered ? out->strides : NULL);
}

/* ---- by the C exchange API ------------------------------------------------------------------- */

/* What an allocator said of its failure, kept until the GIL is known to be held. */
typedef struct complaint {
    bool memory;
    char text[256];
} complaint;

static void
fail(void *context, const char *kind, const char *message)
{
    complaint *said = context;
    said->memory = kind && strcmp(kind, "MemoryError") == 0;
    PyOS_snprintf(said->text, sizeof said->text, "%s", message ? message : "");
}

static PyObject *
failed(const char *text)
{
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_RuntimeError, text);
    }
    return NULL;
}

static PyObject *
allocator_failed(const complaint *said)
{
    if (!PyErr_Occurred() && said->memory) {
        PyErr_SetString(PyExc_MemoryError, said->text);
    }
    return failed(*said->text ? said->text : "the framework's allocator failed");
}

static void
managed_delete(dl_managed *managed)
{
    if (managed->deleter) {
        managed->deleter(managed);
    }
}

/* Turns row-major memory into the out's shape; false where that is not what came. */
static bool
in_order(dl_tensor *t, const aicf_inferred *out)
{
    if (t->rank != out->rank || (t->rank > 0 && (!t->sizes || !t->strides))) {
        return false;
    }
    for (int i = 0; i < out->rank; i++) {
        t->sizes[i] = out->sizes[i];
        t->strides[i] = out->strides[i];
    }
    return true;
}

/* A tensor that a framework takes over is its own from then on, also where it fails. */
static PyObject *
wrapped(const dl_exchange *api, dl_managed *managed)
{
    void *object = NULL;
    if (api->wrap(managed, &object) != 0 || !object) {
        return failed("the framework did not take its own memory");
    }
    return object;
}

static PyObject *
by_exchange(const dl_exchange *api, const aicf_inferred *out, const int perm[])
{
    int64_t sizes[AICF_MAX_DIMS];
    dl_tensor prototype = {
        .device = out->device, .rank = out->rank, .dtype = out->dtype, .sizes = sizes};
    dl_managed *managed = NULL;
    complaint said = {.memory = false};

    for (int i = 0; i < out->rank; i++) {
        sizes[i] = out->sizes[perm[i]];
    }
    if (api->allocate(&prototype, &managed, &said, fail) != 0 || !managed) {
        return allocator_failed(&said);
    }
    if (out->ordered && !in_order(&managed->tensor, out)) {
        managed_delete(managed);
        return failed("the framework's allocator gave another tensor than it was asked for");
    }
    return wrapped(api, managed);
}

/* Memory of ours as a tensor of a framework that has no allocator to ask. */
static PyObject *
by_wrapping(frame *f, const dl_exchange *api, const aicf_inferred *out)
{
    PyObject *made = by_ourselves(f, out);
    dl_managed *managed = made ? export_managed(storage_of(made)) : NULL;
    if (made && !managed) {
        PyErr_NoMemory();
    }
    Py_XDECREF(made); /* the export keeps the memory */
    return managed ? wrapped(api, managed) : NULL;
}

/* ---- by a module that is like numpy ---------------------------------------------------------- */

/* The dtype in the module's words, NULL without an exception where it has none. A new reference. */
static PyObject *
words_of(aicf_dtype dtype)
{
    const dtype_words *words = dtype_words_of(dtype);
    return words && *words->typestr ? PyUnicode_FromString(words->typestr) : ml_dtypes_class(dtype);
}

static PyObject *
permuted(PyObject *array, const aicf_inferred *out, const int perm[])
{
    int64_t inverse[AICF_MAX_DIMS];
    for (int i = 0; i < out->rank; i++) {
        inverse[perm[i]] = i;
    }
    PyObject *axes = tuple_of_numbers(inverse, out->rank);
    PyObject *view = axes ? PyObject_CallMethod(array, "transpose", "(O)", axes) : NULL;
    Py_XDECREF(axes);
    return view;
}

static PyObject *
by_module(const char *name, PyObject *dtype, const aicf_inferred *out, const int perm[])
{
    int64_t taken[AICF_MAX_DIMS];
    for (int i = 0; i < out->rank; i++) {
        taken[i] = out->sizes[perm[i]];
    }
    PyObject *module = PyImport_ImportModule(name);
    PyObject *sizes = module ? tuple_of_numbers(taken, out->rank) : NULL;
    PyObject *array = sizes ? PyObject_CallMethod(module, "empty", "(OO)", sizes, dtype) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(sizes);
    if (!array || !out->ordered) {
        return array;
    }
    PyObject *view = permuted(array, out, perm);
    Py_DECREF(array);
    return view;
}

/* ---- by a torch of before the exchange API --------------------------------------------------- */

static PyObject *
by_torch(const aicf_inferred *out)
{
    PyObject *name = dtype_spelling(dtype_words_of(out->dtype));
    PyObject *torch = PyImport_ImportModule("torch"), *made = NULL;
    PyObject *dtype = torch && name ? PyObject_GetAttr(torch, name) : NULL;
    PyObject *device = PyUnicode_FromFormat(
        out->device.type == DL_CPU ? "cpu" : "cuda:%d", (int)out->device.index);
    PyObject *sizes = tuple_of_numbers(out->sizes, out->rank);
    PyObject *strides = out->ordered ? tuple_of_numbers(out->strides, out->rank) : NULL;
    PyObject *kwargs =
        dtype && device ? Py_BuildValue("{s:O,s:O}", "dtype", dtype, "device", device) : NULL;
    PyObject *args = !sizes          ? NULL
                     : !out->ordered ? PyTuple_Pack(1, sizes)
                     : strides       ? PyTuple_Pack(2, sizes, strides)
                                     : NULL;
    PyObject *empty =
        torch ? PyObject_GetAttrString(torch, out->ordered ? "empty_strided" : "empty") : NULL;
    if (kwargs && args && empty) {
        made = PyObject_Call(empty, args, kwargs);
    }
    PyObject *used[] = {name, torch, dtype, device, sizes, strides, kwargs, args, empty};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        Py_XDECREF(used[i]);
    }
    return made;
}

/* ---- which ----------------------------------------------------------------------------------- */

/* numpy's on the host, cupy's on a device. NULL without an exception: neither has such an array. */
static PyObject *
by_module_of(const frame *f, int owner, const aicf_inferred *out, const int perm[])
{
    bool host = is_host(f, out->device);
    bool numpy = host && (owner == FRAMEWORK_NUMPY || owner == FRAMEWORK_NONE);
    PyObject *dtype = numpy || owner == FRAMEWORK_CUPY ? words_of(out->dtype) : NULL;
    if (!dtype) {
        return NULL;
    }
    PyObject *made = by_module(numpy ? "numpy" : "cupy", dtype, out, perm);
    Py_DECREF(dtype);
    if (!made && owner == FRAMEWORK_NONE && PyErr_ExceptionMatches(PyExc_ImportError)) {
        PyErr_Clear(); /* a machine without numpy */
    }
    return made;
}

PyObject *
allocate_out(frame *f, const source *like, aicf_inferred *out)
{
    int perm[AICF_MAX_DIMS];
    int owner = like ? like->framework : FRAMEWORK_NONE;
    memory_order(out, perm);
    if (like && like->exchange && like->exchange->wrap) {
        return like->exchange->allocate ? by_exchange(like->exchange, out, perm)
                                        : by_wrapping(f, like->exchange, out);
    }
    if (owner == FRAMEWORK_TORCH) {
        return by_torch(out);
    }
    PyObject *made = by_module_of(f, owner, out, perm);
    return made || PyErr_Occurred() ? made : by_ourselves(f, out);
}

/* By the from_dlpack of frameworks that take memory and give none. Steals. */
static PyObject *
handed_over(const char *module, PyObject *object)
{
    PyObject *taker = PyImport_ImportModule(module);
    PyObject *made = taker ? PyObject_CallMethod(taker, "from_dlpack", "O", object) : NULL;
    Py_XDECREF(taker);
    Py_DECREF(object);
    return made;
}

PyObject *
allocate_finish(const source *like, PyObject *object)
{
    int owner = like && !like->exchange ? like->framework : FRAMEWORK_NONE;
    return owner == FRAMEWORK_JAX   ? handed_over("jax.dlpack", object)
           : owner == FRAMEWORK_TVM ? handed_over("tvm_ffi", object)
                                    : object;
}
