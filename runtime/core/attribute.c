/* Values of attributes and scalars. A wrong Python type is misuse; a value outside the bounds, or
   one that the C type cannot hold, is outside the capability: the call notes which attribute it
   was.

   bool takes True and False alone, and numpy's. int, axis and their lists take whatever has
   __index__, but no bool; float takes whatever has __float__ or __index__, but no bool. No tensor
   is a number here, for reading one from a device would synchronise, but an array of numpy's
   without dims, which is its one element. */
#include "core.h"

#include <math.h>
#include <string.h>

/* Of several the first in the row's order, in whichever they came. */
static void
note_refused(aicf_call *call, const aicf_attr *attr)
{
    const int16_t at = (int16_t)(attr - call->op->attrs + 1);
    if (call->refused == 0 || at < call->refused) {
        call->refused = at;
    }
}

static int
misuse(const aicf_call *call, const aicf_attr *attr, const char *takes, PyObject *value)
{
    return raise_misuse(call->op, attr->name, "takes %s, not %R", takes, value);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* PyObject_HasAttrString prints, from Python 3.13 on, what else an attribute raised. */
static bool
has(PyObject *value, const char *name)
{
    PyObject *attribute = PyObject_GetAttrString(value, name);
    bool found = attribute != NULL;
    Py_XDECREF(attribute);
    PyErr_Clear();
    return found;
}

static bool
is_tensor_like(PyObject *value)
{
    return !PyLong_Check(value) && !PyFloat_Check(value) &&
           (has(value, "__dlpack__") || has(value, "__cuda_array_interface__"));
}

static bool
is_array_of_no_dims(PyObject *value)
{
    if (PyLong_Check(value) || PyFloat_Check(value) || PyUnicode_Check(value) ||
        PyTuple_Check(value) || !type_is(Py_TYPE(value), "numpy", "ndarray") ||
        type_is(Py_TYPE(value), "numpy.ma", "MaskedArray")) {
        return false;
    }
    PyObject *dims = PyObject_GetAttrString(value, "ndim");
    bool none = dims && PyLong_Check(dims) && PyLong_AsLong(dims) == 0;
    Py_XDECREF(dims);
    PyErr_Clear();
    return none;
}

/* The element of an array of no dims as numpy's scalar; anything else as it is. A new reference. */
static PyObject *
element_of(PyObject *value)
{
    if (!is_array_of_no_dims(value)) {
        return Py_NewRef(value);
    }
    PyObject *nothing = PyTuple_New(0);
    PyObject *element = nothing ? PyObject_GetItem(value, nothing) : NULL;
    Py_XDECREF(nothing);
    if (!element || !type_is(Py_TYPE(element), "numpy", "generic")) {
        PyErr_Clear(); /* objects, and what a mask hides */
        Py_XDECREF(element);
        element = Py_NewRef(value);
    }
    return element;
}

/* 1: read, 0: does not fit 64 bits, and the nearest that does was read, -1 with an exception.
   Requires __index__. */
static int
int_read(PyObject *value, int64_t *number)
{
    int overflow = 0;
    PyObject *index = PyNumber_Index(value);
    if (!index) {
        return -1;
    }
    int64_t read = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (read == -1 && !overflow && PyErr_Occurred()) {
        return -1;
    }
    *number = overflow > 0 ? INT64_MAX : overflow < 0 ? INT64_MIN : read;
    return overflow == 0;
}

static bool
takes_int(PyObject *value)
{
    return PyLong_CheckExact(value) ||
           (PyIndex_Check(value) && !PyBool_Check(value) && !is_tensor_like(value));
}

static bool
is_negative(PyObject *value)
{
    PyObject *zero = PyLong_FromLong(0);
    bool negative = zero && PyObject_RichCompareBool(value, zero, Py_LT) > 0;
    Py_XDECREF(zero);
    PyErr_Clear();
    return negative;
}

/* As int_read, for doubles: an int too large for one is read as infinity. */
static int
real_read(PyObject *value, double *number)
{
    double read = PyFloat_AsDouble(value);
    if (read == -1.0 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) {
            return -1;
        }
        PyErr_Clear();
        *number = is_negative(value) ? -HUGE_VAL : HUGE_VAL;
        return 0;
    }
    *number = read;
    return 1;
}

/* numpy's complex numbers have __float__, which drops half of them, and so have its bools, texts
   and the like. */
static bool
takes_real(PyObject *value)
{
    if (PyFloat_CheckExact(value) || PyLong_CheckExact(value)) {
        return true;
    }
    return !PyBool_Check(value) && !PyComplex_Check(value) && !is_tensor_like(value) &&
           !type_is(Py_TYPE(value), "numpy", "complexfloating") &&
           (type_is(Py_TYPE(value), "numpy", "number") ||
            !type_is(Py_TYPE(value), "numpy", "generic")) &&
           (PyFloat_Check(value) || PyIndex_Check(value) ||
            has((PyObject *)Py_TYPE(value), "__float__"));
}

