/* One mapping from a status to an exception. */
#include "core.h"

#include <aicf/backend/cuda.h>

#include <string.h>

/* A text that did not fit may end within a character. */
PyObject *
text_decoded(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

void
raise_with(PyObject *class, const char *text, const char *const *names, PyObject *const *values)
{
    PyObject *words = text_decoded(text);
    PyObject *exception = words ? PyObject_CallFunctionObjArgs(class, words, NULL) : NULL;
    Py_XDECREF(words);
    for (int i = 0; names[i]; i++) {
        if (exception &&
            (!values[i] || PyObject_SetAttrString(exception, names[i], values[i]) < 0)) {
            Py_CLEAR(exception);
        }
        Py_XDECREF(values[i]);
    }
    if (exception) {
        PyErr_SetObject(class, exception);
        Py_DECREF(exception);
    }
}

/* Steals the words, which may be NULL: then nothing is said. */
static void
put_words(char *text, size_t size, const char *before, PyObject *words)
{
    PyObject *said = words ? PyObject_Str(words) : NULL;
    const char *text_said = said ? PyUnicode_AsUTF8AndSize(said, NULL) : NULL;
    if (text_said) {
        size_t used = strlen(text);
        PyOS_snprintf(text + used, size - used, "%s%s", before, text_said);
    }
    PyErr_Clear();
    Py_XDECREF(said);
    Py_XDECREF(words);
}

/* Which tensor a refusal is about. */
static int
tensor_refused(const frame *f, aicf_status status)
{
    bool list = f->op->params_of[status.arg].list >= 0;
    return aicf_call_start(f->call, status.arg) + (list ? status.native : 0);
}

/* Of an array whose dtype has no name here: what its own package calls it, and what to do. */
static void
put_strange(char *text, size_t size, const frame *f, aicf_status status)
{
    int i = tensor_refused(f, status);
    PyObject *object = f->objects[i];
    PyObject *dtype = !f->t[i].dtype && object ? PyObject_GetAttrString(object, "dtype") : NULL;
    PyObject *fields = dtype ? PyObject_GetAttrString(dtype, "names") : NULL;
    PyErr_Clear();
    if (dtype) {
        bool record = fields && PyTuple_Check(fields) && PyTuple_Size(fields) > 0;
        PyObject *first = record ? Py_NewRef(PyTuple_GetItem(fields, 0)) : NULL;
        put_words(text, size, "; its dtype is called ", dtype);
        put_words(text, size, ": give one of its fields, as ", first);
        put_words(
            text, size, "", record ? NULL : PyUnicode_FromString(": convert it to an allowed one"));
    }
    Py_XDECREF(fields);
}

/* Of a tensor without plain memory: its class, and what torch says of where and how it is. */
static void
put_opaque(char *text, size_t size, const frame *f, aicf_status status)
{
    int i = tensor_refused(f, status);
    const source *s = tensor_source(&f->t[i]);
    if (!s || f->t[i].absent || f->t[i].device.type) {
        return;
    }
    put_words(text, size, "; its class is ", PyType_GetQualName(s->type));
    if (s->framework == FRAMEWORK_TORCH && f->objects[i]) {
        put_words(text, size, ", its dtype ", PyObject_GetAttrString(f->objects[i], "dtype"));
        put_words(text, size, ", its device ", PyObject_GetAttrString(f->objects[i], "device"));
        put_words(text, size, ", its layout ", PyObject_GetAttrString(f->objects[i], "layout"));
    }
}

static PyObject *
raise_unsupported(
    aicf_handle *handle, const aicf_call *call, const aicf_tensor *t, const frame *f,
    aicf_status status)
{
    char text[1024];
    const aicf_op *op = handle->op;
    bool is_arg = status.arg < op->params && status.check != AICF_CHECK_KERNEL &&
                  status.check != AICF_CHECK_WHERE && status.check != AICF_CHECK_EXPRESSION &&
                  status.check != AICF_CHECK_VALUE;
    aicf_status_describe(status, call, t, text, sizeof text);
    if (f && status.check == AICF_CHECK_MEMORY) {
        put_opaque(text, sizeof text, f, status);
    } else if (f && status.check == AICF_CHECK_DTYPE) {
        put_strange(text, sizeof text, f, status);
    }
    PyObject *values[] = {
        PyUnicode_FromString(op->name),
        is_arg ? PyUnicode_FromString(op->params_of[status.arg].name) : Py_NewRef(Py_None)};
    raise_with(handle->core->unsupported, text, (const char *const[]){"op", "arg", NULL}, values);
    return NULL;
}

/* The native error's name is the first word of its text. */
static PyObject *
first_word(const char *text)
{
    return PyUnicode_FromStringAndSize(text, (Py_ssize_t)strcspn(text, " :,("));
}

void
raise_failed(
    const core_state *core, const aicf_backend *backend, int32_t code, const char *op,
    const char *kernel, const char *text)
{
    char native[768] = "error";
    if (backend && backend->error_text) {
        backend->error_text(code, native, sizeof native);
    }
    PyObject *values[] = {
        op ? PyUnicode_FromString(op) : Py_NewRef(Py_None),
        kernel ? PyUnicode_FromString(kernel) : Py_NewRef(Py_None),
        code ? PyLong_FromLong(code) : Py_NewRef(Py_None),
        code ? first_word(native) : Py_NewRef(Py_None),
    };
    bool lost = backend == &aicf_backend_cuda && aicf_cuda_is_lost(code);
    raise_with(
        lost ? core->backend_lost : core->backend_error, text,
        (const char *const[]){"op", "kernel", "code", "name", NULL}, values);
}

static PyObject *
raise_backend(aicf_handle *handle, const aicf_call *call, aicf_status status)
{
    char text[1280];
    const aicf_op *op = handle->op;
    bool known = status.backend < op->backend_count;
    bool picked = call->kernel >= 0 && call->kernel < op->kernel_count;

    aicf_status_describe(status, call, NULL, text, sizeof text);
    if (handle->core->sync) {
        size_t used = strlen(text);
        PyOS_snprintf(
            text + used, sizeof text - used, " (seen right after this call: AICF_DEBUG=sync)");
    }
    raise_failed(
        handle->core, known ? op->backends[status.backend].backend : NULL, status.native, op->name,
        picked ? op->kernels[call->kernel].id : NULL, text);
    return NULL;
}

static PyObject *
raise_any(
    aicf_handle *handle, const aicf_call *call, const aicf_tensor *t, const frame *f,
    aicf_status status)
{
    switch ((aicf_kind)status.kind) {
    case AICF_UNSUPPORTED: return raise_unsupported(handle, call, t, f, status);
    case AICF_BACKEND_ERROR: return raise_backend(handle, call, status);
    case AICF_NO_MEMORY: return PyErr_NoMemory();
    case AICF_INTERNAL:
    case AICF_OK:
        PyErr_Format(
            PyExc_SystemError, "%s: an internal fault, check %d of argument %d", handle->op->name,
            (int)status.check, (int)status.arg);
    }
    return NULL;
}

PyObject *
raise_status(aicf_handle *handle, const aicf_call *call, const aicf_tensor *t, aicf_status status)
{
    return raise_any(handle, call, t, NULL, status);
}

PyObject *
raise_refusal(const frame *f, aicf_status status)
{
    return raise_any(f->handle, f->call, f->t, f, status);
}

PyObject *
word_add(PyObject *words, const char *word, size_t length)
{
    PyObject *more = PyUnicode_FromStringAndSize(word, (Py_ssize_t)length);
    int there = more ? PySequence_Contains(words, more) : -1;
    if (there < 0 || (!there && PyList_Append(words, more) < 0)) {
        Py_CLEAR(words);
    }
    Py_XDECREF(more);
    return words;
}

/* 'one', 'two' */
static PyObject *
words_joined(PyObject *words)
{
    PyObject *text = PyUnicode_FromString("");
    for (Py_ssize_t i = 0; text && i < PyList_Size(words); i++) {
        PyObject *more =
            PyUnicode_FromFormat("%U%s%R", text, i ? ", " : "", PyList_GetItem(words, i));
        Py_DECREF(text);
        text = more;
    }
    return text;
}

int
raise_word(const aicf_op *op, const char *name, PyObject *words, PyObject *value)
{
    PyObject *text = words ? words_joined(words) : NULL;
    if (text) {
        raise_misuse(op, name, "takes one of %U, not %R", text, value);
    }
    Py_XDECREF(text);
    Py_XDECREF(words);
    return -1;
}

PyObject *
refuse_reduce(PyObject *self, PyObject *protocol)
{
    (void)protocol;
    PyObject *name = PyType_GetQualName(Py_TYPE(self));
    if (name) {
        PyErr_Format(
            PyExc_TypeError, "aicf_rt.%U cannot be pickled or copied: it stands for memory", name);
        Py_DECREF(name);
    }
    return NULL;
}
