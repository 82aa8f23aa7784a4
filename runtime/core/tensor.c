/* aicf_rt.Tensor: memory of our own, for those who have none of a framework's. What owns the memory
   is a counted block without a PyObject, so that an export may be deleted on any thread, without
   the GIL and after the interpreter is gone. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include <aicf/backend/cpu.h>
#include <aicf/backend/cuda.h>

/* Memory, described. Never changes. Released where it was taken, ordered by the same stream. */
typedef struct storage {
    int64_t references;
    const aicf_backend *backend;
    aicf_stream stream;
    aicf_tensor t; /* row-major or with strides; sizes and strides lie behind */
    int64_t bytes;
    int64_t numbers[]; /* sizes, strides in elements, strides in bytes */
} storage;

typedef struct tensor_object {
    PyObject_HEAD storage *s;
} tensor_object;

static void
storage_drop(storage *s)
{
    if (s && __atomic_sub_fetch(&s->references, 1, __ATOMIC_ACQ_REL) == 0) {
        if (s->t.data) {
            s->backend->release(s->t.device, s->stream, s->t.data);
        }
        free(s);
    }
}

static storage *
storage_share(storage *s)
{
    __atomic_add_fetch(&s->references, 1, __ATOMIC_RELAXED);
    return s;
}

static const storage *
storage_of(PyObject *object)
{
    return ((tensor_object *)object)->s;
}

static const aicf_backend *
backend_for(aicf_device device)
{
    return device.type == DL_CPU    ? &aicf_backend_cpu
           : device.type == DL_CUDA ? &aicf_backend_cuda
                                    : NULL;
}

/* ---- making one ------------------------------------------------------------------------------ */

static storage *
storage_describe(
    aicf_dtype dtype, aicf_device device, int rank, const int64_t *sizes, const int64_t *strides)
{
    storage *s = calloc(1, sizeof *s + sizeof(int64_t) * 3 * (size_t)(rank + 1));
    if (!s) {
        return NULL;
    }
    int64_t *own = s->numbers, *in_elements = own + rank, *in_bytes = in_elements + rank;
    int64_t below = 1;
    for (int i = rank - 1; i >= 0; i--) {
        own[i] = sizes[i];
        in_elements[i] = strides ? strides[i] : below;
        in_bytes[i] = in_elements[i] * aicf_dtype_size(dtype);
        below *= sizes[i] ? sizes[i] : 1;
    }
    s->references = 1;
    s->t = (aicf_tensor){
        .device = device, .rank = rank, .dtype = dtype, .sizes = own, .strides = in_elements};
    return s;
}

/* False: more than memory can be. */
static bool
count_bytes(aicf_dtype dtype, int rank, const int64_t *sizes, int64_t *bytes)
{
    bool empty = false;
    *bytes = aicf_dtype_size(dtype);
    for (int i = 0; i < rank; i++) {
        empty |= sizes[i] == 0;
        if (sizes[i] < 0 || (sizes[i] && __builtin_mul_overflow(*bytes, sizes[i], bytes))) {
            return false;
        }
    }
    *bytes = empty ? 0 : *bytes;
    return true;
}

static int
storage_allocate(core_state *core, storage *s)
{
    aicf_status status = s->backend->allocate(s->t.device, s->stream, s->bytes, &s->t.data);
    if (status.kind == AICF_OK) {
        aicf_tensor_settle(&s->t);
        return 0;
    }
    s->t.data = NULL;
    char text[512] = "out of memory";
    if (status.kind == AICF_BACKEND_ERROR && s->backend->error_text) {
        s->backend->error_text(status.native, text, sizeof text);
        PyErr_Format(core->backend_error, "aicf_rt.Tensor: %s", text);
    } else {
        PyErr_NoMemory();
    }
    return -1;
}

