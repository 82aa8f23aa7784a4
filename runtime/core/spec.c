/* aicf_rt.Spec: a tensor without its memory, for those who ask what an op would say of it. */
#include "dtype.h"
#include "parse.h"
#include "storage.h"

#include <stdlib.h>
#include <string.h>

/* Never changes. The tensor's sizes and strides lie behind; its data is where it would lie if it
   were the first. */
typedef struct spec {
    PyObject_VAR_HEAD aicf_tensor t;
    int64_t numbers[];
} spec;

static const aicf_tensor *
tensor_of(PyObject *object)
{
    return &((const spec *)(const void *)object)->t;
}

/* ---- where it would lie ---------------------------------------------------------------------- */

/* Above what processes can address and below what find_range refuses; aligned for every kernel. */
#define SPECS_BEGIN ((uintptr_t)1 << 57)
enum { SPEC_ALIGNMENT = 4096 };

void
spec_place(frame *f, int i)
{
    const aicf_tensor *model = tensor_of(f->objects[i]);
    aicf_tensor *t = &f->t[i];
    const void *record = t->source;
    uintptr_t data = (uintptr_t)model->data;
    uintptr_t begin = f->spec_end ? f->spec_end : SPECS_BEGIN;

    *t = *model;
    t->source = record;
    if (__builtin_add_overflow(begin, data - model->first + SPEC_ALIGNMENT - 1, &begin) ||
        __builtin_add_overflow(begin, model->end - data, &f->spec_end) || f->spec_end >> 62) {
        f->spec_end = UINTPTR_MAX;
        t->refused = AICF_CHECK_RANGE;
        return;
    }
    begin -= begin % SPEC_ALIGNMENT;
    t->data = (void *)begin;
    t->first = begin - (data - model->first);
    t->end = begin + (model->end - data);
}

/* ---- making one ------------------------------------------------------------------------------ */

/* Row-major strides, as of a tensor without zeros among its sizes. */
static void
strides_fill(const aicf_tensor *t, int64_t strides[])
{
    int64_t below = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        strides[i] = below;
        if (__builtin_mul_overflow(below, t->sizes[i] ? t->sizes[i] : 1, &below)) {
            below = 1; /* more than memory can hold: it will be refused */
        }
    }
}

static PyObject *
spec_make(
    PyTypeObject *type, aicf_dtype dtype, aicf_device device, int rank, const int64_t *sizes,
    const int64_t *strides)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = allocate(type, 2 * (Py_ssize_t)rank);
    if (!self) {
        return NULL;
    }
    spec *s = (spec *)(void *)self;
    s->t = (aicf_tensor){
        .data = (void *)SPECS_BEGIN,
        .device = device,
        .rank = rank,
        .dtype = dtype,
        .sizes = s->numbers,
        .strides = s->numbers + rank,
    };
    memcpy(s->numbers, sizes, sizeof *sizes * (size_t)rank);
    if (strides) {
        memcpy(s->numbers + rank, strides, sizeof *strides * (size_t)rank);
    } else {
        strides_fill(&s->t, s->numbers + rank);
    }
    aicf_tensor_settle(&s->t);
    if (s->t.refused == AICF_CHECK_RANGE) {
        Py_CLEAR(self);
        PyErr_SetString(PyExc_ValueError, "Spec: its elements are more than memory can hold");
    }
    return self;
}

PyObject *
spec_of_inferred(core_state *core, const aicf_inferred *out)
{
    return spec_make(
        core->spec_type, out->dtype, out->device, out->rank, out->sizes,
        out->ordered ? out->strides : NULL);
}

/* ---- dtypes that no table has: an op may be asked what it says of them ----------------------- */

