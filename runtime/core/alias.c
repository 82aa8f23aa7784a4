/* Tensors of torch's that outlive a call. What torch exports holds the tensor and not its storage:
   set_() would free the memory under us. An alias of our own keeps the storage; but that one's
   resize_() still moves it, so whoever launches asks first whether it did.

   Torch's own answer takes it longer than a launch does, so the two words of the storage that
   change are read directly: where they lie is proved once, on a storage of ours that is resized. */
#include "core.h"

typedef struct alias_owner {
    PyObject *alias;
    PyObject *storage; /* keeps the words; NULL: torch is asked */
    const dl_exchange *exchange;
    watched words;
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

/* Of the alias, or NULL. */
static PyObject *
storage_of_alias(core_state *core, PyObject *alias)
{
    PyObject *storage =
        words_known(core) > 0 ? PyObject_CallMethod(alias, "untyped_storage", NULL) : NULL;
    if (storage && !type_is(Py_TYPE(storage), "torch", "UntypedStorage")) {
        Py_CLEAR(storage);
    }
    PyErr_Clear();
    return storage;
}

static void
words_locate(core_state *core, alias_owner *owner)
{
    int known = words_known(core);
    const uintptr_t *words =
        owner->storage ? (const uintptr_t *)number_of(owner->storage, "_cdata", false) : NULL;
    PyErr_Clear();
    if (words) {
        owner->words.address = (void *const *)(words + known / WORDS);
        owner->words.bytes = (const size_t *)(words + known % WORDS);
    }
}

/* Borrowing gives a lazy clone memory of its own: the words are those after it. No Python runs
   between the two. */
static int
alias_borrow(alias_owner *owner, aicf_tensor *t)
{
    int failed = owner->exchange->borrow(owner->alias, t);
    watched *w = &owner->words;
    if (!failed && w->address) {
        w->address_before = *w->address;
        w->bytes_before = *w->bytes;
    }
    return failed;
}

/* ---- owning ---------------------------------------------------------------------------------- */

static void
alias_release(void *kept)
{
    alias_owner *owner = kept;
    Py_DECREF(owner->alias);
    Py_XDECREF(owner->storage);
    PyMem_Free(owner);
}

int
alias_own(core_state *core, PyObject *alias, aicf_tensor *t)
{
    const source *s = source_find(core, alias);
    if (!s || !s->exchange || !s->exchange->borrow) {
        return -1;
    }
    alias_owner *owner = PyMem_Calloc(1, sizeof *owner);
    if (!owner) {
        PyErr_NoMemory();
        return -1;
    }
    owner->alias = Py_NewRef(alias);
    owner->exchange = s->exchange;
    owner->storage = storage_of_alias(core, alias);
    words_locate(core, owner);
    if (alias_borrow(owner, t) != 0) {
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
    return t->release == alias_release ? ((alias_owner *)t->owner)->alias : NULL;
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
    return owner->exchange->borrow(owner->alias, &now) != 0
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
    if (moved == 0 && owner->exchange->borrow(owner->alias, now) != 0) {
        moved = -1;
    }
    if (moved == 0) {
        aicf_tensor_settle(now);
    }
    return moved;
}
