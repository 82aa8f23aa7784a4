#include "block.h"

#include "borrowed.h"

#include <stdlib.h>
#include <string.h>

void
kept_drop(kept *k)
{
    if (k && count_down(&k->references)) {
        tensor_release(&k->t);
        Py_XDECREF(k->guard);
        Py_XDECREF(k->object);
        PyMem_Free(k);
    }
}

void
block_free(block *b)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    for (int i = 0; i < b->count; i++) {
        kept_drop(b->tensors[i]);
    }
    kept_drop(b->workspace);
    if (b->repeat) {
        b->repeats->destroy(b->repeat);
    }
    handle_close(b->handle);
    PyMem_Free(b);
    PyErr_Restore(type, value, trace);
}

/* Behind a block lie the words, the call and the options, each aligned to 16. */
block *
block_create(const frame *f)
{
    size_t count = (size_t)f->count;
    size_t head = rounded(sizeof(block) + sizeof(kept *) * count);
    size_t words = rounded(sizeof(watched) * (count + 1)); /* the workspace too */
    size_t call = rounded(aicf_call_bytes(f->op, f->count));
    block *b = PyMem_Malloc(head + words + call + f->op->call_size);
    if (!b) {
        PyErr_NoMemory();
        return NULL;
    }
    char *room = (char *)b + head;
    memset(b, 0, head);
    b->references = 1;
    b->handle = handle_share(f->handle);
    b->count = f->count;
    b->given = f->given;
    b->words = (watched *)(void *)room;
    b->call = (aicf_call *)(void *)(room + words);
    b->options = (aicf_call *)(void *)(room + words + call);
    memcpy(b->options, f->call, f->op->call_size);
    return b;
}

/* ---- tensors that may move ------------------------------------------------------------------- */

static int
param_of_tensor(const aicf_call *call, int tensor)
{
    int param = 0;
    while (param + 1 < call->op->params && aicf_call_start(call, param + 1) <= tensor) {
        param++;
    }
    return param;
}

static const char *
tensor_name(const aicf_call *call, int tensor)
{
    return call->op->params_of[param_of_tensor(call, tensor)].name;
}

/* -1 with an exception, of what alias_moved or alias_look answered. */
static int
refuse_moved(const core_state *core, const aicf_op *op, const char *name, int moved)
{
    char text[256];
    if (!moved) {
        return 0;
    }
    PyErr_Clear();
    PyOS_snprintf(
        text, sizeof text, "%s: %s: its memory was resized after it was bound: set() it again",
        op->name, name);
    PyObject *values[] = {PyUnicode_FromString(op->name), PyUnicode_FromString(name)};
    raise_with(core->unsupported, text, (const char *const[]){"op", "arg", NULL}, values);
    return -1;
}

int
block_check(const block *b)
{
    const aicf_op *op = b->handle->op;
    for (int i = 0; i < b->count; i++) {
        const aicf_tensor *t = &b->tensors[i]->t;
        int moved = alias_object(t) ? alias_moved(t) : 0;
        if (moved) {
            return refuse_moved(b->handle->core, op, tensor_name(b->options, i), moved);
        }
    }
    const aicf_tensor *room = b->workspace ? &b->workspace->t : NULL;
    int moved = room && alias_object(room) ? alias_moved(room) : 0;
    return refuse_moved(b->handle->core, op, "workspace", moved);
}

static bool
is_array(PyObject *object)
{
    return type_is(Py_TYPE(object), "numpy", "ndarray");
}

/* Whose memory an array or a memoryview shows, one step down; NULL: its own. */
static PyObject *
memory_below(const core_state *core, PyObject *object)
{
    bool view = PyMemoryView_Check(object);
    PyObject *below = PyObject_GetAttr(object, core->names[view ? NAME_obj : NAME_base]);
    if (!below || below == Py_None) {
        PyErr_Clear();
        Py_XDECREF(below);
        return NULL;
    }
    return below;
}

/* Who owns the memory of an array, or of a memoryview. A new reference. */
static PyObject *
memory_owner(const core_state *core, PyObject *object, bool *array)
{
    enum { MANY = 64 };
    PyObject *owner = Py_NewRef(object);
    for (int i = 0; i < MANY && (*array || PyMemoryView_Check(owner)); i++) {
        PyObject *below = memory_below(core, owner);
        if (!below) {
            break;
        }
        Py_DECREF(owner);
        owner = below;
        *array = is_array(owner);
    }
    return owner;
}

/* numpy frees an array's memory in `resize(refcheck=False)`, whoever uses its buffer, but not while
   there is a weak reference to it. */
