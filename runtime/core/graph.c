/* aicf_rt.Graph: what bound calls would launch, as one launch. The lock is of all that a launch
   and an update change; nobody runs Python or waits for the GIL while it is held. */
#include "feed.h"
#include "parse.h"
#include "recording.h"

#include <pthread.h>
#include <stddef.h>
#include <structmember.h>
#include <unistd.h>

/* From 3.12 on the stable interface has both names; the bits are those of 3.11. */
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
#ifndef PY_VECTORCALL_ARGUMENTS_OFFSET
#define PY_VECTORCALL_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))
#endif

enum { REFUSALS = 16 };

/* Memory that all calls of a graph have their workspaces in. */
typedef struct workspace {
    void *memory;
    int64_t bytes;
} workspace;

typedef struct graph_object {
    PyObject_HEAD vectorcall_fn *vectorcall;
    PyObject *weak;
    pthread_mutex_t lock;
    pid_t process;       /* a child that was forked while the lock was held finds it so */
    recording *recorded; /* NULL: the garbage collection took it */
    aicf_graph graph;    /* NULL: there is nothing to launch */
    int64_t nodes;
    workspace room;
    feed fed;
    bool launched;              /* since it was made: the first launch may take long */
    aicf_stream last;           /* where it was launched last, NULL: nowhere yet */
    PyObject *last_of;          /* who keeps that stream, or NULL */
    uint64_t refused[REFUSALS]; /* pairs of topologies that no update leads between */
    int refusals;
} graph_object;

static core_state *
state_of(graph_object *self)
{
    return PyType_GetModuleState(Py_TYPE((PyObject *)self));
}

/* ---- the lock -------------------------------------------------------------------------------- */

static void
lock_wait(graph_object *self)
{
    if (self->process != getpid()) { /* who held it is not in this process */
        self->process = getpid();
        pthread_mutex_init(&self->lock, NULL);
        pthread_mutex_lock(&self->lock);
        return;
    }
    Py_BEGIN_ALLOW_THREADS;
    pthread_mutex_lock(&self->lock);
    Py_END_ALLOW_THREADS;
}

static inline void
lock_take(graph_object *self)
{
    if (__builtin_expect(pthread_mutex_trylock(&self->lock) != 0, 0)) {
        lock_wait(self);
    }
}

static inline void
lock_give(graph_object *self)
{
    pthread_mutex_unlock(&self->lock);
}

/* What is recorded now, held; NULL with an exception. */
static inline recording *
graph_hold(graph_object *self)
{
    lock_take(self);
    recording *r = self->recorded;
    if (r) {
        count_up(&r->references);
    }
    lock_give(self);
    if (!r) {
        PyErr_SetString(PyExc_RuntimeError, "the graph was cleared");
    }
    return r;
}

/* ---- capture --------------------------------------------------------------------------------- */

/* One capture, and what it leads to. */
typedef struct attempt {
    const recording *recorded;
    aicf_graph graph; /* before it, and after */
    workspace room;   /* made for it; no memory: what there is will do */
    bool change;
    bool changed;
    int64_t nodes;
    Py_ssize_t item; /* where it stopped, -1: at none of them */
    aicf_status status;
} attempt;

/* On a stream of its own, which is not captured yet. */
static aicf_status
room_make(const recording *r, aicf_stream stream, workspace *room)
{
    room->bytes = r->workspace;
    aicf_status status = r->backend->allocate(r->device, stream, room->bytes, &room->memory);
    return status.kind ? status : r->backend->synchronize(r->device, stream);
}

/* What was begun is ended, whatever came between. */
static void
capture_on(attempt *a, aicf_stream stream, void *memory)
{
    const recording *r = a->recorded;
    a->status = r->backend->begin_graph(r->device, stream);
    if (a->status.kind) {
        return;
    }
    a->status = recording_queue(r, stream, memory, &a->item);
    bool queued = a->status.kind == AICF_OK;
    aicf_status ended = r->backend->end_graph(
        r->device, stream, queued ? &a->graph : NULL, a->change, &a->changed, &a->nodes);
    if (queued) {
        a->item = -1;
        a->status = ended;
    }
}

