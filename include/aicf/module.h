/* What a generated module takes from aicf_rt._core: a table of functions, found in a capsule. */
#ifndef AICF_MODULE_H
#define AICF_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#include <aicf/call.h>

#define AICF_CORE_VERSION 2
#define AICF_CORE_CAPSULE "aicf_rt._core._table"

/* An op opened by a module: belongs to _core, lives as long as the module. */
typedef struct aicf_handle aicf_handle;

typedef struct aicf_core {
    uint32_t size;
    uint32_t version;
    /* Checks the op's size, version and counts, and adds `capability`, `__getattr__` and the like
       to the module. NULL with an exception set. */
    aicf_handle *(*open)(PyObject *module, const aicf_op *op);
    void (*close)(aicf_handle *handle);
    /* The typed form: True, False, or the exception of misuse or of a failed backend. */
    PyObject *(*attempt)(
        aicf_handle *handle, int variant, PyObject *const *args, Py_ssize_t nargs,
        PyObject *kwnames);
    /* The forms that are the same for every op. */
    PyObject *(*compute)(
        aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
    PyObject *(*bind)(
        aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
    PyObject *(*explain)(
        aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
    PyObject *(*infer)(
        aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
} aicf_core;

/* A module's state. */
typedef struct aicf_module {
    const aicf_core *core;
    aicf_handle *handle;
} aicf_module;

/* Other threads may be importing packages that this one finds begun. It waits for its own, which is
   taken out of sys.modules for a moment when it is done; and for aicf_rt before its _core: whoever
   begins at _core holds that, and waits for aicf_rt, whose importer waits for _core. */
static inline int
aicf_module_require(const char *package)
{
    PyObject *name = PyUnicode_FromString(package);
    PyObject *own = name ? PyImport_GetModule(name) : NULL;
    PyObject *runtime = PyErr_Occurred() ? NULL : PyImport_ImportModule("aicf_rt");
    PyObject *core = runtime ? PyImport_ImportModule("aicf_rt._core") : NULL;
    Py_XDECREF(name);
    Py_XDECREF(own);
    Py_XDECREF(runtime);
    Py_XDECREF(core);
    return core ? 0 : -1;
}

/* Module exec: imports aicf_rt._core, checks its number, opens the op. */
static inline int
aicf_module_open(PyObject *module, const aicf_op *op)
{
    aicf_module *state = (aicf_module *)PyModule_GetState(module);
    if (aicf_module_require(op->package) < 0) {
        return -1;
    }
    const aicf_core *core = (const aicf_core *)PyCapsule_Import(AICF_CORE_CAPSULE, 0);
    if (!core) {
        return -1;
    }
    if (core->version != AICF_CORE_VERSION || core->size < sizeof *core) {
        PyErr_Format(
            PyExc_ImportError,
            "%s.%s was built for interface %d of aicf_rt, the one imported has %u: rebuild it",
            op->package, op->name, AICF_CORE_VERSION, core->version);
        return -1;
    }
    state->core = core;
    state->handle = core->open(module, op);
    return state->handle ? 0 : -1;
}

static inline void
aicf_module_close(void *module)
{
    aicf_module *state = (aicf_module *)PyModule_GetState((PyObject *)module);
    if (state && state->handle) {
        state->core->close(state->handle);
        state->handle = NULL;
    }
}

/* For slot tables, after their own: what a module of ours says of itself. One interpreter alone;
   and no use of the GIL, where that can be said. */
#ifdef Py_GIL_DISABLED
#define AICF_MODULE_SLOTS                                                       \
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED}, \
    {                                                                           \
        Py_mod_gil, Py_MOD_GIL_NOT_USED                                         \
    }
#elif defined Py_mod_multiple_interpreters
#define AICF_MODULE_SLOTS {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED}
#else
#define AICF_MODULE_SLOTS {0, NULL}
#endif

/* Methods without a doc share one, from its parameters on: each gets it after its own name. Once a
   process: what they are made in stays with the methods, whichever interpreter asks. */
static inline int
aicf_module_name_docs(PyMethodDef *methods, const char *shared)
{
    size_t size = 0, rest = strlen(shared) + 1;
    for (const PyMethodDef *m = methods; m->ml_name; m++) {
        size += m->ml_doc ? 0 : strlen(m->ml_name) + rest;
    }
    char *at = size ? (char *)malloc(size) : NULL;
    if (size && !at) {
        PyErr_NoMemory();
        return -1;
    }
    for (PyMethodDef *m = methods; size && m->ml_name; m++) {
        if (!m->ml_doc) {
            size_t name = strlen(m->ml_name);
            memcpy(at, m->ml_name, name);
            memcpy(at + name, shared, rest);
            m->ml_doc = at;
            at += name + rest;
        }
    }
    return 0;
}

/* What PyInit returns. A free-threaded interpreter finds files named for the stable ABI, and does
   not have that: its objects begin otherwise. Nothing of ours is an object before this is known. */
static inline PyObject *
aicf_module_init(PyModuleDef *definition)
{
#ifdef Py_LIMITED_API
    if (strstr(Py_GetVersion(), "free-threading build")) {
        PyErr_SetString(
            PyExc_ImportError,
            "this module is built for Python with the GIL, and this Python is free-threaded: build "
            "it again with that (make PYTHON=...)");
        return NULL;
    }
#endif
    return PyModuleDef_Init(definition);
}

/* For method tables. */
#define AICF_FUNCTION(function) \
    (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

#endif
