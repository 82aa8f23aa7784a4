/* The forms that are called once and forgotten: attempt, compute, explain. */
#include "core.h"

#include <aicf/explain.h>

/* ---- the typed form -------------------------------------------------------------------------- */

static aicf_status
frame_run(frame *f)
{
    aicf_status status = f->status;
    if (status.kind == AICF_OK) {
        bool plain = f->op->plain && f->op->plain(f->t, f->call, NULL);
        status = plain ? aicf_ok() : f->op->prepare(f->t, f->call);
    }
    return status.kind == AICF_OK ? frame_launch(f) : status;
}

PyObject *
attempt_framed(
    aicf_handle *handle, int variant, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    FRAME_ROOM(handle);
    frame f;
    PyObject *verdict = NULL;

    if (frame_begin(&f, handle, room, variant, FORM_TYPED, args, nargs, kwnames) < 0) {
        return NULL;
    }
    if (frame_read(&f, false) == 0) {
        if (f.op->scalars) {
            scalars_settle(&f);
        }
        aicf_status status = frame_run(&f);
        bool judged = status.kind == AICF_OK || status.kind == AICF_UNSUPPORTED;
        verdict = judged ? PyBool_FromLong(status.kind == AICF_OK)
                         : raise_status(handle, f.call, f.t, status);
        frame_drop(&f);
    }
    frame_end(&f);
    return verdict;
}

/* ---- outs that are left out ------------------------------------------------------------------ */

static bool
is_wanted(const frame *f, int out)
{
    return f->wanted >> out & 1;
}

static bool
is_missing(const frame *f, int out)
{
    return is_wanted(f, out) && !f->slots[f->op->inputs + out];
}

static bool
any_missing(const frame *f)
{
    for (int i = 0; i < f->op->outs; i++) {
        if (is_missing(f, i)) {
            return true;
        }
    }
    return false;
}

static bool
makes_tensors(const source *s)
{
    return s->framework != FRAMEWORK_NONE || (s->exchange && s->exchange->wrap);
}

/* Whose framework makes the outs: the first tensor's that has one. */
static const source *
framework_of_tensors(const frame *f)
{
    const source *any = NULL;
    for (int i = 0; i < f->count; i++) {
        const source *s = f->t[i].absent ? NULL : tensor_source(&f->t[i]);
        if (s && makes_tensors(s)) {
            return s;
        }
        any = any ? any : s;
    }
    return any;
}

static int
allocate_missing(frame *f, aicf_inferred *inferred)
{
    const source *like = framework_of_tensors(f);
    PyObject **objects = (PyObject **)(uintptr_t)f->objects;

    for (int i = 0; i < f->op->outs; i++) {
        int param = f->op->inputs + i;
        if (!is_missing(f, i)) {
            continue;
        }
        if (f->op->params_of[param].list >= 0) {
            return raise_misuse(f->op, f->op->params_of[param].name, "is a list: give its tensors");
        }
        f->made[i] = f->infers || f->spec_end ? spec_of_inferred(f->core, &inferred[i])
                                              : allocate_out(f, like, &inferred[i]);
        if (!f->made[i]) {
            return -1;
        }
        objects[aicf_call_start(f->call, param)] = f->made[i];
    }
    return 0;
}

/* Where the arguments are refused, f->status says so and nothing is allocated. */
static int
infer_outs(frame *f, aicf_inferred *inferred)
{
    f->status = f->op->infer(f->t, f->call, inferred);
    return f->status.kind ? 0 : allocate_missing(f, inferred);
}

/* Makes the outs that are wanted and not given. Python ran then: all tensors are read again. */
static int
complete_outs(frame *f)
{
    aicf_inferred few[2], *inferred = few;
    if (f->status.kind || !any_missing(f)) {
        return 0;
    }
    if (f->op->outs > 2) {
        inferred = PyMem_Calloc((size_t)f->op->outs, sizeof *inferred);
        if (!inferred) {
            PyErr_NoMemory();
            return -1;
        }
    }
    int done = infer_outs(f, inferred);
    if (inferred != few) {
        PyMem_Free(inferred);
    }
    if (done == 0 && f->status.kind == AICF_OK) {
        frame_drop(f);
        done = frame_read(f, false);
    }
    return done;
}

int
frame_complete(frame *f)
{
    variant_choose(f);
    return complete_outs(f);
}

/* ---- what is returned ------------------------------------------------------------------------ */

/* A NamedTuple of the row's outs, made at the first call that returns several. */
static PyObject *
result_type(aicf_handle *handle)
{
    const aicf_op *op = handle->op;
    if (once_known(&handle->result)) {
        return once_known(&handle->result);
    }
    PyObject *names = PyList_New(0);
    PyObject *collections = names ? PyImport_ImportModule("collections") : NULL;
    bool filled = collections;
    for (int i = op->inputs; filled && i < op->inputs + op->outs; i++) {
        filled = PyList_Append(names, handle->names[i]) == 0;
    }
    PyObject *type =
        filled ? PyObject_CallMethod(collections, "namedtuple", "sO", op->name, names) : NULL;
    Py_XDECREF(names);
    Py_XDECREF(collections);
    return once_settle(&handle->result, type);
}

