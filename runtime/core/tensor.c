/* aicf_rt.Tensor: memory of our own, for those who have none of a framework's. */
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
        core, storage_create(core, dtype, device, stream, rank, sizes, strides));
}

/* ---- aicf_rt.empty --------------------------------------------------------------------------- */

/* "cpu", "cuda", "cuda:1", or whatever prints so, torch.device among it. */
static int
device_parse(PyObject *value, aicf_device *device)
{
    PyObject *text = PyObject_Str(value);
    const char *word = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    char *end = NULL;
    long index = 0;
    bool cpu = word && strcmp(word, "cpu") == 0;
    bool cuda = word && strncmp(word, "cuda", 4) == 0;
    if (cuda && word[4] == ':') {
        index = strtol(word + 5, &end, 10);
        cuda = end != word + 5 && !*end && index >= 0 && index <= INT32_MAX;
    } else if (cuda) {
        cuda = !word[4];
    }
    if (text && !word) {
        PyErr_Clear(); /* no UTF-8: none of ours */
    }
    Py_XDECREF(text);
    *device = (aicf_device){cpu ? DL_CPU : DL_CUDA, (int32_t)index};
    if (!cpu && !cuda && !PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "empty: device %R is none of 'cpu', 'cuda', 'cuda:1'", value);
    }
    return cpu || cuda ? 0 : -1;
}

static aicf_dtype
dtype_parse(PyObject *value)
{
    const dtype_words *words = dtype_by_object(value);
    if (!words && !PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "empty: %R is no dtype of the table", value);
    }
    return words ? words->dtype : 0;
}

static int
size_parse(PyObject *shape, int index, int64_t *size)
{
    PyObject *item = PySequence_GetItem(shape, index);
    if (!item) {
        return -1;
    }
    *size = PyNumber_AsSsize_t(item, PyExc_OverflowError);
    Py_DECREF(item);
    if (*size < 0 && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "empty: a size is negative");
    }
    return *size < 0 ? -1 : 0;
}

/* The rank, or -1 with an exception. */
static int
shape_parse(PyObject *value, int64_t sizes[AICF_MAX_DIMS])
{
    if (PyIndex_Check(value)) {
        sizes[0] = PyNumber_AsSsize_t(value, PyExc_OverflowError);
        return PyErr_Occurred() ? -1 : 1;
    }
    Py_ssize_t rank = PySequence_Size(value); /* first: what has no length may have no end */
    if (rank > AICF_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "empty: %zd dims, at most %d", rank, AICF_MAX_DIMS);
        rank = -1;
    } else if (rank < 0 && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Format(PyExc_TypeError, "empty: shape is neither an int nor a sequence of ints");
    }
    for (int i = 0; i < rank; i++) {
        if (size_parse(value, i, &sizes[i]) < 0) {
            rank = -1;
        }
    }
    return (int)rank;
}

PyObject *
tensor_empty(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "dtype", "device", "stream", NULL};
    int64_t sizes[AICF_MAX_DIMS];
    PyObject *shape, *dtype, *where = NULL, *stream = Py_None;
    aicf_device device = {DL_CPU, 0};

    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "OO|O$O:empty", names, &shape, &dtype, &where, &stream)) {
        return NULL;
    }
    aicf_dtype parsed = dtype_parse(dtype);
    if (!parsed || (where && device_parse(where, &device) < 0)) {
        return NULL;
    }
    int rank = shape_parse(shape, sizes);
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
    return rank < 0 ? NULL
                    : tensor_new(PyModule_GetState(module), parsed, device, on, rank, sizes, NULL);
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
    aicf_device device = storage_of(self)->t.device;
    return device.type == DL_CPU ? PyUnicode_FromString("cpu")
                                 : PyUnicode_FromFormat("cuda:%d", (int)device.index);
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
