/* aicf_rt._core: the types, the exceptions, and the table that generated modules call through. */
#include "storage.h"

#include <stdlib.h>
#include <string.h>

static const aicf_core table = {
    .size = sizeof table,
    .version = AICF_CORE_VERSION,
    .open = handle_open,
    .close = handle_close,
    .attempt = form_attempt,
    .compute = form_compute,
    .bind = form_bind,
    .explain = form_explain,
    .infer = form_infer,
};

static PyObject *
class_defaults(const char *const *names)
{
    PyObject *defaults = PyDict_New();
    for (int i = 0; defaults && names[i]; i++) {
        if (PyDict_SetItemString(defaults, names[i], Py_None) < 0) {
            Py_CLEAR(defaults);
        }
    }
    return defaults;
}

static PyObject *
exception_new(const char *name, const char *doc, PyObject *bases, const char *const *attributes)
{
    PyObject *defaults = bases ? class_defaults(attributes) : NULL;
    PyObject *class = defaults ? PyErr_NewExceptionWithDoc(name, doc, bases, defaults) : NULL;
    Py_XDECREF(defaults);
    return class;
}

static int
add_exceptions(PyObject *module, core_state *state)
{
    PyObject *both = PyTuple_Pack(2, PyExc_TypeError, PyExc_ValueError);
    state->unsupported = exception_new(
        "aicf_rt.Unsupported",
        "A call outside what the op can do: nothing was written, nothing launched. `op` and `arg` "
        "name what it is about.",
        both, (const char *const[]){"op", "arg", "item", NULL});
    state->backend_error = exception_new(
        "aicf_rt.CudaError",
        "A backend failed. `op` and `kernel` say where, `code` and `name` are the backend's own.",
        PyExc_RuntimeError, (const char *const[]){"op", "kernel", "code", "name", "item", NULL});
    Py_XDECREF(both);
    if (!state->unsupported || !state->backend_error ||
        PyModule_AddObjectRef(module, "Unsupported", state->unsupported) < 0) {
        return -1;
    }
    state->backend_lost = exception_new(
        "aicf_rt.CudaLost",
        "A kernel, maybe an earlier one, has broken this process's CUDA: every later call fails, "
        "until the process is started again.",
        state->backend_error, (const char *const[]){NULL});
    if (!state->backend_lost ||
        PyModule_AddObjectRef(module, "CudaLost", state->backend_lost) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "CudaError", state->backend_error);
}

static int
add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type ? PyModule_AddType(module, *type) : -1;
}

/* A type specification has no place for a capsule, and the type is immutable once it is made: the
   capsule goes into its dict before anybody has looked there. */
static int
add_exchange(const core_state *state)
{
    PyObject *dict = PyObject_GenericGetDict((PyObject *)state->tensor_type, NULL);
    PyObject *offered = dict ? offer_capsule() : NULL;
    int set =
        offered ? PyDict_SetItem(dict, state->names[NAME___dlpack_c_exchange_api__], offered) : -1;
    PyType_Modified(state->tensor_type);
    Py_XDECREF(dict);
    Py_XDECREF(offered);
    return set;
}

static int
intern_names(core_state *state)
{
    static const char *const names[] = {
#define CORE_NAME_TEXT(name) #name,
        CORE_NAMES(CORE_NAME_TEXT)
#undef CORE_NAME_TEXT
    };
    for (int i = 0; i < NAME_COUNT; i++) {
        state->names[i] = PyUnicode_InternFromString(names[i]);
        if (!state->names[i]) {
            return -1;
        }
    }
    return 0;
}

/* Subinterpreters of 3.11 have no slot that says it: what one imported, another's objects would
   reach. */
static int
require_main(void)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) {
        return 0;
    }
    PyErr_SetString(PyExc_ImportError, "aicf_rt._core does not support loading in subinterpreters");
    return -1;
}

