/* aicf_rt.Call: an op checked and made ready once. What it launches is a block that never changes:
   a launch holds it, set() makes another and swaps. */
#include "block.h"

#include <string.h>

typedef struct bound {
    PyObject_HEAD block *block;
} bound;

/* The block as it is now, shared; NULL with an exception where the garbage collection took it. */
static block *
bound_block(const bound *self)
{
    block *b = __atomic_load_n(&self->block, __ATOMIC_ACQUIRE);
    if (!b) {
        PyErr_SetString(PyExc_RuntimeError, "the call was cleared");
        return NULL;
    }
    __atomic_add_fetch(&b->references, 1, __ATOMIC_RELAXED);
    return b;
}

static int
bound_launch(const bound *self)
{
    block *b = bound_block(self);
    int done = b ? block_launch(b) : -1;
    block_drop(b);
    return done;
}

static PyObject *
bound_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_Size(args) || (kwargs && PyDict_Size(kwargs))) {
        PyErr_SetString(PyExc_TypeError, "a bound call takes no arguments; use set()");
        return NULL;
    }
    return bound_launch((bound *)object) < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *
bound_run(PyObject *module, PyObject *calls)
{
    const core_state *core = PyModule_GetState(module);
    if (!PyList_Check(calls) && !PyTuple_Check(calls)) {
        PyErr_SetString(PyExc_TypeError, "run() takes a list of calls");
        return NULL;
    }
    PyObject *copy =
        PySequence_Tuple(calls); /* the list may change while a launch lets others run */
    Py_ssize_t count = copy ? PyTuple_Size(copy) : -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (Py_TYPE(PyTuple_GetItem(copy, i)) != core->call_type) {
            PyErr_Format(PyExc_TypeError, "run() takes calls; item %zd is none", i);
            count = -1;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (bound_launch((bound *)PyTuple_GetItem(copy, i)) < 0) {
            count = -1;
        }
    }
    Py_XDECREF(copy);
    return count < 0 ? NULL : Py_NewRef(Py_None);
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
    self->block = b;
    return (PyObject *)self;
}

PyObject *
form_bind(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    FRAME_ROOM(handle);
    frame f;
    if (frame_begin(&f, handle, room, -1, FORM_TYPED, args, nargs, kwnames) < 0) {
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

/* The parameters that the keywords leave as they are get their objects back; a mask of them. */
static int
slots_complete(frame *f, const block *before, uint64_t *same, PyObject *lists)
{
    const aicf_op *op = f->op;
    *same = 0;
    for (int i = 0; i < op->attr_count; i++) { /* a number takes the place of a scalar's tensor */
        if (op->attrs[i].kind == AICF_ATTR_SCALAR && f->given >> i & 1) {
            *same |= UINT64_C(1) << op->attrs[i].of;
        }
    }
    *same = ~*same;
    for (int p = 0; p < op->params; p++) {
        if (f->slots[p]) {
            *same &= ~(UINT64_C(1) << p);
        } else if (*same >> p & 1 && !was_absent(before, p)) {
            bool list = op->params_of[p].list >= 0;
            PyObject *object =
                list ? list_before(before, p)
                     : Py_NewRef(before->tensors[aicf_call_start(before->options, p)]->object);
            int added = object ? PyList_Append(lists, object) : -1;
            Py_XDECREF(object);
            if (added < 0) {
                return -1;
            }
            f->slots[p] = object;
        }
    }
    f->given |= before->given;
    return 0;
}

static block *
block_changed(
    const block *before, void *room, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
    PyObject *lists)
{
    frame f;
    uint64_t same;
    block *b = NULL;

    frame_init(&f, before->handle, room, FORM_SET);
    memcpy(f.call, before->options, before->options->size);
    if (arguments_sort(&f, FORM_SET, args, nargs, kwnames) == 0 &&
        slots_complete(&f, before, &same, lists) == 0 &&
        (!f.op->has_lists || frame_grow(&f) == 0)) {
        b = block_create(&f);
        if (b) {
            block_inherit(b, &f, before, same);
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

static PyObject *
bound_set(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    bound *self = (bound *)object;
    block *before = bound_block(self);
    PyObject *lists = before ? PyList_New(0) : NULL;
    if (!lists) {
        block_drop(before);
        return NULL;
    }
    FRAME_ROOM(before->handle);
    block *b = block_changed(before, room, args, nargs, kwnames, lists);
    if (b) {
        block_drop(__atomic_exchange_n(&self->block, b, __ATOMIC_ACQ_REL));
    }
    block_drop(before);
    Py_DECREF(lists);
    return b ? Py_NewRef(Py_None) : NULL;
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
    block_drop(__atomic_exchange_n(&((bound *)object)->block, NULL, __ATOMIC_ACQ_REL));
    return 0;
}

static void
bound_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    bound_clear(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF((PyObject *)type);
}

static PyObject *
bound_repr(PyObject *object)
{
    const block *b = ((bound *)object)->block;
    if (!b) {
        return PyUnicode_FromString("<aicf_rt.Call, cleared>");
    }
    const aicf_op *op = b->handle->op;
    return PyUnicode_FromFormat(
        "<aicf_rt.Call of %s: kernel %s, %s>", op->name, op->kernels[b->call->kernel].id,
        op->suffixes[b->call->variant]);
}

static PyMethodDef bound_methods[] = {
    {"set", (PyCFunction)(void (*)(void))bound_set, METH_FASTCALL | METH_KEYWORDS,
     "set($self, /, **arguments)\n--\n\n"
     "Puts other tensors or attributes in their places; all that depends on them is checked again. "
     "If that fails, the\ncall stays as it was."},
    {"__reduce_ex__", refuse_reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot bound_slots[] = {
    {Py_tp_call, (void *)bound_call},
    {Py_tp_methods, bound_methods},
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
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = bound_slots,
};
