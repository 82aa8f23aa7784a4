/* New outs, by the framework of the inputs. Memory is taken in the order it shall have and turned
   into the out's shape afterwards, because allocators know row-major alone. */
#include "storage.h"

#include <stdlib.h>
#include <string.h>

/* Dims by falling stride: perm[k] is the dim that lies k-th in memory. */
static void
memory_order(const aicf_inferred *out, int perm[])
{
    for (int i = 0; i < out->rank; i++) {
        int at = i;
        while (out->ordered && at > 0 && out->strides[perm[at - 1]] < out->strides[i]) {
            perm[at] = perm[at - 1];
            at--;
        }
        perm[at] = i;
    }
}

/* ---- by ourselves ---------------------------------------------------------------------------- */

static bool
is_host(const frame *f, aicf_device device)
{
    const aicf_backend *backend = backend_of_device(f->op, device.type);
    return backend && backend->host;
}

static PyObject *
by_ourselves(frame *f, const aicf_inferred *out)
{
    return tensor_new(
        f->core, out->dtype, out->device,
        is_host(f, out->device) ? NULL : frame_stream(f, out->device), out->rank, out->sizes,
        out->ordered ? out->strides : NULL);
}

/* ---- by the C exchange API ------------------------------------------------------------------- */

/* What an allocator said of its failure, kept until the GIL is known to be held. */
typedef struct complaint {
    bool memory;
    char text[256];
} complaint;

static void
fail(void *context, const char *kind, const char *message)
{
    complaint *said = context;
    said->memory = kind && strcmp(kind, "MemoryError") == 0;
    PyOS_snprintf(said->text, sizeof said->text, "%s", message ? message : "");
}

static PyObject *
failed(const char *text)
{
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_RuntimeError, text);
    }
    return NULL;
}

static PyObject *
allocator_failed(const complaint *said)
{
    if (!PyErr_Occurred() && said->memory) {
        PyErr_SetString(PyExc_MemoryError, said->text);
    }
    return failed(*said->text ? said->text : "the framework's allocator failed");
}

void
managed_drop(dl_managed *managed)
{
    if (managed && managed->deleter) {
        managed->deleter(managed);
    }
}

/* Turns row-major memory into the out's shape; false where that is not what came. */
static bool
in_order(dl_tensor *t, const aicf_inferred *out)
{
    if (t->rank != out->rank || (t->rank > 0 && (!t->sizes || !t->strides))) {
        return false;
    }
    for (int i = 0; i < out->rank; i++) {
        t->sizes[i] = out->sizes[i];
        t->strides[i] = out->strides[i];
    }
    return true;
}

/* A tensor that a framework takes over is its own from then on, also where it fails. */
static PyObject *
wrapped(const dl_exchange *api, dl_managed *managed)
{
    void *object = NULL;
    if (api->wrap(managed, &object) != 0 || !object) {
        return failed("the framework did not take its own memory");
    }
    return object;
}

/* From the framework's allocator. NULL with an exception. */
static dl_managed *
managed_ask(const dl_exchange *api, const aicf_inferred *out)
{
    int64_t sizes[AICF_MAX_DIMS];
    int perm[AICF_MAX_DIMS];
    dl_tensor prototype = {
        .device = out->device, .rank = out->rank, .dtype = out->dtype, .sizes = sizes};
    dl_managed *managed = NULL;
    complaint said = {.memory = false};

    memory_order(out, perm);
    for (int i = 0; i < out->rank; i++) {
        sizes[i] = out->sizes[perm[i]];
    }
    if (api->allocate(&prototype, &managed, &said, fail) != 0 || !managed) {
        allocator_failed(&said);
        return NULL;
    }
    if (out->ordered && !in_order(&managed->tensor, out)) {
        managed_drop(managed);
        failed("the framework's allocator gave another tensor than it was asked for");
        return NULL;
    }
    return managed;
}

/* ---- small ones on the host ------------------------------------------------------------------ */

/* Torch's allocator takes its memory on the host from malloc, as we do, but asking it costs as much
   as the rest of a call of a small op: up to so many bytes torch is handed memory of ours. */
enum { SMALL_BYTES = 64 * 1024, LINE = 64 };

static void
small_delete(dl_managed *managed)
{
    free(managed);
}

/* The out's bytes, or -1 where it is none of these. */
static int64_t
small_bytes(const source *like, const aicf_inferred *out)
{
    int64_t bytes = aicf_dtype_size(out->dtype);
    bool small = like->framework == FRAMEWORK_TORCH && out->device.type == DL_CPU;
    for (int i = 0; small && i < out->rank; i++) {
        small = !__builtin_mul_overflow(bytes, out->sizes[i], &bytes) && bytes <= SMALL_BYTES;
    }
    return small ? bytes : -1;
}

/* Head, sizes, strides and, from a cache line on, the elements: one piece of memory. */
static dl_managed *
small_create(const aicf_inferred *out, int64_t bytes)
{
    size_t rank = (size_t)out->rank, head = sizeof(dl_managed) + 2 * rank * sizeof(int64_t);
    char *room = malloc(head + LINE + (size_t)bytes);
    dl_managed *managed = (dl_managed *)(void *)room;
    if (!managed) {
        PyErr_NoMemory();
        return NULL;
    }
    int64_t *sizes = (int64_t *)(managed + 1), *strides = sizes + rank, below = 1;
    for (int i = out->rank - 1; i >= 0; i--) {
        sizes[i] = out->sizes[i];
        strides[i] = out->ordered ? out->strides[i] : below;
        below *= sizes[i] ? sizes[i] : 1;
    }
    *managed = (dl_managed){
        .version = {DL_MAJOR, DL_MINOR},
        .deleter = small_delete,
        .tensor =
            {
                .data = (void *)(((uintptr_t)room + head + LINE - 1) & ~(uintptr_t)(LINE - 1)),
                .device = out->device,
                .rank = out->rank,
                .dtype = out->dtype,
                .sizes = sizes,
                .strides = strides,
            },
    };
    return managed;
}

