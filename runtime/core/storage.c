#include "storage.h"

#include <stdlib.h>
#include <string.h>

#include <aicf/backend/cpu.h>
#include <aicf/backend/cuda.h>

/* Some of those who lend memory take it back in Python: where that has ended, nobody needs it. */
static void
give_back(storage *s)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE gil = PyGILState_Ensure();
        s->release(s->owner);
        PyGILState_Release(gil);
    }
}

void
storage_drop(storage *s)
{
    if (s && __atomic_sub_fetch(&s->references, 1, __ATOMIC_ACQ_REL) == 0) {
        if (s->whole) {
            storage_drop(s->whole);
        } else if (s->release) {
            give_back(s);
        } else if (s->foreign) {
            if (s->foreign->deleter) {
                s->foreign->deleter(s->foreign);
            }
        } else if (s->t.data) {
            s->backend->release(s->t.device, s->stream, s->t.data);
        }
        free(s);
    }
}

storage *
storage_share(storage *s)
{
    __atomic_add_fetch(&s->references, 1, __ATOMIC_RELAXED);
    return s;
}

static const aicf_backend *
backend_for(aicf_device device)
{
    return device.type == DL_CPU    ? &aicf_backend_cpu
           : device.type == DL_CUDA ? &aicf_backend_cuda
                                    : NULL;
}

static storage *
storage_describe(
    aicf_dtype dtype, aicf_device device, int rank, const int64_t *sizes, const int64_t *strides)
{
    storage *s = calloc(1, sizeof *s + sizeof(int64_t) * 3 * (size_t)(rank + 1));
    if (!s) {
        return NULL;
    }
    int64_t *own = s->numbers, *in_elements = own + rank, *in_bytes = in_elements + rank;
    int64_t below = 1;
    for (int i = rank - 1; i >= 0; i--) {
        own[i] = sizes[i];
        in_elements[i] = strides ? strides[i] : below;
        in_bytes[i] = in_elements[i] * aicf_dtype_size(dtype);
        below *= sizes[i] ? sizes[i] : 1;
    }
    s->references = 1;
    s->t = (aicf_tensor){
        .device = device, .rank = rank, .dtype = dtype, .sizes = own, .strides = in_elements};
    return s;
}

/* False: more than memory can be. */
static bool
count_bytes(aicf_dtype dtype, int rank, const int64_t *sizes, int64_t *bytes)
{
    bool empty = false;
    *bytes = aicf_dtype_size(dtype);
    for (int i = 0; i < rank; i++) {
        empty |= sizes[i] == 0;
        if (sizes[i] < 0 || (sizes[i] && __builtin_mul_overflow(*bytes, sizes[i], bytes))) {
            return false;
        }
    }
    *bytes = empty ? 0 : *bytes;
    return true;
}

/* A device's first allocation starts it, which may take seconds: others run meanwhile. */
static aicf_status
take_memory(storage *s, bool fed)
{
    const aicf_backend *backend = s->backend;
    aicf_status status = {.kind = AICF_UNSUPPORTED};
    if (backend->host) {
        return backend->allocate(s->t.device, s->stream, s->bytes, &s->t.data);
    }
    Py_BEGIN_ALLOW_THREADS;
    if (fed && backend->allocate_written) {
        status = backend->allocate_written(s->t.device, s->stream, s->bytes, &s->t.data);
    }
    if (status.kind == AICF_UNSUPPORTED) {
        status = backend->allocate(s->t.device, s->stream, s->bytes, &s->t.data);
    }
    Py_END_ALLOW_THREADS;
    return status;
}

static int
storage_allocate(core_state *core, storage *s, bool fed)
{
    aicf_status status = take_memory(s, fed);
    if (status.kind == AICF_OK) {
        aicf_tensor_settle(&s->t);
        return 0;
    }
    s->t.data = NULL;
    if (status.kind == AICF_BACKEND_ERROR) {
        char text[800] = "aicf_rt.Tensor: ";
        size_t used = strlen(text);
        s->backend->error_text(status.native, text + used, sizeof text - used);
        raise_failed(core, s->backend, status.native, NULL, NULL, text);
    } else {
        PyErr_NoMemory();
    }
    return -1;
}

