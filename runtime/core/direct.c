/* Tensors of torch's, read through the C interface that it keeps stable for compiled code
   (aoti_torch_get_*). Its exchange API gives the same, but takes a reference of its own, for which
   torch makes one between a tensor and its Python object wherever Python alone holds it: three
   times what all else costs.

   What those functions take is the address of the tensor inside of its object. Where that lies is
   proved once, on a tensor of ours, as is that both ways give the same. Where it is not so, and for
   every tensor that is out of the ordinary, the exchange API is asked, and has the say. */
#include "core.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Each answers 0 where it worked. */
typedef int32_t ask_word(const void *tensor, int32_t *word);
typedef int32_t ask_number(const void *tensor, int64_t *number);
typedef int32_t ask_list(const void *tensor, const int64_t **list);
typedef int32_t ask_data(const void *tensor, void **data);

enum { TORCH_DTYPES = 16 };

typedef struct direct {
    ask_word *layout, *dtype, *device_type, *device_index;
    ask_number *rank;
    ask_list *sizes, *strides;
    ask_data *data;
    size_t offset; /* of the tensor in its object */
    int32_t strided, cpu, cuda;
    aicf_dtype dtypes[TORCH_DTYPES]; /* by torch's numbers; 0: none of ours */
    const dl_exchange *exchange;
} direct;

/* NULL until it is proved; then it stays as it is. */
static const direct *proved;

/* ---- reading --------------------------------------------------------------------------------- */

/* The device is written as it is read, in one word. False: it is of another kind. */
static inline bool
read_device(const direct *d, const void *handle, aicf_tensor *t)
{
    int32_t type, index = 0;
    if (d->device_type(handle, &type) ||
        (type != d->cpu && (type != d->cuda || d->device_index(handle, &index)))) {
        return false;
    }
    uint64_t word = (uint64_t)(uint32_t)index << 32 | (type == d->cpu ? DL_CPU : DL_CUDA);
    memcpy(&t->device, &word, sizeof word);
    return true;
}

/* What fails comes last, so that torch has no cause to say anything of what is refused. */
static inline int
read_by(const direct *d, void *object, aicf_tensor *t)
{
    const void *handle = (const char *)object + d->offset;
    int32_t layout, dtype;
    int64_t rank;

    if (d->layout(handle, &layout) || layout != d->strided || d->dtype(handle, &dtype) ||
        (uint32_t)dtype >= TORCH_DTYPES || !d->dtypes[dtype] || !read_device(d, handle, t) ||
        d->rank(handle, &rank) || d->sizes(handle, &t->sizes) || d->strides(handle, &t->strides) ||
        d->data(handle, &t->data)) {
        return d->exchange->borrow(object, t);
    }
    t->rank = (int32_t)rank;
    t->dtype = d->dtypes[dtype];
    t->byte_offset = 0;
    return 0;
}

static int
torch_read(void *object, void *tensor)
{
    return read_by(__atomic_load_n(&proved, __ATOMIC_ACQUIRE), object, tensor);
}

/* ---- the proof ------------------------------------------------------------------------------- */

/* dlsym gives a function as the address of data. */
#define FIND(library, member, name) \
    (memcpy(&(member), &(void *){dlsym(library, name)}, sizeof(void *)), (member) != NULL)

static bool
find_functions(void *library, direct *d)
{
    return FIND(library, d->layout, "aoti_torch_get_layout") &&
           FIND(library, d->dtype, "aoti_torch_get_dtype") &&
           FIND(library, d->device_type, "aoti_torch_get_device_type") &&
           FIND(library, d->device_index, "aoti_torch_get_device_index") &&
           FIND(library, d->rank, "aoti_torch_get_dim") &&
           FIND(library, d->sizes, "aoti_torch_get_sizes") &&
           FIND(library, d->strides, "aoti_torch_get_strides") &&
           FIND(library, d->data, "aoti_torch_get_data_ptr");
}

/* One of torch's numbers. */
static bool
find_number(void *library, const char *name, int32_t *number)
{
    int32_t (*ask)(void);
    bool found = FIND(library, ask, name);
    *number = found ? ask() : -1;
    return found;
}

static const struct {
    const char *name;
    aicf_dtype dtype;
} numbers[] = {
    {"aoti_torch_dtype_bool", AICF_BOOL},   {"aoti_torch_dtype_int8", AICF_I8},
    {"aoti_torch_dtype_uint8", AICF_U8},    {"aoti_torch_dtype_int16", AICF_I16},
    {"aoti_torch_dtype_int32", AICF_I32},   {"aoti_torch_dtype_int64", AICF_I64},
    {"aoti_torch_dtype_float16", AICF_F16}, {"aoti_torch_dtype_bfloat16", AICF_BF16},
    {"aoti_torch_dtype_float32", AICF_F32}, {"aoti_torch_dtype_float64", AICF_F64},
};

