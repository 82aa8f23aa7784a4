/* aicf_rt.Again: runs of a program that was prepared, as long as each is given what the one before
   it was. Numbers may be others: those are written to where the program reads them. All else is the
   caller's to look at. It is the lock of runs and of what changes them as well; nothing but that
   lock keeps threads apart here. */
#include "graph.h"
#include "held.h"
#include "turns.h"

#include <stddef.h>
#include <structmember.h>

typedef struct again_object {
    PyObject_HEAD vectorcall_fn *vectorcall;
    turns turns;
    held run; /* the last one */
} again_object;

/* ---- running ------------------------------------------------------------------------------------
 */

/* Lists are calls to run, all else is called. */
static PyObject *
do_work(PyObject *module, const core_state *core, PyObject *work)
{
    return Py_IS_TYPE(work, core->graph_type) ? graph_launch(work, NULL, 0, NULL)
           : PyList_Check(work)               ? bound_run(module, work)
                                              : PyObject_CallNoArgs(work);
}

/* What the run gives; NotImplemented: it has to be looked at in full. With the lock. */
static PyObject *
run_again(again_object *self, PyObject *inputs, PyObject *named)
{
    PyObject *module = PyType_GetModule(Py_TYPE((PyObject *)self));
    core_state *core = PyModule_GetState(module);
    int same = held_again(&self->run, core, inputs, named);
    if (same != 1) {
        return same < 0 ? NULL : Py_NewRef(Py_NotImplemented);
    }
    PyObject *work = Py_NewRef(self->run.work), *result = Py_NewRef(self->run.result);
    PyObject *done = do_work(module, core, work);
    if (!done) {
        Py_CLEAR(result);
    }
    Py_XDECREF(done);
    Py_DECREF(work);
    return result;
}

/* again(inputs, named) */
static PyObject *
again_vectorcall(PyObject *object, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    again_object *self = (again_object *)object;
    bool two = (nargs & ~PY_VECTORCALL_ARGUMENTS_OFFSET) == 2 && !kwnames;
    if (!two || !PyTuple_Check(args[0]) || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "Again: a run is given a tuple and a dict");
        return NULL;
    }
    /* Who has the lock already is within a run, or changes something. */
    if (!__atomic_load_n(&self->run.inputs, __ATOMIC_RELAXED) || turns_are_mine(&self->turns)) {
        return Py_NewRef(Py_NotImplemented);
    }
    if (turns_take(&self->turns) < 0) {
        return NULL;
    }
    PyObject *found = run_again(self, args[0], args[1]);
    turns_give(&self->turns);
    return found;
}

static PyObject *
again_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    PyObject *inputs, *named;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Again: a run is given a tuple and a dict");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!:Again", &PyTuple_Type, &inputs, &PyDict_Type, &named)) {
        return NULL;
    }
    return again_vectorcall(object, (PyObject *[]){inputs, named}, 2, NULL);
}

/* ---- changes ------------------------------------------------------------------------------------
 */

static PyObject *
again_hold(PyObject *object, PyObject *args)
{
    again_object *self = (again_object *)object;
    if (!turns_are_mine(&self->turns)) {
        PyErr_SetString(PyExc_RuntimeError, "Again: hold() is within `with`");
        return NULL;
    }
    int done = held_take(&self->run, PyType_GetModuleState(Py_TYPE(object)), args);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
again_enter(PyObject *object, PyObject *unused)
{
    again_object *self = (again_object *)object;
    (void)unused;
    if (turns_take(&self->turns) < 0) {
        return NULL;
    }
    int told = held_tell(&self->run);
    held_forget(&self->run);
    if (told < 0) {
        turns_give(&self->turns);
    }
    return told < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
again_exit(PyObject *object, PyObject *raised)
{
    again_object *self = (again_object *)object;
    (void)raised;
    if (!turns_are_mine(&self->turns)) {
        PyErr_SetString(PyExc_RuntimeError, "Again: this thread has not entered it");
        return NULL;
    }
    turns_give(&self->turns);
    Py_RETURN_NONE;
}

/* ---- the type -------------------------------------------------------------------------------- */

static PyObject *
again_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Again", names)) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    again_object *self = (again_object *)allocate(type, 0);
    if (self) {
        self->vectorcall = again_vectorcall;
        if (turns_init(&self->turns) < 0) {
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

static int
again_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)Py_TYPE(object));
    return held_traverse(&((again_object *)object)->run, visit, arg);
}

static int
again_clear(PyObject *object)
{
    held_finish(&((again_object *)object)->run);
    return 0;
}

static void
again_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    again_clear(object);
    turns_finish(&((again_object *)object)->turns);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef again_methods[] = {
    {"hold", again_hold, METH_VARARGS,
     "hold($self, inputs, named, watched, asked, work, result, cells, numbers, kept, /)\n--\n\n"
     "With the lock: a run that is given these inputs, by position and by name, from now on does "
     "`work`, a Graph, a\nlist of calls or what is called, and gives `result`, while the layouts "
     "of the "
     "tensors `watched` stay and each\nof `asked`, (what is called, its answer), does. `numbers`: "
     "(name, "
     "key, offset, format, low, high) of those that\nmay be others, for which bytes of `cells` are "
     "overwritten, and `named` and `kept` are told."},
    {"__enter__", again_enter, METH_NOARGS,
     "__enter__($self, /)\n--\n\nTakes the lock, once more if the thread has it, and forgets the "
     "last "
     "run: the next one is to be looked at in full."},
    {"__exit__", again_exit, METH_VARARGS, "__exit__($self, /, *raised)\n--\n\nGives it back."},
    {"__reduce_ex__", refuse_reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef again_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(again_object, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot again_slots[] = {
    {Py_tp_new, (void *)again_new},
    {Py_tp_call, (void *)again_call},
    {Py_tp_methods, again_methods},
    {Py_tp_members, again_members},
    {Py_tp_traverse, (void *)again_traverse},
    {Py_tp_clear, (void *)again_clear},
    {Py_tp_dealloc, (void *)again_dealloc},
    {Py_tp_doc, (void *)"Again()\n--\n\nA lock of runs. Called with the inputs of a run, a tuple "
                        "and a dict, it "
                        "does the last run again and gives its result, where all is\nas it was; "
                        "else NotImplemented."},
    {0, NULL},
};

PyType_Spec again_spec = {
    .name = "aicf_rt.Again",
    .basicsize = sizeof(again_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = again_slots,
};
