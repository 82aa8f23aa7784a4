/* The frame of one call: room, reading, release. */
#include "storage.h"

#include <string.h>

#include <aicf/explain.h>

/* ---- room ------------------------------------------------------------------------------------ */

/* The arrays of a call of `count` tensors in `room`; the call comes first, it is aligned to 16. */
static char *
arrays_lay(frame *f, char *room, int count)
{
    f->call = (aicf_call *)room;
    room += rounded(aicf_call_bytes(f->op, count));
    f->t = (aicf_tensor *)room;
    room += rounded(sizeof(aicf_tensor) * (size_t)count);
    f->seen = (uint8_t *)room;
    return room + rounded((size_t)count);
}

static size_t
arrays_bytes(const aicf_op *op, int count)
{
    size_t each = sizeof(aicf_tensor) + 1 + sizeof(PyObject *) + sizeof(int16_t);
    return rounded(aicf_call_bytes(op, count)) + each * (size_t)count + 64;
}

static bool
is_absent(const PyObject *object)
{
    return !object || object == Py_None;
}

/* ---- lists: a parameter takes as many tensors as its count says ------------------------------ */

/* Of a call: half a gigabyte of arrays, and none of the counts in them is near its end. */
enum { MOST_TENSORS = 1 << 20 };

/* The tuple of a list that was given, kept by the frame. */
static PyObject *
list_keep(frame *f, int param)
{
    PyObject *object = f->slots[param];
    if (!PyList_Check(object) && !PyTuple_Check(object)) {
        raise_misuse(f->op, f->op->params_of[param].name, "takes a list or tuple of tensors");
        return NULL;
    }
    PyObject *tuple = PySequence_Tuple(object);
    if (tuple && PyList_Append(f->lists, tuple) < 0) {
        Py_CLEAR(tuple);
    }
    Py_XDECREF(tuple); /* the frame's list holds it */
    return tuple;
}

/* The lengths are the text's; very long ones it does without. */
static aicf_status
lengths_differ(int param, int64_t first, int64_t own)
{
    bool short_enough = first <= AICF_LENGTHS_MOST && own <= AICF_LENGTHS_MOST;
    int32_t both = short_enough ? (int32_t)(first << AICF_LENGTHS_SHIFT | own) : 0;
    return aicf_unsupported(AICF_CHECK_LIST, param, both);
}

/* Replaces the list objects in the slots by tuples, and sets the counts. */
static int
lists_count(frame *f)
{
    const aicf_op *op = f->op;
    int64_t *dims = aicf_call_dims(f->call);
    uint64_t known = 0;

    for (int p = 0; p < op->inputs + op->outs; p++) {
        int dim = op->params_of[p].list;
        if (dim < 0 || is_absent(f->slots[p])) {
            continue;
        }
        f->slots[p] = list_keep(f, p);
        if (!f->slots[p]) {
            return -1;
        }
        int64_t length = PyTuple_Size(f->slots[p]);
        if (known >> dim & 1 && dims[dim] != length) {
            f->status = f->status.kind ? f->status : lengths_differ(p, dims[dim], length);
            length = dims[dim] < length ? dims[dim] : length;
        }
        dims[dim] = length;
        known |= UINT64_C(1) << dim;
    }
    return 0;
}

static void
lists_spread(frame *f, PyObject **objects)
{
    int at = 0;
    for (int p = 0; p < f->op->params; p++) {
        bool list = f->op->params_of[p].list >= 0;
        int count = aicf_call_count(f->call, p);
        for (int i = 0; i < count; i++, at++) {
            f->param_of[at] = (int16_t)p;
            objects[at] = list && !is_absent(f->slots[p]) ? PyTuple_GetItem(f->slots[p], i)
                          : list                          ? NULL
                                                          : f->slots[p];
        }
    }
}

