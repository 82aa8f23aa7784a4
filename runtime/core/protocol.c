/* Producers asked object by object: DLPack, the CUDA array interface, the buffer protocol. A
   protocol that is refused with BufferError or TypeError lets the next one try; if none takes the
   object, the first refusal is what the caller sees, as it was raised. */
#include "core.h"

#include <string.h>

/* ---- the errors of refusals ------------------------------------------------------------------ */

typedef struct refusal {
    PyObject *type, *value, *trace;
} refusal;

/* Keeps the current exception, unless there is one already. */
static void
refusal_keep(refusal *kept)
{
    if (kept->type) {
        PyErr_Clear();
    } else {
        PyErr_Fetch(&kept->type, &kept->value, &kept->trace);
    }
}

static void
refusal_drop(refusal *kept)
{
    Py_CLEAR(kept->type);
    Py_CLEAR(kept->value);
    Py_CLEAR(kept->trace);
}

static int
not_a_tensor(const frame *f, int i)
{
    const char *param = f->op->params_of[frame_param(f, i)].name;
    if (spec_is(f->objects[i])) {
        return raise_misuse(
            f->op, param, "is a Spec, which has no memory: infer and explain alone take one");
    }
    PyObject *name = PyType_GetQualName(Py_TYPE(f->objects[i]));
    if (name) {
        raise_misuse(f->op, param, "is not a tensor but %U", name);
        Py_DECREF(name);
    }
    return -1;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static answer
read_buffer(frame *f, int i)
{
    return buffer_read(f->objects[i], &f->t[i]);
}

/* Of what a framework's functions raised: whatever is no interrupt and no want of memory lets the
   protocols try. */
static bool
may_ask_on(void)
{
    return !PyErr_Occurred() ||
           (PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError));
}

/* jax's arrays on the host show their buffer in a tenth of the time that their __dlpack__ takes;
   those on a device, and of bf16, refuse it. As the last one was read, so the next is asked first.
 */
static bool
jax_buffer(frame *f, int i)
{
    int *skip = &f->core->jax_skips_buffers;
    if (__atomic_load_n(skip, __ATOMIC_RELAXED)) {
        return false;
    }
    bool taken = read_buffer(f, i) == ANSWER_TAKEN;
    if (!taken && may_ask_on()) {
        PyErr_Clear(); /* the protocols' words are better */
    }
    return taken;
}

static void
jax_learn(const frame *f, int i)
{
    const aicf_tensor *t = &f->t[i];
    int skip = t->device.type != DL_CPU || t->dtype == AICF_BF16;
    __atomic_store_n(&f->core->jax_skips_buffers, skip, __ATOMIC_RELAXED);
}

/* By the exchange API's owning function. */
static answer
exchange_own(frame *f, int i)
{
    const dl_exchange *exchange = tensor_source(&f->t[i])->exchange;
    dl_managed *managed = NULL;
    if (!exchange || !exchange->own) {
        return ANSWER_NONE;
    }
    if (exchange->own(f->objects[i], &managed) != 0 || !managed) {
        return ANSWER_REFUSED;
    }
    return dlpack_take(f, i, managed);
}

/* The first step of a type whose exchange API has no function that borrows. */
static int
ask_exchange(frame *f, int i)
{
    const dl_exchange *exchange = tensor_source(&f->t[i])->exchange;
    return exchange && !exchange->borrow && exchange_own(f, i) == ANSWER_TAKEN;
}

/* An exception that is set is the exchange API's own refusal: the protocols' words are better. */
static int
ask_protocols(frame *f, int i)
{
    static answer (*const protocols[])(frame *, int) = {
        ml_dtypes_read, dlpack_read, interface_read, read_buffer};
    refusal exchange = {NULL, NULL, NULL}, first = {NULL, NULL, NULL};
    answer result = ANSWER_NONE;

    if (!may_ask_on()) {
        return -1;
    }
    PyErr_Fetch(&exchange.type, &exchange.value, &exchange.trace);
    for (size_t p = 0; p < sizeof protocols / sizeof *protocols &&
                       (result == ANSWER_NONE || result == ANSWER_REFUSED);
         p++) {
        result = protocols[p](f, i);
        if (result == ANSWER_REFUSED) {
            refusal_keep(&first);
        }
    }
    if (result == ANSWER_NONE || result == ANSWER_REFUSED) {
        refusal *shown = first.type ? &first : &exchange;
        if (shown->type) {
            PyErr_Restore(shown->type, shown->value, shown->trace);
            *shown = (refusal){NULL, NULL, NULL};
        } else {
            not_a_tensor(f, i);
        }
    }
    refusal_drop(&first);
    refusal_drop(&exchange);
    return result == ANSWER_TAKEN ? 0 : -1;
}