PyObject *
tensor_new(
    core_state *core, aicf_dtype dtype, aicf_device device, aicf_stream stream, int rank,
    const int64_t *sizes, const int64_t *strides)
{
    int64_t bytes;
    const aicf_backend *backend = backend_for(device);
    if (!backend || !count_bytes(dtype, rank, sizes, &bytes)) {
        PyErr_SetString(
            PyExc_ValueError, backend ? "the shape is more than memory can hold"
                                      : "a Tensor lies on the cpu or on cuda");
        return NULL;
    }
    storage *s = storage_describe(dtype, device, rank, sizes, strides);
    if (!s) {
        return PyErr_NoMemory();
    }
    s->backend = backend;
    s->stream = stream;
    s->bytes = bytes;
    allocfunc allocate = (allocfunc)PyType_GetSlot(core->tensor_type, Py_tp_alloc);
    PyObject *self = storage_allocate(core, s) < 0 ? NULL : allocate(core->tensor_type, 0);
    if (!self) {
        storage_drop(s);
        return NULL;
    }
    ((tensor_object *)self)->s = s;
    return self;
}

/* ---- aicf_rt.empty --------------------------------------------------------------------------- */

static const char *
device_name(int32_t type)
{
    return type == DL_CPU ? "cpu" : "cuda";
}

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
#define BY_NAME(id, name, code, bits, ctype, numpy, typestr, format) \
    {#name, AICF_DTYPE(code, bits)},
    static const struct {
        const char *name;
        aicf_dtype dtype;
    } known[] = {AICF_DTYPES(BY_NAME)};
#undef BY_NAME
    const char *word = dtype_word(value);
    for (size_t i = 0; word && i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, word) == 0) {
            return known[i].dtype;
        }
    }
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "empty: %R is no dtype of the table", value);
    }
    return 0;
}

/* The rank, or -1 with an exception. */
static int
shape_parse(PyObject *value, int64_t sizes[AICF_MAX_DIMS])
{
    if (PyIndex_Check(value)) {
        sizes[0] = PyNumber_AsSsize_t(value, PyExc_OverflowError);
        return PyErr_Occurred() ? -1 : 1;
    }
    PyObject *items = PySequence_Tuple(value);
    Py_ssize_t rank = items ? PyTuple_Size(items) : -1;
    if (rank > AICF_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "empty: %zd dims, at most %d", rank, AICF_MAX_DIMS);
        rank = -1;
    }
    for (Py_ssize_t i = 0; i < rank; i++) {
        sizes[i] = PyNumber_AsSsize_t(PyTuple_GetItem(items, i), PyExc_OverflowError);
        if (sizes[i] < 0) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "empty: a size is negative");
            }
            rank = -1;
        }
    }
    Py_XDECREF(items);
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

int
tensor_read(void *object, void *tensor)
{
    memcpy(tensor, &storage_of(object)->t, offsetof(aicf_tensor, numel));
    return 0;
}

/* ---- DLPack ---------------------------------------------------------------------------------- */

static void
managed_delete(dl_managed *managed)
{
    storage_drop(managed->context);
    free(managed);
}

static void
legacy_delete(dl_legacy *legacy)
{
    storage_drop(legacy->context);
    free(legacy);
}

static void
head_fill(dl_tensor *head, const storage *s)
{
    memcpy(head, &s->t, sizeof *head);
}

static dl_managed *
export_versioned(storage *s)
{
    dl_managed *managed = calloc(1, sizeof *managed);
    if (managed) {
        managed->version = (dl_version){DL_MAJOR, DL_MINOR};
        managed->context = storage_share(s);
        managed->deleter = managed_delete;
        head_fill(&managed->tensor, s);
    }
    return managed;
}

static dl_legacy *
export_legacy(storage *s)
{
    dl_legacy *legacy = calloc(1, sizeof *legacy);
    if (legacy) {
        legacy->context = storage_share(s);
        legacy->deleter = legacy_delete;
        head_fill(&legacy->tensor, s);
    }
    return legacy;
}

/* A capsule that nobody took still owns its tensor; a taken one was renamed. */
static void
capsule_end(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, DL_CAPSULE)) {
        managed_delete(PyCapsule_GetPointer(capsule, DL_CAPSULE));
    } else if (PyCapsule_IsValid(capsule, DL_CAPSULE_LEGACY)) {
        legacy_delete(PyCapsule_GetPointer(capsule, DL_CAPSULE_LEGACY));
    }
}