int
frame_grow(frame *f)
{
    f->lists = PyList_New(0);
    if (!f->lists || lists_count(f) < 0) {
        return -1;
    }
    int64_t count = 0;
    for (int p = 0; p < f->op->params; p++) {
        count += aicf_call_count(f->call, p);
    }
    if (count > MOST_TENSORS) {
        return raise_misuse(
            f->op, "lists", "have %lld tensors, more than %d: give them in several calls",
            (long long)count, (int)MOST_TENSORS);
    }
    const aicf_call *options = f->call;
    f->heap = PyMem_Calloc(1, arrays_bytes(f->op, (int)count));
    if (!f->heap) {
        PyErr_NoMemory();
        return -1;
    }
    f->count = (int)count;
    char *rest = arrays_lay(f, f->heap, f->count);
    PyObject **objects = (PyObject **)(void *)rest;
    f->param_of = (int16_t *)(objects + count);
    memcpy(f->call, options, f->op->call_size);
    f->call->count = f->count;
    lists_spread(f, objects);
    f->objects = objects;
    return 0;
}

/* ---- begin and end --------------------------------------------------------------------------- */

void
frame_init(frame *f, aicf_handle *handle, void *room, form kind)
{
    *f = (frame){
        .handle = handle,
        .op = handle->op,
        .core = handle->core,
        .count = handle->op->params,
        .dtype_part = -1,
        .computes = kind == FORM_COMPUTE || kind == FORM_INFER || kind == FORM_EXPLAIN,
        .infers = kind == FORM_INFER,
        .describes = kind == FORM_INFER || kind == FORM_EXPLAIN,
    };
    f->slots = (PyObject **)(void *)arrays_lay(f, room, f->count);
    f->objects = f->slots;
}

int
frame_begin(
    frame *f, aicf_handle *handle, void *room, int variant, form kind, PyObject *const *args,
    Py_ssize_t nargs, PyObject *kwnames)
{
    const aicf_op *op = handle->op;

    frame_init(f, handle, room, kind);
    aicf_call_init(f->call, op, variant);
    f->call->count = op->params;
    bool typed = kind == FORM_TYPED || kind == FORM_BIND;
    if (handle->plain_call && !kwnames && nargs == op->params && typed) {
        f->objects = args;
        return 0;
    }
    if (arguments_sort(f, kind, args, nargs, kwnames) < 0 || (op->has_lists && frame_grow(f) < 0)) {
        frame_end(f);
        return -1;
    }
    return 0;
}

void
frame_drop(frame *f)
{
    for (int i = 0; f->holds && i < f->count; i++) {
        if (f->seen[i] && f->t[i].release) {
            PyObject *type, *value, *trace;
            PyErr_Fetch(&type, &value, &trace); /* a deleter may run Python */
            tensor_release(&f->t[i]);
            PyErr_Restore(type, value, trace);
        }
        f->seen[i] = 0;
    }
    f->holds = false;
}

