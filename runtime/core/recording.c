#include "recording.h"

#include "branches.h"

#include <stdlib.h>
#include <string.h>

/* ---- the items ------------------------------------------------------------------------------- */

static PyObject *
refuse_list(PyObject *calls)
{
    PyObject *name = PyType_GetQualName(Py_TYPE(calls));
    if (name) {
        PyErr_Format(PyExc_TypeError, "capture() takes a list or tuple of calls, not a %U", name);
        Py_DECREF(name);
    }
    return NULL;
}

static block *
refuse_type(PyObject *item, Py_ssize_t index)
{
    PyObject *name = PyType_GetQualName(Py_TYPE(item));
    if (name) {
        PyErr_Format(
            PyExc_TypeError,
            "capture() takes bound calls, and pairs (source, out) to copy; item %zd is a %U", index,
            name);
        Py_DECREF(name);
    }
    return NULL;
}

/* Of one item; NULL with an exception. */
static block *
block_of(const core_state *core, PyObject *item, Py_ssize_t index)
{
    if (Py_TYPE(item) == core->call_type) {
        block *b = bound_hold((bound *)item);
        if (!b) {
            PyErr_Format(PyExc_RuntimeError, "capture(): item %zd was cleared", index);
        }
        return b;
    }
    if (PyTuple_Check(item) && PyTuple_Size(item) == 2) {
        return copy_bind(PyTuple_GetItem(item, 0), PyTuple_GetItem(item, 1));
    }
    return refuse_type(item, index);
}

/* ---- what they have in common ---------------------------------------------------------------- */

/* The exception that says why an item cannot be in the graph; -1. */
static int
refuse(const core_state *core, const block *b, Py_ssize_t index, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *what = PyUnicode_FromFormatV(format, args);
    va_end(args);
    const char *op = b->handle->op->name;
    PyObject *text =
        what ? PyUnicode_FromFormat("capture: item %zd, %s: %U", index, op, what) : NULL;
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (words) {
        PyObject *values[] = {
            PyUnicode_FromString(op), Py_NewRef(Py_None), PyLong_FromSsize_t(index)};
        raise_with(
            core->unsupported, words, (const char *const[]){"op", "arg", "item", NULL}, values);
    }
    Py_XDECREF(what);
    Py_XDECREF(text);
    return -1;
}

static bool
has_graphs(const aicf_backend *backend)
{
    return backend->begin_graph && backend->end_graph && backend->spoiled_graph &&
           backend->launch_graph && backend->destroy_graph && backend->create_stream;
}

static int
take_place(recording *r, const core_state *core, const block *b, Py_ssize_t index)
{
    const aicf_backend *backend = backend_of_call(b->call);
    if (!has_graphs(backend)) {
        return refuse(core, b, index, "it runs on %s, which has no graphs", backend->name);
    }
    if (!r->backend) {
        r->backend = backend;
        r->device = b->call->device;
    }
    if (r->backend != backend || !aicf_device_same(r->device, b->call->device)) {
        return refuse(
            core, b, index, "it is on %s:%d, and those before it are on %s:%d: a graph is of one",
            backend->name, (int)b->call->device.index, r->backend->name, (int)r->device.index);
    }
    return 0;
}

/* `named`: the item that said first which stream it is on, or that it says nothing; -1: none. */
static int
take_stream(
    recording *r, const core_state *core, const block *b, Py_ssize_t index, Py_ssize_t *named)
{
    aicf_stream stream = b->call->stream_given ? b->call->stream : NULL;
    if (*named < 0) {
        *named = index;
        r->stream = stream;
    }
    if (r->stream != stream) {
        return refuse(
            core, b, index,
            "it was bound with another stream= than item %zd: a graph is launched on one", *named);
    }
    return 0;
}

/* FNV-1a over words. */
static uint64_t
mix(uint64_t number, uint64_t word)
{
    return (number ^ word) * UINT64_C(0x100000001b3);
}

static int
take_block(recording *r, const core_state *core, const block *b, Py_ssize_t i, Py_ssize_t *named)
{
    const aicf_call *call = b->call;
    bool pair = Py_TYPE(PyTuple_GetItem(r->calls, i)) != core->call_type;
    if (!call->launch) {
        return 0;
    }
    if (pair && copy_crosses(b)) {
        return refuse(core, b, i, "one side of it is on the host: both have to be on the device");
    }
    if (take_place(r, core, b, i) < 0 || (!pair && take_stream(r, core, b, i, named) < 0)) {
        return -1;
    }
    if (!r->lead && !pair) {
        r->lead = b->lead;
    }
    r->workspace = call->workspace_size > r->workspace && !call->workspace ? call->workspace_size
                                                                           : r->workspace;
    r->topology = mix(r->topology, (uint64_t)(uintptr_t)call->op);
    r->topology = mix(r->topology, (uint64_t)call->kernel << 16 | (uint16_t)call->variant);
    r->asks |= b->asks;
    r->joins |= b->joins;
    return 0;
}

/* ---- tensors that may move ------------------------------------------------------------------- */

