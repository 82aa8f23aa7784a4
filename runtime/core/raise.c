/* One mapping from a status to an exception. */
#include "core.h"

#include <string.h>

/* An instance of `class` with the text and the attributes that `pairs` names, set as the error.
   Steals the values; a NULL among them is the error that is set. */
static void
raise_with(PyObject *class, const char *text, const char *const *names, PyObject **values)
{
    PyObject *exception = PyObject_CallFunction(class, "s", text);
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

static PyObject *
raise_unsupported(
    aicf_handle *handle, const aicf_call *call, const aicf_tensor *t, aicf_status status)
{
    char text[1024];
    const aicf_op *op = handle->op;
    bool is_arg = status.arg < op->params && status.check != AICF_CHECK_KERNEL &&
                  status.check != AICF_CHECK_WHERE && status.check != AICF_CHECK_EXPRESSION &&
                  status.check != AICF_CHECK_VALUE;
    aicf_status_describe(status, call, t, text, sizeof text);
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

static PyObject *
raise_backend(aicf_handle *handle, const aicf_call *call, aicf_status status)
{
    char native[768] = "", text[1280];
    const aicf_op *op = handle->op;
    const aicf_backend *backend =
        status.backend < op->backend_count ? op->backends[status.backend].backend : NULL;
    bool picked = call->kernel >= 0 && call->kernel < op->kernel_count;
    const char *kernel = picked ? op->kernels[call->kernel].id : NULL;

    if (backend && backend->error_text) {
        backend->error_text(status.native, native, sizeof native);
    }
    aicf_status_describe(status, call, NULL, text, sizeof text);
    if (handle->core->sync) {
        size_t used = strlen(text);
        PyOS_snprintf(
            text + used, sizeof text - used, " (seen right after this call: AICF_DEBUG=sync)");
    }
    PyObject *values[] = {
        PyUnicode_FromString(op->name),
        kernel ? PyUnicode_FromString(kernel) : Py_NewRef(Py_None),
        PyLong_FromLong(status.native),
        first_word(native[0] ? native : "error"),
    };
    raise_with(
        handle->core->backend_error, text,
        (const char *const[]){"op", "kernel", "code", "name", NULL}, values);
    return NULL;
}

PyObject *
raise_status(aicf_handle *handle, const aicf_call *call, const aicf_tensor *t, aicf_status status)
{
    switch ((aicf_kind)status.kind) {
    case AICF_UNSUPPORTED: return raise_unsupported(handle, call, t, status);
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
