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
    PyObject *name = PyType_GetQualName(Py_TYPE(f->objects[i]));
    const char *param = f->op->params_of[frame_param(f, i)].name;
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

/* `kept` comes with the exchange API's own refusal, if that was asked: the protocols' words are
   better. */
static int
ask_all(frame *f, int i)
{
    static answer (*const protocols[])(frame *, int) = {dlpack_read, interface_read, read_buffer};
    refusal exchange = {NULL, NULL, NULL}, first = {NULL, NULL, NULL};
    answer result = ANSWER_NONE;

    PyErr_Fetch(&exchange.type, &exchange.value, &exchange.trace);
    for (int p = 0; p < 3 && (result == ANSWER_NONE || result == ANSWER_REFUSED); p++) {
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

/* What a framework's tensors have beside their memory. */
static int
finish_read(frame *f, int i)
{
    aicf_tensor *t = &f->t[i];
    const source *s = tensor_source(t);

    aicf_tensor_settle(t);
    t->read_only |= s->framework == FRAMEWORK_JAX;
    if (s->framework == FRAMEWORK_TORCH && torch_may_be_negative(t)) {
        return torch_ask_negative(f->core, f->objects[i], t);
    }
    return 0;
}

/* Torch has many tensors without plain memory (sparse, meta, quantized, those that its transforms
   hand out), and each refuses with another exception of its own: all get one verdict. Where torch
   could have failed at something else, the exception stays. */
static int
refuse_opaque(const frame *f, int i)
{
    const source *s = tensor_source(&f->t[i]);
    if (s->framework != FRAMEWORK_TORCH || !s->exchange ||
        !PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return -1;
    }
    PyErr_Clear();
    tensor_refuse(&f->t[i], AICF_CHECK_MEMORY);
    return 0;
}

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
        done = refuse_opaque(f, i);
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
    PyObject *alias = PyObject_CallMethodObjArgs(f->objects[i], f->core->names[NAME_detach], NULL);
    if (!alias) {
        return -1;
    }
    int done = alias_own(f->core, alias, &f->t[i]);
    Py_DECREF(alias);
    return done < 0 ? ask_all(f, i) : 0;
}

static int
own_exchange(frame *f, int i)
{
    dl_managed *managed = NULL;
    if (tensor_source(&f->t[i])->exchange->own(f->objects[i], &managed) != 0) {
        return ask_all(f, i);
    }
    dlpack_take(managed, &f->t[i]);
    return 0;
}

static int
own_any(frame *f, int i)
{
    const source *s = tensor_source(&f->t[i]);
    if (s->exchange) {
        return s->framework == FRAMEWORK_TORCH ? own_torch(f, i) : own_exchange(f, i);
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
