/* An op as a module opened it: its checks once, its names, and the module's lazy attributes. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMS = 64, MAX_ATTRS = 64, MAX_DIMS = 64 };

static int
op_check(const aicf_op *op)
{
    const char *fault = op->size < sizeof *op || op->version != AICF_CALL_VERSION
                            ? "was built for another interface of libaicf: rebuild it"
                        : op->params != op->inputs + op->outs + op->scalars ||
                                op->params > MAX_PARAMS || op->attr_count > MAX_ATTRS ||
                                op->dim_count > MAX_DIMS || op->call_size < sizeof(aicf_call) ||
                                op->call_size % 16
                            ? "has a malformed descriptor"
                            : NULL;
    if (fault) {
        PyErr_Format(PyExc_ImportError, "%s.%s %s", op->package, op->name, fault);
    }
    return fault ? -1 : 0;
}

static const char *
name_text(const aicf_op *op, int i)
{
    static const char *const options[OPTIONS] = {
        [OPTION_STREAM] = "stream",
        [OPTION_KERNEL] = "kernel",
        [OPTION_DTYPE] = "dtype",
        [OPTION_WORKSPACE] = "workspace"};
    int own = op->params + op->attr_count;
    return i < op->params ? op->params_of[i].name
           : i < own      ? op->attrs[i - op->params].name
                          : options[i - own];
}

static int
index_add(PyObject *index, PyObject *name, int i)
{
    PyObject *number = PyLong_FromLong(i);
    int added = number ? PyDict_SetItem(index, name, number) : -1;
    Py_XDECREF(number);
    return added;
}

/* From the end: of a name that stands twice the first counts, a scalar's parameter before its
   attribute. */
static int
names_fill(aicf_handle *handle)
{
    const aicf_op *op = handle->op;
    handle->index = PyDict_New();
    for (int i = op->params + op->attr_count + OPTIONS - 1; handle->index && i >= 0; i--) {
        handle->names[i] = PyUnicode_InternFromString(name_text(op, i));
        if (!handle->names[i] || index_add(handle->index, handle->names[i], i) < 0) {
            return -1;
        }
    }
    return handle->index ? 0 : -1;
}

/* ---- the type variable that no argument binds ------------------------------------------------ */