storage *
storage_create(
    core_state *core, aicf_dtype dtype, aicf_device device, aicf_stream stream, int rank,
    const int64_t *sizes, const int64_t *strides, bool fed)
{
    int64_t bytes;
    const aicf_backend *backend = backend_for(device);
    if (!backend || !count_bytes(dtype, rank, sizes, &bytes)) {
        PyErr_SetString(
            PyExc_ValueError, backend ? "the shape is more than memory can hold"
                                      : "a Tensor lies on the cpu or on cuda");
        return NULL;
    }
    storage *s = storage_describe(dtype, device, rank, sizes, strides);
    if (!s) {
        PyErr_NoMemory();
        return NULL;
    }
    s->backend = backend;
    s->stream = stream;
    s->bytes = bytes;
    if (storage_allocate(core, s, fed) < 0) {
        storage_drop(s);
        return NULL;
    }
    return s;
}

storage *
storage_wrap(dl_managed *foreign)
{
    const dl_tensor *t = &foreign->tensor;
    const aicf_backend *backend = backend_for(t->device);
    int64_t bytes;
    if (foreign->version.major != DL_MAJOR || !backend || !dtype_words_of(t->dtype) ||
        t->rank < 0 || t->rank > AICF_MAX_DIMS || (t->rank > 0 && !t->sizes) ||
        !count_bytes(t->dtype, t->rank, t->sizes, &bytes)) {
        PyErr_SetString(PyExc_BufferError, "aicf_rt.Tensor cannot hold such a tensor");
        return NULL;
    }
    storage *s = storage_describe(t->dtype, t->device, t->rank, t->sizes, t->strides);
    if (!s) {
        PyErr_NoMemory();
        return NULL;
    }
    s->backend = backend;
    s->stream = STREAM_DEFAULT;
    s->bytes = bytes;
    s->foreign = foreign;
    s->t.data = t->data;
    s->t.byte_offset = t->byte_offset;
    s->t.read_only = foreign->flags & DL_READ_ONLY;
    aicf_tensor_settle(&s->t);
    if (s->t.refused) {
        free(s);
        PyErr_SetString(PyExc_BufferError, "aicf_rt.Tensor cannot hold such a tensor");
        return NULL;
    }
    return s;
}

/* ---- views ----------------------------------------------------------------------------------- */

/* A view's elements lie where the base's do. */
static bool
lies_within(const aicf_tensor *view, const aicf_tensor *base)
{
    return view->first == view->end || (view->first >= base->first && view->end <= base->end);
}

storage *
storage_view(
    storage *whole, aicf_tensor *t, aicf_stream stream, aicf_dtype dtype, int rank,
    const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    int64_t bytes;
    const aicf_backend *backend = backend_for(t->device);
    if (!backend || !count_bytes(dtype, rank, sizes, &bytes)) {
        PyErr_SetString(
            PyExc_ValueError, backend ? "view: the shape is more than memory can hold"
                                      : "view: its base lies neither on the cpu nor on cuda");
        return NULL;
    }
    storage *s = storage_describe(dtype, t->device, rank, sizes, strides);
    if (!s) {
        PyErr_NoMemory();
        return NULL;
    }
    s->backend = backend;
    s->stream = stream;
    s->bytes = bytes;
    s->t.data = (char *)t->data + t->byte_offset + offset;
    s->t.read_only = t->read_only;
    aicf_tensor_settle(&s->t);
    if (s->t.refused || offset < 0 || !lies_within(&s->t, t)) {
        free(s);
        PyErr_SetString(
            PyExc_ValueError, "view: its elements do not lie within its base's memory, or are not "
                              "aligned to their size");
        return NULL;
    }
    if (whole) {
        s->whole = storage_share(whole);
    } else {
        s->owner = t->owner;
        s->release = t->release;
        t->release = NULL;
    }
    return s;
}