static const struct {
    const char *spelled, *name;
    uint8_t code;
} kinds[] = {
    {"int", "i", 0}, {"uint", "u", 1}, {"float", "f", 2}, {"bfloat", "bf", 4}, {"complex", "c", 5}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* DLPack's names of floats of 8 bits. */
static const char *const floats[] = {
    [7] = "float8_e3m4",      [8] = "float8_e4m3",      [9] = "float8_e4m3b11fnuz",
    [10] = "float8_e4m3fn",   [11] = "float8_e4m3fnuz", [12] = "float8_e5m2",
    [13] = "float8_e5m2fnuz", [14] = "float8_e8m0fnu",
};
enum { FLOATS = sizeof floats / sizeof *floats };

/* 0: none. */
static aicf_dtype
dtype_of_word(const char *word)
{
    for (int code = 0; code < FLOATS; code++) {
        if (floats[code] && strcmp(word, floats[code]) == 0) {
            return AICF_DTYPE(code, 8);
        }
    }
    size_t letters = strcspn(word, "0123456789");
    char *end;
    long bits = strtol(word + letters, &end, 10);
    for (int k = 0; k < KINDS; k++) {
        bool same =
            (strlen(kinds[k].name) == letters && !memcmp(word, kinds[k].name, letters)) ||
            (strlen(kinds[k].spelled) == letters && !memcmp(word, kinds[k].spelled, letters));
        if (same && !*end && bits >= 8 && bits <= 128 && !(bits & (bits - 1))) {
            return AICF_DTYPE(kinds[k].code, bits);
        }
    }
    return 0;
}

static aicf_dtype
dtype_of_others(PyObject *value)
{
    PyObject *text =
        PyType_Check(value) ? PyType_GetName((PyTypeObject *)value) : PyObject_Str(value);
    const char *word = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    const char *dot = word ? strrchr(word, '.') : NULL;
    aicf_dtype dtype = word ? dtype_of_word(dot ? dot + 1 : word) : 0;
    Py_XDECREF(text);
    PyErr_Clear();
    return dtype;
}

static PyObject *
dtype_text(aicf_dtype dtype)
{
    const dtype_words *words = dtype_words_of(dtype);
    unsigned code = dtype & 0xff, bits = dtype >> 8 & 0xff;
    if (words) {
        return PyUnicode_FromString(words->name);
    }
    for (int k = 0; k < KINDS; k++) {
        if (kinds[k].code == code) {
            return PyUnicode_FromFormat("%s%u", kinds[k].name, bits);
        }
    }
    return code < FLOATS && floats[code] ? PyUnicode_FromString(floats[code])
                                         : PyUnicode_FromFormat("%u:%u", code, bits);
}

/* ---- Spec(...) ------------------------------------------------------------------------------- */

static int
strides_parse(PyObject *value, int rank, int64_t strides[AICF_MAX_DIMS])
{
    int count = numbers_parse("Spec", "strides", value, strides);
    if (count >= 0 && count != rank) {
        PyErr_Format(
            PyExc_ValueError, "Spec: a shape of %d dims has as many strides, not %d", rank, count);
    }
    return count == rank ? 0 : -1;
}

static PyObject *
spec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "dtype", "strides", "device", NULL};
    int64_t sizes[AICF_MAX_DIMS], strides[AICF_MAX_DIMS];
    PyObject *shape, *dtype, *order = Py_None, *where = NULL;
    aicf_device device = {DL_CPU, 0};

    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "OO|$OO:Spec", names, &shape, &dtype, &order, &where)) {
        return NULL;
    }
    int rank = sizes_parse("Spec", shape, sizes);
    if (rank < 0 || (order != Py_None && strides_parse(order, rank, strides) < 0) ||
        (where && device_parse("Spec", where, &device) < 0)) {
        return NULL;
    }
    aicf_dtype parsed = dtype_of_others(dtype);
    parsed = parsed ? parsed : dtype_parse("Spec", dtype);
    return parsed ? spec_make(type, parsed, device, rank, sizes, order != Py_None ? strides : NULL)
                  : NULL;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static PyObject *
get_shape(PyObject *self, void *closure)
{
    (void)closure;
    return tuple_of_numbers(tensor_of(self)->sizes, tensor_of(self)->rank);
}

static PyObject *
get_strides(PyObject *self, void *closure)
{
    (void)closure;
    return tuple_of_numbers(tensor_of(self)->strides, tensor_of(self)->rank);
}

static PyObject *
get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    return dtype_text(tensor_of(self)->dtype);
}

static PyObject *
get_device(PyObject *self, void *closure)
{
    (void)closure;
    return device_text(tensor_of(self)->device);
}

/* (shape, dtype, strides, device): all that a Spec is. */
static PyObject *
parts_of(PyObject *self)
{
    PyObject *parts[] = {
        get_shape(self, NULL), get_dtype(self, NULL), get_strides(self, NULL),
        get_device(self, NULL)};
    PyObject *all = parts[0] && parts[1] && parts[2] && parts[3]
                        ? PyTuple_Pack(4, parts[0], parts[1], parts[2], parts[3])
                        : NULL;
    for (int i = 0; i < 4; i++) {
        Py_XDECREF(parts[i]);
    }
    return all;
}

