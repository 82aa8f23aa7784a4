/* The object aicf_rt.Graph. The lock is of all that a launch and an update change; nobody runs
   Python or waits for the GIL while it is held. */
#ifndef AICF_CORE_GRAPH_H
#define AICF_CORE_GRAPH_H

#include <pthread.h>

#include "capture.h"
#include "feed.h"

enum { REFUSALS = 16 };

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
    int branches;               /* of it may run at once, at most */
    bool launched;              /* since it was made: the first launch may take long */
    aicf_stream last;           /* what comes behind its last launch, NULL: there was none */
    aicf_stream own;            /* which is this where that was on a thread's own; NULL: none yet */
    PyObject *last_of;          /* who keeps that stream, or NULL */
    uint64_t refused[REFUSALS]; /* pairs of topologies that no update leads between */
    int refusals;
} graph_object;

static inline core_state *
graph_state(graph_object *self)
{
    return PyType_GetModuleState(Py_TYPE((PyObject *)self));
}

/* graph.c: with a lock that somebody has. */
void graph_wait(graph_object *self);

static inline void
graph_lock(graph_object *self)
{
    if (__builtin_expect(pthread_mutex_trylock(&self->lock) != 0, 0)) {
        graph_wait(self);
    }
}

static inline void
graph_unlock(graph_object *self)
{
    pthread_mutex_unlock(&self->lock);
}

/* What is recorded now, held, and as how many nodes; NULL with an exception. */
static inline recording *
graph_hold(graph_object *self, int64_t *nodes)
{
    graph_lock(self);
    recording *r = self->recorded;
    *nodes = self->nodes;
    if (r) {
        count_up(&r->references);
    }
    graph_unlock(self);
    if (!r) {
        PyErr_SetString(PyExc_RuntimeError, "the graph was cleared");
    }
    return r;
}

/* relaunch.c: the type's call, and its method. */
PyObject *
graph_vectorcall(PyObject *object, PyObject *const *args, size_t nargs, PyObject *kwnames);
PyObject *graph_call(PyObject *object, PyObject *args, PyObject *kwargs);
PyObject *
graph_launch(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

#endif