static bool
find_numbers(void *library, direct *d)
{
    bool found = find_number(library, "aoti_torch_layout_strided", &d->strided) &&
                 find_number(library, "aoti_torch_device_type_cpu", &d->cpu) &&
                 find_number(library, "aoti_torch_device_type_cuda", &d->cuda);
    for (size_t i = 0; found && i < sizeof numbers / sizeof *numbers; i++) {
        int32_t number;
        found =
            find_number(library, numbers[i].name, &number) && number >= 0 && number < TORCH_DTYPES;
        if (found) {
            d->dtypes[number] = numbers[i].dtype;
        }
    }
    return found;
}

/* AICF_READ=exchange: torch's exchange API reads them all. */
static bool
is_switched_off(void)
{
    const char *word = getenv("AICF_READ");
    return word && strcmp(word, "exchange") == 0;
}

/* Two dims, an offset, strides of their own: torch.empty((4, 6), ...).t()[2:5]. NULL also where it
   is of a subclass, as in a mode that makes others of all that is made. */
static PyObject *
probe_create(void)
{
    PyObject *torch = PyImport_ImportModule("torch");
    PyObject *dtype = torch ? PyObject_GetAttrString(torch, "int16") : NULL;
    PyObject *empty = dtype ? PyObject_GetAttrString(torch, "empty") : NULL;
    PyObject *args = empty ? Py_BuildValue("((ii))", 4, 6) : NULL;
    PyObject *kwargs = args ? Py_BuildValue("{s:O,s:s}", "dtype", dtype, "device", "cpu") : NULL;
    PyObject *whole = kwargs ? PyObject_Call(empty, args, kwargs) : NULL;
    PyObject *turned = whole ? PyObject_CallMethod(whole, "t", NULL) : NULL;
    PyObject *probe = turned ? PyObject_CallMethod(turned, "narrow", "iii", 0, 2, 3) : NULL;
    PyObject *class = probe ? PyObject_GetAttrString(torch, "Tensor") : NULL;
    if (probe && (PyObject *)Py_TYPE(probe) != class) {
        Py_CLEAR(probe);
    }
    Py_XDECREF(class);
    Py_XDECREF(torch);
    Py_XDECREF(dtype);
    Py_XDECREF(empty);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(whole);
    Py_XDECREF(turned);
    return probe;
}

/* The tensor is a pointer, whose number torch tells: it stands first in the object, or behind a
   word of flags. */
static bool
find_offset(PyObject *probe, direct *d)
{
    PyObject *number = PyObject_GetAttrString(probe, "_cdata");
    const void *pointer = number ? PyLong_AsVoidPtr(number) : NULL, *word;
    Py_XDECREF(number);
    for (size_t k = 0; pointer && k < 2; k++) {
        d->offset = sizeof(PyObject) + k * sizeof word;
        memcpy(&word, (const char *)probe + d->offset, sizeof word);
        if (word == pointer) {
            return true;
        }
    }
    return false;
}

/* Both ways give the same. */
static bool
gives_same(const direct *d, PyObject *probe)
{
    aicf_tensor borrowed = {0}, read = {0};
    return read_by(d, probe, &read) == 0 && d->exchange->borrow(probe, &borrowed) == 0 &&
           memcmp(&read, &borrowed, offsetof(aicf_tensor, numel)) == 0;
}

static bool
find_all(direct *d, PyObject *probe)
{
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    return library && find_functions(library, d) && find_numbers(library, d) &&
           find_offset(probe, d) && gives_same(d, probe);
}

/* Whoever is first puts it there. */
static bool
prove(PyObject *probe, const dl_exchange *exchange)
{
    const direct *none = NULL;
    direct *d = calloc(1, sizeof *d);
    if (!d) {
        return false;
    }
    d->exchange = exchange;
    bool is = find_all(d, probe);
    if (!is || !__atomic_compare_exchange_n(
                   &proved, &none, d, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(d);
    }
    return is;
}

reader *
torch_reader(core_state *core, const dl_exchange *exchange)
{
    int known = __atomic_load_n(&core->torch_direct, __ATOMIC_RELAXED);
    if (known == 0 && !is_switched_off()) {
        bool failed = false;
        PyObject *probe = probe_create();
        const dl_exchange *own = probe ? exchange_find(core, Py_TYPE(probe), &failed) : NULL;
        known = !own || !own->borrow ? 0 : prove(probe, own) ? 1 : -1;
        Py_XDECREF(probe);
        PyErr_Clear();
        __atomic_store_n(&core->torch_direct, known, __ATOMIC_RELAXED);
    }
    const direct *d = __atomic_load_n(&proved, __ATOMIC_ACQUIRE);
    return known > 0 && d->exchange == exchange ? torch_read : exchange->borrow;
}
