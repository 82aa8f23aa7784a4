/* __cuda_array_interface__, versions 0 to 3: a dict that describes memory and owns nothing, so the
   dict's owner is kept. Every malformed entry is a TypeError that names its key. */
#include "core.h"
#include "dtype.h"

#include <stdlib.h>
#include <string.h>

#include <aicf/backend/cuda.h>

/* Keeps what the memory belongs to, and its sizes and strides. */
typedef struct interface_owner {
    PyObject *object;
    int64_t numbers[]; /* sizes, then strides */
} interface_owner;

static void
owner_release(void *owner)
{
    interface_owner *kept = owner;
    Py_DECREF(kept->object);
    PyMem_Free(kept);
}

/* What a value's own code raised is the caller's. */
static answer
malformed(const frame *f, int i, const char *key, PyObject *value)
{
    if (PyErr_Occurred()) {
        return ANSWER_FAILED;
    }
    const char *param = f->op->params_of[frame_param(f, i)].name;
    raise_misuse(
        f->op, param, "has a __cuda_array_interface__ whose %s is %.200R", key,
        value ? value : Py_None);
    return ANSWER_REFUSED;
}

/* NULL without an exception: the key is not there, or None. Borrowed. */
static PyObject *
entry(const frame *f, PyObject *dict, core_name key)
{
    PyObject *value = PyDict_GetItemWithError(dict, f->core->names[key]);
    return value == Py_None ? NULL : value;
}

/* ---- dtype ----------------------------------------------------------------------------------- */

/* Itself, as refused, where the dtype is none of the table's. */
static answer
read_typestr(const frame *f, int i, PyObject *dict, int64_t *item)
{
    PyObject *value = entry(f, dict, NAME_typestr);
    const char *text =
        value && PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    if (!text || !*text || !strchr("<>|=", *text) || strlen(text) < 3) {
        PyErr_Clear();
        return malformed(f, i, "typestr", value);
    }
    aicf_tensor *t = &f->t[i];
    const dtype_words *words = dtype_by_typestr(text + 1);
    t->dtype = words ? words->dtype : 0;
    *item = t->dtype ? aicf_dtype_size(t->dtype) : 0;
    if (*text == '>' && *item > 1) {
        t->refused = AICF_CHECK_BYTE_ORDER;
    } else if (!t->dtype) {
        t->refused = AICF_CHECK_DTYPE;
    }
    return ANSWER_TAKEN;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* False: no integer of 64 bits, or an exception. */
static bool
read_number(PyObject *value, int64_t *number)
{
    bool is_int = value && PyIndex_Check(value) && !PyBool_Check(value);
    *number = is_int ? PyLong_AsLongLong(value) : 0;
    bool failed = PyErr_Occurred();
    if (failed &&
        (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_OverflowError))) {
        PyErr_Clear();
    }
    return is_int && !failed;
}

static bool
read_numbers(PyObject *value, int64_t *numbers, Py_ssize_t count)
{
    for (Py_ssize_t k = 0; k < count; k++) {
        if (!read_number(PyTuple_GetItem(value, k), &numbers[k])) {
            return false;
        }
    }
    return true;
}

static answer
read_shape(const frame *f, int i, PyObject *dict, interface_owner *owner, Py_ssize_t rank)
{
    PyObject *shape = entry(f, dict, NAME_shape);
    if (!read_numbers(shape, owner->numbers, rank)) {
        return malformed(f, i, "shape", shape);
    }
    for (Py_ssize_t k = 0; k < rank; k++) {
        if (owner->numbers[k] < 0) {
            return malformed(f, i, "shape", shape);
        }
    }
    f->t[i].rank = (int32_t)rank;
    f->t[i].sizes = owner->numbers;
    return ANSWER_TAKEN;
}

/* In bytes there, in elements here. */
static answer
read_strides(const frame *f, int i, PyObject *dict, interface_owner *owner, int64_t item)
{
    aicf_tensor *t = &f->t[i];
    PyObject *strides = entry(f, dict, NAME_strides);
    int64_t *numbers = owner->numbers + t->rank;
    t->strides = NULL;
    if (!strides) {
        return ANSWER_TAKEN;
    }
    if (!PyTuple_Check(strides) || PyTuple_Size(strides) != t->rank ||
        !read_numbers(strides, numbers, t->rank)) {
        return malformed(f, i, "strides", strides);
    }
    for (int k = 0; item && k < t->rank; k++) {
        if (numbers[k] % item && t->sizes[k] > 1) {
            t->refused = AICF_CHECK_ALIGNMENT;
        }
        numbers[k] /= item;
    }
    t->strides = numbers;
    return ANSWER_TAKEN;
}

static answer
read_data(const frame *f, int i, PyObject *dict)
{
    aicf_tensor *t = &f->t[i];
    PyObject *data = entry(f, dict, NAME_data);
    if (!data || !PyTuple_Check(data) || PyTuple_Size(data) != 2) {
        return malformed(f, i, "data", data);
    }
    PyObject *address = PyTuple_GetItem(data, 0), *read_only = PyTuple_GetItem(data, 1);
    bool is_address = address == Py_None || (PyLong_Check(address) && !PyBool_Check(address));
    t->data = is_address && address != Py_None ? PyLong_AsVoidPtr(address) : NULL;
    if (PyErr_Occurred() || !is_address || !PyBool_Check(read_only)) {
        PyErr_Clear();
        return malformed(f, i, "data", data);
    }
    t->byte_offset = 0;
    t->read_only = read_only == Py_True;
    return ANSWER_TAKEN;
}