static void
int_bound(aicf_call *call, const aicf_attr *attr, int64_t number)
{
    if ((attr->bounded_below && number < attr->least.integer) ||
        (attr->bounded_above && number > attr->most.integer)) {
        note_refused(call, attr);
    }
}

/* NaN is within no bounds. */
static void
real_bound(aicf_call *call, const aicf_attr *attr, double number)
{
    if ((attr->bounded_below && !(number >= attr->least.real)) ||
        (attr->bounded_above && !(number <= attr->most.real))) {
        note_refused(call, attr);
    }
}

/* ---- one kind each --------------------------------------------------------------------------- */

static int
bool_set(aicf_call *call, const aicf_attr *attr, void *place, PyObject *value)
{
    if (!PyBool_Check(value) && !type_is(Py_TYPE(value), "numpy", "bool_")) {
        return misuse(call, attr, "True or False", value);
    }
    int truth = PyObject_IsTrue(value);
    *(bool *)place = truth > 0;
    return truth < 0 ? -1 : 0;
}

static int
one_int_set(aicf_call *call, const aicf_attr *attr, int64_t *place, PyObject *value)
{
    if (!takes_int(value)) {
        return misuse(call, attr, "an int", value);
    }
    int fits = int_read(value, place);
    if (fits == 0) {
        note_refused(call, attr);
    } else if (fits > 0) {
        int_bound(call, attr, *place);
    }
    return fits < 0 ? -1 : 0;
}

static int
int_set(aicf_call *call, const aicf_attr *attr, void *place, PyObject *value)
{
    return one_int_set(call, attr, place, value);
}

static int
real_set(aicf_call *call, const aicf_attr *attr, void *place, PyObject *value)
{
    if (!takes_real(value)) {
        return misuse(call, attr, "a number", value);
    }
    int fits = real_read(value, place);
    if (fits == 0) {
        note_refused(call, attr);
    } else if (fits > 0) {
        real_bound(call, attr, *(double *)place);
    }
    return fits < 0 ? -1 : 0;
}

static int
enum_set(aicf_call *call, const aicf_attr *attr, void *place, PyObject *value)
{
    for (int i = 0; PyUnicode_Check(value) && attr->values[i]; i++) {
        if (PyUnicode_CompareWithASCIIString(value, attr->values[i]) == 0) {
            *(int *)place = i;
            return 0;
        }
    }
    PyObject *words = PyList_New(0);
    for (int i = 0; words && attr->values[i]; i++) {
        words = word_add(words, attr->values[i], strlen(attr->values[i]));
    }
    return raise_word(call->op, attr->name, words, value);
}

/* The items of a list or tuple, a new reference; NULL with an exception if it is none. */
static PyObject *
items_of(const aicf_call *call, const aicf_attr *attr, PyObject *value)
{
    if (PyList_Check(value) || PyTuple_Check(value)) {
        return PySequence_Tuple(value);
    }
    misuse(call, attr, "an int or a list of ints", value);
    return NULL;
}

static int
ints_fill(aicf_call *call, const aicf_attr *attr, int64_t *place, PyObject *items, Py_ssize_t count)
{
    int done = 0;
    for (Py_ssize_t i = 0; i < count && done == 0; i++) {
        PyObject *item = element_of(PyTuple_GetItem(items, i));
        done = one_int_set(call, attr, &place[i], item);
        Py_DECREF(item);
    }
    return done;
}

static int
ints_set(aicf_call *call, const aicf_attr *attr, void *place, PyObject *value)
{
    int64_t *values = place;
    if (takes_int(value)) {
        for (int i = 0; i < attr->size; i++) {
            if (one_int_set(call, attr, &values[i], value) < 0) {
                return -1;
            }
        }
        return 0;
    }
    PyObject *items = items_of(call, attr, value);
    if (!items) {
        return -1;
    }
    int done = PyTuple_Size(items) == attr->size
                   ? ints_fill(call, attr, values, items, attr->size)
                   : raise_misuse(
                         call->op, attr->name, "takes %d ints or one for all, not %R",
                         (int)attr->size, value);
    Py_DECREF(items);
    return done;
}