/* Without the GIL. `room`: what there is. */
static void
attempt_run(attempt *a, const workspace *room)
{
    const recording *r = a->recorded;
    aicf_stream stream;
    a->status = stream_take(r->backend, r->device, &stream);
    if (a->status.kind) {
        return;
    }
    if (r->workspace > room->bytes) {
        a->status = room_make(r, stream, &a->room);
    }
    if (a->status.kind == AICF_OK) {
        capture_on(a, stream, a->room.memory ? a->room.memory : room->memory);
    }
    if (a->status.kind && a->room.memory) {
        r->backend->release(r->device, stream, a->room.memory);
        a->room = (workspace){NULL, 0};
    }
    stream_give(r->device, stream);
}

/* -1 with the exception of an attempt that failed. */
static int
attempt_raise(const attempt *a, const core_state *core)
{
    const recording *r = a->recorded;
    if (a->item < 0) {
        return raise_unless("capture", core, r->backend, a->status);
    }
    const block *b = r->blocks[a->item];
    raise_status(b->handle, b->call, NULL, a->status);
    raise_item("capture", a->item, r->count, "nothing was launched");
    return -1;
}

/* ---- making one ------------------------------------------------------------------------------ */

static PyObject *graph_vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);

static graph_object *
graph_new(core_state *core, recording *r)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(core->graph_type, Py_tp_alloc);
    graph_object *self = (graph_object *)allocate(core->graph_type, 0);
    if (!self) {
        recording_drop(r);
        return NULL;
    }
    self->vectorcall = graph_vectorcall;
    self->recorded = r;
    self->process = getpid();
    pthread_mutex_init(&self->lock, NULL);
    return self;
}

/* Takes over what the attempt made. The lock is held. */
static void
graph_settle(graph_object *self, const attempt *a)
{
    self->graph = a->graph;
    self->nodes = a->nodes;
    self->launched = self->launched && a->changed;
    if (a->room.memory) {
        self->room = a->room;
    }
}

PyObject *
graph_capture(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "feed", NULL};
    core_state *core = PyModule_GetState(module);
    PyObject *calls, *pair = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$O:capture", names, &calls, &pair)) {
        return NULL;
    }
    recording *r = recording_create(core, calls);
    graph_object *self = r ? graph_new(core, r) : NULL;
    if (!self || !r->backend) {
        return (PyObject *)self;
    }
    attempt a = {.recorded = r, .item = -1};
    int stays = recording_check(r);
    if (stays == 0 && pair != Py_None) {
        stays = feed_init(&self->fed, core, r->backend, r->device, pair);
    }
    if (stays == 0) {
        Py_BEGIN_ALLOW_THREADS;
        attempt_run(&a, &self->room);
        Py_END_ALLOW_THREADS;
    }
    if (stays < 0 || (a.status.kind && attempt_raise(&a, core) < 0)) {
        Py_DECREF(self);
        return NULL;
    }
    graph_settle(self, &a);
    return (PyObject *)self;
}

/* ---- launching ------------------------------------------------------------------------------- */

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

/* The lock is held. Launches follow each other on whatever streams they are: what they share, the
   graph's own memory, is then nobody else's. */
static aicf_status
launch_locked(
    graph_object *self, const aicf_backend *backend, aicf_device device, aicf_stream stream)
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
    return status;
}

static aicf_status
launch_now(graph_object *self, const recording *r, aicf_stream stream)
{
    aicf_status status;
    lock_take(self);
    if (self->launched && !feed_waits(&self->fed)) {
        status = launch_locked(self, r->backend, r->device, stream);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = launch_locked(self, r->backend, r->device, stream);
        Py_END_ALLOW_THREADS;
    }
    lock_give(self);
    return status;
}

/* Whoever keeps the stream is kept until the next launch on another. */
static void
keep_stream(graph_object *self, PyObject *value)
{
    PyObject *before = NULL;
    bool object = value && value != Py_None && !PyLong_Check(value);
    lock_take(self);
    if (self->last_of != (object ? value : NULL)) {
        before = self->last_of;
        self->last_of = object ? Py_NewRef(value) : NULL;
    }
    lock_give(self);
    Py_XDECREF(before);
}

static int
launch_recorded(graph_object *self, const recording *r, PyObject *value)
{
    core_state *core = state_of(self);
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
    aicf_status status = r->joins ? join_all(r, stream) : aicf_ok();
    status = status.kind ? status : launch_now(self, r, stream);
    if (status.kind == AICF_OK && core->sync && r->backend->synchronize) {
        Py_BEGIN_ALLOW_THREADS;
        status = r->backend->synchronize(r->device, stream);
        Py_END_ALLOW_THREADS;
    }
    keep_stream(self, value);
    return raise_unless("launch", core, r->backend, status);
}

