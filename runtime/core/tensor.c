/* aicf_rt.Tensor: memory of our own, for those who have none of a framework's. */
#include "parse.h"
#include "storage.h"

#include <stdlib.h>
#include <string.h>

PyObject *
tensor_of_storage(core_state *core, storage *s)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(core->tensor_type, Py_tp_alloc);
    PyObject *self = s ? allocate(core->tensor_type, 0) : NULL;
    if (!self) {
        storage_drop(s);
        return NULL;
    }
    ((tensor_object *)self)->s = s;
    return self;
}

PyObject *
tensor_new(
    core_state *core, aicf_dtype dtype, aicf_device device, aicf_stream stream, int rank,
    const int64_t *sizes, const int64_t *strides)
{
    return tensor_of_storage(
        core, storage_create(core, dtype, device, stream, rank, sizes, strides, false));
}

/* ---- aicf_rt.empty --------------------------------------------------------------------------- */

PyObject *
tensor_empty(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "dtype", "device", "stream", "fed", NULL};
    int64_t sizes[AICF_MAX_DIMS];
    PyObject *shape, *dtype, *where = NULL, *stream = Py_None;
    aicf_device device = {DL_CPU, 0};
    int fed = 0;

    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "OO|O$Op:empty", names, &shape, &dtype, &where, &stream, &fed)) {
        return NULL;
    }
    aicf_dtype parsed = dtype_parse("empty", dtype);
    if (!parsed || (where && device_parse("empty", where, &device) < 0)) {
        return NULL;
    }
    int rank = sizes_parse("empty", shape, sizes);
    aicf_stream on = (aicf_stream)(uintptr_t)1;
    if (stream != Py_None) {
        if (!PyLong_Check(stream) || PyBool_Check(stream)) {
            PyErr_SetString(PyExc_TypeError, "empty: stream is not an int");
            return NULL;
        }
        on = PyLong_AsVoidPtr(stream);
        if (PyErr_Occurred()) {
            return NULL;
        }
    }
    core_state *core = PyModule_GetState(module);
    return rank < 0 ? NULL
                    : tensor_of_storage(
                          core, storage_create(core, parsed, device, on, rank, sizes, NULL, fed));
}

/* ---- reading our own ------------------------------------------------------------------------- */

/* Whoever reads it on a device has to be behind its stream. */
int
tensor_read(void *object, void *tensor)
{
    const storage *s = storage_of(object);
    memcpy(tensor, &s->t, sizeof(dl_tensor));
    ((aicf_tensor *)tensor)->read_only = s->t.read_only;
    return 0;
}

/* ---- attributes ------------------------------------------------------------------------------ */

PyObject *
tuple_of_numbers(const int64_t *values, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(values[i]);
        if (!number) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SetItem(tuple, i, number);
        }
    }
    return tuple;
}

static PyObject *
get_shape(PyObject *self, void *closure)
{
    (void)closure;
    return tuple_of_numbers(storage_of(self)->t.sizes, storage_of(self)->t.rank);
}

static PyObject *
get_strides(PyObject *self, void *closure)
{
    (void)closure;
    return tuple_of_numbers(storage_of(self)->t.strides, storage_of(self)->t.rank);
}

static PyObject *
get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(dtype_words_of(storage_of(self)->t.dtype)->name);
}

static PyObject *
get_device(PyObject *self, void *closure)
{
    (void)closure;
    return device_text(storage_of(self)->t.device);
}

static PyObject *
tensor_repr(PyObject *self)
{
    PyObject *shape = get_shape(self, NULL), *device = get_device(self, NULL), *text = NULL;
    if (shape && device) {
        text = PyUnicode_FromFormat(
            "<aicf_rt.Tensor %s %S on %U>", dtype_words_of(storage_of(self)->t.dtype)->name, shape,
            device);
    }
    Py_XDECREF(shape);
    Py_XDECREF(device);
    return text;
}

/* ---- the type -------------------------------------------------------------------------------- */

static void
tensor_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    storage_drop(storage_of(self));
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))export_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule; `stream` is the consumer's."},
    {"__dlpack_device__", export_device, METH_NOARGS,
     "__dlpack_device__($self)\n--\n\nDLPack's numbers of the device's type and index."},
    {"__reduce_ex__", refuse_reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tensor_attributes[] = {
    {"shape", get_shape, NULL, "Sizes.", NULL},
    {"strides", get_strides, NULL, "Strides in elements.", NULL},
    {"dtype", get_dtype, NULL, "The dtype's name in the table, as 'f32'.", NULL},
    {"device", get_device, NULL, "'cpu' or as 'cuda:0'.", NULL},
    {"__cuda_array_interface__", export_interface, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, (void *)tensor_dealloc},
    {Py_tp_repr, (void *)tensor_repr},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_attributes},
    {Py_bf_getbuffer, (void *)export_buffer},
    {Py_tp_doc, (void *)"Memory of its own on the host or a device, for whoever has no framework. "
                        "numpy.asarray and every\nfrom_dlpack take it; made by empty() and by ops "
                        "whose inputs have no framework."},
    {0, NULL},
};

PyType_Spec tensor_spec = {
    .name = "aicf_rt.Tensor",
    .basicsize = sizeof(tensor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = tensor_slots,
};