static PyObject *
spec_repr(PyObject *self)
{
    PyObject *parts = parts_of(self);
    if (!parts) {
        return NULL;
    }
    const aicf_tensor *t = tensor_of(self);
    PyObject *device = PyTuple_GetItem(parts, 3), *strides = PyTuple_GetItem(parts, 2);
    int64_t row_major[AICF_MAX_DIMS];
    strides_fill(t, row_major);
    bool usual = memcmp(row_major, t->strides, sizeof *row_major * (size_t)t->rank) == 0;
    bool host = t->device.type == DL_CPU && !t->device.index;
    PyObject *order =
        usual ? PyUnicode_FromString("") : PyUnicode_FromFormat(", strides=%R", strides);
    PyObject *where = host ? PyUnicode_FromString("") : PyUnicode_FromFormat(", device=%R", device);
    PyObject *text = order && where ? PyUnicode_FromFormat(
                                          "Spec(%R, %R%U%U)", PyTuple_GetItem(parts, 0),
                                          PyTuple_GetItem(parts, 1), order, where)
                                    : NULL;
    Py_XDECREF(order);
    Py_XDECREF(where);
    Py_DECREF(parts);
    return text;
}

static bool
is_equal(const aicf_tensor *a, const aicf_tensor *b)
{
    size_t bytes = sizeof(int64_t) * 2 * (size_t)a->rank;
    return a->rank == b->rank && a->dtype == b->dtype && aicf_device_same(a->device, b->device) &&
           memcmp(a->sizes, b->sizes, bytes) == 0;
}

static PyObject *
spec_compare(PyObject *self, PyObject *other, int operation)
{
    if (Py_TYPE(self) != Py_TYPE(other) || (operation != Py_EQ && operation != Py_NE)) {
        return Py_NewRef(Py_NotImplemented);
    }
    return PyBool_FromLong(is_equal(tensor_of(self), tensor_of(other)) == (operation == Py_EQ));
}

static Py_hash_t
spec_hash(PyObject *self)
{
    PyObject *parts = parts_of(self);
    Py_hash_t hash = parts ? PyObject_Hash(parts) : -1;
    Py_XDECREF(parts);
    return hash;
}

/* For pickle, of any protocol, and copy. */
static PyObject *
spec_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *parts = parts_of(self);
    PyObject *module = parts ? PyImport_ImportModule("copyreg") : NULL;
    PyObject *maker = module ? PyObject_GetAttrString(module, "__newobj_ex__") : NULL;
    PyObject *reduced = maker ? Py_BuildValue(
                                    "O(O(OO){sOsO})", maker, (PyObject *)Py_TYPE(self),
                                    PyTuple_GetItem(parts, 0), PyTuple_GetItem(parts, 1), "strides",
                                    PyTuple_GetItem(parts, 2), "device", PyTuple_GetItem(parts, 3))
                              : NULL;
    Py_XDECREF(parts);
    Py_XDECREF(module);
    Py_XDECREF(maker);
    return reduced;
}

/* ---- the type -------------------------------------------------------------------------------- */

static void
spec_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef spec_methods[] = {
    {"__reduce__", spec_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef spec_attributes[] = {
    {"shape", get_shape, NULL, "Sizes.", NULL},
    {"strides", get_strides, NULL, "Strides in elements.", NULL},
    {"dtype", get_dtype, NULL, "The dtype's name in the table, as 'f32'.", NULL},
    {"device", get_device, NULL, "'cpu' or as 'cuda:0'.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot spec_slots[] = {
    {Py_tp_new, (void *)spec_new},
    {Py_tp_dealloc, (void *)spec_dealloc},
    {Py_tp_repr, (void *)spec_repr},
    {Py_tp_richcompare, (void *)spec_compare},
    {Py_tp_hash, (void *)spec_hash},
    {Py_tp_methods, spec_methods},
    {Py_tp_getset, spec_attributes},
    {Py_tp_doc,
     (void *)"Spec(shape, dtype, *, strides=None, device='cpu')\n--\n\n"
             "A tensor without its memory: what `infer` takes in a tensor's place and gives of "
             "outs, and `explain` takes.\nStrides are in elements; None is row-major."},
    {0, NULL},
};

PyType_Spec spec_spec = {
    .name = "aicf_rt.Spec",
    .basicsize = sizeof(spec),
    .itemsize = sizeof(int64_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = spec_slots,
};

/* By its function: whoever asks has no state of the module at hand. The type has no subclasses. */
bool
spec_is(PyObject *object)
{
    return PyType_GetSlot(Py_TYPE(object), Py_tp_repr) == (void *)spec_repr;
}
