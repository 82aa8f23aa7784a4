/* aicf_rt.Call: an op checked and made ready once. What it launches is a block that never changes:
   a launch holds it, set() makes another and swaps. */
#include "bound.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

/* ---- the block, and how it is swapped -------------------------------------------------------- */

block *
bound_block(bound *self)
{
    block *b = bound_hold(self);
    if (!b) {
        PyErr_SetString(PyExc_RuntimeError, "the call was cleared");
    }
    return b;
}

/* Puts `b`, which may be NULL, in the place of `before`. False: that is not there any more. */
static bool
bound_swap(bound *self, block *before, block *b)
{
    BLOCK_LOCK(self);
    bool same = self->block == before;
    self->block = same ? b : self->block;
    BLOCK_UNLOCK(self);
    if (same) {
        block_drop(before);
    }
    return same;
}

/* ---- launching ------------------------------------------------------------------------------- */

static __attribute__((noinline)) int
launch_slow(bound *self)
{
    block *b = bound_block(self);
    int done = b ? launch_held(b) : -1;
    block_drop(b);
    return done;
}

#ifndef Py_GIL_DISABLED
static __attribute__((noinline, cold)) int
launch_failed(block *b, aicf_status status)
{
    count_up(&b->references);
    raise_status(b->handle, b->call, NULL, status);
    block_drop(b);
    return -1;
}
#endif

/* Nothing takes the block away, or launches it meanwhile, while a launch runs that is soon over:
   the GIL is held, and no Python runs. */
static inline int
bound_launch(bound *self)
{
#ifndef Py_GIL_DISABLED
    block *b = self->block;
    aicf_stream stream;
    if (!b || !block_stays(b)) {
        return launch_slow(self);
    }
    if (b->brief) {
        aicf_status status = b->brief(b->call);
        return status.kind == AICF_OK ? 0 : launch_failed(b, status);
    }
    if ((b->repeat || block_is_swift(b)) && block_find_stream(b, &stream)) {
        uint64_t place = 0;
        if (b->repeat && block_repeat(b, stream, &place)) {
            return 0;
        }
        aicf_status status = block_launch_swiftly(b, stream);
        return status.kind == AICF_OK ? 0 : launch_failed(b, status);
    }
#endif
    return launch_slow(self);
}

static PyObject *
refuse_arguments(void)
{
    PyErr_SetString(PyExc_TypeError, "a bound call takes no arguments; use set()");
    return NULL;
}

static PyObject *
bound_vectorcall(PyObject *object, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    (void)args;
    if (nargs & ~PY_VECTORCALL_ARGUMENTS_OFFSET || kwnames) {
        return refuse_arguments();
    }
    return bound_launch((bound *)object) < 0 ? NULL : Py_NewRef(Py_None);
}

/* As call(*args, **kwargs). */
static PyObject *
bound_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_Size(args) || (kwargs && PyDict_Size(kwargs))) {
        return refuse_arguments();
    }
    return bound_launch((bound *)object) < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- binding --------------------------------------------------------------------------------- */

static PyObject *
bound_new(core_state *core, block *b)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(core->call_type, Py_tp_alloc);
    bound *self = (bound *)allocate(core->call_type, 0);
    if (!self) {
        block_drop(b);
        return NULL;
    }
    self->vectorcall = bound_vectorcall;
    self->block = b;
    return (PyObject *)self;
}

PyObject *
form_bind(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    FRAME_ROOM(handle);
    frame f;
    if (frame_begin(&f, handle, room, -1, FORM_BIND, args, nargs, kwnames) < 0) {
        return NULL;
    }
    block *b = block_create(&f);
    if (b && block_prepare(b, &f) < 0) {
        block_drop(b);
        b = NULL;
    }
    frame_drop(&f);
    frame_end(&f);
    return b ? bound_new(handle->core, b) : NULL;
}

/* ---- set ------------------------------------------------------------------------------------- */

/* The objects of a list parameter as they were bound: a new tuple. */
static PyObject *
list_before(const block *before, int param)
{
    int start = aicf_call_start(before->options, param);
    int count = aicf_call_count(before->options, param);
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *object = before->tensors[start + i]->object;
        PyTuple_SetItem(tuple, i, Py_NewRef(object ? object : Py_None));
    }
    return tuple;
}

static bool
was_absent(const block *before, int param)
{
    int start = aicf_call_start(before->options, param);
    return aicf_call_count(before->options, param) == 0 || !before->tensors[start]->object;
}

/* The parameters that a scalar's number takes the place of; a mask. */
static uint64_t
replaced_by_numbers(const frame *f)
{
    uint64_t mask = 0;
    for (int i = 0; i < f->op->attr_count; i++) {
        if (f->op->attrs[i].kind == AICF_ATTR_SCALAR && f->given >> i & 1) {
            mask |= UINT64_C(1) << f->op->attrs[i].of;
        }
    }
    return mask;
}

/* What parameter `p` was bound to, borrowed; a list's tuple is kept in `lists`. NULL with an
   exception. */
static PyObject *
object_before(const block *before, int p, PyObject *lists)
{
    if (!lists || before->handle->op->params_of[p].list < 0) {
        return before->tensors[aicf_call_start(before->options, p)]->object;
    }
    PyObject *tuple = list_before(before, p);
    if (tuple && PyList_Append(lists, tuple) < 0) {
        Py_CLEAR(tuple);
    }
    Py_XDECREF(tuple);
    return tuple;
}