void
frame_end(frame *f)
{
    for (int i = 0; f->made && i < f->op->outs; i++) {
        Py_CLEAR(f->made[i]);
    }
    Py_CLEAR(f->lists);
    PyMem_Free(f->heap);
    f->heap = NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

void
tensor_refuse(aicf_tensor *t, aicf_check check)
{
    *t = (aicf_tensor){.refused = (uint8_t)check, .dense = true};
}

static inline bool
may_be_absent(const frame *f, int i)
{
    const aicf_param *param = &f->op->params_of[frame_param(f, i)];
    bool item = f->objects[i] && f->param_of && param->list >= 0;
    return !item && (param->optional || param->role == AICF_SCALAR ||
                     (f->computes && param->role == AICF_OUT));
}

int
raise_absent(const frame *f, int i)
{
    int p = frame_param(f, i), first = i;
    const char *param = f->op->params_of[p].name;
    PyObject *list = f->op->params_of[p].list >= 0 ? f->slots[p] : NULL;
    if (is_absent(list)) {
        return raise_misuse(f->op, param, f->objects[i] || list ? "is None" : "is missing");
    }
    while (first > 0 && frame_param(f, first - 1) == p) {
        first--;
    }
    char name[64];
    PyOS_snprintf(name, sizeof name, "%s[%d]", param, i - first);
    return raise_misuse(f->op, name, "is None");
}

/* None, or left out, where that may be. */
static int
read_absent(frame *f, int i)
{
    if (!may_be_absent(f, i)) {
        return raise_absent(f, i);
    }
    f->t[i] = (aicf_tensor){.absent = true, .dense = true};
    return 0;
}

static inline const source *
source_of(frame *f, int i)
{
    const source **seen = &f->handle->sources[frame_param(f, i)];
    const source *s = __atomic_load_n(seen, __ATOMIC_ACQUIRE);
    if (!s || !source_is(s, Py_TYPE(f->objects[i]))) {
        s = source_find(f->core, f->objects[i]);
        if (s) {
            __atomic_store_n(seen, s, __ATOMIC_RELEASE);
        }
    }
    return s;
}

/* The launch has to be behind the stream that a tensor of ours is used on. */
static void
order_own(frame *f, int i)
{
    const storage *s = storage_of(f->objects[i]);
    if (!s->backend->host) {
        frame_behind(f, s->t.device, s->stream);
    }
}

/* Whether the object can be borrowed, and what may be asked of it before that. */
static int
read_prepare(frame *f, int i, bool refuse_gradients, bool *slow)
{
    const source *s = source_of(f, i);
    uint8_t refused = 0;
    if (!s) {
        return -1;
    }
    if (s->framework == FRAMEWORK_TORCH && refuse_gradients && !s->refused) {
        if (!f->asked_forward) {
            f->asked_forward = true;
            f->forward = torch_ask_forward(f->core);
        }
        if (torch_ask_gradient(f->core, f->objects[i], f->forward, &refused) < 0) {
            return -1;
        }
    }
    aicf_tensor *t = &f->t[i];
    t->source = s;
    t->absent = false;
    t->release = NULL;
    if (f->describes && !s->read && spec_is(f->objects[i])) {
        spec_place(f, i);
        f->seen[i] = SEEN_SLOW | SEEN_ASKED;
        return 0;
    }
    if (s->refused || refused) {
        tensor_refuse(t, s->refused ? s->refused : refused);
        t->source = s;
        f->seen[i] = SEEN_ASKED | SEEN_SLOW;
        return 0;
    }
    if (s->framework == FRAMEWORK_OWN) {
        order_own(f, i);
    }
    f->seen[i] = s->read ? SEEN_FAST : 0;
    *slow |= !s->read;
    return 0;
}

/* First pass: all that may run Python. */
static int
read_first(frame *f, bool refuse_gradients)
{
    bool slow = false;
    f->spec_end = 0;
    for (int i = 0; i < f->count; i++) {
        int done = is_absent(f->objects[i]) ? read_absent(f, i)
                                            : read_prepare(f, i, refuse_gradients, &slow);
        if (done < 0) {
            return -1;
        }
    }
    for (int i = 0; slow && i < f->count; i++) {
        if (!f->t[i].absent && !f->seen[i] && protocol_read(f, i) < 0) {
            return -1;
        }
    }
    return 0;
}

enum { BORROWED, AGAIN = 1 };

/* Borrows one tensor; no Python runs in here but where the type refuses. Then another protocol may
   accept, or has the error to show, and what was borrowed so far has to be borrowed again. */
static inline int
borrow_one(frame *f, int i, bool *ask)
{
    aicf_tensor *t = &f->t[i];
    const source *s = tensor_source(t);

    tensor_release(t); /* what a reader needed room for in an earlier pass */
    t->read_only = false;
    t->absent = false;
    t->refused = 0;
    if (s->read(f->objects[i], t) != 0) {
        f->seen[i] = 0;
        return protocol_read(f, i) < 0 ? -1 : AGAIN;
    }
    aicf_tensor_settle(t);
    *ask |=
        s->framework == FRAMEWORK_TORCH && !(f->seen[i] & SEEN_ASKED) && torch_may_be_negative(t);
    return BORROWED;
}

static int
borrow_pass(frame *f, bool *ask)
{
    for (int i = 0; i < f->count; i++) {
        if (f->seen[i] & SEEN_FAST) {
            int done = borrow_one(f, i, ask);
            if (done != BORROWED) {
                return done;
            }
        }
    }
    return BORROWED;
}

/* Asks the torch tensors that may have the negative bit, each once. Which they are is found before
   the first is asked: Python runs then, and what was borrowed is stale. */
static int
ask_negative(frame *f)
{
    for (int i = 0; i < f->count; i++) {
        bool ask = f->seen[i] & SEEN_FAST && !(f->seen[i] & SEEN_ASKED) &&
                   tensor_source(&f->t[i])->framework == FRAMEWORK_TORCH &&
                   torch_may_be_negative(&f->t[i]);
        f->seen[i] |= ask ? SEEN_ASKING : 0;
    }
    for (int i = 0; i < f->count; i++) {
        aicf_tensor *t = &f->t[i];
        if (!(f->seen[i] & SEEN_ASKING)) {
            continue;
        }
        const source *s = tensor_source(t);
        f->seen[i] = SEEN_FAST | SEEN_ASKED;
        if (torch_ask_negative(f->core, f->objects[i], t) < 0) {
            return -1;
        }
        if (t->refused == AICF_CHECK_NEGATIVE) {
            tensor_refuse(t, AICF_CHECK_NEGATIVE);
            t->source = s;
            f->seen[i] = SEEN_SLOW | SEEN_ASKED;
        }
    }
    return AGAIN;
}

static int
read_second(frame *f)
{
    for (;;) {
        bool ask = false;
        int done = borrow_pass(f, &ask);
        if (done == BORROWED && ask) {
            done = ask_negative(f);
        }
        if (done != AGAIN) {
            return done;
        }
    }
}

/* One tensor of the common case. False: it is none. */
static inline bool
read_simple(frame *f, int i)
{
    PyObject *object = f->objects[i];
    aicf_tensor *t = &f->t[i];
    const source *s = __atomic_load_n(&f->handle->sources[frame_param(f, i)], __ATOMIC_ACQUIRE);
    if (!s || !source_is(s, Py_TYPE(object)) || !tensor_borrow(s, object, t)) {
        return false;
    }
    aicf_tensor_settle(t);
    return s->framework == FRAMEWORK_OWN     ? storage_of(object)->backend->host
           : s->framework == FRAMEWORK_TORCH ? !torch_may_be_negative(t)
                                             : true;
}

/* The common case in one pass: all types are those of the call before, everything can be borrowed,
   and nothing has to be asked. False: not so, and nothing is held. */
static bool
read_at_once(frame *f)
{
    for (int i = 0; i < f->count; i++) {
        if (is_absent(f->objects[i])) {
            if (!may_be_absent(f, i)) {
                return false;
            }
            f->t[i] = (aicf_tensor){.absent = true, .dense = true};
        } else if (!read_simple(f, i)) {
            return false;
        }
    }
    return true;
}

int
frame_read(frame *f, bool refuse_gradients)
{
    if (!refuse_gradients && read_at_once(f)) {
        return 0;
    }
    memset(f->seen, 0, (size_t)f->count);
    f->holds = true;
    if (read_first(f, refuse_gradients) < 0 || read_second(f) < 0) {
        frame_drop(f);
        return -1;
    }
    return 0;
}

int
frame_own_one(frame *f, int i)
{
    const source *s = source_of(f, i);
    if (!s) {
        return -1;
    }
    if (s->refused) {
        tensor_refuse(&f->t[i], s->refused);
        f->t[i].source = s;
        return 0;
    }
    f->t[i].source = s;
    return protocol_own(f, i);
}
