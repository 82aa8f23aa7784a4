/* Sorting the arguments of a call: tensors by position or name, everything else by name. */
#include "core.h"

#include <stdarg.h>
#include <string.h>

int
raise_misuse(const aicf_op *op, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (text) {
        PyErr_Format(PyExc_TypeError, "%s: %s %U", op->name, name, text);
        Py_DECREF(text);
    }
    return -1;
}

static bool
takes_dtype(const frame *f, form kind)
{
    return (kind == FORM_COMPUTE || kind == FORM_INFER || kind == FORM_EXPLAIN) &&
           f->handle->free_type >= 0;
}

static bool
takes_workspace(form kind)
{
    return kind == FORM_BIND || kind == FORM_SET;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Which of the op's names and options it is, -1: none of their objects. Keywords in source text are
   interned, as the names are, and mostly stand in their order: the search begins at `guess`. */
static inline int
name_at(const aicf_handle *handle, const PyObject *name, int guess)
{
    int count = handle->op->params + handle->op->attr_count + OPTIONS;
    PyObject *const *names = handle->names;
    if (guess < count && names[guess] == name) {
        return guess;
    }
    for (int i = 0; i < count; i++) {
        if (names[i] == name) {
            return i;
        }
    }
    return -1;
}

/* The same of a name that a program made up. A subclass of str may hash and compare as it likes: it
   is compared by its text. */
static int
name_by_text(const aicf_handle *handle, PyObject *name)
{
    int count = handle->op->params + handle->op->attr_count + OPTIONS, at = -1;
    if (PyUnicode_CheckExact(name)) {
        PyObject *number = PyDict_GetItemWithError(handle->index, name);
        at = number ? (int)PyLong_AsLong(number) : -1;
    } else {
        for (int i = 0; at < 0 && i < count; i++) {
            at = PyUnicode_Compare(handle->names[i], name) == 0 ? i : -1;
        }
    }
    PyErr_Clear();
    return at;
}

/* The names that a form takes, and of them the one most like `name`, or none: a list. */
static PyObject *
names_like(const frame *f, form kind, PyObject *name)
{
    int own = f->op->params + f->op->attr_count;
    PyObject *names = PyList_New(0);
    for (int i = 0; names && i < own + OPTIONS; i++) {
        bool taken = i == own + OPTION_DTYPE       ? takes_dtype(f, kind)
                     : i == own + OPTION_WORKSPACE ? takes_workspace(kind)
                                                   : true;
        if (taken && PyList_Append(names, f->handle->names[i]) < 0) {
            Py_CLEAR(names);
        }
    }
    PyObject *difflib = names ? PyImport_ImportModule("difflib") : NULL;
    PyObject *like =
        difflib ? PyObject_CallMethod(difflib, "get_close_matches", "OOi", name, names, 1) : NULL;
    Py_XDECREF(names);
    Py_XDECREF(difflib);
    return like;
}

static int
refuse_name(const frame *f, form kind, PyObject *name)
{
    PyObject *like = names_like(f, kind, name);
    PyObject *best = like && PyList_Check(like) ? PyList_GetItem(like, 0) : NULL;
    PyErr_Clear();
    if (best) {
        PyErr_Format(PyExc_TypeError, "%s has no argument %R: is it %R?", f->op->name, name, best);
    } else {
        PyErr_Format(PyExc_TypeError, "%s has no argument %R", f->op->name, name);
    }
    Py_XDECREF(like);
    return -1;
}

/* ---- one argument ---------------------------------------------------------------------------- */

static int
set_tensor(frame *f, int param, PyObject *value)
{
    if (f->slots[param]) {
        return raise_misuse(f->op, f->op->params_of[param].name, "is given twice");
    }
    f->slots[param] = value;
    return 0;
}

static int
set_attribute(frame *f, int index, PyObject *value)
{
    const aicf_attr *attr = &f->op->attrs[index];
    f->given |= UINT64_C(1) << index;
    if (attr->kind != AICF_ATTR_SCALAR) {
        return attribute_set(f->call, attr, value);
    }
    int number = scalar_set(f->call, attr, value);
    f->slots[attr->of] = number == 0 ? value : NULL;
    return number < 0 ? -1 : 0;
}

static int
set_option(frame *f, form kind, int option, PyObject *name, PyObject *value)
{
    if (option == OPTION_STREAM) {
        return option_stream(f, value);
    }
    if (option == OPTION_KERNEL) {
        return option_kernel(f, value);
    }
    if (option == OPTION_WORKSPACE && takes_workspace(kind)) {
        f->workspace = value;
        return 0;
    }
    return option == OPTION_DTYPE && takes_dtype(f, kind) ? option_dtype(f, value)
                                                          : refuse_name(f, kind, name);
}

static int
set_keyword(frame *f, form kind, int index, PyObject *name, PyObject *value)
{
    const aicf_op *op = f->op;
    int own = op->params + op->attr_count;
    if (index < 0) {
        return refuse_name(f, kind, name);
    }
    if (index >= own) {
        return set_option(f, kind, index - own, name, value);
    }
    if (index >= op->params) {
        return set_attribute(f, index - op->params, value);
    }
    if (op->params_of[index].role == AICF_SCALAR) { /* its attribute comes later in the names */
        for (int i = 0; i < op->attr_count; i++) {
            if (op->attrs[i].kind == AICF_ATTR_SCALAR && op->attrs[i].of == index) {
                return set_attribute(f, i, value);
            }
        }
    }
    return set_tensor(f, index, value);
}

/* ---- what has to be there -------------------------------------------------------------------- */

static int
require_attributes(const frame *f)
{
    for (int i = 0; i < f->op->attr_count; i++) {
        if (f->op->attrs[i].required && !(f->given >> i & 1)) {
            return raise_misuse(f->op, f->op->attrs[i].name, "is missing");
        }
    }
    return 0;
}

static int
require_tensors(const frame *f, int count)
{
    for (int i = 0; i < count; i++) {
        const aicf_param *param = &f->op->params_of[i];
        if (!param->optional && (!f->slots[i] || f->slots[i] == Py_None)) {
            return raise_misuse(f->op, param->name, f->slots[i] ? "is None" : "is missing");
        }
    }
    return 0;
}

/* Outs of the generic form: a tensor, True to ask for it, False or None or nothing not to. */
static void
choose_outs(frame *f)
{
    const aicf_op *op = f->op;
    PyObject **outs = f->slots + op->inputs;

    for (int i = 0; i < op->outs; i++) {
        bool given = outs[i] && outs[i] != Py_None && !PyBool_Check(outs[i]);
        bool wanted = given || outs[i] == Py_True || !op->params_of[op->inputs + i].optional;
        f->wanted |= (uint64_t)wanted << i;
        outs[i] = given ? outs[i] : NULL;
    }
    if (f->handle->optional_outs && !f->wanted) {
        f->wanted = ~UINT64_C(0) >> (64 - op->outs);
    }
}

int
arguments_sort(frame *f, form kind, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    const aicf_op *op = f->op;
    bool computes = kind == FORM_COMPUTE || kind == FORM_INFER;
    int positional = kind == FORM_SET ? 0 : computes ? op->inputs : op->inputs + op->outs;
    Py_ssize_t named = kwnames ? PyTuple_Size(kwnames) : 0;

    memset(f->slots, 0, sizeof *f->slots * (size_t)op->params);
    if (nargs > positional) {
        bool outs = computes && nargs <= op->inputs + op->outs;
        PyErr_Format(
            PyExc_TypeError, "%s takes %d arguments by position, %zd were given%s", op->name,
            positional, nargs, outs ? ": outs are given by name" : "");
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        f->slots[i] = args[i];
    }
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);
        int index = name_at(f->handle, name, (int)(nargs + i));
        index = index < 0 ? name_by_text(f->handle, name) : index;
        if (set_keyword(f, kind, index, name, args[nargs + i]) < 0) {
            return -1;
        }
    }
    if (kind == FORM_SET) {
        return 0;
    }
    bool typed = kind == FORM_TYPED || kind == FORM_BIND;
    if (!typed) {
        choose_outs(f);
    }
    int needed = typed ? op->inputs + op->outs : op->inputs;
    return require_tensors(f, needed) < 0 ? -1 : require_attributes(f);
}
