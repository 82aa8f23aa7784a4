/* numpy's ndarray read as a structure. Its layout is part of numpy's binary interface; it is proved
   against the buffer protocol once, on an array of our own, and only exactly numpy.ndarray is read
   so. */
#include "storage.h"

#include <string.h>

typedef struct ndarray_dtype {
    PyObject_HEAD PyTypeObject *scalar;
    char kind, type, byteorder, flags;
    int number;
} ndarray_dtype;

typedef struct ndarray {
    PyObject_HEAD char *data;
    int rank;
    intptr_t *sizes;
    intptr_t *strides; /* in bytes */
    PyObject *base;
    ndarray_dtype *dtype;
    int flags;
} ndarray;

enum { ROW_MAJOR = 0x1, ALIGNED = 0x100, WRITEABLE = 0x400 };

/* numpy's type numbers of long, unsigned long and their long long twins: the same size here. */
enum { NUMBER_LONG = 7, NUMBER_LONGLONG = 9, NUMBERS = 24 };

/* By numpy's type numbers; 0 is a dtype without a name. Those that the table does not have are
   named for the words of their refusal. */
static aicf_dtype
dtype_of_number(int number)
{
#define BY_NUMBER(id, name, code, bits, ctype, numpy, typestr, format) \
    [(numpy) < 0 ? NUMBERS : (numpy)] = AICF_DTYPE(code, bits),
    static const aicf_dtype dtypes[NUMBERS + 1] = {
        AICF_DTYPES(BY_NUMBER)[NUMBER_LONGLONG] = AICF_I64,
        [4] = AICF_DTYPE(1, 16),
        [6] = AICF_DTYPE(1, 32),
        [8] = AICF_DTYPE(1, 64),
        [10] = AICF_DTYPE(1, 64),
        [14] = AICF_DTYPE(5, 64),
        [15] = AICF_DTYPE(5, 128),
    };
#undef BY_NUMBER
    return number >= 0 && number < NUMBERS ? dtypes[number] : 0;
}

/* True if the structure says of `object` what its buffer says. */
static bool
layout_holds(PyObject *object)
{
    const ndarray *array = (const ndarray *)object;
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_RECORDS_RO) < 0) {
        return false;
    }
    size_t bytes = (size_t)view.ndim * sizeof(intptr_t);
    bool same = array->data == view.buf && array->rank == view.ndim &&
                memcmp(array->sizes, view.shape, bytes) == 0 &&
                memcmp(array->strides, view.strides, bytes) == 0 && array->flags & WRITEABLE &&
                array->flags & ALIGNED && !(array->flags & ROW_MAJOR) &&
                array->dtype->number == 11 && array->dtype->byteorder == '=';
    PyBuffer_Release(&view);
    return same;
}

/* Every other column of a small array: strides of its own, an address that is not the base's. */
static PyObject *
sample(PyObject *numpy)
{
    PyObject *array = PyObject_CallMethod(numpy, "zeros", "((ii)s)", 3, 5, "f4");
    PyObject *slice = PySlice_New(NULL, NULL, NULL);
    PyObject *one = PyLong_FromLong(1), *two = PyLong_FromLong(2);
    PyObject *columns = one && two ? PySlice_New(one, NULL, two) : NULL;
    PyObject *index = slice && columns ? PyTuple_Pack(2, slice, columns) : NULL;
    PyObject *view = array && index ? PyObject_GetItem(array, index) : NULL;
    Py_XDECREF(array);
    Py_XDECREF(slice);
    Py_XDECREF(one);
    Py_XDECREF(two);
    Py_XDECREF(columns);
    Py_XDECREF(index);
    return view;
}

bool
numpy_proved(core_state *core, PyObject *numpy)
{
    int layout = __atomic_load_n(&core->numpy_layout, __ATOMIC_RELAXED);
    if (layout == 0) {
        PyObject *array = sample(numpy);
        layout = array && layout_holds(array) ? 1 : -1;
        __atomic_store_n(&core->numpy_layout, layout, __ATOMIC_RELAXED);
        Py_XDECREF(array);
        PyErr_Clear();
    }
    return layout > 0;
}

/* ---- new arrays ------------------------------------------------------------------------------ */

static PyObject *
empty_find(core_state *core)
{
    PyObject *known = once_known(&core->numpy_empty);
    if (known) {
        return known;
    }
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *empty = numpy ? PyObject_GetAttrString(numpy, "empty") : NULL;
    Py_XDECREF(numpy);
    return once_settle(&core->numpy_empty, empty);
}

/* numpy's own object, or that of ml_dtypes' class; NULL without an exception: it has no such dtype.
   Borrowed. */
static PyObject *
dtype_find(core_state *core, aicf_dtype dtype)
{
    const dtype_words *words = dtype_words_of(dtype);
    PyObject **slot = words ? &core->numpy_dtypes[dtype_index(words)] : NULL;
    if (!slot || once_known(slot)) {
        return slot ? once_known(slot) : NULL;
    }
    PyObject *name =
        *words->typestr ? PyUnicode_FromString(words->typestr) : ml_dtypes_class(dtype);
    PyObject *numpy = name ? PyImport_ImportModule("numpy") : NULL;
    PyObject *made = numpy ? PyObject_CallMethod(numpy, "dtype", "O", name) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(numpy);
    return made ? once_settle(slot, made) : NULL;
}

PyObject *
numpy_new(core_state *core, aicf_dtype dtype, int rank, const int64_t *sizes)
{
    PyObject *words = dtype_find(core, dtype);
    PyObject *empty = words ? empty_find(core) : NULL;
    PyObject *shape = empty ? tuple_of_numbers(sizes, rank) : NULL;
    PyObject *array = shape ? PyObject_CallFunctionObjArgs(empty, shape, words, NULL) : NULL;
    Py_XDECREF(shape);
    return array;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* In elements, in the tensor itself. */
static uint8_t
strides_in_elements(const ndarray *array, aicf_tensor *t)
{
    int64_t *strides = t->local;
    int shift = __builtin_ctz((unsigned)aicf_dtype_size(t->dtype));
    for (int i = 0; i < array->rank; i++) {
        if (array->strides[i] & ((1 << shift) - 1) && array->sizes[i] > 1) {
            return AICF_CHECK_ALIGNMENT;
        }
        strides[i] = array->strides[i] >> shift;
    }
    t->strides = strides;
    return 0;
}

int
numpy_read(void *object, void *tensor)
{
    const ndarray *array = object;
    aicf_tensor *t = tensor;

    if (array->rank > 2 * AICF_MAX_RANK) {
        return -1; /* no room for its strides: by the buffer protocol */
    }
    t->data = array->data;
    t->device = (aicf_device){DL_CPU, 0};
    t->rank = array->rank;
    t->dtype = dtype_of_number(array->dtype->number);
    if (array->dtype->number >= NUMPY_REGISTERED) {
        t->dtype = ml_dtypes_known(array->dtype->number);
        if (!t->dtype) {
            return -1; /* it is asked by its class */
        }
    }
    t->sizes = (const int64_t *)array->sizes;
    t->strides = NULL;
    t->byte_offset = 0;
    t->read_only = !(array->flags & WRITEABLE);
    if (array->dtype->byteorder == '>') {
        t->refused = AICF_CHECK_BYTE_ORDER;
    } else if (!(array->flags & ALIGNED)) {
        t->refused = AICF_CHECK_ALIGNMENT;
    } else if (t->dtype && !(array->flags & ROW_MAJOR)) {
        t->refused = strides_in_elements(array, t);
    }
    return 0;
}
