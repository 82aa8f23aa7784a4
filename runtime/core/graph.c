/* aicf_rt.Graph: what bound calls would launch, as one launch. */
#include "graph.h"

#include "branches.h"
#include "parse.h"

#include <stddef.h>
#include <structmember.h>
#include <unistd.h>

/* ---- the lock -------------------------------------------------------------------------------- */

void
graph_wait(graph_object *self)
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

/* ---- making one ------------------------------------------------------------------------------ */

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

/* Takes over what the capture made. The lock is held. */
static void
graph_settle(graph_object *self, const capture *c)
{
    self->graph = c->graph;
    self->nodes = c->nodes;
    self->launched = self->launched && c->changed;
    if (c->room.memory) {
        self->room = c->room;
    }
}

PyObject *
graph_capture(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "feed", "branches", NULL};
    core_state *core = PyModule_GetState(module);
    PyObject *calls, *pair = Py_None;
    int most = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$Oi:capture", names, &calls, &pair, &most)) {
        return NULL;
    }
    if (most < 1 || most > BRANCHES_MOST) {
        PyErr_Format(
            PyExc_ValueError, "capture: branches is how many calls may run at once, from 1 to %d",
            BRANCHES_MOST);
        return NULL;
    }
    recording *r = recording_create(core, calls);
    graph_object *self = r ? graph_new(core, r) : NULL;
    if (!self || !r->backend) {
        return (PyObject *)self;
    }
    capture c = {.recorded = r, .item = -1};
    int stays = recording_check(r);
    if (stays == 0 && pair != Py_None) {
        stays = feed_init(&self->fed, core, r->backend, r->device, pair);
    }
    self->branches = most;
    stays = stays == 0 ? recording_branch(r, most) : stays;
    if (stays == 0) {
        Py_BEGIN_ALLOW_THREADS;
        capture_run(&c, &self->room);
        Py_END_ALLOW_THREADS;
    }
    if (stays < 0 || (c.status.kind && capture_raise(&c, core) < 0)) {
        Py_DECREF(self);
        return NULL;
    }
    graph_settle(self, &c);
    return (PyObject *)self;
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
update_locked(graph_object *self, recording **r, capture *c)
{
    recording *before = self->recorded;
    const workspace old = self->room;
    uint64_t pair = pair_of(before, *r);
    c->graph = self->graph;
    c->change = self->graph && !was_refused(self, pair);
    capture_run(c, &old);
    if (c->status.kind) {
        return;
    }
    if (c->change && !c->changed && self->refusals < REFUSALS) {
        self->refused[self->refusals++] = pair;
    }
    graph_settle(self, c);
    if (c->room.memory) {
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
    core_state *core = graph_state(self);
    capture c = {.recorded = *r, .item = -1};
    int64_t nodes;
    recording *before = graph_hold(self, &nodes);
    int allowed = before ? update_allowed(core, before, *r) : -1;
    recording_drop(before);
    if (allowed < 0 || recording_check(*r) < 0 || recording_branch(*r, self->branches) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    pthread_mutex_lock(&self->lock);
    update_locked(self, r, &c);
    pthread_mutex_unlock(&self->lock);
    Py_END_ALLOW_THREADS;
    if (c.status.kind && capture_raise(&c, core) < 0) {
        return NULL;
    }
    return PyUnicode_FromString(c.changed ? "updated" : "instantiated");
}

static PyObject *
graph_update(PyObject *object, PyObject *calls)
{
    graph_object *self = (graph_object *)object;
    recording *r = recording_create(graph_state(self), calls);
    PyObject *done = r ? update_to(self, &r) : NULL;
    recording_drop(r);
    return done;
}

/* ---- what people see ------------------------------------------------------------------------- */

static PyObject *
graph_nodes(PyObject *object, void *closure)
{
    int64_t nodes;
    recording *r = graph_hold((graph_object *)object, &nodes);
    PyObject *number = r ? PyLong_FromLongLong(nodes) : NULL;
    (void)closure;
    recording_drop(r);
    return number;
}

static PyObject *
graph_calls(PyObject *object, void *closure)
{
    int64_t nodes;
    recording *r = graph_hold((graph_object *)object, &nodes);
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
    int64_t nodes;
    recording *r = graph_hold((graph_object *)object, &nodes);
    PyObject *text = !r ? NULL : r->backend ? device_text(r->device) : Py_NewRef(Py_None);
    (void)closure;
    recording_drop(r);
    return text;
}

static PyObject *
graph_repr(PyObject *object)
{
    int64_t nodes;
    recording *r = graph_hold((graph_object *)object, &nodes);
    PyObject *where = !r           ? NULL
                      : r->backend ? device_text(r->device)
                                   : PyUnicode_FromString("no device");
    PyObject *text = where ? PyUnicode_FromFormat(
                                 "<aicf_rt.Graph of %zd calls, %lld nodes on %U>", r->count,
                                 (long long)nodes, where)
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
    if (self->own) {
        stream_give(r->device, self->own);
    }
    self->graph = NULL;
    self->own = self->last = NULL;
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
    {"launch", (PyCFunction)(void (*)(void))graph_launch, METH_FASTCALL | METH_KEYWORDS,
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
