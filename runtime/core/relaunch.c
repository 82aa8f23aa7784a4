/* Launches of a graph: where a call would find its stream and what may have moved, the same. */
#include "graph.h"

/* The stream of a launch that names none: the one that the calls name, or their framework's. */
static aicf_stream
default_stream(const recording *r)
{
    aicf_stream stream = STREAM_DEFAULT;
    if (r->stream) {
        return r->stream;
    }
    if (r->lead && !stream_at_once(r->lead, r->device, &stream)) {
        stream = stream_current(r->lead, r->device);
    }
    return stream;
}

static aicf_status
join_all(const recording *r, aicf_stream stream)
{
    aicf_status status = aicf_ok();
    for (Py_ssize_t i = 0; i < r->count && status.kind == AICF_OK; i++) {
        if (r->blocks[i]->joins) {
            status = block_join(r->blocks[i], stream);
        }
    }
    return status;
}

/* Others cannot wait for the stream of this thread, nor anybody for one that is destroyed by then:
   where `stream` is such a one, one of the graph's own waits for it now. */
static aicf_status
leave_stream(
    graph_object *self, const aicf_backend *backend, aicf_device device, aicf_stream stream)
{
    aicf_status status = aicf_ok();
    if (!backend->wait) {
        return status;
    }
    if (!self->own) {
        status = stream_take(backend, device, &self->own);
    }
    status = status.kind ? status : backend->wait(device, self->own, stream);
    self->last = status.kind ? self->last : self->own;
    return status;
}

/* The lock is held. Launches follow each other on whatever streams they are: what they share, the
   graph's own memory, is then nobody else's. `stays`: the stream is not destroyed before the next
   launch, and is every thread's. */
static aicf_status
launch_locked(
    graph_object *self, const aicf_backend *backend, aicf_device device, aicf_stream stream,
    bool stays)
{
    aicf_status status = aicf_ok();
    if (!self->graph) {
        return status;
    }
    if (self->last && self->last != stream && backend->wait) {
        status = backend->wait(device, stream, self->last);
    }
    if (status.kind == AICF_OK) {
        self->last = stream;
        status = self->fed.pair ? feed_queue(&self->fed, backend, device, stream) : status;
    }
    if (status.kind == AICF_OK) {
        status = backend->launch_graph(device, stream, self->graph);
        self->launched |= status.kind == AICF_OK;
    }
    if (status.kind == AICF_OK && self->fed.pair) {
        status = feed_mark(&self->fed, backend, device, stream);
    }
    if (!stays && self->last == stream) {
        aicf_status left = leave_stream(self, backend, device, stream);
        status = status.kind ? status : left;
    }
    return status;
}

/* Whoever keeps the stream is kept until the next launch on another. The lock is held; who comes
   back is let go without it. */
static PyObject *
keep_stream(graph_object *self, aicf_stream stream, PyObject *value)
{
    PyObject *before = NULL;
    bool moved = self->last == stream || self->last == self->own;
    bool object = value && value != Py_None && !PyLong_Check(value);
    if (moved && self->last_of != (object ? value : NULL)) {
        before = self->last_of;
        self->last_of = object ? Py_NewRef(value) : NULL;
    }
    return before;
}

/* A number keeps no stream, and frameworks let theirs go with the object; but torch keeps its
   streams for ever, and calls that name one do so at each launch. */
static bool
stream_stays(const recording *r, aicf_stream stream, PyObject *value)
{
    return stream == STREAM_DEFAULT     ? true
           : stream == STREAM_OF_THREAD ? false
           : value && value != Py_None  ? !PyLong_Check(value)
           : r->stream || !r->lead      ? true
                                        : r->lead->framework == FRAMEWORK_TORCH;
}

/* `value`: what the stream was named by. */
static aicf_status
launch_now(graph_object *self, const recording *r, aicf_stream stream, PyObject *value)
{
    aicf_status status;
    bool stays = stream_stays(r, stream, value);
    graph_lock(self);
    if (self->launched && !feed_waits(&self->fed)) {
        status = launch_locked(self, r->backend, r->device, stream, stays);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = launch_locked(self, r->backend, r->device, stream, stays);
        Py_END_ALLOW_THREADS;
    }
    PyObject *before = keep_stream(self, stream, value);
    graph_unlock(self);
    Py_XDECREF(before);
    return status;
}

/* A capture would keep the numbers of this moment for ever. */
static bool
is_captured(const recording *r, aicf_stream stream)
{
    int64_t count;
    return stream != STREAM_DEFAULT && r->backend->graph_leaves &&
           r->backend->graph_leaves(r->device, stream, NULL, 0, &count).kind == AICF_OK;
}

static int
refuse_captured(const core_state *core)
{
    PyObject *values[] = {Py_NewRef(Py_None), PyUnicode_FromString("stream")};
    raise_with(
        core->unsupported,
        "launch: the stream is being captured, and what the graph is fed would stay as it is now: "
        "launch it outside, or capture its calls",
        (const char *const[]){"op", "arg", NULL}, values);
    return -1;
}

static int
launch_recorded(graph_object *self, const recording *r, PyObject *value)
{
    core_state *core = graph_state(self);
    aicf_stream stream = NULL;
    if (value && value != Py_None) {
        if (stream_named(core, "launch", value, &stream) < 0) {
            return -1;
        }
    }
    if (!r->backend) {
        return 0;
    }
    if ((r->asks || !recording_stays(r)) && recording_check(r) < 0) {
        return -1;
    }
    const block *fed = self->fed.copy;
    if (fed && (fed->asks || !block_stays(fed)) && block_check(fed) < 0) {
        return -1;
    }
    stream = stream ? stream : default_stream(r);
    if (fed && is_captured(r, stream)) {
        return refuse_captured(core);
    }
    aicf_status status = r->joins ? join_all(r, stream) : aicf_ok();
    status = status.kind ? status : launch_now(self, r, stream, value);
    if (status.kind == AICF_OK && core->sync && r->backend->synchronize) {
        Py_BEGIN_ALLOW_THREADS;
        status = r->backend->synchronize(r->device, stream);
        Py_END_ALLOW_THREADS;
    }
    return raise_unless("launch", core, r->backend, status);
}

static PyObject *
launch_on(graph_object *self, PyObject *stream)
{
    int64_t nodes;
    recording *r = graph_hold(self, &nodes);
    int done = r ? launch_recorded(self, r, stream) : -1;
    recording_drop(r);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

/* launch(stream=None) */
PyObject *
graph_launch(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Py_ssize_t named = kwnames ? PyTuple_Size(kwnames) : 0;
    if (nargs + named > 1) {
        PyErr_Format(
            PyExc_TypeError, "launch() takes a stream at most, %zd arguments came", nargs + named);
        return NULL;
    }
    if (named && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(kwnames, 0), "stream") != 0) {
        PyErr_Format(
            PyExc_TypeError, "launch() takes stream=, not %S=", PyTuple_GetItem(kwnames, 0));
        return NULL;
    }
    return launch_on((graph_object *)object, nargs + named ? args[0] : NULL);
}

PyObject *
graph_vectorcall(PyObject *object, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    return graph_launch(
        object, args, (Py_ssize_t)(nargs & ~PY_VECTORCALL_ARGUMENTS_OFFSET), kwnames);
}

/* As graph(*args, **kwargs). */
PyObject *
graph_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", NULL};
    PyObject *stream = NULL;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "|O:launch", names, &stream)
               ? launch_on((graph_object *)object, stream)
               : NULL;
}