static PyObject *
out_object(frame *f, int i)
{
    if (f->made[i]) {
        PyObject *made = f->made[i];
        f->made[i] = NULL;
        return allocate_finish(framework_of_tensors(f), made);
    }
    PyObject *given = f->slots[f->op->inputs + i];
    return Py_NewRef(is_wanted(f, i) && given ? given : Py_None);
}

static PyObject *
all_outs(frame *f)
{
    PyObject *type = result_type(f->handle);
    PyObject *values = type ? PyTuple_New(f->op->outs) : NULL;
    for (int i = 0; values && i < f->op->outs; i++) {
        PyObject *value = out_object(f, i);
        if (!value) {
            Py_CLEAR(values);
        } else {
            PyTuple_SetItem(values, i, value);
        }
    }
    PyObject *result = values ? PyObject_CallObject(type, values) : NULL;
    Py_XDECREF(values);
    return result;
}

/* The one required out where no optional one was asked for; else all, None where not computed. */
static PyObject *
outs_return(frame *f)
{
    if (f->op->outs == 0) {
        return Py_NewRef(Py_None);
    }
    bool first = f->op->outs == 1 || (f->wanted == 1 && !f->op->params_of[f->op->inputs].optional);
    return first ? out_object(f, 0) : all_outs(f);
}

/* ---- the generic form ------------------------------------------------------------------------ */

/* An out of torch's that was given may be one that autograd saved. */
static int
mark_written(const frame *f)
{
    for (int i = 0; i < f->op->inputs + f->op->outs; i++) {
        const aicf_tensor *t = f->param_of ? NULL : &f->t[i];
        bool given = i < f->op->inputs || !f->made[i - f->op->inputs];
        uint8_t role = f->op->params_of[i].role;
        if (t && !t->absent && given && (role == AICF_OUT || role == AICF_INOUT) &&
            tensor_source(t)->framework == FRAMEWORK_TORCH &&
            torch_written(f->core, f->objects[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *
compute(frame *f)
{
    if (frame_complete(f) < 0) {
        return NULL;
    }
    aicf_status status = frame_run(f);
    if (status.kind) {
        return raise_refusal(f, status);
    }
    return mark_written(f) < 0 ? NULL : outs_return(f);
}

static __attribute__((noinline)) PyObject *
compute_framed(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    FRAME_ROOM(handle);
    PyObject *made[64] = {NULL};
    frame f;
    PyObject *result = NULL;

    if (frame_begin(&f, handle, room, -1, FORM_COMPUTE, args, nargs, kwnames) < 0) {
        return NULL;
    }
    f.made = made;
    if (frame_read(&f, true) == 0) {
        result = compute(&f);
        frame_drop(&f);
    }
    frame_end(&f);
    return result;
}

PyObject *
form_compute(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (handle->lone_out && nargs == handle->op->inputs) {
        PyObject *out = compute_borrowed(handle, args, kwnames, true);
        if (out || PyErr_Occurred()) {
            return out;
        }
    }
    return compute_framed(handle, args, nargs, kwnames);
}

PyObject *
form_unasked(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (handle->lone_out && nargs == handle->op->inputs) {
        PyObject *out = compute_borrowed(handle, args, kwnames, false);
        if (out || PyErr_Occurred()) {
            return out;
        }
    }
    return compute_framed(handle, args, nargs, kwnames);
}

/* ---- explain --------------------------------------------------------------------------------- */

static int
add_line(void *list, const char *text)
{
    PyObject *line = text_decoded(text);
    int added = line ? PyList_Append(list, line) : -1;
    Py_XDECREF(line);
    return added;
}

static int
add_kernel(void *list, int index, bool fits, const char *line)
{
    (void)index;
    (void)fits;
    return add_line(list, line);
}

/* One line on what the tensors fail at, or one on each kernel. */
static PyObject *
explain_lines(const frame *f, aicf_status status)
{
    PyObject *list = PyList_New(0);
    bool early = status.kind && status.check != AICF_CHECK_KERNEL;
    char text[1024];
    int added = list ? 0 : -1;

    if (added == 0 && early) {
        aicf_status_describe(status, f->call, f->t, text, sizeof text);
        added = add_line(list, text);
    }
    if (added == 0 && !early) {
        added = aicf_call_explain_each(f->t, f->call, add_kernel, list);
    }
    if (added < 0) {
        Py_CLEAR(list);
    }
    return list;
}

static PyObject *
explain(frame *f)
{
    if (frame_complete(f) < 0) {
        return NULL;
    }
    aicf_status status = f->status;
    if (status.kind == AICF_OK) {
        status = f->op->prepare(f->t, f->call);
    }
    return explain_lines(f, status);
}

PyObject *
form_explain(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    FRAME_ROOM(handle);
    PyObject *made[64] = {NULL};
    frame f;
    PyObject *lines = NULL;

    if (frame_begin(&f, handle, room, -1, FORM_EXPLAIN, args, nargs, kwnames) < 0) {
        return NULL;
    }
    f.made = made;
    if (frame_read(&f, false) == 0) {
        lines = explain(&f);
        frame_drop(&f);
    }
    frame_end(&f);
    return lines;
}