static PyObject *
graph_launch(graph_object *self, PyObject *stream)
{
    recording *r = graph_hold(self);
    int done = r ? launch_recorded(self, r, stream) : -1;
    recording_drop(r);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

/* launch(stream=None) */
static PyObject *
launch_arguments(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
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
    return graph_launch((graph_object *)object, nargs + named ? args[0] : NULL);
}

static PyObject *
graph_vectorcall(PyObject *object, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    return launch_arguments(
        object, args, (Py_ssize_t)(nargs & ~PY_VECTORCALL_ARGUMENTS_OFFSET), kwnames);
}

/* As graph(*args, **kwargs). */
static PyObject *
graph_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", NULL};
    PyObject *stream = NULL;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "|O:launch", names, &stream)
               ? graph_launch((graph_object *)object, stream)
               : NULL;
}

/* ---- update ---------------------------------------------------------------------------------- */

/* A number of the pair: no update leads from one to the other once one was refused. */
static uint64_t
pair_of(const recording *from, const recording *to)
{
    return (from->topology * UINT64_C(0x9e3779b97f4a7c15)) ^ to->topology;
}

static bool
was_refused(const graph_object *self, uint64_t pair)
{
    bool found = self->refusals == REFUSALS; /* one that is refused ever anew is not asked again */
    for (int i = 0; i < self->refusals; i++) {
        found |= self->refused[i] == pair;
    }
    return found;
}

/* Launches that are under way still use it. */
static void
room_drop(const graph_object *self, const recording *r, const workspace *room)
{
    if (room->memory) {
        r->backend->release(r->device, self->last ? self->last : STREAM_DEFAULT, room->memory);
    }
}

/* The lock is held, the GIL is not. What is to be dropped comes back in *r. */
static void
update_locked(graph_object *self, recording **r, attempt *a)
{
    recording *before = self->recorded;
    const workspace old = self->room;
    uint64_t pair = pair_of(before, *r);
    a->graph = self->graph;
    a->change = self->graph && !was_refused(self, pair);
    attempt_run(a, &old);
    if (a->status.kind) {
        return;
    }
    if (a->change && !a->changed && self->refusals < REFUSALS) {
        self->refused[self->refusals++] = pair;
    }
    graph_settle(self, a);
    if (a->room.memory) {
        room_drop(self, before, &old);
    }
    self->recorded = *r;
    *r = before;
}

/* -1 with an exception: the graph cannot become one of those calls. */
static int
update_allowed(const core_state *core, const recording *before, const recording *r)
{
    if (before->backend && r->backend == before->backend &&
        aicf_device_same(r->device, before->device)) {
        return 0;
    }
    PyObject *values[] = {Py_NewRef(Py_None), Py_NewRef(Py_None)};
    raise_with(
        core->unsupported,
        "update: the calls are on another device than the graph, or one of the two launches "
        "nothing: capture() them",
        (const char *const[]){"op", "arg", NULL}, values);
    return -1;
}