static int
guard_set(const core_state *core, kept *k, PyObject *object, const source *s)
{
    bool array = s->framework == FRAMEWORK_NUMPY;
    if (array || PyMemoryView_Check(object)) {
        PyObject *owner = memory_owner(core, object, &array);
        k->guard = array ? PyWeakref_NewRef(owner, NULL) : NULL;
        Py_DECREF(owner);
    }
    return PyErr_Occurred() ? -1 : 0;
}

kept *
kept_create(frame *f, int i)
{
    bool absent = f->t[i].absent;
    kept *k = PyMem_Calloc(1, sizeof *k);
    if (!k) {
        PyErr_NoMemory();
        return NULL;
    }
    k->references = 1;
    if (!absent && guard_set(f->core, k, f->objects[i], tensor_source(&f->t[i])) < 0) {
        kept_drop(k);
        return NULL;
    }
    k->object = absent ? NULL : Py_NewRef(f->objects[i]);
    k->t = f->t[i];
    f->t[i].release = NULL;
    f->seen[i] = 0;
    return k;
}

static void
block_watch(block *b, watched *words, const aicf_tensor *t)
{
    const watched *w = alias_words(t);
    if (w) {
        words[b->watches++] = *w;
    }
    b->asks |= !w && alias_object(t);
}

static int
block_keep(block *b, frame *f)
{
    watched *words = (watched *)(uintptr_t)b->words;
    for (int i = 0; i < f->count; i++) {
        if (!b->tensors[i]) { /* else shared with the block before */
            b->tensors[i] = kept_create(f, i);
        }
        if (!b->tensors[i]) {
            return -1;
        }
        block_watch(b, words, &b->tensors[i]->t);
    }
    if (b->workspace) {
        block_watch(b, words, &b->workspace->t);
    }
    return 0;
}

static int
frame_share(frame *f, int i, const aicf_tensor *kept)
{
    if (alias_object(kept)) {
        int moved = alias_look(kept, &f->t[i]);
        return refuse_moved(f->core, f->op, tensor_name(f->call, i), moved);
    }
    f->t[i] = *kept;
    f->t[i].release = NULL;
    return 0;
}

/* Owns what is not shared with the block before. */
static int
frame_own(frame *f, kept *const *shared)
{
    memset(f->seen, 0, (size_t)f->count);
    f->holds = true;
    for (int i = 0; i < f->count; i++) {
        bool absent = !f->objects[i] || f->objects[i] == Py_None;
        if (shared[i]) {
            if (frame_share(f, i, &shared[i]->t) < 0) {
                return -1;
            }
        } else if (absent) {
            int p = frame_param(f, i);
            const aicf_param *param = &f->op->params_of[p];
            if (!param->optional && param->role != AICF_SCALAR) {
                return raise_absent(f, i);
            }
            f->t[i] = (aicf_tensor){.absent = true, .dense = true};
        } else if (frame_own_one(f, i) < 0) {
            return -1;
        }
    }
    return 0;
}

static aicf_status
launch_nothing(const aicf_call *call)
{
    (void)call;
    return aicf_ok();
}

static aicf_launch_fn *
brief_of(const block *b)
{
    return b->asks                               ? NULL
           : !b->call->launch                    ? launch_nothing
           : launch_is_brief(b->handle, b->call) ? b->call->launch
                                                 : NULL;
}

/* Where others may launch the same block at any time, its call cannot be given a stream. */
static aicf_launch_fn *
swift_of(const block *b)
{
#ifdef Py_GIL_DISABLED
    (void)b;
    return NULL;
#else
    const aicf_call *call = b->call;
    const aicf_backend *backend = call->launch ? backend_of_call(call) : NULL;
    bool alone = backend && !backend->host && !b->asks && !b->joins && !call_lacks_memory(call);
    return alone && !b->handle->core->sync ? backend->launch : NULL;
#endif
}

/* What block_find_stream finds. */
static void
block_settle_stream(block *b)
{
    const source *lead = b->lead;
    bool asks = lead && lead->exchange && lead->exchange->stream;
    if (b->call->stream_given) {
        b->stream = b->call->stream;
    } else if (asks) {
        b->ask = lead->exchange->stream;
    } else if (!lead || lead->framework == FRAMEWORK_OWN) {
        b->stream = STREAM_DEFAULT;
    }
}

/* By the short way where that takes it. The options are the call as it was. */
static aicf_status
call_prepare(const block *b, frame *f)
{
    const aicf_op *op = f->op;
    bool open = f->call->variant < 0;
    if (op->plain && (!open || f->handle->free_type < 0)) {
        f->call->variant = (int16_t)(open ? variant_first(op, f->t) : f->call->variant);
        if (op->plain(f->t, f->call, NULL)) {
            return aicf_ok();
        }
        memcpy(f->call, b->options, op->call_size);
    }
    return op->prepare(f->t, f->call);
}