static int
ask_all(frame *f, int i)
{
    bool jax = tensor_source(&f->t[i])->framework == FRAMEWORK_JAX;
    if (ask_exchange(f, i) || (jax && !PyErr_Occurred() && jax_buffer(f, i))) {
        return 0;
    }
    if (ask_protocols(f, i) < 0) {
        return -1;
    }
    if (jax) {
        jax_learn(f, i);
    }
    return 0;
}

/* What a framework's tensors have beside their memory. */
static int
finish_read(frame *f, int i)
{
    aicf_tensor *t = &f->t[i];
    const source *s = tensor_source(t);

    aicf_tensor_settle(t);
    if (s->framework == FRAMEWORK_JAX) {
        t->read_only = true;
        t->device.index = t->device.type == DL_CPU ? 0 : t->device.index; /* all is one memory */
    }
    if (s->framework != FRAMEWORK_TORCH || !torch_may_be_negative(t)) {
        return 0;
    }
    int done = torch_ask_negative(f->core, f->objects[i], t);
    if (done == 0 && t->refused == AICF_CHECK_NEGATIVE) {
        tensor_release(t); /* Python ran: of one that was borrowed, nothing is known any more */
        tensor_refuse(t, AICF_CHECK_NEGATIVE);
        t->source = s;
    }
    return done;
}

/* Keeps the current exception. */
static bool
jax_deleted(PyObject *object)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *deleted = PyObject_CallMethod(object, "is_deleted", NULL);
    bool is = deleted == Py_True;
    Py_XDECREF(deleted);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return is;
}

/* The function behind a class's __torch_function__, NULL where it is none of Python. */
static PyObject *
override_of(PyObject *class)
{
    PyObject *method = class ? PyObject_GetAttrString(class, "__torch_function__") : NULL;
    PyObject *function = method ? PyObject_GetAttrString(method, "__func__") : NULL;
    Py_XDECREF(method);
    PyErr_Clear();
    return function;
}

/* Whether torch calls Python of the object's own class for all that is done with it: what that
   raises is not torch's. Keeps the current exception. */
static bool
overrides_torch(PyObject *object)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *torch = PyImport_ImportModule("torch");
    PyObject *class = torch ? PyObject_GetAttrString(torch, "Tensor") : NULL;
    PyObject *base = override_of(class), *own = override_of((PyObject *)Py_TYPE(object));
    bool is = own && own != base;
    Py_XDECREF(torch);
    Py_XDECREF(class);
    Py_XDECREF(base);
    Py_XDECREF(own);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return is;
}

/* Torch has many tensors without plain memory (sparse, meta, quantized, those that its transforms
   hand out), and each refuses with another exception of its own: all get one verdict. So do jax's
   arrays that were donated or deleted, which stumble over what they lost. Where the framework could
   have failed at something else, the exception stays. */
static int
refuse_opaque(const frame *f, int i)
{
    const source *s = tensor_source(&f->t[i]);
    bool torch = s->framework == FRAMEWORK_TORCH && s->exchange;
    if ((!torch && s->framework != FRAMEWORK_JAX) || !PyErr_ExceptionMatches(PyExc_Exception) ||
        PyErr_ExceptionMatches(PyExc_MemoryError) ||
        (torch ? overrides_torch(f->objects[i]) : !jax_deleted(f->objects[i]))) {
        return -1;
    }
    PyErr_Clear();
    tensor_refuse(&f->t[i], AICF_CHECK_MEMORY);
    return 0;
}

