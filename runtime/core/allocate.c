/* New outs, by the framework of the inputs. Memory is taken in the order it shall have and turned
   into the out's shape afterwards, because allocators know row-major alone. */
#include "core.h"
#include "dtype.h"

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

/* ---- by the C exchange API ------------------------------------------------------------------- */

static void
fail(void *context, const char *kind, const char *message)
{
    (void)context;
    bool memory = kind && strcmp(kind, "MemoryError") == 0;
    PyErr_SetString(memory ? PyExc_MemoryError : PyExc_RuntimeError, message ? message : "");
}

static PyObject *
by_exchange(const dl_exchange *api, const aicf_inferred *out, const int perm[])
{
    int64_t sizes[AICF_MAX_DIMS];
    dl_tensor prototype = {
        .device = out->device, .rank = out->rank, .dtype = out->dtype, .sizes = sizes};
    dl_managed *managed = NULL;
    void *object = NULL;

    for (int i = 0; i < out->rank; i++) {
        sizes[i] = out->sizes[perm[i]];
    }
    if (api->allocate(&prototype, &managed, NULL, fail) != 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_RuntimeError, "the framework's allocator failed");
        }
        return NULL;
    }
    for (int i = 0; out->ordered && i < out->rank; i++) {
        managed->tensor.sizes[i] = out->sizes[i];
        managed->tensor.strides[i] = out->strides[i];
    }
    if (api->wrap(managed, &object) != 0) {
        if (managed->deleter) {
            managed->deleter(managed);
        }
        return NULL;
    }
    return object;
}

/* ---- by a module that is like numpy ---------------------------------------------------------- */

/* NULL: numpy has no such dtype. */
static const char *
typestr_of(aicf_dtype dtype)
{
    const dtype_words *words = dtype_words_of(dtype);
    return words && *words->typestr ? words->typestr : NULL;
}

static PyObject *
tuple_of(const int64_t *values, const int perm[], int rank)
{
    PyObject *tuple = PyTuple_New(rank);
    for (int i = 0; tuple && i < rank; i++) {
        PyObject *number = PyLong_FromLongLong(values[perm ? perm[i] : i]);
        if (!number) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SetItem(tuple, i, number);
        }
    }
    return tuple;
}

static PyObject *
permuted(PyObject *array, const aicf_inferred *out, const int perm[])
{
    int64_t inverse[AICF_MAX_DIMS];
    for (int i = 0; i < out->rank; i++) {
        inverse[perm[i]] = i;
    }
    PyObject *axes = tuple_of(inverse, NULL, out->rank);
    PyObject *view = axes ? PyObject_CallMethod(array, "transpose", "(O)", axes) : NULL;
    Py_XDECREF(axes);
    return view;
}

static PyObject *
by_module(const char *name, const aicf_inferred *out, const int perm[])
{
    PyObject *module = PyImport_ImportModule(name);
    PyObject *sizes = module ? tuple_of(out->sizes, perm, out->rank) : NULL;
    PyObject *array =
        sizes ? PyObject_CallMethod(module, "empty", "(Os)", sizes, typestr_of(out->dtype)) : NULL;
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
    PyObject *sizes = tuple_of(out->sizes, NULL, out->rank);
    PyObject *strides = out->ordered ? tuple_of(out->strides, NULL, out->rank) : NULL;
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

PyObject *
allocate_out(frame *f, const source *like, aicf_inferred *out)
{
    int perm[AICF_MAX_DIMS];
    memory_order(out, perm);
    if (like && like->exchange && like->exchange->allocate && like->exchange->wrap) {
        return by_exchange(like->exchange, out, perm);
    }
    int owner = like ? like->framework : FRAMEWORK_NONE;
    if (owner == FRAMEWORK_TORCH) {
        return by_torch(out);
    }
    bool array = typestr_of(out->dtype) != NULL;
    if (array && is_host(f, out->device) && (owner == FRAMEWORK_NUMPY || owner == FRAMEWORK_NONE)) {
        PyObject *made = by_module("numpy", out, perm);
        if (made || owner == FRAMEWORK_NUMPY || !PyErr_ExceptionMatches(PyExc_ImportError)) {
            return made;
        }
        PyErr_Clear(); /* a machine without numpy */
    }
    if (array && owner == FRAMEWORK_CUPY) {
        return by_module("cupy", out, perm);
    }
    return by_ourselves(f, out);
}

PyObject *
allocate_finish(const source *like, PyObject *object)
{
    if (!like || like->framework != FRAMEWORK_JAX) {
        return object;
    }
    PyObject *jax = PyImport_ImportModule("jax.dlpack");
    PyObject *array = jax ? PyObject_CallMethod(jax, "from_dlpack", "O", object) : NULL;
    Py_XDECREF(jax);
    Py_DECREF(object);
    return array;
}
