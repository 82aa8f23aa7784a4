/* The C exchange API of aicf_rt.Tensor, for consumers that read ours as we read theirs. */
#include "storage.h"

#include <stdlib.h>
#include <string.h>

static int
offer_allocate(dl_tensor *prototype, dl_managed **out, void *context, dl_fail_fn *fail)
{
    PyGILState_STATE gil = PyGILState_Ensure(); /* the caller may have let it go */
    PyObject *module = NULL;
    core_state *core = core_import(&module);
    bool known = prototype->rank >= 0 && prototype->rank <= AICF_MAX_DIMS &&
                 (prototype->rank == 0 || prototype->sizes) && dtype_words_of(prototype->dtype);
    storage *s = core && known ? storage_create(
                                     core, prototype->dtype, prototype->device, STREAM_DEFAULT,
                                     prototype->rank, prototype->sizes, NULL, false)
                               : NULL;
    *out = s ? export_managed(s) : NULL;
    storage_drop(s);
    Py_XDECREF(module);
    PyErr_Clear();
    PyGILState_Release(gil);
    if (!*out) {
        fail(context, "MemoryError", "aicf_rt could not allocate such a tensor");
    }
    return *out ? 0 : -1;
}

static int
offer_own(void *object, dl_managed **out)
{
    *out = export_managed(storage_of(object));
    if (!*out) {
        PyErr_NoMemory();
    }
    return *out ? 0 : -1;
}

static int
offer_wrap(dl_managed *managed, void **object)
{
    PyObject *module;
    core_state *core = core_import(&module);
    storage *s = core ? storage_wrap(managed) : NULL;
    *object = s ? tensor_of_storage(core, s) : NULL;
    Py_XDECREF(module);
    return *object ? 0 : -1;
}

/* Valid while the object lives: a Tensor never changes. */
static int
offer_borrow(void *object, void *tensor)
{
    memcpy(tensor, &storage_of(object)->t, sizeof(dl_tensor));
    return 0;
}

/* There is no current stream of ours: work is on the default one unless a call says otherwise. */
static int
offer_stream(int32_t device_type, int32_t device_index, void **stream)
{
    (void)device_type, (void)device_index;
    *stream = NULL;
    return 0;
}

static const dl_exchange offered = {
    .version = {DL_MAJOR, DL_MINOR},
    .allocate = offer_allocate,
    .own = offer_own,
    .wrap = offer_wrap,
    .borrow = offer_borrow,
    .stream = offer_stream,
};

PyObject *
offer_capsule(void)
{
    return PyCapsule_New((void *)(uintptr_t)&offered, DL_CAPSULE_EXCHANGE, NULL);
}
