/* The options of every call: stream=, kernel=, dtype=. */
#include "core.h"
#include "dtype.h"

#include <string.h>

/* ---- stream= --------------------------------------------------------------------------------- */

/* A handle as CUDA counts them: 0 is the legacy default stream, which producers know as 1. */
static int
stream_of_int(const char *who, PyObject *value, aicf_stream *stream)
{
    if (PyBool_Check(value) || !PyLong_Check(value)) {
        PyErr_Format(
            PyExc_TypeError, "%s: stream takes an int or an object with __cuda_stream__, not %R",
            who, value);
        return -1;
    }
    uint64_t handle = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(
            PyExc_TypeError,
            "%s: stream cannot be %R: it is a handle, 1 the default and 2 the per-thread stream",
            who, value);
        return -1;
    }
    *stream = (aicf_stream)(uintptr_t)(handle ? handle : 1);
    return 0;
}

/* The protocol: a tuple (version, handle). */
static PyObject *
handle_of_object(const char *who, PyObject *method)
{
    PyObject *pair = PyObject_CallNoArgs(method);
    if (!pair) {
        return NULL;
    }
    PyObject *handle = NULL;
    if (PyTuple_Check(pair) && PyTuple_Size(pair) == 2 && PyLong_Check(PyTuple_GetItem(pair, 0)) &&
        PyLong_AsLong(PyTuple_GetItem(pair, 0)) == 0) {
        handle = Py_NewRef(PyTuple_GetItem(pair, 1));
    } else {
        PyErr_Clear();
        PyErr_Format(
            PyExc_TypeError, "%s: stream answers __cuda_stream__ with %R, not (0, handle)", who,
            pair);
    }
    Py_DECREF(pair);
    return handle;
}

/* Frameworks' older stream objects keep the handle in an attribute. */
static PyObject *
handle_of_attribute(PyObject *value)
{
    static const char *const attributes[] = {"cuda_stream", "ptr"};
    for (int i = 0; i < 2; i++) {
        PyObject *handle = PyObject_GetAttrString(value, attributes[i]);
        if (handle || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return handle;
        }
        PyErr_Clear();
    }
    return NULL;
}

int
stream_named(const core_state *core, const char *who, PyObject *value, aicf_stream *stream)
{
    if (PyLong_Check(value)) {
        return stream_of_int(who, value, stream);
    }
    if (Py_TYPE(value) == core->stream_type) {
        *stream = stream_own(value);
        return 0;
    }
    PyObject *method = PyObject_GetAttr(value, core->names[NAME___cuda_stream__]);
    if (!method && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return -1;
    }
    PyErr_Clear();
    PyObject *handle = method ? handle_of_object(who, method) : handle_of_attribute(value);
    Py_XDECREF(method);
    if (!handle && PyErr_Occurred()) {
        return -1;
    }
    int done = stream_of_int(who, handle ? handle : value, stream);
    Py_XDECREF(handle);
    return done;
}

int
option_stream(frame *f, PyObject *value)
{
    f->call->stream = NULL;
    f->call->stream_given = false;
    if (value == Py_None) {
        return 0;
    }
    f->call->stream_given = true;
    return stream_named(f->core, f->op->name, value, &f->call->stream);
}

/* ---- kernel= --------------------------------------------------------------------------------- */

static PyObject *
kernel_words(const aicf_op *op)
{
    PyObject *words = PyList_New(0);
    for (int i = 0; words && i < op->kernel_count; i++) {
        words = word_add(words, op->kernels[i].id, strlen(op->kernels[i].id));
    }
    return words;
}

int
option_kernel(frame *f, PyObject *value)
{
    const aicf_op *op = f->op;
    f->call->demanded = -1;
    if (value == Py_None) {
        return 0;
    }
    for (int i = 0; PyUnicode_Check(value) && i < op->kernel_count; i++) {
        if (PyUnicode_CompareWithASCIIString(value, op->kernels[i].id) == 0) {
            f->call->demanded = (int16_t)i;
            return 0;
        }
    }
    return raise_word(op, "kernel", kernel_words(op), value);
}

/* ---- dtype= ---------------------------------------------------------------------------------- */

static PyObject *
dtype_words_taken(const frame *f)
{
    PyObject *words = PyList_New(0);
    for (int v = 0; words && v < f->op->variants; v++) {
        size_t length;
        const char *part = suffix_part(f->op->suffixes[v], f->handle->free_type, &length);
        words = word_add(words, part, length);
    }
    return words;
}

int
option_dtype(frame *f, PyObject *value)
{
    if (value == Py_None) {
        return 0;
    }
    const dtype_words *words = dtype_by_object(value);
    size_t length = words ? strlen(words->name) : 0;
    for (int v = 0; words && v < f->op->variants; v++) {
        size_t part_length;
        const char *part = suffix_part(f->op->suffixes[v], f->handle->free_type, &part_length);
        if (part_length == length && strncmp(part, words->name, length) == 0) {
            f->dtype_part = (int16_t)v;
            return 0;
        }
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    return raise_word(f->op, "dtype", dtype_words_taken(f), value);
}