static int
module_exec(PyObject *module)
{
    core_state *state = PyModule_GetState(module);
    const char *debug = getenv("AICF_DEBUG");

    if (require_main() < 0) {
        return -1;
    }
    state->sync = debug && strstr(debug, "sync");
    state->lock = PyThread_allocate_lock();
    if (!state->lock) {
        PyErr_NoMemory();
        return -1;
    }
    if (intern_names(state) < 0 || add_exceptions(module, state) < 0 ||
        add_type(module, &bound_spec, &state->call_type) < 0 ||
        add_type(module, &tensor_spec, &state->tensor_type) < 0 ||
        add_type(module, &spec_spec, &state->spec_type) < 0 ||
        add_type(module, &stream_spec, &state->stream_type) < 0 ||
        add_type(module, &event_spec, &state->event_type) < 0 ||
        add_type(module, &graph_spec, &state->graph_type) < 0 ||
        add_type(module, &again_spec, &state->again_type) < 0 ||
        PyModule_AddIntConstant(module, "INTERFACE", AICF_CORE_VERSION) < 0) {
        return -1;
    }
    if (add_exchange(state) < 0) {
        return -1;
    }
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&table, AICF_CORE_CAPSULE, NULL);
    int added = PyModule_AddObjectRef(module, "_table", capsule);
    Py_XDECREF(capsule);
    return added;
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg)
{
    core_state *state = PyModule_GetState(module);
    Py_VISIT(state->unsupported);
    Py_VISIT(state->backend_error);
    Py_VISIT(state->forward_ad);
    Py_VISIT(state->increment_version);
    Py_VISIT(state->storage_type);
    Py_VISIT(state->numpy_empty);
    Py_VISIT(state->torch_type);
    Py_VISIT(state->torch_empty);
    Py_VISIT(state->torch_empty_like);
    for (int i = 0; i < DTYPES; i++) {
        Py_VISIT(state->numpy_dtypes[i]);
        for (int k = 0; k < TORCH_DEVICES; k++) {
            Py_VISIT(state->torch_options[i][k]);
        }
    }
    Py_VISIT(state->backend_lost);
    Py_VISIT((PyObject *)state->call_type);
    Py_VISIT((PyObject *)state->tensor_type);
    Py_VISIT((PyObject *)state->spec_type);
    Py_VISIT((PyObject *)state->stream_type);
    Py_VISIT((PyObject *)state->event_type);
    Py_VISIT((PyObject *)state->graph_type);
    Py_VISIT((PyObject *)state->again_type);
    return sources_traverse(state, visit, arg);
}

static int
module_clear(PyObject *module)
{
    core_state *state = PyModule_GetState(module);
    Py_CLEAR(state->unsupported);
    Py_CLEAR(state->backend_error);
    Py_CLEAR(state->forward_ad);
    Py_CLEAR(state->increment_version);
    Py_CLEAR(state->storage_type);
    Py_CLEAR(state->numpy_empty);
    Py_CLEAR(state->torch_type);
    Py_CLEAR(state->torch_empty);
    Py_CLEAR(state->torch_empty_like);
    for (int i = 0; i < DTYPES; i++) {
        Py_CLEAR(state->numpy_dtypes[i]);
        for (int k = 0; k < TORCH_DEVICES; k++) {
            Py_CLEAR(state->torch_options[i][k]);
        }
    }
    Py_CLEAR(state->backend_lost);
    Py_CLEAR(state->call_type);
    Py_CLEAR(state->tensor_type);
    Py_CLEAR(state->spec_type);
    Py_CLEAR(state->stream_type);
    Py_CLEAR(state->event_type);
    Py_CLEAR(state->graph_type);
    Py_CLEAR(state->again_type);
    return 0;
}

static void
module_free(void *module)
{
    core_state *state = PyModule_GetState((PyObject *)module);
    module_clear((PyObject *)module);
    handle_close(state->copies);
    state->copies = NULL;
    sources_finish(state);
    for (int i = 0; i < NAME_COUNT; i++) {
        Py_CLEAR(state->names[i]);
    }
    if (state->lock) {
        PyThread_free_lock(state->lock);
        state->lock = NULL;
    }
}

