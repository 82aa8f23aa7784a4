/* Tensors of torch's that outlive a call. What torch exports holds the tensor and not its storage:
   set_() would free the memory under us. So the storage itself is held; but its resize_() still
   moves the memory, so whoever launches asks first whether it did.

   Torch's own answer takes it longer than a launch does, so the two words of the storage that
   change are read directly: where they lie is proved once, on a storage of ours that is resized.
   Where that fails, an alias of our own keeps the storage, and torch is asked of it. */
#include "core.h"

#include <string.h>

typedef struct alias_owner {
    PyObject *held; /* the storage, which keeps the words, or the alias */
    const dl_exchange *exchange;
    watched words;     /* no address: torch is asked */
    int64_t numbers[]; /* of a storage: sizes and strides, since the tensor's may change */
} alias_owner;

/* ---- where the words lie --------------------------------------------------------------------- */

enum { WORDS = 8, PROBE_BYTES = 12345, PROBE_MORE = 54321 };

static uintptr_t
number_of(PyObject *object, const char *attribute, bool call)
{
    PyObject *value = call ? PyObject_CallMethod(object, attribute, NULL)
                           : PyObject_GetAttrString(object, attribute);
    uintptr_t number = value ? (uintptr_t)PyLong_AsVoidPtr(value) : 0;
    Py_XDECREF(value);
    return number;
}

/* The words of the storage that hold `number`: a mask. */
static unsigned
words_with(const uintptr_t *storage, uintptr_t number)
{
    unsigned mask = 0;
    for (unsigned k = 0; storage && k < WORDS; k++) {
        mask |= storage[k] == number ? 1U << k : 0;
    }
    return mask;
}

static PyObject *
probe_create(void)
{
    PyObject *torch = PyImport_ImportModule("torch");
    PyObject *class = torch ? PyObject_GetAttrString(torch, "UntypedStorage") : NULL;
    PyObject *args = class ? Py_BuildValue("(i)", PROBE_BYTES) : NULL;
    PyObject *kwargs = args ? Py_BuildValue("{s:s}", "device", "cpu") : NULL;
    PyObject *probe = kwargs ? PyObject_Call(class, args, kwargs) : NULL;
    Py_XDECREF(torch);
    Py_XDECREF(class);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return probe;
}

/* The words that hold address and bytes before a resize and after it, in one number: -1 where they
   are not found. */
static int
words_find(PyObject *probe)
{
    const uintptr_t *words = (const uintptr_t *)number_of(probe, "_cdata", false);
    uintptr_t before = number_of(probe, "data_ptr", true);
    unsigned address = words_with(words, before), bytes = words_with(words, PROBE_BYTES);
    PyObject *done = PyObject_CallMethod(probe, "resize_", "i", PROBE_MORE);
    uintptr_t after = done ? number_of(probe, "data_ptr", true) : 0;
    Py_XDECREF(done);
    address &= words_with(words, after);
    bytes &= words_with(words, PROBE_MORE);
    bool found = before && after && before != after && address && bytes && !PyErr_Occurred();
    return found ? __builtin_ctz(address) * WORDS + __builtin_ctz(bytes) : -1;
}

/* The same, found once; threads that look at once find the same. */
static int
words_known(core_state *core)
{
    int words = __atomic_load_n(&core->storage_words, __ATOMIC_RELAXED);
    if (words == 0) {
        PyObject *probe = probe_create();
        words = probe ? words_find(probe) : -1;
        Py_XDECREF(probe);
        PyErr_Clear();
        __atomic_store_n(&core->storage_words, words, __ATOMIC_RELAXED);
    }
    return words;
}

static PyObject *
storage_type(core_state *core)
{
    PyObject *known = once_known(&core->storage_type);
    if (known) {
        return known;
    }
    PyObject *torch = PyImport_ImportModule("torch");
    PyObject *class = torch ? PyObject_GetAttrString(torch, "UntypedStorage") : NULL;
    Py_XDECREF(torch);
    return once_settle(&core->storage_type, class);
}

/* The storage, and where its words are. NULL without an exception: it has none, or none that can be
   watched. */
