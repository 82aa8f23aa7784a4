/* __dlpack__: versioned where the producer knows it, then the older forms. A capsule is renamed at
   once, so that from then on its tensor is ours to delete. */
#include "core.h"

#include <string.h>

/* ---- capsules -------------------------------------------------------------------------------- */

static void
managed_release(void *owner)
{
    dl_managed *managed = owner;
    if (managed->deleter) {
        managed->deleter(managed);
    }
}

static void
legacy_release(void *owner)
{
    dl_legacy *legacy = owner;
    if (legacy->deleter) {
        legacy->deleter(legacy);
    }
}

static const char *
param_name(const frame *f, int i)
{
    return f->op->params_of[frame_param(f, i)].name;
}

/* What the producer copied is not the memory that an out is for. */
answer
dlpack_take(const frame *f, int i, dl_managed *managed)
{
    aicf_tensor *t = &f->t[i];
    if (managed->version.major != DL_MAJOR) { /* version and deleter lie where they always will */
        uint32_t major = managed->version.major;
        managed_release(managed);
        PyErr_Format(
            PyExc_BufferError, "%s: %s came as DLPack of major version %u, not %d", f->op->name,
            param_name(f, i), major, DL_MAJOR);
        return ANSWER_REFUSED;
    }
    memcpy(t, &managed->tensor, sizeof managed->tensor);
    t->read_only = managed->flags & (DL_READ_ONLY | DL_COPIED);
    t->owner = managed;
    t->release = managed_release;
    return ANSWER_TAKEN;
}

static answer
take_versioned(const frame *f, int i, PyObject *capsule)
{
    dl_managed *managed = PyCapsule_GetPointer(capsule, DL_CAPSULE);
    if (!managed || PyCapsule_SetName(capsule, DL_CAPSULE_USED) < 0) {
        return ANSWER_FAILED;
    }
    return dlpack_take(f, i, managed);
}

/* Whether it may be written to is not known. */
static answer
take_legacy(PyObject *capsule, aicf_tensor *t)
{
    dl_legacy *legacy = PyCapsule_GetPointer(capsule, DL_CAPSULE_LEGACY);
    if (!legacy || PyCapsule_SetName(capsule, DL_CAPSULE_LEGACY_USED) < 0) {
        return ANSWER_FAILED;
    }
    memcpy(t, &legacy->tensor, sizeof legacy->tensor);
    t->read_only = true;
    t->owner = legacy;
    t->release = legacy_release;
    return ANSWER_TAKEN;
}

static answer
take_alone(const frame *f, int i, PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, DL_CAPSULE)) {
        return take_versioned(f, i, capsule);
    }
    if (PyCapsule_IsValid(capsule, DL_CAPSULE_LEGACY)) {
        return take_legacy(capsule, &f->t[i]);
    }
    const char *param = param_name(f, i);
    if (PyCapsule_IsValid(capsule, DL_CAPSULE_USED) ||
        PyCapsule_IsValid(capsule, DL_CAPSULE_LEGACY_USED)) {
        PyErr_Format(
            PyExc_ValueError, "%s: %s gave a DLPack capsule that was used before", f->op->name,
            param);
        return ANSWER_FAILED;
    }
    PyObject *type = PyType_GetName(Py_TYPE(capsule));
    if (type) {
        raise_misuse(f->op, param, "gave %U for a DLPack capsule", type);
        Py_DECREF(type);
    }
    return ANSWER_REFUSED;
}

/* A producer may give several threads one capsule: the first that comes takes it. */
static answer
take_capsule(const frame *f, int i, PyObject *capsule)
{
    answer result;
    OBJECT_LOCK(capsule);
    result = take_alone(f, i, capsule);
    OBJECT_UNLOCK();
    return result;
}

/* ---- what an exception means ----------------------------------------------------------------- */

bool
attribute_missing(void)
{
    bool missing = PyErr_ExceptionMatches(PyExc_AttributeError);
    if (missing) {
        PyErr_Clear();
    }
    return missing;
}

answer
call_refused(void)
{
    bool refused =
        PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_TypeError);
    return refused ? ANSWER_REFUSED : ANSWER_FAILED;
}

/* ---- where it lies --------------------------------------------------------------------------- */

/* The device as __dlpack_device__ says it; the CPU's where there is no such method. */
static answer
ask_device(const frame *f, int i, aicf_device *device)
{
    PyObject *method = PyObject_GetAttr(f->objects[i], f->core->names[NAME___dlpack_device__]);
    *device = (aicf_device){DL_CPU, 0};
    if (!method) {
        return attribute_missing() ? ANSWER_TAKEN : ANSWER_FAILED;
    }
    PyObject *pair = PyObject_CallNoArgs(method);
    Py_DECREF(method);
    if (!pair) {
        return call_refused();
    }
    bool is_pair = PyTuple_Check(pair) && PyTuple_Size(pair) == 2;
    long type = is_pair && PyIndex_Check(PyTuple_GetItem(pair, 0))
                    ? PyLong_AsLong(PyTuple_GetItem(pair, 0))
                    : -1;
    long index = is_pair && PyIndex_Check(PyTuple_GetItem(pair, 1))
                     ? PyLong_AsLong(PyTuple_GetItem(pair, 1))
                     : -1;
    PyErr_Clear();
    is_pair = type >= 0 && type <= INT32_MAX && index >= 0 && index <= INT32_MAX;
    if (!is_pair) {
        raise_misuse(f->op, param_name(f, i), "answers __dlpack_device__ with %.200R", pair);
    }
    Py_DECREF(pair);
    *device = (aicf_device){(int32_t)type, (int32_t)index};
    return is_pair ? ANSWER_TAKEN : ANSWER_REFUSED;
}

