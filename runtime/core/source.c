/* Type records: how tensors of one type are read, learned at the first object of it. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

/* ---- questions to a type --------------------------------------------------------------------- */

/* The attribute, NULL if there is none; *failed if asking raised anything but AttributeError. */
static PyObject *
type_attribute(PyTypeObject *type, PyObject *name, bool *failed)
{
    PyObject *value = PyObject_GetAttr((PyObject *)type, name);
    if (!value) {
        *failed |= !PyErr_ExceptionMatches(PyExc_AttributeError);
        if (!*failed) {
            PyErr_Clear();
        }
    }
    return value;
}

/* The one of our version, among the older ones that an interface leads to; a chain that is longer
   than versions can be leads in a circle. */
static const dl_exchange *
exchange_of_version(const dl_exchange *api)
{
    enum { VERSIONS = 64 };
    for (int i = 0; api && i < VERSIONS; i++, api = api->older) {
        if (api->version.major == DL_MAJOR) {
            return api;
        }
    }
    return NULL;
}

const dl_exchange *
exchange_find(const core_state *core, PyTypeObject *type, bool *failed)
{
    PyObject *capsule = type_attribute(type, core->names[NAME___dlpack_c_exchange_api__], failed);
    const dl_exchange *api = NULL;
    if (capsule && PyCapsule_IsValid(capsule, DL_CAPSULE_EXCHANGE)) {
        api = PyCapsule_GetPointer(capsule, DL_CAPSULE_EXCHANGE);
    }
    Py_XDECREF(capsule);
    api = exchange_of_version(api);
    return api && (api->borrow || api->own) ? api : NULL;
}

/* No object of a module's classes can be met before somebody imported it. */
bool
type_is(PyTypeObject *type, const char *module_name, const char *class_name)
{
    PyObject *module = module_known(module_name);
    PyObject *class = module ? PyObject_GetAttrString(module, class_name) : NULL;
    Py_XDECREF(module);
    if (!class) {
        PyErr_Clear();
        return false;
    }
    bool is = PyType_Check(class) && PyType_IsSubtype(type, (PyTypeObject *)class);
    Py_DECREF(class);
    return is;
}

/* Whether a type is of a package, by its name: that or a module of it. */
static bool
type_from(PyTypeObject *type, const char *package)
{
    PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
    const char *text =
        module && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
    size_t length = strlen(package);
    bool from = text && strncmp(text, package, length) == 0 &&
                (text[length] == '.' || text[length] == '\0');
    Py_XDECREF(module);
    PyErr_Clear();
    return from;
}

static framework
framework_of(const core_state *core, PyTypeObject *type)
{
    return type == core->tensor_type                             ? FRAMEWORK_OWN
           : type_is(type, "torch", "Tensor")                    ? FRAMEWORK_TORCH
           : type_is(type, "numpy", "ndarray")                   ? FRAMEWORK_NUMPY
           : type_is(type, "cupy", "ndarray")                    ? FRAMEWORK_CUPY
           : type_is(type, "tvm_ffi", "Tensor")                  ? FRAMEWORK_TVM
           : type_from(type, "jax") || type_from(type, "jaxlib") ? FRAMEWORK_JAX
                                                                 : FRAMEWORK_NONE;
}

/* A subclass with its own dispatch (FakeTensor) inherits the exchange API, and has no memory for it
   to show, or one that must not be read past its back. torch.Tensor's own is a built-in stub. */
static bool
dispatches(const core_state *core, PyTypeObject *type, bool *failed)
{
    PyObject *own = type_attribute(type, core->names[NAME___torch_dispatch__], failed);
    bool overrides = own && !PyCFunction_Check(own);
    Py_XDECREF(own);
    return overrides;
}

static bool
is_masked(PyTypeObject *type)
{
    return type_is(type, "numpy.ma", "MaskedArray");
}

/* Whether objects of exactly numpy.ndarray, if that is the type, may be read as a structure. */
static bool
is_plain_array(core_state *core, PyTypeObject *type)
{
    PyObject *numpy = module_known("numpy");
    PyObject *exact = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    PyErr_Clear();
    bool plain = exact == (PyObject *)type && numpy_proved(core, numpy);
    Py_XDECREF(exact);
    Py_XDECREF(numpy);
    return plain;
}

static void
choose_reader(core_state *core, source *s)
{
    if (s->framework == FRAMEWORK_OWN) {
        s->read = tensor_read;
    } else if (s->exchange && s->framework == FRAMEWORK_TORCH) {
        s->read = torch_reader(core, s->exchange);
    } else if (s->exchange) {
        s->read = s->exchange->borrow;
    } else if (s->framework == FRAMEWORK_NUMPY) {
        s->read = is_plain_array(core, s->type) ? numpy_read : NULL;
    }
}

/* Fills a record that nobody else sees yet. */
static int
source_learn(core_state *core, source *s, PyTypeObject *type)
{
    bool failed = false;
    s->type = type;
    s->framework = (uint8_t)framework_of(core, type);
    s->exchange = s->framework == FRAMEWORK_OWN ? NULL : exchange_find(core, type, &failed);
    if (!failed && s->framework == FRAMEWORK_TORCH && dispatches(core, type, &failed)) {
        s->refused = AICF_CHECK_MEMORY;
        s->exchange = NULL;
    } else if (s->framework == FRAMEWORK_NUMPY && is_masked(type)) {
        s->refused = AICF_CHECK_MASKED;
    } else if (!failed) {
        choose_reader(core, s);
    }
    return failed ? -1 : 0;
}

