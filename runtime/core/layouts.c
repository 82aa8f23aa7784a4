/* aicf_rt.layouts: whether tensors are where they were, which their owners may change under way. */
#include "parse.h"
#include "storage.h"

#include <string.h>

static const aicf_param params[] = {{.name = "tensor", .role = AICF_IN, .list = -1, .order = -1}};
static const aicf_dtype any_dtype[1];
static const char *const suffixes[] = {"any"};
static const aicf_op layouts_op = {
    .size = sizeof layouts_op,
    .version = AICF_CALL_VERSION,
    .name = "layouts",
    .package = "aicf_rt",
    .call_size = (sizeof(aicf_call) + 15) / 16 * 16,
    .dims_offset = (sizeof(aicf_call) + 15) / 16 * 16,
    .inputs = 1,
    .params = 1,
    .variants = 1,
    .params_of = params,
    .dtypes = any_dtype,
    .suffixes = suffixes,
};

/* Of one that is refused no strides are known. */
static void
put_strides(const aicf_tensor *t, int64_t *strides)
{
    uint64_t step = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        strides[d] = t->refused ? 0 : t->strides ? t->strides[d] : (int64_t)step;
        step *= (uint64_t)t->sizes[d];
    }
}

static int
words_of(const aicf_tensor *t, int64_t *words)
{
    if (t->rank > LAYOUT_DIMS) {
        return 0;
    }
    words[0] = (int64_t)((uintptr_t)t->data + t->byte_offset);
    words[1] = (int64_t)t->device.type << 32 | (uint32_t)t->device.index;
    words[2] = (int64_t)t->dtype << 16 | t->refused << 8 | t->read_only;
    words[3] = t->rank;
    for (int d = 0; d < t->rank; d++) {
        words[4 + d] = t->sizes[d];
    }
    put_strides(t, words + 4 + t->rank);
    return 4 + 2 * t->rank;
}

int
layout_read(core_state *core, PyObject *object, int64_t *words)
{
    aicf_tensor t;
    const source *s = source_known(core, Py_TYPE(object));
    if (!tensor_borrow(s, object, &t)) {
        return 0;
    }
    int count = words_of(&t, words);
    tensor_release(&t);
    return count;
}

/* By whichever protocol it speaks. 0: it has more dims. -1 with an exception. */
static int
layout_ask(PyObject *object, int64_t *words)
{
    int count = -1;
    aicf_handle *handle = handle_of_reader(&layouts_op);
    if (!handle) {
        return -1;
    }
    FRAME_ROOM(handle);
    frame f;
    if (frame_begin(&f, handle, room, 0, FORM_TYPED, &object, 1, NULL) == 0) {
        memset(f.seen, 0, (size_t)f.count);
        if (frame_own_one(&f, 0) == 0) {
            count = words_of(&f.t[0], words);
            tensor_release(&f.t[0]);
        }
        frame_end(&f);
    }
    handle_close(handle);
    return count;
}

static int
layout_of(core_state *core, PyObject *object, int64_t *words)
{
    if (!source_find(core, object)) {
        return -1;
    }
    int count = layout_read(core, object, words);
    count = count ? count : layout_ask(object, words);
    if (count == 0) {
        PyErr_Format(PyExc_ValueError, "layouts: a tensor has %d dims at most", (int)LAYOUT_DIMS);
    }
    return count > 0 ? count : -1;
}

/* layouts(tensors) */
PyObject *
layouts_of(PyObject *module, PyObject *objects)
{
    if (!PyTuple_Check(objects)) {
        PyErr_SetString(PyExc_TypeError, "layouts() takes a tuple of tensors");
        return NULL;
    }
    Py_ssize_t count = PyTuple_Size(objects), used = 0;
    int64_t few[4 * LAYOUT_WORDS];
    bool fits = count * LAYOUT_WORDS <= (Py_ssize_t)(sizeof few / sizeof *few);
    int64_t *words = fits ? few : PyMem_Malloc((size_t)count * LAYOUT_WORDS * sizeof *words);
    int done = words ? 0 : -1;
    if (!words) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count && done >= 0; i++) {
        done = layout_of(PyModule_GetState(module), PyTuple_GetItem(objects, i), words + used);
        used += done;
    }
    PyObject *made =
        done < 0 ? NULL
                 : PyBytes_FromStringAndSize((char *)words, used * (Py_ssize_t)sizeof *words);
    if (!fits) {
        PyMem_Free(words);
    }
    return made;
}
