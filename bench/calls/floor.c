/* The module `floor`: what every figure is measured with and against. `repeat` calls from C, so
   that the interpreter's loop is not in the figures; `nothing` is the empty call that is
   subtracted; `exchange` borrows its tensors through DLPack's C exchange API and does nothing else;
   `loop` is a C loop of launches. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <time.h>

#include "launcher.h"

enum { MOST = 16, ROOM = MOST + 1, CPU = 1 };

/* ---- the C exchange API, as DLPack 1.3 lays it out ---------------------------------------------
 */

typedef struct tensor {
    void *data;
    int32_t device_type, device_index, rank;
    uint32_t dtype;
    int64_t *sizes, *strides;
    uint64_t byte_offset;
} tensor;

typedef struct exchange_api {
    uint32_t version[2];
    const struct exchange_api *older;
    void *allocate, *own, *wrap;
    int (*borrow)(void *object, tensor *out);
    int (*stream)(int32_t device_type, int32_t device_index, void **stream);
} exchange_api;

static PyTypeObject *known; /* kept for ever, as is what it offers */
static const exchange_api *api;

static int
learn(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    if (!capsule) {
        return -1;
    }
    const exchange_api *found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule);
    if (!found || !found->borrow) {
        PyErr_SetString(PyExc_TypeError, "exchange: no borrowing in the type's exchange API");
        return -1;
    }
    known = (PyTypeObject *)Py_NewRef((PyObject *)type);
    api = found;
    return 0;
}

static PyObject *
exchange(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    tensor t[3];
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "exchange takes three tensors");
        return NULL;
    }
    for (int i = 0; i < 3; i++) {
        if (Py_TYPE(args[i]) != known && learn(args[i]) < 0) {
            return NULL;
        }
        if (api->borrow(args[i], &t[i]) != 0) {
            return NULL;
        }
    }
    void *stream = NULL;
    if (t[0].device_type != CPU && api->stream(t[0].device_type, t[0].device_index, &stream) != 0) {
        return NULL;
    }
    Py_RETURN_TRUE;
}

static PyObject *
nothing(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module, (void)args, (void)count;
    Py_RETURN_TRUE;
}

/* ---- timed loops -------------------------------------------------------------------------------
 */

static int64_t
now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

/* One call. Its arguments lie behind the spare slot that vectorcall may use. */
typedef struct line {
    PyObject *callable;
    PyObject *slots[ROOM];
    size_t count;
    PyObject *names;
} line;

/* From (callable, arguments, names): the last arguments stand for the names, a tuple or None. */
static int
line_fill(line *self, PyObject *call)
{
    PyObject *arguments;
    if (!PyArg_ParseTuple(
            call, "OO!O;repeat: a call is (callable, arguments, names)", &self->callable,
            &PyTuple_Type, &arguments, &self->names)) {
        return -1;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(arguments);
    if (self->names == Py_None) {
        self->names = NULL;
    }
    Py_ssize_t named = self->names ? PyObject_Size(self->names) : 0;
    if (named < 0 || named > count || count > MOST) {
        PyErr_Format(PyExc_TypeError, "repeat: at most %d arguments, names among them", (int)MOST);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        self->slots[i + 1] = PyTuple_GET_ITEM(arguments, i);
    }
    self->count = (size_t)(count - named) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    return 0;
}

static int
run(line *lines, Py_ssize_t count, Py_ssize_t times)
{
    line *at = lines, *end = lines + count;
    for (Py_ssize_t i = 0; i < times; i++) {
        PyObject *result = PyObject_Vectorcall(at->callable, at->slots + 1, at->count, at->names);
        if (!result) {
            return -1;
        }
        Py_DECREF(result);
        if (++at == end) {
            at = lines;
        }
    }
    return 0;
}

/* repeat(calls, times): so many calls, those of the tuple in turn; nanoseconds of all. */
static PyObject *
repeat(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    line lines[MOST];
    (void)module;
    if (count != 2 || !PyTuple_Check(args[0]) || !PyTuple_GET_SIZE(args[0]) ||
        PyTuple_GET_SIZE(args[0]) > MOST) {
        PyErr_SetString(PyExc_TypeError, "repeat(calls, times)");
        return NULL;
    }
    Py_ssize_t calls = PyTuple_GET_SIZE(args[0]), times = PyLong_AsSsize_t(args[1]);
    for (Py_ssize_t i = 0; i < calls; i++) {
        if (line_fill(&lines[i], PyTuple_GET_ITEM(args[0], i)) < 0) {
            return NULL;
        }
    }
    if (times < 0 && PyErr_Occurred()) {
        return NULL;
    }
    int64_t start = now();
    if (run(lines, calls, times) < 0) {
        return NULL;
    }
    return PyLong_FromLongLong(now() - start);
}

/* loop(launcher, a, b, out, n, stream, times), all addresses or numbers: nanoseconds of all. */
static PyObject *
loop(PyObject *module, PyObject *args)
{
    unsigned long long launcher, a, b, out, stream;
    long long n, times;
    (void)module;
    if (!PyArg_ParseTuple(args, "KKKKLKL", &launcher, &a, &b, &out, &n, &stream, &times)) {
        return NULL;
    }
    bench_launcher *launch = (bench_launcher *)(uintptr_t)launcher;
    int failed = 0;
    int64_t start = now();
    for (long long i = 0; i < times; i++) {
        failed |= launch(
            (const float *)(uintptr_t)a, (const float *)(uintptr_t)b, (float *)(uintptr_t)out, n,
            (void *)(uintptr_t)stream);
    }
    int64_t end = now();
    if (failed) {
        return PyErr_Format(PyExc_RuntimeError, "loop: a launch failed (%d)", failed);
    }
    return PyLong_FromLongLong(end - start);
}

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    FAST(nothing),         FAST(exchange), FAST(repeat), {"loop", loop, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "floor",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit_floor(void)
{
    return PyModule_Create(&definition);
}
