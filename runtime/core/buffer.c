/* The buffer protocol: host memory with strides in bytes and a format in struct's letters. */
#include "core.h"

#include <string.h>

typedef struct buffer_owner {
    Py_buffer view;
    int64_t strides[]; /* in elements */
} buffer_owner;

static void
owner_release(void *owner)
{
    buffer_owner *kept = owner;
    PyBuffer_Release(&kept->view);
    PyMem_Free(kept);
}

/* C's own sizes and order where the format says '@' or nothing, else standard ones: the letters
   that differ are l and L. The item size has the last word. Those that the table does not have are
   named for the words of their refusal. */
static aicf_dtype
dtype_of_format(const char *format, Py_ssize_t item)
{
    static const struct {
        char letter;
        uint8_t code, bytes; /* bytes 0: a long, of 4 or 8 */
    } known[] = {
        {'?', 6, 1}, {'b', 0, 1}, {'B', 1, 1}, {'h', 0, 2}, {'i', 0, 4}, {'q', 0, 8},
        {'l', 0, 0}, {'n', 0, 8}, {'e', 2, 2}, {'f', 2, 4}, {'d', 2, 8}, {'H', 1, 2},
        {'I', 1, 4}, {'Q', 1, 8}, {'L', 1, 0}, {'N', 1, 8},
    };
    if (strcmp(format, item == 8 ? "Zf" : "Zd") == 0 && (item == 8 || item == 16)) {
        return AICF_DTYPE(5, item * 8); /* numpy's complex numbers */
    }
    for (size_t k = 0; *format && !format[1] && k < sizeof known / sizeof *known; k++) {
        bool fits = known[k].bytes ? known[k].bytes == item : item == 4 || item == 8;
        if (known[k].letter == *format && fits) {
            return AICF_DTYPE(known[k].code, item * 8);
        }
    }
    return 0;
}

static void
describe_dtype(const Py_buffer *view, aicf_tensor *t)
{
    const char *format = view->format ? view->format : "B";
    char order = strchr("@=<>!|^", *format) && *format ? *format++ : '@';
    t->dtype = dtype_of_format(format, view->itemsize);
    if (!t->dtype) {
        t->refused = AICF_CHECK_DTYPE;
    } else if ((order == '>' || order == '!') && view->itemsize > 1) {
        t->refused = AICF_CHECK_BYTE_ORDER;
    }
}

static void
describe_strides(const Py_buffer *view, aicf_tensor *t, int64_t *strides)
{
    t->strides = NULL;
    if (!view->strides || !t->dtype) { /* ctypes leaves them out: row-major */
        return;
    }
    for (int i = 0; i < view->ndim; i++) {
        if (view->strides[i] % view->itemsize && view->shape[i] > 1) {
            t->refused = AICF_CHECK_ALIGNMENT;
        }
        strides[i] = view->strides[i] / view->itemsize;
    }
    t->strides = strides;
}

static void
describe(buffer_owner *owner, aicf_tensor *t)
{
    const Py_buffer *view = &owner->view;
    t->data = view->buf;
    t->device = (aicf_device){DL_CPU, 0};
    t->rank = view->ndim;
    t->sizes = (const int64_t *)view->shape;
    t->byte_offset = 0;
    t->read_only = view->readonly;
    describe_dtype(view, t);
    describe_strides(view, t, owner->strides);
    t->owner = owner;
    t->release = owner_release;
}

/* Whether the fields are what the protocol says of them: an exporter may be wrong about its own
   memory. Pointers to pointers were not asked for. */
static bool
is_sound(const Py_buffer *view)
{
    Py_ssize_t bytes = view->itemsize;
    bool empty = false;
    if (view->ndim < 0 || view->ndim > AICF_MAX_DIMS || (view->ndim > 0 && !view->shape)) {
        return false;
    }
    for (int i = 0; i < view->ndim; i++) {
        if (view->suboffsets && view->suboffsets[i] >= 0) {
            return false;
        }
        if (view->shape[i] < 0) {
            return false;
        }
        empty |= view->shape[i] == 0;
    }
    for (int i = 0; i < view->ndim && !empty; i++) {
        if (__builtin_mul_overflow(bytes, view->shape[i], &bytes)) {
            return false;
        }
    }
    return view->len == (empty ? 0 : bytes);
}

answer
buffer_read(PyObject *object, aicf_tensor *t)
{
    if (!PyObject_CheckBuffer(object)) {
        return ANSWER_NONE;
    }
    buffer_owner *owner = PyMem_Calloc(1, sizeof *owner + sizeof(int64_t) * AICF_MAX_DIMS);
    if (!owner) {
        PyErr_NoMemory();
        return ANSWER_FAILED;
    }
    if (PyObject_GetBuffer(object, &owner->view, PyBUF_RECORDS_RO) < 0) {
        PyMem_Free(owner);
        bool refused = PyErr_ExceptionMatches(PyExc_ValueError);
        return refused ? ANSWER_REFUSED : call_refused();
    }
    if (!is_sound(&owner->view)) {
        owner_release(owner);
        tensor_refuse(t, AICF_CHECK_RANK);
        return ANSWER_TAKEN;
    }
    describe(owner, t);
    return ANSWER_TAKEN;
}

PyObject *
buffer_exporter(const aicf_tensor *t)
{
    return t->release == owner_release ? ((buffer_owner *)t->owner)->view.obj : NULL;
}