static PyObject *
capsule_of(storage *s, bool versioned)
{
    dl_managed *managed = versioned ? export_versioned(s) : NULL;
    dl_legacy *legacy = versioned ? NULL : export_legacy(s);
    if (!managed && !legacy) {
        return PyErr_NoMemory();
    }
    PyObject *capsule = versioned ? PyCapsule_New(managed, DL_CAPSULE, capsule_end)
                                  : PyCapsule_New(legacy, DL_CAPSULE_LEGACY, capsule_end);
    if (!capsule && versioned) {
        managed_delete(managed);
    } else if (!capsule) {
        legacy_delete(legacy);
    }
    return capsule;
}

/* The consumer's stream waits for ours. None is the default stream, -1 asks for nothing. */
static int
export_order(const storage *s, PyObject *stream)
{
    if (s->backend->host) {
        if (stream != Py_None) {
            PyErr_SetString(PyExc_BufferError, "a tensor on the cpu takes no stream");
            return -1;
        }
        return 0;
    }
    long long number = stream == Py_None ? 1 : PyLong_AsLongLong(stream);
    if ((number == -1 && PyErr_Occurred()) || number == 0) {
        PyErr_SetString(PyExc_BufferError, "stream 0 is ambiguous: 1 is the default stream");
        return -1;
    }
    aicf_stream theirs = (aicf_stream)(uintptr_t)number;
    if (number == -1 || theirs == s->stream || !s->backend->wait) {
        return 0;
    }
    aicf_status status = s->backend->wait(s->t.device, theirs, s->stream);
    if (status.kind) {
        PyErr_SetString(PyExc_BufferError, "the streams could not be ordered");
    }
    return status.kind ? -1 : 0;
}

static int
export_device(const storage *s, PyObject *wanted)
{
    int type, index;
    if (wanted == Py_None) {
        return 0;
    }
    if (!PyTuple_Check(wanted) || !PyArg_ParseTuple(wanted, "ii:dl_device", &type, &index)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "dl_device is a tuple of two ints");
        }
        return -1;
    }
    if (type != s->t.device.type || index != s->t.device.index) {
        PyErr_SetString(PyExc_BufferError, "this tensor is not copied to another device");
        return -1;
    }
    return 0;
}

static PyObject *
tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor = 0;
    storage *s = ((tensor_object *)self)->s;

    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy)) {
        return NULL;
    }
    if (version != Py_None &&
        (!PyTuple_Check(version) || !PyArg_ParseTuple(version, "ii:max_version", &major, &minor))) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "max_version is a tuple of two ints");
        }
        return NULL;
    }
    if (copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "this tensor does not copy itself");
        return NULL;
    }
    if (export_device(s, device) < 0 || export_order(s, stream) < 0) {
        return NULL;
    }
    return capsule_of(s, major >= DL_MAJOR);
}

static PyObject *
tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    const storage *s = storage_of(self);
    return Py_BuildValue("(ii)", (int)s->t.device.type, (int)s->t.device.index);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static PyObject *
tuple_of(const int64_t *values, int count)
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
    return tuple_of(storage_of(self)->t.sizes, storage_of(self)->t.rank);
}

static PyObject *
get_strides(PyObject *self, void *closure)
{
    (void)closure;
    return tuple_of(storage_of(self)->t.strides, storage_of(self)->t.rank);
}

typedef struct dtype_texts {
    aicf_dtype dtype;
    const char *name, *typestr, *format;
} dtype_texts;

static const dtype_texts *
texts_of(aicf_dtype dtype)
{
#define TEXTS(id, name, code, bits, ctype, numpy, typestr, format) \
    {AICF_DTYPE(code, bits), #name, typestr, format},
    static const dtype_texts known[] = {AICF_DTYPES(TEXTS)};
#undef TEXTS
    const dtype_texts *at = known;
    while (at->dtype != dtype) {
        at++;
    }
    return at;
}

static PyObject *
get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(texts_of(storage_of(self)->t.dtype)->name);
}