/* ---- the producer's stream ------------------------------------------------------------------- */

/* The launch waits for it. 0 is forbidden: it could be either default stream; what is below is no
   handle. */
static answer
read_stream(frame *f, int i, PyObject *dict)
{
    int64_t number;
    PyObject *value = entry(f, dict, NAME_stream);
    if (!value) {
        return ANSWER_TAKEN;
    }
    if (!read_number(value, &number) || number <= 0) {
        return malformed(f, i, "stream", value);
    }
    frame_behind(f, f->t[i].device, (aicf_stream)(uintptr_t)number);
    return ANSWER_TAKEN;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static answer
read_head(const frame *f, int i, PyObject *dict, Py_ssize_t *rank)
{
    int64_t version;
    PyObject *shape = entry(f, dict, NAME_shape), *said = entry(f, dict, NAME_version);
    if (!shape || !PyTuple_Check(shape) || PyTuple_Size(shape) > AICF_MAX_DIMS) {
        return malformed(f, i, "shape", shape);
    }
    if (!read_number(said, &version) || version < 0 || version > 3) {
        return malformed(f, i, "version", said);
    }
    if (entry(f, dict, NAME_mask)) {
        return malformed(f, i, "mask", entry(f, dict, NAME_mask));
    }
    *rank = PyTuple_Size(shape);
    return ANSWER_TAKEN;
}

static bool
has_no_elements(const aicf_tensor *t)
{
    bool none = false;
    for (int k = 0; k < t->rank; k++) {
        none |= t->sizes[k] == 0;
    }
    return none;
}

/* The interface does not say which device: the driver knows, by the address. Where it cannot be
   asked, the memory is taken to be on the first device. */
static answer
find_device(const frame *f, int i, PyObject *dict)
{
    aicf_tensor *t = &f->t[i];
    const aicf_backend *backend = backend_of_device(f->op, DL_CUDA);
    aicf_device found;

    t->device = (aicf_device){DL_CUDA, 0};
    if (!t->data || !backend || backend->size <= offsetof(aicf_backend, locate) ||
        !backend->locate || backend->locate(t->data, &found).kind) {
        return ANSWER_TAKEN;
    }
    if (found.type == DL_CUDA) {
        t->device = found;
    }
    if (found.type == DL_CUDA || has_no_elements(t)) {
        return ANSWER_TAKEN;
    }
    const char *param = f->op->params_of[frame_param(f, i)].name;
    raise_misuse(
        f->op, param,
        "has a __cuda_array_interface__ whose data is %.200R, which is no memory of a device",
        entry(f, dict, NAME_data));
    return ANSWER_REFUSED;
}

static answer
read_body(frame *f, int i, PyObject *dict, interface_owner *owner, Py_ssize_t rank)
{
    int64_t item = 0;
    answer result = read_typestr(f, i, dict, &item);
    result = result == ANSWER_TAKEN ? read_shape(f, i, dict, owner, rank) : result;
    result = result == ANSWER_TAKEN ? read_strides(f, i, dict, owner, item) : result;
    result = result == ANSWER_TAKEN ? read_data(f, i, dict) : result;
    result = result == ANSWER_TAKEN ? find_device(f, i, dict) : result;
    return result == ANSWER_TAKEN ? read_stream(f, i, dict) : result;
}

static answer
read_entries(frame *f, int i, PyObject *dict)
{
    Py_ssize_t rank = 0;
    answer result = read_head(f, i, dict, &rank);
    if (result != ANSWER_TAKEN) {
        return result;
    }
    interface_owner *owner = PyMem_Malloc(sizeof *owner + sizeof(int64_t) * 2 * (size_t)(rank + 1));
    if (!owner) {
        PyErr_NoMemory();
        return ANSWER_FAILED;
    }
    result = read_body(f, i, dict, owner, rank);
    if (result != ANSWER_TAKEN) {
        PyMem_Free(owner);
        return result;
    }
    owner->object = Py_NewRef(f->objects[i]);
    f->t[i].owner = owner;
    f->t[i].release = owner_release;
    return ANSWER_TAKEN;
}

/* A copy of what is read of it, which keeps the values while their own code runs: that may change
   the dict. */
static PyObject *
entries_copy(const frame *f, PyObject *dict)
{
    static const core_name keys[] = {NAME_shape,   NAME_typestr, NAME_data,  NAME_version,
                                     NAME_strides, NAME_mask,    NAME_stream};
    PyObject *copy = PyDict_New();
    for (size_t k = 0; copy && k < sizeof keys / sizeof *keys; k++) {
        PyObject *key = f->core->names[keys[k]];
        PyObject *value = dict_item(dict, key);
        if (value ? PyDict_SetItem(copy, key, value) < 0 : PyErr_Occurred() != NULL) {
            Py_CLEAR(copy);
        }
        Py_XDECREF(value);
    }
    return copy;
}

static answer
read_dict(frame *f, int i, PyObject *dict)
{
    if (!PyDict_Check(dict)) {
        return malformed(f, i, "type", dict);
    }
    PyObject *copy = entries_copy(f, dict);
    answer result = copy ? read_entries(f, i, copy) : ANSWER_FAILED;
    Py_XDECREF(copy);
    return result;
}

answer
interface_read(frame *f, int i)
{
    PyObject *dict = PyObject_GetAttr(f->objects[i], f->core->names[NAME___cuda_array_interface__]);
    if (!dict) {
        return attribute_missing() ? ANSWER_NONE : ANSWER_FAILED;
    }
    answer result = read_dict(f, i, dict);
    Py_DECREF(dict);
    return result;
}
