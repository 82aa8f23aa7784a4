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

/* Index among the op's names, which are interned, as the keywords of a call in source text are. */
static int
name_find(const aicf_handle *handle, PyObject *name)
{
    int count = handle->op->params + handle->op->attr_count;
    for (int i = 0; i < count; i++) {
        if (handle->names[i] == name) {
            return i;
        }
    }
    for (int i = 0; i < count; i++) {
        if (PyUnicode_Compare(handle->names[i], name) == 0) {
            return i;
        }
    }
    PyErr_Clear();
    return -1;
}

static bool
is_name(const frame *f, PyObject *name, core_name option)
{
    return name == f->core->names[option] || PyUnicode_Compare(name, f->core->names[option]) == 0;
}

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
set_option(frame *f, form kind, PyObject *name, PyObject *value)
{
    if (is_name(f, name, NAME_stream)) {
        return option_stream(f, value);
    }
    if (is_name(f, name, NAME_kernel)) {
        return option_kernel(f, value);
    }
    if (kind == FORM_COMPUTE && f->handle->free_type >= 0 && is_name(f, name, NAME_dtype)) {
        return option_dtype(f, value);
    }
    PyErr_Format(PyExc_TypeError, "%s has no argument %R", f->op->name, name);
    return -1;
}

static int
set_keyword(frame *f, form kind, PyObject *name, PyObject *value)
{
    const aicf_op *op = f->op;
    int index = name_find(f->handle, name);
    if (index < 0) {
        return set_option(f, kind, name, value);
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
    int positional = kind == FORM_SET       ? 0
                     : kind == FORM_COMPUTE ? op->inputs
                                            : op->inputs + op->outs;
    Py_ssize_t named = kwnames ? PyTuple_Size(kwnames) : 0;

    memset(f->slots, 0, sizeof *f->slots * (size_t)op->params);
    if (nargs > positional) {
        PyErr_Format(
            PyExc_TypeError, "%s takes %d arguments by position, %zd were given", op->name,
            positional, nargs);
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        f->slots[i] = args[i];
    }
    for (Py_ssize_t i = 0; i < named; i++) {
        if (set_keyword(f, kind, PyTuple_GetItem(kwnames, i), args[nargs + i]) < 0) {
            return -1;
        }
    }
    if (kind == FORM_SET) {
        return 0;
    }
    if (kind != FORM_TYPED) {
        choose_outs(f);
    }
    int needed = kind == FORM_TYPED ? op->inputs + op->outs : op->inputs;
    return require_tensors(f, needed) < 0 ? -1 : require_attributes(f);
}