/* ---- the call, with the keywords that the producer knows ------------------------------------- */

enum { ASK_COPY = 1, ASK_VERSION = 2, ASK_STREAM = 4 };

static const struct keyword {
    unsigned bit;
    core_name name;
    const char *text;
} keywords[] = {
    {ASK_COPY, NAME_copy, "copy"},
    {ASK_VERSION, NAME_max_version, "max_version"},
    {ASK_STREAM, NAME_stream, "stream"},
};

static PyObject *
keyword_value(unsigned bit, aicf_stream stream)
{
    switch (bit) {
    case ASK_COPY: return Py_NewRef(Py_False);
    case ASK_VERSION: return Py_BuildValue("(ii)", DL_MAJOR, DL_MINOR);
    default: return PyLong_FromVoidPtr(stream);
    }
}

static PyObject *
call_with(const frame *f, PyObject *method, unsigned asked, aicf_stream stream)
{
    PyObject *kwargs = PyDict_New(), *args = PyTuple_New(0), *capsule = NULL;
    bool filled = kwargs && args;
    for (int k = 0; filled && k < 3; k++) {
        if (asked & keywords[k].bit) {
            PyObject *value = keyword_value(keywords[k].bit, stream);
            filled = value && PyDict_SetItem(kwargs, f->core->names[keywords[k].name], value) == 0;
            Py_XDECREF(value);
        }
    }
    capsule = filled ? PyObject_Call(method, args, kwargs) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return capsule;
}

/* Which keyword the current TypeError is about: a bit of `asked`, or 0 if it is about none.
   Producers in C and Python word it differently; all speak of an argument and name it, or of
   keywords, or say that the arguments do not fit. */
static unsigned
keyword_blamed(unsigned asked)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    unsigned blamed = 0, next = 0;
    for (int k = 2; words && k >= 0; k--) {
        next = asked & keywords[k].bit ? keywords[k].bit : next;
        if (asked & keywords[k].bit && strstr(words, keywords[k].text) &&
            strstr(words, "argument")) {
            blamed = keywords[k].bit;
        }
    }
    if (!blamed && words &&
        (strstr(words, "keyword") || strstr(words, "incompatible function arg"))) {
        blamed = next;
    }
    PyErr_Clear();
    Py_XDECREF(text);
    PyErr_Restore(type, value, trace);
    return blamed;
}

/* A keyword is given up only where it caused the error: a TypeError of the producer's own stays.
   `asked` then has those that the producer took. */
static PyObject *
negotiate(const frame *f, PyObject *method, unsigned *asked, aicf_stream stream)
{
    for (;;) {
        PyObject *capsule = call_with(f, method, *asked, stream);
        if (capsule || !*asked || !PyErr_ExceptionMatches(PyExc_TypeError)) {
            return capsule;
        }
        unsigned blamed = keyword_blamed(*asked);
        if (!blamed) {
            return NULL;
        }
        PyErr_Clear();
        *asked &= ~blamed;
    }
}

/* With the tensor's device current: some producers export from no other. One that knows no streams
   orders its work to the default one, for which the launch then waits. */
static PyObject *
ask_on_device(frame *f, int i, PyObject *method, aicf_device device)
{
    uint8_t role = f->op->params_of[frame_param(f, i)].role;
    unsigned asked = ASK_VERSION | (role == AICF_OUT || role == AICF_INOUT ? ASK_COPY : 0);
    const aicf_backend *backend = backend_of_device(f->op, device.type);
    bool streams = backend && !backend->host;
    int32_t previous = 0;
    aicf_stream stream = NULL;

    if (streams) {
        stream = frame_stream(f, device);
        asked |= ASK_STREAM;
    }
    bool entered = streams && backend->enter && !(backend->unusable && backend->unusable()) &&
                   backend->enter(device, &previous).kind == AICF_OK;
    PyObject *capsule = negotiate(f, method, &asked, stream);
    if (entered) {
        backend->leave(previous);
    }
    if (capsule && streams && !(asked & ASK_STREAM)) {
        frame_behind(f, device, STREAM_DEFAULT);
    }
    return capsule;
}

/* What lies elsewhere than the producer said was ordered to no stream of ours. */
static answer
check_device(const frame *f, int i, aicf_device said)
{
    aicf_tensor *t = &f->t[i];
    const aicf_backend *backend = backend_of_device(f->op, t->device.type);
    aicf_device found = t->device;
    if (aicf_device_same(found, said) || !backend || backend->host) {
        return ANSWER_TAKEN;
    }
    tensor_release(t);
    raise_misuse(
        f->op, param_name(f, i), "answers __dlpack_device__ with (%d, %d), and lies on (%d, %d)",
        (int)said.type, (int)said.index, (int)found.type, (int)found.index);
    return ANSWER_REFUSED;
}

answer
dlpack_read(frame *f, int i)
{
    aicf_device device;
    PyObject *method = PyObject_GetAttr(f->objects[i], f->core->names[NAME___dlpack__]);
    if (!method) {
        return attribute_missing() ? ANSWER_NONE : ANSWER_FAILED;
    }
    answer result = ask_device(f, i, &device);
    if (result == ANSWER_TAKEN) {
        PyObject *capsule = ask_on_device(f, i, method, device);
        result = capsule ? take_capsule(f, i, capsule) : call_refused();
        result = result == ANSWER_TAKEN ? check_device(f, i, device) : result;
        Py_XDECREF(capsule);
    }
    Py_DECREF(method);
    return result;
}
