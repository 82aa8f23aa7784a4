/* Memory of our own, described: counted, without a PyObject, so that an export may be deleted on
   any thread, without the GIL and after the interpreter is gone. */
#ifndef AICF_CORE_STORAGE_H
#define AICF_CORE_STORAGE_H

#include "core.h"
#include "dtype.h"

/* Never changes. Released where it was taken, ordered by the same stream. */
typedef struct storage {
    int64_t references;
    const aicf_backend *backend;
    aicf_stream stream;
    aicf_tensor t; /* its sizes and strides lie behind */
    int64_t bytes;
    dl_managed *foreign;   /* whose memory it is; NULL: ours, or another's: */
    struct storage *whole; /* of which this is a view, or */
    void *owner;           /* of a tensor that was read, which `release` gives back */
    void (*release)(void *owner);
    int64_t numbers[]; /* sizes, strides in elements, strides in bytes */
} storage;

/* NULL with an exception. `fed`: bytes of the host are often written to it. */
storage *storage_create(
    core_state *core, aicf_dtype dtype, aicf_device device, aicf_stream stream, int rank,
    const int64_t *sizes, const int64_t *strides, bool fed);
/* Describes what another framework handed over, and owns it then. NULL with an exception, and then
   does not own it. */
storage *storage_wrap(dl_managed *foreign);
/* A view of what `t` shows: its own dtype, sizes and strides in elements, `offset` bytes on. Takes
   over `t`'s owner, or shares `whole`. NULL with an exception, and then does neither. */
storage *storage_view(
    storage *whole, aicf_tensor *t, aicf_stream stream, aicf_dtype dtype, int rank,
    const int64_t *sizes, const int64_t *strides, int64_t offset);
storage *storage_share(storage *s);
/* NULL is fine. */
void storage_drop(storage *s);

static inline const int64_t *
storage_byte_strides(const storage *s)
{
    return s->numbers + 2 * s->t.rank;
}

typedef struct tensor_object {
    PyObject_HEAD storage *s;
} tensor_object;

static inline storage *
storage_of(PyObject *object)
{
    return ((tensor_object *)object)->s;
}

/* export.c: the type's methods. */
PyObject *export_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *export_device(PyObject *self, PyObject *unused);
PyObject *export_interface(PyObject *self, void *closure);
int export_buffer(PyObject *self, Py_buffer *view, int flags);
/* NULL: no memory. */
dl_managed *export_managed(storage *s);
/* offer.c: the type's C exchange API. */
PyObject *offer_capsule(void);
/* tensor.c: takes over the storage, also where it fails. */
PyObject *tensor_of_storage(core_state *core, storage *s);

PyObject *tuple_of_numbers(const int64_t *values, int count);

#endif