int
block_prepare(block *b, frame *f)
{
    if (frame_own(f, b->tensors) < 0 || workspace_own(b, f) < 0) {
        return -1;
    }
    variant_choose(f);
    aicf_status status = f->status;
    if (status.kind == AICF_OK) {
        status = call_prepare(b, f);
    }
    if (status.kind) {
        raise_refusal(f, status);
        return -1;
    }
    memcpy(b->call, f->call, aicf_call_bytes(f->op, f->count));
    if (workspace_settle(b, f) < 0) {
        return -1;
    }
    if (b->call->launch && !backend_of_call(b->call)->host) {
        b->lead = stream_lead(f->t, f->count);
        b->joins = streams_differ(f->t, f->count, b->lead);
        status = frame_order(f, backend_of_call(b->call));
    }
    if (status.kind) {
        raise_refusal(f, status);
        return -1;
    }
    if (block_keep(b, f) < 0) {
        return -1;
    }
    b->brief = brief_of(b);
    b->swift = swift_of(b);
    b->repeats = b->swift ? aicf_repeats_of(backend_of_call(b->call)) : NULL;
    b->device = b->call->device;
    block_settle_stream(b);
    return 0;
}

/* ---- launching ------------------------------------------------------------------------------- */

/* A launch that sets anything sets it in a copy. */
static aicf_status
block_launch_copy(const block *b)
{
    _Alignas(16) char few[2048];
    size_t bytes = aicf_call_bytes(b->call->op, b->count);
    char *room = bytes <= sizeof few ? few : malloc(bytes);
    if (!room) {
        return (aicf_status){.kind = AICF_NO_MEMORY};
    }
    memcpy(room, b->call, bytes);
    aicf_status status = launch(b->handle, (aicf_call *)(void *)room, b->lead);
    if (room != few) {
        free(room);
    }
    return status;
}

/* What is launched a few times is launched often; and what it launches for the first time, in a
   context or a process, need not be what it launches from then on. */
aicf_status
block_launch_swiftly(block *b, aicf_stream stream)
{
    enum { FEW = 3 };
    b->call->stream = stream;
    if (!b->repeats || b->launches > FEW || ++b->launches <= FEW) {
        return launch_swiftly(b->swift, b->call);
    }
    aicf_status status = b->repeats->learn(b->call, &b->repeat);
    if (status.kind == AICF_BACKEND_ERROR) {
        status.backend = b->call->op->kernels[b->call->kernel].backend;
    }
    return status;
}

aicf_status
block_join(const block *b, aicf_stream ours)
{
    const aicf_call *call = b->call;
    const aicf_backend *backend = backend_of_call(call);
    aicf_status status = aicf_ok();
    for (int i = 0; i < b->count && status.kind == AICF_OK; i++) {
        status = stream_join(&b->tensors[i]->t, b->lead, backend, call->device, ours);
    }
    status.backend = call->op->kernels[call->kernel].backend;
    return status;
}

int
block_launch(block *b)
{
    aicf_call *call = b->call;
    aicf_status status = aicf_ok();
    if ((b->asks || !block_stays(b)) && block_check(b) < 0) {
        return -1;
    }
    if (b->joins) {
        status = block_join(
            b, call->stream_given ? call->stream : stream_current(b->lead, call->device));
    }
    if (call->launch && status.kind == AICF_OK) {
        bool as_is =
            !call_lacks_memory(call) && (call->stream_given || backend_of_call(call)->host);
        status = as_is ? launch(b->handle, call, b->lead) : block_launch_copy(b);
    }
    if (status.kind) {
        raise_status(b->handle, call, NULL, status);
        return -1;
    }
    return 0;
}

void
block_inherit(block *b, const frame *f, const block *before, uint64_t same)
{
    for (int p = 0; p < f->op->params; p++) {
        int from = aicf_call_start(before->options, p), to = aicf_call_start(f->call, p);
        int count = aicf_call_count(f->call, p);
        if (!(same >> p & 1) || count != aicf_call_count(before->options, p)) {
            continue;
        }
        for (int i = 0; i < count; i++) {
            b->tensors[to + i] = before->tensors[from + i];
            count_up(&b->tensors[to + i]->references);
        }
    }
}

static int
kept_traverse(const kept *k, visitproc visit, void *arg)
{
    if (k && k->references == 1) {
        Py_VISIT(k->object);
        Py_VISIT(buffer_exporter(&k->t));
        Py_VISIT(alias_object(&k->t));
    }
    return 0;
}

/* What others hold as well, a launch in another thread or the block before, is no part of a cycle
   that only a call is in. */
int
block_traverse(const block *b, visitproc visit, void *arg)
{
    for (int i = 0; b->references == 1 && i < b->count; i++) {
        int stop = kept_traverse(b->tensors[i], visit, arg);
        if (stop) {
            return stop;
        }
    }
    return b->references == 1 ? kept_traverse(b->workspace, visit, arg) : 0;
}