static PyObject *
get_device(PyObject *self, void *closure)
{
    (void)closure;
    aicf_device device = storage_of(self)->t.device;
    return device.type == DL_CPU
               ? PyUnicode_FromString("cpu")
               : PyUnicode_FromFormat("%s:%d", device_name(device.type), (int)device.index);
}

/* Version 3: the stream says after what the memory may be used. */
static PyObject *
get_interface(PyObject *self, void *closure)
{
    (void)closure;
    const storage *s = storage_of(self);
    const dtype_texts *texts = texts_of(s->t.dtype);
    if (s->backend->host || !*texts->typestr) {
        PyErr_SetString(
            PyExc_AttributeError, s->backend->host ? "this Tensor is not on cuda"
                                                   : "the array interface has no word for bf16");
        return NULL;
    }
    PyObject *shape = tuple_of(s->t.sizes, s->t.rank);
    PyObject *strides = tuple_of(s->t.sizes + 2 * s->t.rank, s->t.rank);
    PyObject *typestr =
        PyUnicode_FromFormat("%s%s", aicf_dtype_size(s->t.dtype) > 1 ? "<" : "|", texts->typestr);
    PyObject *interface = NULL;
    if (shape && strides && typestr) {
        interface = Py_BuildValue(
            "{s:O,s:O,s:O,s:(NO),s:i,s:N}", "shape", shape, "strides", strides, "typestr", typestr,
            "data", PyLong_FromVoidPtr(s->t.data), Py_False, "version", 3, "stream",
            PyLong_FromVoidPtr(s->stream ? (void *)s->stream : (void *)(uintptr_t)1));
    }
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    Py_XDECREF(typestr);
    return interface;
}

static PyObject *
tensor_repr(PyObject *self)
{
    PyObject *shape = get_shape(self, NULL), *device = get_device(self, NULL), *text = NULL;
    if (shape && device) {
        text = PyUnicode_FromFormat(
            "<aicf_rt.Tensor %s %S on %U>", texts_of(storage_of(self)->t.dtype)->name, shape,
            device);
    }
    Py_XDECREF(shape);
    Py_XDECREF(device);
    return text;
}

/* ---- the buffer protocol --------------------------------------------------------------------- */

static int
tensor_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    const storage *s = storage_of(self);
    const char *format = texts_of(s->t.dtype)->format;
    view->obj = NULL;
    if (!s->backend->host || !*format) {
        PyErr_SetString(
            PyExc_BufferError, *format ? "this Tensor is not in host memory"
                                       : "the buffer protocol has no format for bf16");
        return -1;
    }
    if (!s->t.dense && (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
        PyErr_SetString(PyExc_BufferError, "this Tensor is not row-major: ask for strides");
        return -1;
    }
    *view = (Py_buffer){
        .buf = s->t.data,
        .obj = Py_NewRef(self),
        .len = (Py_ssize_t)s->bytes,
        .itemsize = aicf_dtype_size(s->t.dtype),
        .ndim = s->t.rank,
        .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)format : NULL,
        .shape = flags & PyBUF_ND ? (Py_ssize_t *)(uintptr_t)s->t.sizes : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES
                       ? (Py_ssize_t *)(uintptr_t)(s->t.sizes + 2 * s->t.rank)
                       : NULL,
    };
    return 0;
}

/* ---- the type -------------------------------------------------------------------------------- */

static void
tensor_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    storage_drop(((tensor_object *)self)->s);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule; `stream` is the consumer's."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n--\n\nDLPack's numbers of the device's type and index."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tensor_attributes[] = {
    {"shape", get_shape, NULL, "Sizes.", NULL},
    {"strides", get_strides, NULL, "Strides in elements.", NULL},
    {"dtype", get_dtype, NULL, "The dtype's name in the table, as 'f32'.", NULL},
    {"device", get_device, NULL, "'cpu' or as 'cuda:0'.", NULL},
    {"__cuda_array_interface__", get_interface, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, (void *)tensor_dealloc},
    {Py_tp_repr, (void *)tensor_repr},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_attributes},
    {Py_bf_getbuffer, (void *)tensor_getbuffer},
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