/* ---- whose exception it is ------------------------------------------------------------------- */

/* Whether the exception names the argument already: those of our own do. */
static bool
names_argument(PyObject *value, const char *head)
{
    PyObject *text = PyObject_Str(value);
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    bool names = words && strncmp(words, head, strlen(head)) == 0;
    Py_XDECREF(text);
    return names;
}

/* Whether the exception has that note as its last: one that is raised again and again gets one. */
static bool
has_note(PyObject *value, PyObject *note)
{
    PyObject *notes = PyObject_GetAttrString(value, "__notes__");
    Py_ssize_t count = notes && PyList_Check(notes) ? PyList_Size(notes) : 0;
    PyObject *last = count ? list_item(notes, count - 1) : NULL;
    bool has = last && PyUnicode_Check(last) && PyUnicode_Compare(last, note) == 0;
    Py_XDECREF(last);
    Py_XDECREF(notes);
    return has;
}

static void
note_add(const frame *f, int i, PyObject *value)
{
    const char *param = f->op->params_of[frame_param(f, i)].name;
    char head[256];
    PyOS_snprintf(head, sizeof head, "%s: %s ", f->op->name, param);
    if (names_argument(value, head)) {
        return;
    }
    PyErr_Clear();
    PyObject *note = PyUnicode_FromFormat("%s: %s could not be read", f->op->name, param);
    if (note && !has_note(value, note)) {
        PyErr_Clear();
        PyObject *done = PyObject_CallMethod(value, "add_note", "O", note);
        Py_XDECREF(done);
    }
    Py_XDECREF(note);
}

int
argument_note(const frame *f, int i)
{
    PyObject *type, *value, *trace;
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return -1;
    }
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    note_add(f, i, value);
    PyErr_Clear(); /* a note that could not be made */
    PyErr_Restore(type, value, trace);
    return -1;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Reads by `ask`, and takes all or nothing. */
static int
read_whole(frame *f, int i, int (*ask)(frame *, int))
{
    const void *record = f->t[i].source;
    if (Py_EnterRecursiveCall(" while a tensor is read")) {
        return -1;
    }
    f->t[i].absent = false;
    f->t[i].read_only = false;
    f->t[i].refused = 0;
    f->t[i].release = NULL;
    int done = ask(f, i);
    f->t[i].source = record;
    if (done < 0) {
        done = refuse_opaque(f, i) < 0 ? argument_note(f, i) : 0;
        f->t[i].source = record;
    }
    if (done == 0 && finish_read(f, i) < 0) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        tensor_release(&f->t[i]);
        PyErr_Restore(type, value, trace);
        done = -1;
    }
    Py_LeaveRecursiveCall();
    f->seen[i] = done == 0 ? SEEN_SLOW | SEEN_ASKED : 0;
    return done;
}

int
protocol_read(frame *f, int i)
{
    return read_whole(f, i, ask_all);
}

/* ---- owning ---------------------------------------------------------------------------------- */

static int
own_torch(frame *f, int i)
{
    if (alias_hold(f->core, f->objects[i], &f->t[i])) {
        return 0;
    }
    PyObject *alias = PyObject_CallMethodObjArgs(f->objects[i], f->core->names[NAME_detach], NULL);
    if (!alias) {
        return -1;
    }
    int done = alias_own(f->core, alias, &f->t[i]);
    Py_DECREF(alias);
    return done < 0 ? ask_protocols(f, i) : 0;
}

static int
own_any(frame *f, int i)
{
    const source *s = tensor_source(&f->t[i]);
    if (s->exchange) {
        return s->framework == FRAMEWORK_TORCH      ? own_torch(f, i)
               : exchange_own(f, i) == ANSWER_TAKEN ? 0
                                                    : ask_protocols(f, i);
    }
    if (s->framework == FRAMEWORK_NUMPY) { /* a buffer is no secret to the garbage collection */
        if (buffer_read(f->objects[i], &f->t[i]) == ANSWER_TAKEN) {
            return 0;
        }
        PyErr_Clear();
    }
    return ask_all(f, i);
}

int
protocol_own(frame *f, int i)
{
    return read_whole(f, i, own_any);
}
