/* aicf_rt.Stream and aicf_rt.Event: queues of a device's work, and moments in them; and
   aicf_rt.synchronize. */
#include "parse.h"

#include <pthread.h>
#include <stdlib.h>

#include <aicf/backend/cpu.h>
#include <aicf/backend/cuda.h>

typedef struct stream_object {
    PyObject_HEAD aicf_device device;
    aicf_stream stream;
} stream_object;

typedef struct event_object {
    PyObject_HEAD aicf_device device;
    aicf_event event;
    bool recorded;
} event_object;

static const aicf_backend *
backend_for(const char *who, aicf_device device)
{
    const aicf_backend *backend = device.type == DL_CPU    ? &aicf_backend_cpu
                                  : device.type == DL_CUDA ? &aicf_backend_cuda
                                                           : NULL;
    if (!backend) {
        PyErr_Format(PyExc_ValueError, "%s: the device is neither 'cpu' nor on cuda", who);
    }
    return backend;
}

int
raise_unless(
    const char *who, const core_state *core, const aicf_backend *backend, aicf_status status)
{
    if (status.kind == AICF_OK) {
        return 0;
    }
    if (status.kind == AICF_NO_MEMORY) {
        PyErr_NoMemory();
        return -1;
    }
    char text[800];
    int used = PyOS_snprintf(text, sizeof text, "%s: ", who);
    backend->error_text(status.native, text + used, sizeof text - (size_t)used);
    raise_failed(core, backend, status.native, NULL, NULL, text);
    return -1;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* None: the default stream; else an int, a Stream, or whatever has __cuda_stream__. */
static int
stream_parse(const char *who, PyObject *value, aicf_stream *stream)
{
    PyObject *pair = NULL, *number = NULL;
    *stream = STREAM_DEFAULT;
    if (!value || value == Py_None) {
        return 0;
    }
    if (PyLong_Check(value) && !PyBool_Check(value)) {
        number = Py_NewRef(value);
    } else {
        pair = PyObject_CallMethod(value, "__cuda_stream__", NULL);
        number = pair ? PySequence_GetItem(pair, 1) : NULL;
    }
    if (number) {
        *stream = PyLong_AsVoidPtr(number);
    }
    Py_XDECREF(pair);
    Py_XDECREF(number);
    if (PyErr_Occurred()) {
        PyErr_Format(
            PyExc_TypeError, "%s: stream is neither an int nor has it __cuda_stream__", who);
        return -1;
    }
    return 0;
}

/* For a type's constructor: its one argument, a device. */
static const aicf_backend *
device_argument(const char *who, PyObject *args, PyObject *kwargs, aicf_device *device)
{
    static char *names[] = {"device", NULL};
    PyObject *where = NULL;
    *device = (aicf_device){DL_CPU, 0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &where) ||
        (where && device_parse(who, where, device) < 0)) {
        return NULL;
    }
    return backend_for(who, *device);
}

static PyObject *
object_new(PyTypeObject *type)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return allocate(type, 0);
}

static void
object_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF((PyObject *)type);
}