static PyObject *
storage_find(core_state *core, PyObject *object, watched *w)
{
    int known = words_known(core);
    PyObject *const *names = core->names;
    PyObject *storage =
        known > 0 ? PyObject_CallMethodObjArgs(object, names[NAME_untyped_storage], NULL) : NULL;
    bool is = storage && (PyObject *)Py_TYPE(storage) == storage_type(core);
    PyObject *address = is ? PyObject_GetAttr(storage, names[NAME__cdata]) : NULL;
    const uintptr_t *words = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    PyErr_Clear();
    if (!words) {
        Py_XDECREF(storage);
        return NULL;
    }
    w->address = (void *const *)(words + known / WORDS);
    w->bytes = (const size_t *)(words + known % WORDS);
    return storage;
}

/* ---- owning ---------------------------------------------------------------------------------- */

static void
alias_release(void *kept)
{
    alias_owner *owner = kept;
    Py_DECREF(owner->held);
    PyMem_Free(owner);
}

static alias_owner *
owner_create(PyObject *held, const dl_exchange *exchange, int rank)
{
    alias_owner *owner = PyMem_Malloc(sizeof *owner + 2 * (size_t)rank * sizeof(int64_t));
    if (owner) {
        *owner = (alias_owner){.held = Py_NewRef(held), .exchange = exchange};
    }
    return owner;
}

/* The tensor that was borrowed begins in the memory that the words tell of: Python that ran since
   they were found gave it no other. */
static bool
words_tell(watched *w, const aicf_tensor *t)
{
    w->address_before = *w->address;
    w->bytes_before = *w->bytes;
    uintptr_t base = (uintptr_t)w->address_before, first = (uintptr_t)t->data + t->byte_offset;
    return first >= base && first - base <= w->bytes_before;
}

/* Sizes and strides of its own. */
static void
numbers_keep(alias_owner *owner, aicf_tensor *t)
{
    size_t bytes = (size_t)t->rank * sizeof(int64_t);
    if (bytes) {
        memcpy(owner->numbers, t->sizes, bytes);
        t->sizes = owner->numbers;
    }
    if (bytes && t->strides) {
        memcpy(owner->numbers + t->rank, t->strides, bytes);
        t->strides = owner->numbers + t->rank;
    }
}

/* Borrowing gives a lazy clone memory of its own: the words are those after it. No Python runs from
   the borrowing on. */
bool
alias_hold(core_state *core, PyObject *object, aicf_tensor *t)
{
    const dl_exchange *exchange = tensor_source(t)->exchange;
    watched words;
    PyObject *storage = exchange && exchange->borrow ? storage_find(core, object, &words) : NULL;
    alias_owner *owner = NULL;
    if (storage && exchange->borrow(object, t) == 0 && t->rank >= 0 && t->rank <= AICF_MAX_DIMS &&
        words_tell(&words, t)) {
        owner = owner_create(storage, exchange, t->rank);
    }
    if (owner) {
        owner->words = words;
        numbers_keep(owner, t);
        t->owner = owner;
        t->release = alias_release;
    }
    PyErr_Clear();
    Py_XDECREF(storage);
    return owner;
}

int
alias_own(core_state *core, PyObject *alias, aicf_tensor *t)
{
    const source *s = source_find(core, alias);
    if (!s || !s->exchange || !s->exchange->borrow) {
        return -1;
    }
    alias_owner *owner = owner_create(alias, s->exchange, 0);
    if (!owner) {
        PyErr_NoMemory();
        return -1;
    }
    if (owner->exchange->borrow(alias, t) != 0) {
        alias_release(owner);
        return -1;
    }
    t->owner = owner;
    t->release = alias_release;
    return 0;
}

PyObject *
alias_object(const aicf_tensor *t)
{
    return t->release == alias_release ? ((alias_owner *)t->owner)->held : NULL;
}

const watched *
alias_words(const aicf_tensor *t)
{
    const alias_owner *owner = alias_object(t) ? t->owner : NULL;
    return owner && owner->words.address ? &owner->words : NULL;
}

int
alias_moved(const aicf_tensor *t)
{
    const alias_owner *owner = t->owner;
    dl_tensor now;
    if (owner->words.address) {
        return !watched_stays(&owner->words);
    }
    return owner->exchange->borrow(owner->held, &now) != 0
               ? -1
               : (char *)now.data + now.byte_offset != t->data;
}

int
alias_look(const aicf_tensor *kept, aicf_tensor *now)
{
    const alias_owner *owner = kept->owner;
    int moved = alias_moved(kept);
    *now = *kept;
    now->release = NULL;
    if (moved == 0 && !owner->words.address) {
        moved = owner->exchange->borrow(owner->held, now) != 0 ? -1 : 0;
        if (moved == 0) {
            aicf_tensor_settle(now);
        }
    }
    return moved;
}
