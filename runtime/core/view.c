/* aicf_rt.view: a Tensor on memory that another tensor has, whoever made that one. And
   aicf_rt.synchronize. */
#include "parse.h"
#include "storage.h"

#include <string.h>

static const aicf_param params[] = {{.name = "base", .role = AICF_IN, .list = -1, .order = -1}};
static const aicf_dtype any_dtype[1];
static const char *const suffixes[] = {"any"};
static const aicf_op view_op = {
    .size = sizeof view_op,
    .version = AICF_CALL_VERSION,
    .name = "view",
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

typedef struct shape {
    aicf_dtype dtype; /* 0: the base's */
    int rank, strides_given;
    int64_t sizes[AICF_MAX_DIMS], strides[AICF_MAX_DIMS], offset;
} shape;

static storage *
view_of(frame *f, const shape *as)
{
    const int64_t *strides = as->strides_given ? as->strides : NULL;
    PyObject *base = f->objects[0];
    const source *s = tensor_source(&f->t[0]);
    storage *whole = s && s->framework == FRAMEWORK_OWN ? storage_of(base) : NULL;
    aicf_tensor *t = whole ? &whole->t : &f->t[0];
    if (t->refused) {
        raise_refusal(f, aicf_unsupported(t->refused, 0, 0));
        return NULL;
    }
    aicf_dtype dtype = as->dtype ? as->dtype : t->dtype;
    return storage_view(
        whole, t, whole ? whole->stream : frame_stream(f, t->device), dtype, as->rank, as->sizes,
        strides, as->offset);
}

static PyObject *
view_make(core_state *core, PyObject *base, const shape *as)
{
    storage *s = NULL;
    aicf_handle *handle = handle_of_reader(&view_op);
    if (!handle) {
        return NULL;
    }
    FRAME_ROOM(handle);
    frame f;
    if (frame_begin(&f, handle, room, 0, FORM_TYPED, &base, 1, NULL) == 0) {
        memset(f.seen, 0, (size_t)f.count);
        if (frame_own_one(&f, 0) == 0) {
            s = view_of(&f, as);
            tensor_release(&f.t[0]); /* nothing, where the view took it over */
        }
        frame_end(&f);
    }
    handle_close(handle);
    return s ? tensor_of_storage(core, s) : NULL;
}

PyObject *
tensor_view(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"base", "shape", "strides", "offset", "dtype", NULL};
    PyObject *base, *sizes, *strides = Py_None, *dtype = Py_None;
    long long offset = 0;
    shape as = {0};
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "OO|$OLO:view", names, &base, &sizes, &strides, &offset, &dtype)) {
        return NULL;
    }
    as.offset = offset;
    as.rank = sizes_parse("view", sizes, as.sizes);
    if (as.rank < 0) {
        return NULL;
    }
    if (strides != Py_None) {
        as.strides_given = 1;
        int count = numbers_parse("view", "strides", strides, as.strides);
        if (count >= 0 && count != as.rank) {
            PyErr_Format(
                PyExc_ValueError, "view: %d strides for %d sizes: give one each", count, as.rank);
        }
        if (count != as.rank) {
            return NULL;
        }
    }
    if (dtype != Py_None && !(as.dtype = dtype_parse("view", dtype))) {
        return NULL;
    }
    return view_make(PyModule_GetState(module), base, &as);
}