static PyObject *
update_to(graph_object *self, recording **r)
{
    core_state *core = state_of(self);
    attempt a = {.recorded = *r, .item = -1};
    recording *before = graph_hold(self);
    int allowed = before ? update_allowed(core, before, *r) : -1;
    recording_drop(before);
    if (allowed < 0 || recording_check(*r) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    pthread_mutex_lock(&self->lock);
    update_locked(self, r, &a);
    pthread_mutex_unlock(&self->lock);
    Py_END_ALLOW_THREADS;
    if (a.status.kind && attempt_raise(&a, core) < 0) {
        return NULL;
    }
    return PyUnicode_FromString(a.changed ? "updated" : "instantiated");
}

static PyObject *
graph_update(PyObject *object, PyObject *calls)
{
    graph_object *self = (graph_object *)object;
    recording *r = recording_create(state_of(self), calls);
    PyObject *done = r ? update_to(self, &r) : NULL;
    recording_drop(r);
    return done;
}

/* ---- what people see ------------------------------------------------------------------------- */

static PyObject *
graph_nodes(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromLongLong(((graph_object *)object)->nodes);
}

static PyObject *
graph_calls(PyObject *object, void *closure)
{
    recording *r = graph_hold((graph_object *)object);
    PyObject *calls = r ? Py_NewRef(r->calls) : NULL;
    (void)closure;
    recording_drop(r);
    return calls;
}

static PyObject *
graph_feed(PyObject *object, void *closure)
{
    PyObject *pair = ((graph_object *)object)->fed.pair;
    (void)closure;
    return Py_NewRef(pair ? pair : Py_None);
}

static PyObject *
graph_device(PyObject *object, void *closure)
{
    recording *r = graph_hold((graph_object *)object);
    PyObject *text = !r ? NULL : r->backend ? device_text(r->device) : Py_NewRef(Py_None);
    (void)closure;
    recording_drop(r);
    return text;
}

static PyObject *
graph_repr(PyObject *object)
{
    recording *r = graph_hold((graph_object *)object);
    PyObject *where = !r           ? NULL
                      : r->backend ? device_text(r->device)
                                   : PyUnicode_FromString("no device");
    PyObject *text = where ? PyUnicode_FromFormat(
                                 "<aicf_rt.Graph of %zd calls, %lld nodes on %U>", r->count,
                                 (long long)((graph_object *)object)->nodes, where)
                           : NULL;
    Py_XDECREF(where);
    recording_drop(r);
    return text;
}

/* ---- the type -------------------------------------------------------------------------------- */

/* A recording or a block that others hold as well is no part of a cycle that only a graph is in. */
static int
graph_traverse(PyObject *object, visitproc visit, void *arg)
{
    graph_object *self = (graph_object *)object;
    const recording *r = self->recorded;
    Py_VISIT((PyObject *)Py_TYPE(object));
    Py_VISIT(self->last_of);
    Py_VISIT(self->fed.pair);
    int stop = self->fed.copy ? block_traverse(self->fed.copy, visit, arg) : 0;
    if (stop) {
        return stop;
    }
    if (!r || r->references > 1) {
        return 0;
    }
    Py_VISIT(r->calls);
    for (Py_ssize_t i = 0; i < r->count; i++) {
        stop = block_traverse(r->blocks[i], visit, arg);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

/* Nobody else has the graph any more. It may be running: its calls, and so their memory, are given
   back as those of a call are that was launched. */
static int
graph_clear(PyObject *object)
{
    graph_object *self = (graph_object *)object;
    recording *r = self->recorded;
    self->recorded = NULL;
    if (r && self->graph) {
        r->backend->destroy_graph(r->device, self->graph);
    }
    if (r) {
        room_drop(self, r, &self->room);
        feed_finish(&self->fed, r->backend, self->last);
    }
    self->graph = NULL;
    self->room = (workspace){NULL, 0};
    recording_drop(r);
    Py_CLEAR(self->last_of);
    return 0;
}

static void
graph_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (((graph_object *)object)->weak) {
        PyObject_ClearWeakRefs(object);
    }
    graph_clear(object);
    pthread_mutex_destroy(&((graph_object *)object)->lock);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef graph_methods[] = {
    {"launch", (PyCFunction)(void (*)(void))launch_arguments, METH_FASTCALL | METH_KEYWORDS,
     "launch($self, /, stream=None)\n--\n\n"
     "Queues all of it on the stream, behind its launches before. Without one: on the stream that "
     "the calls name, or on\nthe current one of their tensors' framework."},
    {"update", graph_update, METH_O,
     "update($self, calls, /)\n--\n\n"
     "Puts other calls of the device in the place of its own. 'updated': the graph was changed; "
     "'instantiated': it was made\nanew, which takes longer. If that fails, the graph stays as it "
     "was."},
    {"__reduce_ex__", refuse_reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef graph_attributes[] = {
    {"nodes", graph_nodes, NULL, "How many launches and copies it has.", NULL},
    {"calls", graph_calls, NULL, "What was captured, as it was given.", NULL},
    {"feed", graph_feed, NULL, "The pair (host, out) that is copied before each launch, or None.",
     NULL},
    {"device", graph_device, NULL, "As 'cuda:0'; None where there is nothing to launch.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef graph_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(graph_object, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(graph_object, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot graph_slots[] = {
    {Py_tp_call, (void *)graph_call},
    {Py_tp_methods, graph_methods},
    {Py_tp_members, graph_members},
    {Py_tp_getset, graph_attributes},
    {Py_tp_repr, (void *)graph_repr},
    {Py_tp_traverse, (void *)graph_traverse},
    {Py_tp_clear, (void *)graph_clear},
    {Py_tp_dealloc, (void *)graph_dealloc},
    {Py_tp_doc, (void *)"What bound calls would launch, as one launch. Calling it is launch(). It "
                        "keeps its calls and their memory alive."},
    {0, NULL},
};

PyType_Spec graph_spec = {
    .name = "aicf_rt.Graph",
    .basicsize = sizeof(graph_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = graph_slots,
};