static bool
same_arguments(const aicf_op *op, int u, int v)
{
    const aicf_dtype *a = op->dtypes + u * op->params, *b = op->dtypes + v * op->params;
    for (int i = 0; i < op->params; i++) {
        if (op->params_of[i].role != AICF_OUT && a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

/* The first part, between underscores, in which two suffixes differ. */
static int
differing_part(const char *a, const char *b)
{
    int part = 0;
    for (; *a && *a == *b; a++, b++) {
        part += *a == '_';
    }
    return part;
}

static int
find_free_type(const aicf_op *op)
{
    for (int v = 1; v < op->variants; v++) {
        for (int u = 0; u < v; u++) {
            if (same_arguments(op, u, v)) {
                return differing_part(op->suffixes[u], op->suffixes[v]);
            }
        }
    }
    return -1;
}

/* ---- what a plain call needs ----------------------------------------------------------------- */

static bool
is_plain(const aicf_op *op)
{
    for (int i = 0; i < op->attr_count; i++) {
        if (op->attrs[i].required) {
            return false;
        }
    }
    return !op->has_lists && op->scalars == 0;
}

static bool
outs_are_optional(const aicf_op *op)
{
    for (int i = op->inputs; i < op->inputs + op->outs; i++) {
        if (!op->params_of[i].optional) {
            return false;
        }
    }
    return op->outs > 0;
}

/* One required out, which the inputs' dtypes say all of, and nothing else that is written. */
static bool
has_lone_out(const aicf_handle *handle)
{
    const aicf_op *op = handle->op;
    return handle->plain_call && op->plain && op->outs == 1 && handle->free_type < 0 &&
           op->inputs > 0 && op->written == UINT64_C(1) << op->inputs && !handle->optional_outs;
}

static size_t
room_of(const aicf_op *op)
{
    size_t params = (size_t)op->params + 1;
    return aicf_call_bytes(op, op->params) + params * (sizeof(aicf_tensor) + sizeof(PyObject *)) +
           params + 64;
}

/* ---- the module's attributes ----------------------------------------------------------------- */

static PyObject *
built_suffixes(const aicf_op *op, const aicf_kernel *kernel)
{
    PyObject *list = PyList_New(0);
    for (int v = 0; list && v < op->variants; v++) {
        if (kernel->entries[v].launch && kernel->entries[v].launcher) {
            PyObject *suffix = PyUnicode_FromString(op->suffixes[v]);
            if (!suffix || PyList_Append(list, suffix) < 0) {
                Py_CLEAR(list);
            }
            Py_XDECREF(suffix);
        }
    }
    return list;
}

static int
add_built(const aicf_op *op, PyObject *row)
{
    PyObject *built = PyDict_New();
    for (int i = 0; built && i < op->kernel_count; i++) {
        PyObject *suffixes = built_suffixes(op, &op->kernels[i]);
        if (!suffixes || PyDict_SetItemString(built, op->kernels[i].id, suffixes) < 0) {
            Py_CLEAR(built);
        }
        Py_XDECREF(suffixes);
    }
    int added = built ? PyDict_SetItemString(row, "built", built) : -1;
    Py_XDECREF(built);
    return added;
}

static int
add_hash(const aicf_op *op, PyObject *row)
{
    PyObject *hash = PyUnicode_FromString(op->hash);
    int added = hash ? PyDict_SetItemString(row, "hash", hash) : -1;
    Py_XDECREF(hash);
    return added;
}

/* What device code is in this module; a module of host code alone has none to tell of. */
static int
add_code(const aicf_op *op, PyObject *row)
{
    if (!op->code) {
        return 0;
    }
    PyObject *code = PyUnicode_FromString(op->code);
    int added = code ? PyDict_SetItemString(row, "code", code) : -1;
    Py_XDECREF(code);
    return added;
}

/* The row as data, its hash, and which kernels this module has for which suffixes and archs. */
static PyObject *
capability(const aicf_op *op)
{
    PyObject *json = PyImport_ImportModule("json");
    PyObject *row = json ? PyObject_CallMethod(json, "loads", "s", op->row) : NULL;
    Py_XDECREF(json);
    if (row && (add_hash(op, row) < 0 || add_built(op, row) < 0 || add_code(op, row) < 0)) {
        Py_CLEAR(row);
    }
    return row;
}

static PyObject *
module_unasked(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    const aicf_module *state = PyModule_GetState(module);
    return form_unasked(state->handle, args, nargs, kwnames);
}

static PyMethodDef unasked_method = {"_unasked", AICF_FUNCTION(module_unasked), NULL};

/* `capability`; and for the package's own Python `_unasked`, the generic form of callers who have
   asked about gradients. */
static PyObject *
module_getattr(PyObject *module, PyObject *name)
{
    const aicf_module *state = PyModule_GetState(module);
    if (state && state->handle && PyUnicode_Check(name) &&
        PyUnicode_CompareWithASCIIString(name, "_unasked") == 0) {
        return PyCFunction_NewEx(&unasked_method, module, NULL);
    }
    if (!state || !state->handle || !PyUnicode_Check(name) ||
        PyUnicode_CompareWithASCIIString(name, "capability") != 0) {
        PyErr_Format(
            PyExc_AttributeError, "module '%s' has no attribute %R", PyModule_GetName(module),
            name);
        return NULL;
    }
    PyObject *row = capability(state->handle->op);
    PyObject *stands = row ? dict_settle(PyModule_GetDict(module), name, row) : NULL;
    Py_XDECREF(row);
    return stands;
}

static PyMethodDef getattr_method = {"__getattr__", module_getattr, METH_O, NULL};

static int
module_extend(PyObject *module)
{
    PyObject *function = PyCFunction_NewEx(&getattr_method, module, NULL);
    int added = PyModule_AddObjectRef(module, "__getattr__", function);
    Py_XDECREF(function);
    return added;
}

/* ---- open and close -------------------------------------------------------------------------- */

static aicf_handle *
handle_create(const aicf_op *op)
{
    size_t names = (size_t)(op->params + op->attr_count + OPTIONS) * sizeof(PyObject *);
    size_t sources = (size_t)(op->params + 1) * sizeof(source *);
    aicf_handle *handle = calloc(1, sizeof *handle + names + sources);
    if (!handle) {
        PyErr_NoMemory();
        return NULL;
    }
    handle->references = 1;
    handle->alone = -1;
    handle->op = op;
    handle->names = (PyObject **)(handle + 1);
    handle->sources = (const source **)((char *)handle->names + names);
    handle->room = room_of(op);
    handle->tensors = (aicf_call_bytes(op, op->params) + 15) & ~(size_t)15;
    handle->free_type = (int16_t)find_free_type(op);
    handle->plain_call = is_plain(op);
    handle->optional_outs = outs_are_optional(op);
    handle->lone_out = has_lone_out(handle);
    return handle;
}

/* Calls as they are before their tensors are known, for copies. */
static int
images_make(aicf_handle *handle)
{
    const aicf_op *op = handle->op;
    if (!handle->plain_call) {
        return 0;
    }
    handle->images = calloc((size_t)op->variants, op->call_size);
    if (!handle->images) {
        PyErr_NoMemory();
        return -1;
    }
    for (int v = 0; v < op->variants; v++) {
        aicf_call_init((aicf_call *)(handle->images + (size_t)v * op->call_size), op, v);
    }
    handle->alone = op->params;
    return 0;
}

/* Which launches are brief. */
static void
brief_find(aicf_handle *handle)
{
    const aicf_op *op = handle->op;
    handle->brief_work = op->elementwise ? LONG_BYTES : LONG_BYTES_COMPUTED;
    for (int k = 0; k < op->kernel_count && k < 64 && !handle->core->sync; k++) {
        const aicf_backend *backend = op->backends[op->kernels[k].backend].backend;
        if (backend->host && !backend->enter) {
            handle->brief |= UINT64_C(1) << k;
        }
    }
}

aicf_handle *
handle_of_reader(const aicf_op *op)
{
    aicf_handle *handle = handle_create(op);
    if (handle) {
        handle->core = core_import(&handle->module);
        if (!handle->core || names_fill(handle) < 0) {
            handle_close(handle);
            return NULL;
        }
    }
    return handle;
}

aicf_handle *
handle_open(PyObject *module, const aicf_op *op)
{
    aicf_handle *handle = op_check(op) < 0 ? NULL : handle_of_reader(op);
    if (handle) {
        if (images_make(handle) < 0 || module_extend(module) < 0) {
            handle_close(handle);
            return NULL;
        }
        brief_find(handle);
    }
    return handle;
}

aicf_handle *
handle_share(aicf_handle *handle)
{
    __atomic_add_fetch(&handle->references, 1, __ATOMIC_RELAXED);
    return handle;
}

void
handle_close(aicf_handle *handle)
{
    if (!handle || __atomic_sub_fetch(&handle->references, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    for (int i = 0; i < handle->op->params + handle->op->attr_count + OPTIONS; i++) {
        Py_XDECREF(handle->names[i]);
    }
    Py_XDECREF(handle->index);
    Py_XDECREF(handle->result);
    Py_XDECREF(handle->module);
    free(handle->images);
    free(handle);
}
