/* What people see of a bound call: its repr, and what it was bound to. */
#include "bound.h"
#include "storage.h"

#include <string.h>

static PyObject *
op_text(const block *b)
{
    return PyUnicode_FromString(b->handle->op->name);
}

static PyObject *
kernel_text(const block *b)
{
    return PyUnicode_FromString(b->handle->op->kernels[b->call->kernel].id);
}

static PyObject *
dtype_text(const block *b)
{
    return PyUnicode_FromString(b->handle->op->suffixes[b->call->variant]);
}

static PyObject *
device_text(const block *b)
{
    const aicf_backend *backend = backend_of_call(b->call);
    return backend->host ? PyUnicode_FromString(backend->name)
                         : PyUnicode_FromFormat("%s:%d", backend->name, (int)b->call->device.index);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* What parameter `p` was bound to: an object, a tuple of a list's, or None. */
static PyObject *
object_of(const block *b, int p)
{
    int start = aicf_call_start(b->call, p), count = aicf_call_count(b->call, p);
    if (b->handle->op->params_of[p].list < 0) {
        PyObject *object = b->tensors[start]->object;
        return Py_NewRef(object ? object : Py_None);
    }
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *object = b->tensors[start + i]->object;
        PyTuple_SetItem(tuple, i, Py_NewRef(object ? object : Py_None));
    }
    return tuple;
}

static PyObject *
tensors_dict(const block *b)
{
    PyObject *dict = PyDict_New();
    for (int p = 0; dict && p < b->handle->op->params; p++) {
        PyObject *object = object_of(b, p);
        if (!object || PyDict_SetItem(dict, b->handle->names[p], object) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(object);
    }
    return dict;
}

/* ---- the workspace --------------------------------------------------------------------------- */

static PyObject *
workspace_size(const block *b)
{
    return PyLong_FromLongLong(b->call->workspace_size);
}

static PyObject *
workspace_object(const block *b)
{
    return Py_NewRef(b->workspace ? b->workspace->object : Py_None);
}

/* ---- repr ------------------------------------------------------------------------------------ */

/* Steals both; NULL where either is. */
static PyObject *
joined(PyObject *text, PyObject *more)
{
    PyObject *both = text && more ? PyUnicode_Concat(text, more) : NULL;
    Py_XDECREF(text);
    Py_XDECREF(more);
    return both;
}

/* "a (2, 3)", "xs (2,) (3,)": nothing for what is absent. */
static PyObject *
param_text(const block *b, int p, bool first)
{
    int start = aicf_call_start(b->call, p), count = aicf_call_count(b->call, p);
    PyObject *text = PyUnicode_FromString("");
    for (int i = 0; i < count; i++) {
        const aicf_tensor *t = &b->tensors[start + i]->t;
        if (t->absent) {
            continue;
        }
        PyObject *sizes = tuple_of_numbers(t->sizes, t->rank);
        const char *name = i ? "" : b->handle->op->params_of[p].name;
        const char *before = i || first ? "" : ", ";
        text = joined(text, sizes ? PyUnicode_FromFormat("%s%s %S", before, name, sizes) : NULL);
        Py_XDECREF(sizes);
    }
    return text;
}

static PyObject *
shapes_text(const block *b)
{
    PyObject *text = PyUnicode_FromString("");
    for (int p = 0; text && p < b->handle->op->params; p++) {
        text = joined(text, param_text(b, p, PyUnicode_GetLength(text) == 0));
    }
    return text;
}

static PyObject *
block_repr(const block *b)
{
    const aicf_op *op = b->handle->op;
    const char *suffix = op->suffixes[b->call->variant];
    PyObject *shapes = shapes_text(b), *device = device_text(b);
    PyObject *text = shapes && device ? PyUnicode_FromFormat(
                                            "<aicf_rt.Call %s%s%s(%U) on %U, kernel %s>", op->name,
                                            *suffix ? "_" : "", suffix, shapes, device,
                                            op->kernels[b->call->kernel].id)
                                      : NULL;
    Py_XDECREF(shapes);
    Py_XDECREF(device);
    return text;
}

/* ---- of the object --------------------------------------------------------------------------- */

static PyObject *
portrait(PyObject *object, PyObject *(*part)(const block *))
{
    block *b = bound_block((bound *)object);
    PyObject *value = b ? part(b) : NULL;
    block_drop(b);
    return value;
}

PyObject *
bound_repr(PyObject *object)
{
    block *b = bound_hold((bound *)object);
    PyObject *text = b ? block_repr(b) : PyUnicode_FromString("<aicf_rt.Call, cleared>");
    block_drop(b);
    return text;
}

#define PORTRAIT(attribute, part)                               \
    static PyObject *attribute(PyObject *object, void *closure) \
    {                                                           \
        (void)closure;                                          \
        return portrait(object, part);                          \
    }

PORTRAIT(get_op, op_text)
PORTRAIT(get_kernel, kernel_text)
PORTRAIT(get_dtype, dtype_text)
PORTRAIT(get_device, device_text)
PORTRAIT(get_tensors, tensors_dict)
PORTRAIT(get_workspace_size, workspace_size)
PORTRAIT(get_workspace, workspace_object)

PyGetSetDef bound_attributes[] = {
    {"op", get_op, NULL, "The op's name.", NULL},
    {"kernel", get_kernel, NULL, "The kernel that it launches.", NULL},
    {"dtype", get_dtype, NULL, "The suffix of the typed form that it stands for, as 'f32'.", NULL},
    {"device", get_device, NULL, "'cpu' or as 'cuda:0'.", NULL},
    {"tensors", get_tensors, NULL,
     "A new dict of what it was bound to, by the names of the parameters: the objects as they were "
     "given,\na tuple for a list, None for what is absent.",
     NULL},
    {"workspace_size", get_workspace_size, NULL,
     "Bytes that its kernel needs for the length of a launch, beside the tensors; 0: none.", NULL},
    {"workspace", get_workspace, NULL,
     "The tensor that was given for them; None: each launch takes memory and gives it back.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