static PyMethodDef methods[] = {
    {"run", bound_run, METH_O,
     "run($module, calls, /)\n--\n\nLaunches bound calls one after another, each as it is when "
     "this "
     "begins. The first that fails raises, with its\nindex as `item`; those before it were "
     "launched, "
     "those after it were not."},
    {"capture", (PyCFunction)(void (*)(void))graph_capture, METH_VARARGS | METH_KEYWORDS,
     "capture($module, calls, /, *, feed=None, branches=1)\n--\n\n"
     "A Graph of what run(calls) would launch; nothing runs. An item may be a pair of tensors too: "
     "a "
     "copy on the device.\nAll of it is on one device, whose backend has graphs. `feed` is a pair "
     "(host, out): each launch copies the host's\nbytes of that moment to `out` first."},
    {"empty", (PyCFunction)(void (*)(void))tensor_empty, METH_VARARGS | METH_KEYWORDS,
     "empty($module, shape, dtype, device='cpu', *, stream=None, fed=False)\n--\n\n"
     "A new row-major Tensor with undefined elements. `dtype` is a name as in the table ('f32') or "
     "a "
     "framework's own,\n`device` is 'cpu', 'cuda' or 'cuda:1'. `fed`: graphs are fed into it, "
     "which "
     "takes them less then."},
    {"view", (PyCFunction)(void (*)(void))tensor_view, METH_VARARGS | METH_KEYWORDS,
     "view($module, base, shape, *, strides=None, offset=0, dtype=None)\n--\n\n"
     "A Tensor on the memory of `base`, any tensor, which it keeps alive. Strides are in elements, "
     "None is row-major;\n`offset` is in bytes; `dtype` is that of `base` unless given. All "
     "elements lie where those of `base` do."},
    {"copy", (PyCFunction)(void (*)(void))tensor_copy, METH_VARARGS | METH_KEYWORDS,
     "copy($module, source, out, *, stream=None)\n--\n\n"
     "Copies the bytes of a dense tensor to another of its shape and dtype: on the host, on a "
     "device, or between them.\nBetween two it is done when this returns."},
    {"layouts", layouts_of, METH_O,
     "layouts($module, tensors, /)\n--\n\nWhere each of a tuple of tensors lies, its shape, "
     "strides "
     "and dtype, as bytes: others, once any of that is another."},
    {"synchronize", (PyCFunction)(void (*)(void))work_synchronize, METH_VARARGS | METH_KEYWORDS,
     "synchronize($module, device='cpu', stream=None)\n--\n\n"
     "Waits until all that is queued on the stream, or on the device's default one, has run."},
    {NULL, NULL, 0, NULL},
};

#ifdef Py_LIMITED_API
enum { SLOT_INTERPRETERS = 3 };
#endif

/* In the stable interface by the interpreter that runs, not the one that was compiled for: that of
   3.11 has no names for the slots of later ones. */
static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)module_exec},
    AICF_MODULE_SLOTS,
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "aicf_rt._core",
    .m_doc = "The runtime that every generated module shares.",
    .m_size = sizeof(core_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

core_state *
core_import(PyObject **module)
{
    *module = PyImport_ImportModule("aicf_rt._core");
    if (*module && PyModule_Check(*module) && PyModule_GetDef(*module) == &definition) {
        return PyModule_GetState(*module);
    }
    if (*module) {
        PyErr_SetString(PyExc_ImportError, "aicf_rt._core is another module than the one loaded");
        Py_CLEAR(*module);
    }
    return NULL;
}

PyMODINIT_FUNC
PyInit__core(void)
{
#ifdef Py_LIMITED_API
    if (Py_Version >= 0x030c0000) { /* one interpreter alone */
        slots[1] = (PyModuleDef_Slot){SLOT_INTERPRETERS, NULL};
    }
#endif
    return aicf_module_init(&definition);
}