/* ---- memory that is not yet an object's ------------------------------------------------------ */

dl_managed *
allocate_managed(const source *like, const aicf_inferred *out, bool *asked)
{
    int64_t bytes = small_bytes(like, out);
    *asked = bytes < 0;
    return *asked ? managed_ask(like->exchange, out) : small_create(out, bytes);
}

PyObject *
allocate_wrap(const source *like, dl_managed *managed)
{
    return wrapped(like->exchange, managed);
}

static PyObject *
by_exchange(const source *like, const aicf_inferred *out)
{
    bool asked;
    dl_managed *managed = allocate_managed(like, out, &asked);
    return managed ? wrapped(like->exchange, managed) : NULL;
}

/* Memory of ours as a tensor of a framework that has no allocator to ask. */
static PyObject *
by_wrapping(frame *f, const dl_exchange *api, const aicf_inferred *out)
{
    PyObject *made = by_ourselves(f, out);
    dl_managed *managed = made ? export_managed(storage_of(made)) : NULL;
    if (made && !managed) {
        PyErr_NoMemory();
    }
    Py_XDECREF(made); /* the export keeps the memory */
    return managed ? wrapped(api, managed) : NULL;
}

/* ---- by numpy and cupy ----------------------------------------------------------------------- */

static PyObject *
permuted(PyObject *array, const aicf_inferred *out, const int perm[])
{
    int64_t inverse[AICF_MAX_DIMS];
    for (int i = 0; i < out->rank; i++) {
        inverse[perm[i]] = i;
    }
    PyObject *axes = tuple_of_numbers(inverse, out->rank);
    PyObject *view = axes ? PyObject_CallMethod(array, "transpose", "(O)", axes) : NULL;
    Py_XDECREF(axes);
    return view;
}

static PyObject *
by_cupy(const aicf_inferred *out, const int64_t *sizes)
{
    const dtype_words *words = dtype_words_of(out->dtype);
    PyObject *dtype = words && *words->typestr ? PyUnicode_FromString(words->typestr)
                                               : ml_dtypes_class(out->dtype);
    PyObject *module = dtype ? PyImport_ImportModule("cupy") : NULL;
    PyObject *shape = module ? tuple_of_numbers(sizes, out->rank) : NULL;
    PyObject *array = shape ? PyObject_CallMethod(module, "empty", "(OO)", shape, dtype) : NULL;
    Py_XDECREF(dtype);
    Py_XDECREF(module);
    Py_XDECREF(shape);
    return array;
}

/* ---- which ----------------------------------------------------------------------------------- */

/* numpy's on the host, cupy's on a device. NULL without an exception: neither has such an array. */
static PyObject *
by_module_of(const frame *f, int owner, const aicf_inferred *out, const int perm[])
{
    int64_t sizes[AICF_MAX_DIMS];
    bool numpy = is_host(f, out->device) && (owner == FRAMEWORK_NUMPY || owner == FRAMEWORK_NONE);
    for (int i = 0; i < out->rank; i++) {
        sizes[i] = out->sizes[perm[i]];
    }
    PyObject *made = numpy                     ? numpy_new(f->core, out->dtype, out->rank, sizes)
                     : owner == FRAMEWORK_CUPY ? by_cupy(out, sizes)
                                               : NULL;
    if (!made && owner == FRAMEWORK_NONE && PyErr_ExceptionMatches(PyExc_ImportError)) {
        PyErr_Clear(); /* a machine without numpy */
    }
    if (!made || !out->ordered) {
        return made;
    }
    PyObject *view = permuted(made, out, perm);
    Py_DECREF(made);
    return view;
}

PyObject *
allocate_out(frame *f, const source *like, aicf_inferred *out)
{
    int perm[AICF_MAX_DIMS];
    int owner = like ? like->framework : FRAMEWORK_NONE;
    bool exchanges = like && like->exchange && like->exchange->wrap;
    memory_order(out, perm);
    if (owner == FRAMEWORK_TORCH && (!exchanges || out->device.type != DL_CPU)) {
        return torch_new(f->core, out);
    }
    if (exchanges) {
        return like->exchange->allocate ? by_exchange(like, out)
                                        : by_wrapping(f, like->exchange, out);
    }
    PyObject *made = by_module_of(f, owner, out, perm);
    return made || PyErr_Occurred() ? made : by_ourselves(f, out);
}

/* By the from_dlpack of frameworks that take memory and give none. Steals. */
static PyObject *
handed_over(const char *module, PyObject *object)
{
    PyObject *taker = PyImport_ImportModule(module);
    PyObject *made = taker ? PyObject_CallMethod(taker, "from_dlpack", "O", object) : NULL;
    Py_XDECREF(taker);
    Py_DECREF(object);
    return made;
}

PyObject *
allocate_finish(const source *like, PyObject *object)
{
    int owner = like && !like->exchange ? like->framework : FRAMEWORK_NONE;
    return owner == FRAMEWORK_JAX   ? handed_over("jax.dlpack", object)
           : owner == FRAMEWORK_TVM ? handed_over("tvm_ffi", object)
                                    : object;
}