/* The parameters that the keywords leave as they are get their objects back; a mask of them. */
static int
slots_complete(frame *f, const block *before, uint64_t *same, PyObject *lists)
{
    *same = ~replaced_by_numbers(f);
    for (int p = 0; p < f->op->params; p++) {
        if (f->slots[p]) {
            *same &= ~(UINT64_C(1) << p);
        } else if (*same >> p & 1 && !was_absent(before, p)) {
            f->slots[p] = object_before(before, p, lists);
            if (!f->slots[p]) {
                return -1;
            }
        }
    }
    f->given |= before->given;
    return 0;
}

/* The block that the keywords make of `before`. `read`: what an earlier try made, whose tensors are
   not read again; NULL: this is the first. */
static block *
block_changed(
    const block *before, const block *read, void *room, PyObject *const *values, PyObject *kwnames,
    PyObject *lists)
{
    frame f;
    uint64_t same;
    block *b = NULL;

    frame_init(&f, before->handle, room, FORM_SET);
    memcpy(f.call, before->options, before->options->size);
    if (arguments_sort(&f, FORM_SET, values, 0, kwnames) == 0 &&
        slots_complete(&f, before, &same, lists) == 0 &&
        (!f.op->has_lists || frame_grow(&f) == 0)) {
        b = block_create(&f);
        if (b) {
            block_inherit(b, &f, before, same);
            b->workspace = f.workspace ? NULL : kept_share(before->workspace);
        }
        if (b && read) {
            block_inherit(b, &f, read, ~same);
            b->workspace = f.workspace ? kept_share(read->workspace) : b->workspace;
        }
        if (b && block_prepare(b, &f) < 0) {
            block_drop(b);
            b = NULL;
        }
        frame_drop(&f);
    }
    frame_end(&f);
    return b;
}

static int
refuse_positional(const char *op, Py_ssize_t count)
{
    PyErr_Format(
        PyExc_TypeError, "%s: set() takes its arguments by name, %zd came by position", op, count);
    return -1;
}

static block *
block_try(const block *before, const block *read, PyObject *const *values, PyObject *kwnames)
{
    FRAME_ROOM(before->handle);
    if (!before->handle->op->has_lists) {
        return block_changed(before, read, room, values, kwnames, NULL);
    }
    PyObject *lists = PyList_New(0);
    block *b = lists ? block_changed(before, read, room, values, kwnames, lists) : NULL;
    Py_XDECREF(lists);
    return b;
}

/* While tensors are read, Python may run and set the same call. Then what was read is put into that
   one, so that neither gets lost. Takes `before`, which the caller holds. */
static int
set_by_name(bound *self, block *before, PyObject *const *values, PyObject *kwnames)
{
    enum { TRIES = 16 }; /* attributes are converted at each, by Python that may set again */
    block *read = NULL;
    bool swapped = false;
    for (int i = 0; i < TRIES && before && !swapped; i++) {
        block *b = block_try(before, read, values, kwnames);
        block_drop(read);
        read = NULL;
        swapped = b && bound_swap(self, before, b);
        read = swapped ? NULL : b;
        block_drop(before);
        before = b && !swapped ? bound_block(self) : NULL;
    }
    if (read && before) {
        PyErr_Format(
            PyExc_RuntimeError, "%s: the call changes each time that set() reads a value",
            before->handle->op->name);
    }
    block_drop(before);
    block_drop(read);
    return swapped ? 0 : -1;
}

static PyObject *
bound_set(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    block *before = bound_block((bound *)object);
    if (!before) {
        return NULL;
    }
    if (nargs) {
        refuse_positional(before->handle->op->name, nargs);
        block_drop(before);
        return NULL;
    }
    return set_by_name((bound *)object, before, args, kwnames) < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- the type -------------------------------------------------------------------------------- */

static int
bound_traverse(PyObject *object, visitproc visit, void *arg)
{
    const block *b = ((bound *)object)->block;
    Py_VISIT((PyObject *)Py_TYPE(object));
    return b ? block_traverse(b, visit, arg) : 0;
}

static int
bound_clear(PyObject *object)
{
    bound *self = (bound *)object;
    BLOCK_LOCK(self);
    block *b = self->block;
    self->block = NULL;
    BLOCK_UNLOCK(self);
    block_drop(b);
    return 0;
}

static void
bound_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (((bound *)object)->weak) {
        PyObject_ClearWeakRefs(object);
    }
    bound_clear(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef bound_methods[] = {
    {"set", (PyCFunction)(void (*)(void))bound_set, METH_FASTCALL | METH_KEYWORDS,
     "set($self, /, **arguments)\n--\n\n"
     "Puts other tensors or attributes in their places; all that depends on them is checked again. "
     "If that fails, the\ncall stays as it was."},
    {"__reduce_ex__", refuse_reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef bound_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(bound, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(bound, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot bound_slots[] = {
    {Py_tp_call, (void *)bound_call},
    {Py_tp_methods, bound_methods},
    {Py_tp_members, bound_members},
    {Py_tp_getset, bound_attributes},
    {Py_tp_repr, (void *)bound_repr},
    {Py_tp_traverse, (void *)bound_traverse},
    {Py_tp_clear, (void *)bound_clear},
    {Py_tp_dealloc, (void *)bound_dealloc},
    {Py_tp_doc, (void *)"An op checked and made ready once. Calling it only launches; it keeps its "
                        "tensors' memory alive."},
    {0, NULL},
};

PyType_Spec bound_spec = {
    .name = "aicf_rt.Call",
    .basicsize = sizeof(bound),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = bound_slots,
};