/* None is all axes. More than a tensor can have dims are never right: prepare refuses them. */
static int
axes_set(aicf_call *call, const aicf_attr *attr, void *place, PyObject *value)
{
    aicf_ints *axes = place;
    if (value == Py_None) {
        axes->count = -1;
        return 0;
    }
    if (takes_int(value)) {
        axes->count = 1;
        return one_int_set(call, attr, axes->values, value);
    }
    PyObject *items = items_of(call, attr, value);
    if (!items) {
        return -1;
    }
    axes->count = PyTuple_Size(items);
    if (axes->count > AICF_MAX_DIMS) {
        axes->count = AICF_MAX_DIMS;
        note_refused(call, attr);
    }
    int done = ints_fill(call, attr, axes->values, items, axes->count);
    Py_DECREF(items);
    return done;
}

typedef int attribute_fn(aicf_call *call, const aicf_attr *attr, void *place, PyObject *value);

static attribute_fn *const setters[] = {
    [AICF_ATTR_BOOL] = bool_set, [AICF_ATTR_INT] = int_set,   [AICF_ATTR_FLOAT] = real_set,
    [AICF_ATTR_ENUM] = enum_set, [AICF_ATTR_INTS] = ints_set, [AICF_ATTR_AXIS] = int_set,
    [AICF_ATTR_AXES] = axes_set,
};

int
attribute_set(aicf_call *call, const aicf_attr *attr, PyObject *value)
{
    PyObject *element = element_of(value);
    int done = setters[attr->kind](call, attr, (char *)call + attr->offset, element);
    Py_DECREF(element);
    return done;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static bool
is_float(aicf_dtype dtype)
{
    return (dtype & 0xff) == 2 || (dtype & 0xff) == 4;
}

/* Whether some variant's scalar is a bool, another integer, a float. */
static void
scalar_kinds(const aicf_op *op, const aicf_attr *attr, bool *boolean, bool *integer, bool *real)
{
    for (int v = 0; v < op->variants; v++) {
        aicf_dtype dtype = op->dtypes[v * op->params + attr->of];
        *boolean |= dtype == AICF_BOOL;
        *real |= is_float(dtype);
        *integer |= dtype != AICF_BOOL && !is_float(dtype);
    }
}

/* An int too large for 64 bits may still be a float's. */
static int
scalar_set_int(aicf_call *call, const aicf_attr *attr, aicf_scalar *scalar, PyObject *value)
{
    int fits = int_read(value, &scalar->host.integer);
    scalar->dtype = AICF_I64;
    if (fits == 0) {
        fits = real_read(value, &scalar->host.real);
        scalar->dtype = AICF_F64;
    }
    if (fits == 0) {
        note_refused(call, attr);
    }
    return fits < 0 ? -1 : 1;
}

static int
scalar_set_real(aicf_call *call, const aicf_attr *attr, aicf_scalar *scalar, PyObject *value)
{
    int fits = real_read(value, &scalar->host.real);
    scalar->dtype = AICF_F64;
    if (fits == 0) {
        note_refused(call, attr);
    }
    return fits < 0 ? -1 : 1;
}

/* The number of an array of no dims, none of which is out of range. */
static void
scalar_set_element(
    aicf_call *call, const aicf_attr *attr, aicf_scalar *scalar, PyObject *array, bool integer,
    bool real)
{
    PyObject *element = element_of(array);
    *scalar = (aicf_scalar){.dtype = 0};
    if (takes_int(element) && (integer || real)) {
        scalar_set_int(call, attr, scalar, element);
    } else if (takes_real(element) && real) {
        scalar_set_real(call, attr, scalar, element);
    }
    PyErr_Clear();
    Py_DECREF(element);
}

/* prepare turns the number into the row's dtype: which one it came as is in the scalar's. */
int
scalar_set(aicf_call *call, const aicf_attr *attr, PyObject *value)
{
    aicf_scalar *scalar = (aicf_scalar *)((char *)call + attr->offset);
    bool boolean = false, integer = false, real = false;

    scalar_kinds(call->op, attr, &boolean, &integer, &real);
    if (PyBool_Check(value) && boolean) {
        *scalar = (aicf_scalar){.dtype = AICF_BOOL, .host = {.integer = value == Py_True}};
        return 1;
    }
    if (takes_int(value) && (integer || real)) {
        return scalar_set_int(call, attr, scalar, value);
    }
    if (takes_real(value) && real) {
        return scalar_set_real(call, attr, scalar, value);
    }
    if (is_array_of_no_dims(value)) {
        scalar_set_element(call, attr, scalar, value, integer, real);
        return 0;
    }
    if (is_tensor_like(value) || PyObject_CheckBuffer(value) || spec_is(value)) {
        return 0;
    }
    return misuse(
        call, attr,
        real      ? "a number or a tensor of one element"
        : integer ? "an int or a tensor of one element"
                  : "True, False or a tensor of one element",
        value);
}
