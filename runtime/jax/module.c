/* aicf_rt._xla: gives XLA's handlers to Python, and Python's ops to the handlers. */
#include "../core/core.h"
#include "ffi.h"

/* The op of a generated module; NULL with an exception. */
static const aicf_op *
op_of(PyObject *module)
{
    const void *core = PyCapsule_Import(AICF_CORE_CAPSULE, 0);
    PyModuleDef *definition = core && PyModule_Check(module) ? PyModule_GetDef(module) : NULL;
    bool sized = definition && definition->m_size == (Py_ssize_t)sizeof(aicf_module);
    const aicf_module *state = sized ? PyModule_GetState(module) : NULL;
    if (state && state->core == core && state->handle) {
        return state->handle->op;
    }
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "_xla.register takes the module of an op, not %R", module);
    }
    return NULL;
}

static PyObject *
register_op(PyObject *self, PyObject *module)
{
    (void)self;
    const aicf_op *op = op_of(module);
    if (!op) {
        return NULL;
    }
    return registry_add(op) ? PyUnicode_FromFormat("%s.%s", op->package, op->name)
                            : PyErr_NoMemory();
}

static int
add_handler(PyObject *dict, const char *target, const char *platform, XLA_FFI_Handler *handler)
{
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)handler, NULL, NULL);
    PyObject *key = Py_BuildValue("(ss)", target, platform);
    int added = capsule && key ? PyDict_SetItem(dict, key, capsule) : -1;
    Py_XDECREF(capsule);
    Py_XDECREF(key);
    return added;
}

static PyObject *
handlers(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *dict = PyDict_New();
    if (dict && (add_handler(dict, "aicf_call", "cpu", handler_host) < 0 ||
                 add_handler(dict, "aicf_call_capturable", "cpu", handler_host) < 0 ||
                 add_handler(dict, "aicf_call", "CUDA", handler_cuda) < 0 ||
                 add_handler(dict, "aicf_call_capturable", "CUDA", handler_cuda_capturable) < 0)) {
        Py_CLEAR(dict);
    }
    return dict;
}

static PyMethodDef methods[] = {
    {"register", register_op, METH_O,
     "register(module, /)\n--\n\nMakes the op of a generated module known to the handlers; its "
     "name "
     "there."},
    {"handlers", handlers, METH_NOARGS,
     "handlers()\n--\n\nCapsules by (target, platform), for jax.ffi.register_ffi_target."},
    {NULL, NULL, 0, NULL},
};

static int
module_exec(PyObject *module)
{
    if (aicf_module_require("aicf_rt") < 0) {
        return -1;
    }
    PyObject *version = Py_BuildValue("(ii)", XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR);
    int added = version ? PyModule_AddObjectRef(module, "API", version) : -1;
    Py_XDECREF(version);
    return added;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)module_exec},
    AICF_MODULE_SLOTS,
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_xla",
    .m_doc = "The ops of generated modules as custom calls of XLA.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__xla(void)
{
    return aicf_module_init(&definition);
}
