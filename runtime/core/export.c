/* What a Tensor shows to others: DLPack, the array interface, the buffer protocol. */
#include "storage.h"

#include <stdlib.h>
#include <string.h>

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

dl_managed *
export_managed(storage *s)
{
    dl_managed *managed = calloc(1, sizeof *managed);
    if (managed) {
        managed->version = (dl_version){DL_MAJOR, DL_MINOR};
        managed->context = storage_share(s);
        managed->deleter = managed_delete;
        managed->flags = s->t.read_only ? DL_READ_ONLY : 0;
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
    dl_managed *managed = versioned ? export_managed(s) : NULL;
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
check_device(const storage *s, PyObject *wanted)
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

PyObject *
export_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor = 0;
    storage *s = storage_of(self);

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
    if (check_device(s, device) < 0 || export_order(s, stream) < 0) {
        return NULL;
    }
    return capsule_of(s, major >= DL_MAJOR);
}

PyObject *
export_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    const storage *s = storage_of(self);
    return Py_BuildValue("(ii)", (int)s->t.device.type, (int)s->t.device.index);
}

/* ---- the array interface --------------------------------------------------------------------- */

/* Version 3: the stream says after what the memory may be used. */
PyObject *
export_interface(PyObject *self, void *closure)
{
    (void)closure;
    const storage *s = storage_of(self);
    const dtype_words *words = dtype_words_of(s->t.dtype);
    if (s->backend->host || !*words->typestr) {
        PyErr_SetString(
            PyExc_AttributeError, s->backend->host ? "this Tensor is not on cuda"
                                                   : "the array interface has no word for bf16");
        return NULL;
    }
    PyObject *shape = tuple_of_numbers(s->t.sizes, s->t.rank);
    PyObject *strides = tuple_of_numbers(storage_byte_strides(s), s->t.rank);
    PyObject *typestr =
        PyUnicode_FromFormat("%s%s", aicf_dtype_size(s->t.dtype) > 1 ? "<" : "|", words->typestr);
    PyObject *interface = NULL;
    if (shape && strides && typestr) {
        interface = Py_BuildValue(
            "{s:O,s:O,s:O,s:(NO),s:i,s:N}", "shape", shape, "strides", strides, "typestr", typestr,
            "data", PyLong_FromVoidPtr(s->t.data), s->t.read_only ? Py_True : Py_False, "version",
            3, "stream", PyLong_FromVoidPtr(s->stream ? (void *)s->stream : (void *)(uintptr_t)1));
    }
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    Py_XDECREF(typestr);
    return interface;
}

/* ---- the buffer protocol --------------------------------------------------------------------- */

int
export_buffer(PyObject *self, Py_buffer *view, int flags)
{
    const storage *s = storage_of(self);
    const char *format = dtype_words_of(s->t.dtype)->format;
    view->obj = NULL;
    if (!s->backend->host || !*format) {
        PyErr_SetString(
            PyExc_BufferError, *format ? "this Tensor is not in host memory"
                                       : "the buffer protocol has no format for bf16");
        return -1;
    }
    if (s->t.read_only && flags & PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "this Tensor is read-only");
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
        .readonly = s->t.read_only,
        .ndim = s->t.rank,
        .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)format : NULL,
        .shape = flags & PyBUF_ND ? (Py_ssize_t *)(uintptr_t)s->t.sizes : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES
                       ? (Py_ssize_t *)(uintptr_t)storage_byte_strides(s)
                       : NULL,
    };
    return 0;
}