/* ---- the end of a type ----------------------------------------------------------------------- */

static void
source_drop(source *s)
{
    if (__atomic_sub_fetch(&s->references, 1, __ATOMIC_ACQ_REL) == 0) {
        free(s);
    }
}

static void
capsule_drop(PyObject *capsule)
{
    source_drop(PyCapsule_GetPointer(capsule, "source"));
}

/* Called when the type dies: its address may come back as another type, but not before this is
   over. A record that serves another one by now stays. */
static PyObject *
source_forget(PyObject *capsule, PyObject *weak)
{
    source *s = PyCapsule_GetPointer(capsule, "source");
    PyTypeObject *gone = PyCapsule_GetContext(capsule);
    (void)weak;
    __atomic_compare_exchange_n(&s->type, &gone, NULL, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    Py_RETURN_NONE;
}

static PyMethodDef forget_method = {"forget", source_forget, METH_O, NULL};

/* Keeps the record for as long as it may be called. */
static PyObject *
capsule_of(source *s, PyTypeObject *type)
{
    PyObject *capsule = PyCapsule_New(s, "source", capsule_drop);
    if (capsule) {
        __atomic_add_fetch(&s->references, 1, __ATOMIC_RELAXED);
        (void)PyCapsule_SetContext(capsule, type);
    }
    return capsule;
}

static PyObject *
weak_reference(source *s, PyTypeObject *type)
{
    PyObject *capsule = capsule_of(s, type);
    PyObject *forget = capsule ? PyCFunction_NewEx(&forget_method, capsule, NULL) : NULL;
    PyObject *weak = forget ? PyWeakref_NewRef((PyObject *)type, forget) : NULL;
    Py_XDECREF(capsule);
    Py_XDECREF(forget);
    return weak;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The type of a record that is being filled. */
#define CLAIMED ((PyTypeObject *)1)

static source **
bucket_of(core_state *core, const PyTypeObject *type)
{
    return &core->sources[((uintptr_t)type >> 5) % SOURCE_BUCKETS];
}

static source *
bucket_find(source **bucket, const PyTypeObject *type)
{
    for (source *s = __atomic_load_n(bucket, __ATOMIC_ACQUIRE); s; s = s->next) {
        if (source_is(s, type)) {
            return s;
        }
    }
    return NULL;
}

const source *
source_known(core_state *core, const PyTypeObject *type)
{
    return bucket_find(bucket_of(core, type), type);
}

/* A record of a type that is gone, or a new one; nobody finds it before it is published. */
static source *
source_claim(core_state *core, source **bucket, PyObject **old)
{
    PyThread_acquire_lock(core->lock, WAIT_LOCK);
    source *s = bucket_find(bucket, NULL);
    if (s) {
        __atomic_store_n(&s->type, CLAIMED, __ATOMIC_RELAXED);
        *old = s->weak;
        s->weak = NULL;
    }
    PyThread_release_lock(core->lock);
    if (!s) {
        s = calloc(1, sizeof *s);
    }
    if (s && !s->linked) {
        s->references = 1;
    }
    return s;
}

/* Publishes a claimed record, or gives it back where another thread, or the questions themselves,
   were faster: then that one counts. */
static const source *
source_publish(core_state *core, source **bucket, source *s, PyTypeObject *type)
{
    PyThread_acquire_lock(core->lock, WAIT_LOCK);
    source *known = bucket_find(bucket, type);
    if (!s->linked) {
        s->linked = true;
        s->next = *bucket;
        s->type = CLAIMED;
        __atomic_store_n(bucket, s, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&s->type, known ? NULL : type, __ATOMIC_RELEASE);
    PyThread_release_lock(core->lock);
    return known ? known : s;
}

const source *
source_find(core_state *core, PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    source **bucket = bucket_of(core, type), fresh = {0};
    const source *known = bucket_find(bucket, type);
    if (known) {
        return known;
    }
    if (source_learn(core, &fresh, type) < 0) {
        return NULL;
    }
    PyObject *old = NULL;
    source *s = source_claim(core, bucket, &old);
    PyObject *weak = s ? weak_reference(s, type) : PyErr_NoMemory();
    if (!weak) {
        type = NULL; /* the record goes back, dead */
    }
    if (s) {
        s->read = fresh.read;
        s->exchange = fresh.exchange;
        s->framework = fresh.framework;
        s->bit = FRAMEWORK_BIT(fresh.framework);
        s->refused = fresh.refused;
        s->weak = weak;
        known = source_publish(core, bucket, s, type);
    }
    Py_XDECREF(old);
    return weak ? known : NULL;
}

int
sources_traverse(core_state *core, visitproc visit, void *arg)
{
    for (int i = 0; i < SOURCE_BUCKETS; i++) {
        for (source *s = core->sources[i]; s; s = s->next) {
            Py_VISIT(s->weak);
        }
    }
    return 0;
}

void
sources_finish(core_state *core)
{
    for (int i = 0; i < SOURCE_BUCKETS; i++) {
        while (core->sources[i]) {
            source *s = core->sources[i];
            core->sources[i] = s->next;
            Py_XDECREF(s->weak);
            source_drop(s);
        }
    }
}