static const core_state *
state_of(PyTypeObject *type)
{
    return PyType_GetModuleState(type);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Streams that no object has any more. They are not destroyed, since memory that was taken on one
   is given back in its order, whoever holds it and however long; the next Stream of the device
   takes one of them. For the same reason none of them is captured: graphs have others. */
typedef struct idle {
    struct idle *next;
    aicf_device device;
    aicf_stream stream;
} idle;

static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static idle *idle_streams, *idle_of_graphs;

/* NULL: there is none of the device. */
static aicf_stream
idle_take(idle **at, aicf_device device)
{
    aicf_stream stream = NULL;
    pthread_mutex_lock(&idle_lock);
    while (*at && !aicf_device_same((*at)->device, device)) {
        at = &(*at)->next;
    }
    if (*at) {
        idle *found = *at;
        stream = found->stream;
        *at = found->next;
        free(found);
    }
    pthread_mutex_unlock(&idle_lock);
    return stream;
}

static void
idle_put(idle **all, aicf_device device, aicf_stream stream)
{
    idle *one = malloc(sizeof *one);
    if (!one) {
        return; /* the stream is lost, and harms nobody */
    }
    pthread_mutex_lock(&idle_lock);
    *one = (idle){*all, device, stream};
    *all = one;
    pthread_mutex_unlock(&idle_lock);
}

aicf_status
stream_take(const aicf_backend *backend, aicf_device device, aicf_stream *stream)
{
    *stream = idle_take(&idle_of_graphs, device);
    return *stream ? aicf_ok() : backend->create_stream(device, stream);
}

void
stream_give(aicf_device device, aicf_stream stream)
{
    idle_put(&idle_of_graphs, device, stream);
}

static PyObject *
stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    aicf_device device;
    const aicf_backend *backend = device_argument("Stream", args, kwargs, &device);
    stream_object *self = backend ? (stream_object *)object_new(type) : NULL;
    if (!self) {
        return NULL;
    }
    aicf_status status = aicf_ok();
    self->device = device;
    self->stream = backend->create_stream ? idle_take(&idle_streams, device) : NULL;
    if (backend->create_stream && !self->stream) {
        Py_BEGIN_ALLOW_THREADS; /* the first of a device starts it */
        status = backend->create_stream(device, &self->stream);
        Py_END_ALLOW_THREADS;
    }
    if (raise_unless("Stream", state_of(type), backend, status) < 0) {
        self->stream = NULL;
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
stream_dealloc(PyObject *object)
{
    stream_object *self = (stream_object *)object;
    if (self->stream) {
        idle_put(&idle_streams, self->device, self->stream);
    }
    object_free(object);
}

aicf_stream
stream_own(PyObject *object)
{
    aicf_stream stream = ((stream_object *)object)->stream;
    return stream ? stream : STREAM_DEFAULT;
}

/* What others take a stream by: a version and the handle. */
static PyObject *
stream_handle(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *number = PyLong_FromVoidPtr((void *)((stream_object *)object)->stream);
    PyObject *pair = number ? Py_BuildValue("(iO)", 0, number) : NULL;
    Py_XDECREF(number);
    return pair;
}

static PyObject *
stream_device(PyObject *object, void *closure)
{
    (void)closure;
    return device_text(((stream_object *)object)->device);
}

static PyMethodDef stream_methods[] = {
    {"__cuda_stream__", stream_handle, METH_NOARGS,
     "__cuda_stream__($self)\n--\n\nThe protocol's version and the native handle."},
    {"__reduce_ex__", refuse_reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef stream_attributes[] = {
    {"device", stream_device, NULL, "'cpu' or as 'cuda:0'.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot stream_slots[] = {
    {Py_tp_new, (void *)stream_new},
    {Py_tp_dealloc, (void *)stream_dealloc},
    {Py_tp_methods, stream_methods},
    {Py_tp_getset, stream_attributes},
    {Py_tp_doc,
     (void *)"Stream(device='cpu')\n--\n\nA queue of work of its own, for `stream=`: it waits for "
             "no "
             "other, and no other for it. On the host there are none:\nwork is done when a call "
             "returns."},
    {0, NULL},
};

PyType_Spec stream_spec = {
    .name = "aicf_rt.Stream",
    .basicsize = sizeof(stream_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = stream_slots,
};

/* ---- events ---------------------------------------------------------------------------------- */

static const aicf_backend *
backend_of_event(const event_object *self)
{
    return self->device.type == DL_CUDA ? &aicf_backend_cuda : &aicf_backend_cpu;
}

static PyObject *
event_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    aicf_device device;
    const aicf_backend *backend = device_argument("Event", args, kwargs, &device);
    event_object *self = backend ? (event_object *)object_new(type) : NULL;
    if (!self) {
        return NULL;
    }
    self->device = device;
    aicf_status status = backend->create_event ? backend->create_event(device, &self->event)
                                               : (aicf_status){.kind = AICF_BACKEND_ERROR};
    if (raise_unless("Event", state_of(type), backend, status) < 0) {
        self->event = NULL;
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
event_dealloc(PyObject *object)
{
    event_object *self = (event_object *)object;
    if (self->event) {
        backend_of_event(self)->destroy_event(self->device, self->event);
    }
    object_free(object);
}

static PyObject *
event_record(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", NULL};
    event_object *self = (event_object *)object;
    const aicf_backend *backend = backend_of_event(self);
    PyObject *value = NULL;
    aicf_stream stream;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:record", names, &value) ||
        stream_parse("record", value, &stream) < 0) {
        return NULL;
    }
    aicf_status status = backend->record_event(self->device, stream, self->event);
    if (raise_unless("record", state_of(Py_TYPE(object)), backend, status) < 0) {
        return NULL;
    }
    self->recorded = true;
    return Py_NewRef(Py_None);
}

static PyObject *
event_elapsed(PyObject *object, PyObject *later)
{
    event_object *from = (event_object *)object, *to = (event_object *)later;
    if (Py_TYPE(object) != Py_TYPE(later)) {
        PyErr_SetString(PyExc_TypeError, "elapsed: later is not an Event");
        return NULL;
    }
    if (!from->recorded || !to->recorded || !aicf_device_same(from->device, to->device)) {
        PyErr_SetString(
            PyExc_ValueError, !from->recorded || !to->recorded
                                  ? "elapsed: both events have to be recorded first"
                                  : "elapsed: the events are of two devices");
        return NULL;
    }
    double seconds = 0;
    const aicf_backend *backend = backend_of_event(from);
    aicf_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = backend->elapsed(from->device, from->event, to->event, &seconds);
    Py_END_ALLOW_THREADS;
    return raise_unless("elapsed", state_of(Py_TYPE(object)), backend, status) < 0
               ? NULL
               : PyFloat_FromDouble(seconds);
}

static PyMethodDef event_methods[] = {
    {"record", (PyCFunction)(void (*)(void))event_record, METH_VARARGS | METH_KEYWORDS,
     "record($self, stream=None)\n--\n\nMarks the moment when all that is queued on the stream now "
     "has run."},
    {"elapsed", event_elapsed, METH_O,
     "elapsed($self, later, /)\n--\n\nSeconds from this moment to that of a later event; waits for "
     "both."},
    {"__reduce_ex__", refuse_reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot event_slots[] = {
    {Py_tp_new, (void *)event_new},
    {Py_tp_dealloc, (void *)event_dealloc},
    {Py_tp_methods, event_methods},
    {Py_tp_doc,
     (void *)"Event(device='cpu')\n--\n\nA moment in a stream's work, for measuring time on the "
             "device itself."},
    {0, NULL},
};

PyType_Spec event_spec = {
    .name = "aicf_rt.Event",
    .basicsize = sizeof(event_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = event_slots,
};

/* ---- waiting --------------------------------------------------------------------------------- */

PyObject *
work_synchronize(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "stream", NULL};
    PyObject *where = NULL, *value = NULL;
    aicf_device device = {DL_CPU, 0};
    aicf_stream stream;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:synchronize", names, &where, &value) ||
        (where && device_parse("synchronize", where, &device) < 0) ||
        stream_parse("synchronize", value, &stream) < 0) {
        return NULL;
    }
    const aicf_backend *backend = backend_for("synchronize", device);
    if (!backend) {
        return NULL;
    }
    aicf_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = backend->synchronize(device, stream);
    Py_END_ALLOW_THREADS;
    return raise_unless("synchronize", PyModule_GetState(module), backend, status) < 0
               ? NULL
               : Py_NewRef(Py_None);
}
