/* ml_dtypes' arrays: numpy's, of a dtype that was registered with it. Neither DLPack nor the buffer
   protocol exports them; a view of them as integers of the same size does. */
#include "core.h"
#include "dtype.h"

/* Of the module, if somebody imported it: no array can have its dtypes before. */
static PyObject *
class_of(PyObject *module, const char *name)
{
    PyObject *class = module ? PyObject_GetAttrString(module, name) : NULL;
    if (!class && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
    }
    return class;
}

PyObject *
ml_dtypes_class(aicf_dtype dtype)
{
    if (dtype != AICF_BF16) {
        return NULL;
    }
    PyObject *module = PyImport_ImportModule("ml_dtypes");
    if (!module && PyErr_ExceptionMatches(PyExc_ImportError)) {
        PyErr_Clear();
    }
    PyObject *class = class_of(module, "bfloat16");
    Py_XDECREF(module);
    return class;
}

/* numpy's number of the array's dtype; -1 with an exception. */
static long
number_of(PyObject *dtype)
{
    PyObject *value = PyObject_GetAttrString(dtype, "num");
    long number = value ? PyLong_AsLong(value) : -1;
    Py_XDECREF(value);
    return number;
}

/* Whether the array's elements are of ml_dtypes' bfloat16; -1 with an exception. */
static int
is_bfloat16(PyObject *dtype)
{
    PyObject *module = module_known("ml_dtypes");
    PyObject *class = class_of(module, "bfloat16");
    PyObject *scalar = PyObject_GetAttrString(dtype, "type");
    int is = PyErr_Occurred() ? -1 : class && class == scalar;
    Py_XDECREF(module);
    Py_XDECREF(class);
    Py_XDECREF(scalar);
    return is;
}

static int
is_native(PyObject *dtype)
{
    PyObject *value = PyObject_GetAttrString(dtype, "isnative");
    int is = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return is;
}

static answer
read_view(PyObject *array, aicf_tensor *t)
{
    PyObject *view = PyObject_CallMethod(array, "view", "s", "i2");
    answer result = view ? buffer_read(view, t) : ANSWER_FAILED;
    Py_XDECREF(view);
    if (result == ANSWER_TAKEN && t->dtype == AICF_I16) {
        t->dtype = AICF_BF16;
    }
    return result;
}

/* numpy never takes a number back, nor gives it to another: once known it stays so. */
static int known_bfloat16;

aicf_dtype
ml_dtypes_known(int number)
{
    int known = __atomic_load_n(&known_bfloat16, __ATOMIC_RELAXED);
    return known && known == number ? AICF_BF16 : 0;
}

static answer
read_registered(PyObject *array, PyObject *dtype, long number, aicf_tensor *t)
{
    int is = is_bfloat16(dtype);
    int native = is < 0 ? -1 : is_native(dtype);
    if (native < 0) {
        return ANSWER_FAILED;
    }
    if (is && native) {
        __atomic_store_n(&known_bfloat16, (int)number, __ATOMIC_RELAXED);
        return read_view(array, t);
    }
    tensor_refuse(t, is ? AICF_CHECK_BYTE_ORDER : AICF_CHECK_DTYPE);
    return ANSWER_TAKEN;
}

answer
ml_dtypes_read(frame *f, int i)
{
    if (tensor_source(&f->t[i])->framework != FRAMEWORK_NUMPY) {
        return ANSWER_NONE;
    }
    PyObject *dtype = PyObject_GetAttrString(f->objects[i], "dtype");
    long number = dtype ? number_of(dtype) : -1;
    answer result = PyErr_Occurred() ? ANSWER_FAILED
                    : number < NUMPY_REGISTERED
                        ? ANSWER_NONE
                        : read_registered(f->objects[i], dtype, number, &f->t[i]);
    Py_XDECREF(dtype);
    return result;
}
