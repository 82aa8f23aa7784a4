#include "number.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* Formats of struct, the narrow ones first. */
static const char formats[] = "bB?hHiIfqQd";

static size_t
size_of(char format)
{
    const char *at = strchr(formats, format);
    size_t index = at && format ? (size_t)(at - formats) : 0;
    return !at || !format ? 0 : index < 3 ? 1 : index < 5 ? 2 : index < 8 ? 4 : 8;
}

/* The ends of its range. A number that is beyond what long long has is looked at elsewhere. */
static int
number_range(number *n, PyObject *low, PyObject *high)
{
    int beyond;
    if (n->format == 'f' || n->format == 'd') {
        n->low = PyFloat_AsDouble(low);
        n->high = PyFloat_AsDouble(high);
    } else {
        n->least = PyLong_AsLongLongAndOverflow(low, &beyond);
        n->least = beyond > 0 ? LLONG_MAX : beyond ? LLONG_MIN : n->least;
        n->most = PyLong_AsLongLongAndOverflow(high, &beyond);
        n->most = beyond > 0 ? LLONG_MAX : beyond ? LLONG_MIN : n->most;
    }
    return PyErr_Occurred() ? -1 : 0;
}

int
number_read(number *n, PyObject *spec, const Py_buffer *cells)
{
    Py_ssize_t offset;
    int format;
    PyObject *low, *high;
    if (!PyTuple_Check(spec)) {
        PyErr_SetString(PyExc_TypeError, "a number is (name, key, offset, format, low, high)");
        return -1;
    }
    if (!PyArg_ParseTuple(spec, "UOnCOO:Again", &n->name, &n->key, &offset, &format, &low, &high)) {
        return -1;
    }
    size_t size = size_of(format < 128 ? (char)format : 0);
    if (!size || offset < 0 || offset > cells->len - (Py_ssize_t)size) {
        PyErr_SetString(PyExc_ValueError, "a number of no such format, or not in these bytes");
        return -1;
    }
    n->format = (char)format;
    n->size = size;
    n->cell = (char *)cells->buf + offset;
    return number_range(n, low, high);
}

static bool
write_integer(const number *n, PyObject *x)
{
    int beyond;
    bool truth = n->format == '?';
    if (!Py_IS_TYPE(x, truth ? &PyBool_Type : &PyLong_Type)) {
        return false;
    }
    long long value = PyLong_AsLongLongAndOverflow(x, &beyond);
    if (beyond || value < n->least || value > n->most) {
        return false;
    }
    memcpy(n->cell, &value, n->size); /* its low bytes come first */
    return true;
}

bool
number_write(const number *n, PyObject *x)
{
    if (n->format != 'f' && n->format != 'd') {
        return write_integer(n, x);
    }
    double value = Py_IS_TYPE(x, &PyFloat_Type) ? PyFloat_AsDouble(x) : NAN;
    if (!(n->low <= value && value <= n->high)) {
        return false;
    }
    float narrow = n->format == 'f' ? (float)value : 0.0f;
    memcpy(n->cell, n->format == 'f' ? (void *)&narrow : &value, n->size);
    return true;
}
