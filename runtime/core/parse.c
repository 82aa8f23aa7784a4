/* What a tensor is described by, in people's words: sizes, dtype, device. `who` begins the texts of
   the errors: "empty", "Spec". */
#include "parse.h"
#include "dtype.h"

#include <stdlib.h>
#include <string.h>

/* ---- devices --------------------------------------------------------------------------------- */

/* DLPack's numbers, named as messages name them. */
static const char *const devices[] = {
    [1] = "cpu",        [2] = "cuda",     [3] = "cuda_host",     [4] = "opencl",
    [7] = "vulkan",     [8] = "metal",    [9] = "vpi",           [10] = "rocm",
    [11] = "rocm_host", [12] = "ext_dev", [13] = "cuda_managed", [14] = "oneapi",
    [15] = "webgpu",    [16] = "hexagon", [17] = "maia",         [18] = "trainium",
};
enum { DEVICES = sizeof devices / sizeof *devices };

static bool
device_read(const char *word, aicf_device *device)
{
    size_t length = strcspn(word, ":");
    const char *digits = word[length] ? word + length + 1 : "0";
    char *end = NULL;
    long index = strtol(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || *end || index > INT32_MAX) {
        return false;
    }
    for (int32_t type = 0; type < DEVICES; type++) {
        const char *name = devices[type];
        if (name && strlen(name) == length && memcmp(name, word, length) == 0) {
            *device = (aicf_device){type, (int32_t)index};
            return true;
        }
    }
    return false;
}

int
device_parse(const char *who, PyObject *value, aicf_device *device)
{
    PyObject *text = PyObject_Str(value);
    const char *word = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    bool found = word && device_read(word, device);
    if (text && !word) {
        PyErr_Clear(); /* no UTF-8: none of ours */
    }
    Py_XDECREF(text);
    if (!found && !PyErr_Occurred()) {
        PyErr_Format(
            PyExc_TypeError, "%s: device %R is none of 'cpu', 'cuda', 'cuda:1'", who, value);
    }
    return found ? 0 : -1;
}

PyObject *
device_text(aicf_device device)
{
    bool known = device.type > 0 && device.type < DEVICES && devices[device.type];
    return device.type == DL_CPU && !device.index ? PyUnicode_FromString("cpu")
           : known ? PyUnicode_FromFormat("%s:%d", devices[device.type], (int)device.index)
                   : PyUnicode_FromFormat("%d:%d", (int)device.type, (int)device.index);
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

aicf_dtype
dtype_parse(const char *who, PyObject *value)
{
    const dtype_words *words = dtype_by_object(value);
    if (!words && !PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "%s: %R is no dtype of the table", who, value);
    }
    return words ? words->dtype : 0;
}

/* ---- sizes and strides ----------------------------------------------------------------------- */

static int
number_parse(PyObject *numbers, int index, int64_t *number)
{
    PyObject *item = PySequence_GetItem(numbers, index);
    if (!item) {
        return -1;
    }
    *number = PyNumber_AsSsize_t(item, PyExc_OverflowError);
    Py_DECREF(item);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

int
numbers_parse(const char *who, const char *what, PyObject *value, int64_t numbers[AICF_MAX_DIMS])
{
    if (PyIndex_Check(value)) {
        numbers[0] = PyNumber_AsSsize_t(value, PyExc_OverflowError);
        return PyErr_Occurred() ? -1 : 1;
    }
    Py_ssize_t count = PySequence_Size(value); /* first: what has no length may have no end */
    if (count > AICF_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%s: %zd dims, at most %d", who, count, AICF_MAX_DIMS);
        return -1;
    }
    if (count < 0 && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Format(PyExc_TypeError, "%s: %s is neither an int nor a sequence of ints", who, what);
    }
    for (int i = 0; i < count; i++) {
        if (number_parse(value, i, &numbers[i]) < 0) {
            return -1;
        }
    }
    return (int)count;
}

int
sizes_parse(const char *who, PyObject *value, int64_t sizes[AICF_MAX_DIMS])
{
    int rank = numbers_parse(who, "shape", value, sizes);
    for (int i = 0; i < rank; i++) {
        if (sizes[i] < 0) {
            PyErr_Format(PyExc_ValueError, "%s: a size is negative", who);
            return -1;
        }
    }
    return rank;
}
