/* New outs, by the framework of the inputs. Memory is taken in the order it shall have and turned
   into the out's shape afterwards, because allocators know row-major alone. */
#include "core.h"

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

static const char *
typestr_of(aicf_dtype dtype)
{
#define BY_DTYPE(id, name, code, bits, ctype, numpy, typestr, format) \
    {AICF_DTYPE(code, bits), typestr},
    static const struct {
        aicf_dtype dtype;
        const char *typestr;
    } known[] = {AICF_DTYPES(BY_DTYPE)};
#undef BY_DTYPE
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].dtype == dtype && *known[i].typestr) {
            return known[i].typestr;
        }
    }
    return NULL;
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