static int
compare_words(const void *a, const void *b)
{
    uintptr_t one = (uintptr_t)((const watched *)a)->address;
    uintptr_t other = (uintptr_t)((const watched *)b)->address;
    return one < other ? -1 : one > other;
}

static int
take_words(recording *r)
{
    Py_ssize_t count = 0, kept = 0;
    for (Py_ssize_t i = 0; i < r->count; i++) {
        count += r->blocks[i]->watches;
    }
    r->words = PyMem_Malloc((size_t)(count + 1) * sizeof *r->words);
    if (!r->words) {
        PyErr_NoMemory();
        return -1;
    }
    count = 0;
    for (Py_ssize_t i = 0; i < r->count; i++) {
        const block *b = r->blocks[i];
        memcpy(r->words + count, b->words, (size_t)b->watches * sizeof *b->words);
        count += b->watches;
    }
    qsort(r->words, (size_t)count, sizeof *r->words, compare_words);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!kept || memcmp(&r->words[kept - 1], &r->words[i], sizeof *r->words) != 0) {
            r->words[kept++] = r->words[i];
        }
    }
    r->watches = kept;
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int
recording_fill(recording *r, const core_state *core)
{
    Py_ssize_t named = -1;
    for (Py_ssize_t i = 0, count = PyTuple_Size(r->calls); i < count; i++) {
        block *b = block_of(core, PyTuple_GetItem(r->calls, i), i);
        if (!b) {
            return -1;
        }
        r->blocks[r->count++] = b;
        if (take_block(r, core, b, i, &named) < 0) {
            return -1;
        }
    }
    return take_words(r);
}

recording *
recording_create(const core_state *core, PyObject *calls)
{
    if (!PyList_Check(calls) && !PyTuple_Check(calls)) {
        return (recording *)refuse_list(calls);
    }
    recording *r = PyMem_Calloc(1, sizeof *r);
    if (!r) {
        PyErr_NoMemory();
        return NULL;
    }
    r->references = 1;
    r->calls = PySequence_Tuple(calls);
    Py_ssize_t count = r->calls ? PyTuple_Size(r->calls) : 0;
    r->blocks = r->calls ? PyMem_Calloc((size_t)count + 1, sizeof(block *)) : NULL;
    if (r->calls && !r->blocks) {
        PyErr_NoMemory();
    }
    if (!r->blocks || recording_fill(r, core) < 0) {
        recording_drop(r);
        return NULL;
    }
    return r;
}

enum { ITEMS_MOST = 8192 }; /* beyond, the sets of those before each take much */

int
recording_branch(recording *r, int most)
{
    if (most <= 1 || r->count > ITEMS_MOST || !r->backend->graph_after ||
        !r->backend->graph_leaves) {
        return 0;
    }
    r->branches = branches_create(r, most);
    if (!r->branches) {
        PyErr_NoMemory();
        return -1;
    }
    r->workspace = r->branches->room;
    for (int64_t i = 0; i < r->branches->count; i++) {
        int64_t count;
        const int32_t *after = hazards_of(r->branches->order, i, &count);
        r->topology = mix(r->topology, (uint64_t)count << 1 | r->branches->early[i]);
        for (int64_t k = 0; k < count; k++) {
            r->topology = mix(r->topology, (uint64_t)after[k]);
        }
    }
    return 0;
}

void
recording_drop(recording *r)
{
    PyObject *type, *value, *trace;
    if (!r || !count_down(&r->references)) {
        return;
    }
    PyErr_Fetch(&type, &value, &trace);
    for (Py_ssize_t i = 0; i < r->count; i++) {
        block_drop(r->blocks[i]);
    }
    Py_XDECREF(r->calls);
    PyMem_Free(r->blocks);
    PyMem_Free(r->words);
    branches_free(r->branches);
    PyMem_Free(r);
    PyErr_Restore(type, value, trace);
}

int
recording_check(const recording *r)
{
    if (!r->asks && recording_stays(r)) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < r->count; i++) {
        if (block_check(r->blocks[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The stream and the workspace are set in a copy: a block may be launched elsewhere meanwhile. */
aicf_status
recording_queue_one(const block *b, aicf_stream stream, void *workspace)
{
    _Alignas(16) char few[2048];
    size_t bytes = aicf_call_bytes(b->call->op, b->count);
    char *room = bytes <= sizeof few ? few : malloc(bytes);
    if (!room) {
        return (aicf_status){.kind = AICF_NO_MEMORY};
    }
    memcpy(room, b->call, bytes);
    aicf_call *call = (aicf_call *)(void *)room;
    call->stream = stream;
    call->stream_given = true;
    call->workspace = workspace ? workspace : call->workspace;
    aicf_status status = aicf_call_launch(call);
    if (room != few) {
        free(room);
    }
    return status;
}

aicf_status
recording_queue(const recording *r, aicf_stream stream, void *workspace, Py_ssize_t *item)
{
    aicf_status status = aicf_ok();
    for (Py_ssize_t i = 0; i < r->count && status.kind == AICF_OK; i++) {
        *item = i;
        void *own = r->blocks[i]->call->workspace ? NULL : workspace;
        status = recording_queue_one(r->blocks[i], stream, own);
    }
    return status;
}
