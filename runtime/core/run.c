/* aicf_rt.run: bound calls launched one after another, each as it is when run begins. */
#include "bound.h"

#include <string.h>

enum {
    FEW = 64,
    TURN = 64 /* launches after which other threads get theirs: one takes 50 us at most */
};

typedef struct batch {
    block **blocks; /* held */
    Py_ssize_t count;
    block *few[FEW];
} batch;

/* The list itself; where there is no GIL a copy, because others may change it. */
static PyObject *
items_hold(PyObject *calls)
{
#ifdef Py_GIL_DISABLED
    return PySequence_Tuple(calls);
#else
    return Py_NewRef(calls);
#endif
}

static int
refuse_item(const core_state *core, PyObject *item, Py_ssize_t index)
{
    PyTypeObject *type = Py_TYPE(item);
    PyObject *name = PyType_GetQualName(type);
    if (name) {
        bool ours =
            PyType_GetSlot(type, Py_tp_dealloc) == PyType_GetSlot(core->call_type, Py_tp_dealloc);
        PyErr_Format(
            PyExc_TypeError, "run() takes bound calls; item %zd is a %U%s", index, name,
            ours ? " of another import of aicf_rt" : "");
        Py_DECREF(name);
    }
    return -1;
}

static int
batch_fill(batch *all, const core_state *core, PyObject *items)
{
    PyObject *(*item_of)(PyObject *, Py_ssize_t) =
        PyList_Check(items) ? PyList_GetItem : PyTuple_GetItem;
    Py_ssize_t count = PyList_Check(items) ? PyList_Size(items) : PyTuple_Size(items);

    all->count = 0;
    all->blocks = count <= FEW ? all->few : PyMem_Malloc((size_t)count * sizeof(block *));
    if (!all->blocks) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = item_of(items, i);
        if (Py_TYPE(item) != core->call_type) {
            return refuse_item(core, item, i);
        }
        all->blocks[i] = bound_hold((bound *)item);
        if (!all->blocks[i]) {
            PyErr_Format(PyExc_RuntimeError, "run(): item %zd was cleared", i);
            return -1;
        }
        all->count++;
    }
    return 0;
}

static void
batch_drop(batch *all)
{
    for (Py_ssize_t i = 0; i < all->count; i++) {
        block_drop(all->blocks[i]);
    }
    if (all->blocks != all->few) {
        PyMem_Free(all->blocks);
    }
}

void
raise_item(const char *who, Py_ssize_t item, Py_ssize_t count, const char *rest)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *words = PyObject_Str(value);
    PyObject *args = words ? PyTuple_New(1) : NULL;
    PyObject *text = args ? PyUnicode_FromFormat(
                                "%U%s%s() stopped at item %zd of %zd: %s", words,
                                PyUnicode_GetLength(words) ? "; " : "", who, item, count, rest)
                          : NULL;
    PyObject *number = PyLong_FromSsize_t(item);
    if (text && number && PyTuple_SetItem(args, 0, Py_NewRef(text)) == 0 &&
        PyObject_SetAttrString(value, "args", args) == 0) {
        (void)PyObject_SetAttrString(value, "item", number);
    }
    PyErr_Clear(); /* where that failed, the exception stays as it was */
    Py_XDECREF(words);
    Py_XDECREF(args);
    Py_XDECREF(text);
    Py_XDECREF(number);
    PyErr_Restore(type, value, trace);
}

/* Launches that follow each other, while no Python runs: what the backend's `series` and its
   repeats keep, and the stream, are found out once. */
typedef struct series {
    const aicf_backend *backend; /* whose series is on; NULL: none */
    bool repeats;                /* the launch before was repeated */
    uint64_t place;              /* of aicf_repeats */
    stream_fn *ask;              /* of whom and where the stream is */
    aicf_device device;
    aicf_stream stream; /* NULL: not known */
} series;

static void
series_end(series *s)
{
    if (s->backend && s->backend->series) {
        s->backend->series(false);
    }
    *s = (series){.backend = NULL};
}

static void
series_enter(series *s, const aicf_backend *backend)
{
    if (s->backend != backend) {
        series_end(s);
        s->backend = backend;
        if (backend->series) {
            backend->series(true);
        }
    }
}

/* NULL: Python has to be asked. */
static inline aicf_stream
series_stream(series *s, const block *b)
{
    if (b->stream) {
        return b->stream;
    }
    if (!s->stream || s->ask != b->ask || !aicf_device_same(s->device, b->device)) {
        s->ask = b->ask;
        s->device = b->device;
        s->stream = block_find_stream(b, &s->stream) ? s->stream : NULL;
    }
    return s->stream;
}

/* False: nothing was launched. */
static inline bool
series_repeat(series *s, const block *b)
{
    aicf_stream stream = b->repeat && block_stays(b) ? series_stream(s, b) : NULL;
    if (!stream || !block_repeat(b, stream, &s->place)) {
        s->repeats = false;
        s->place = 0;
        return false;
    }
    s->repeats = true;
    return true;
}

static int
launch_next(series *s, block *b)
{
    if (series_repeat(s, b)) {
        return 0;
    }
    aicf_stream stream = block_is_swift(b) && block_stays(b) ? series_stream(s, b) : NULL;
    if (!stream) {
        series_end(s);
        return launch_held(b);
    }
    series_enter(s, backend_of_call(b->call));
    aicf_status status = block_launch_swiftly(b, stream);
    if (status.kind == AICF_OK) {
        return 0;
    }
    series_end(s);
    raise_status(b->handle, b->call, NULL, status);
    return -1;
}

/* Between two launches: other threads get their turn, and Ctrl-C its exception, after a launch that
   may have been long at once. */
static int
take_turn(const batch *all, series *s, Py_ssize_t next)
{
    bool turn = next % TURN == 0;
    if (!turn && (s->backend || s->repeats || all->blocks[next - 1]->brief)) {
        return 0;
    }
    series_end(s);
    if (turn) {
        Py_BEGIN_ALLOW_THREADS;
        Py_END_ALLOW_THREADS;
    }
    return PyErr_CheckSignals();
}

static int
batch_launch(const batch *all)
{
    series s = {.backend = NULL};
    int done = 0;
    for (Py_ssize_t i = 0; i < all->count && done == 0; i++) {
        if ((i && take_turn(all, &s, i) < 0) || launch_next(&s, all->blocks[i]) < 0) {
            series_end(&s);
            raise_item(
                "run", i, all->count,
                "those before it were launched, it and those after it were not");
            done = -1;
        }
    }
    series_end(&s);
    return done;
}

PyObject *
bound_run(PyObject *module, PyObject *calls)
{
    const core_state *core = PyModule_GetState(module);
    batch all;
    if (!PyList_Check(calls) && !PyTuple_Check(calls)) {
        PyObject *name = PyType_GetQualName(Py_TYPE(calls));
        if (name) {
            PyErr_Format(PyExc_TypeError, "run() takes a list or tuple of calls, not a %U", name);
            Py_DECREF(name);
        }
        return NULL;
    }
    PyObject *items = items_hold(calls);
    if (!items) {
        return NULL;
    }
    int done = batch_fill(&all, core, items);
    Py_DECREF(items);
    done = done < 0 ? -1 : batch_launch(&all);
    batch_drop(&all);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}
