/* The generic call that is made most: dense tensors of one shape, of types that are known and can
   be borrowed, and one out, which is given or made here. All that may run Python, the making of the
   out included, comes before the tensors are borrowed for good; an object is made of the out's
   memory only when the kernel was launched. What cannot be done so is left to the frame, which
   begins anew: it knows all other calls, and every word of what is refused. */
#include "borrowed.h"

#include <string.h>

typedef struct quick {
    aicf_handle *handle;
    PyObject *const *args; /* the inputs, and behind them the out where it is given */
    int count;             /* of them */
    aicf_call *call;
    aicf_tensor *t;      /* one a parameter: the out is the last */
    const source *lead;  /* of the first input, whose framework makes the out */
    bool mixed;          /* others are of other types */
    bool asks;           /* else nothing of it needs a gradient, nor carries a tangent */
    dl_managed *managed; /* the out, where it was made: in one of both forms */
    PyObject *array;
} quick;

/* How far it got: to the end of a step; not, so that the frame has to; an exception. */
typedef enum step { STEP_FAILED = -1, STEP_NOT, STEP_DONE } step;

/* Of others' exceptions: the frame asks again, and lets through what is raised then. */
static step
step_refused(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {
        return STEP_FAILED; /* an interrupt comes once */
    }
    PyErr_Clear();
    return STEP_NOT;
}

/* Nothing keeps the tensors from being borrowed, nor from being used where gradients are recorded.
   Runs Python. */
static step
quick_ask(quick *q)
{
    core_state *core = q->handle->core;
    bool torch = false;
    for (int i = 0; i < q->count; i++) {
        const source *s = source_seen(q->handle, i, q->args[i]);
        uint8_t refused = 0;
        if (!s || !s->read || s->refused || s->framework == FRAMEWORK_OWN) {
            return STEP_NOT; /* ours may have a stream of their own */
        }
        if (!q->asks || s->framework != FRAMEWORK_TORCH) {
            continue;
        }
        if (!torch && torch_ask_forward(core)) {
            return STEP_NOT; /* each has to be asked for its tangent */
        }
        torch = true;
        if (torch_ask_gradient(core, q->args[i], false, &refused) < 0) {
            return STEP_FAILED;
        }
        if (refused) {
            return STEP_NOT;
        }
    }
    return STEP_DONE;
}

/* From here on to the launch no Python may run. */
static bool
quick_borrow(quick *q)
{
    for (int i = 0; i < q->count; i++) {
        if (!tensor_borrow(source_seen(q->handle, i, q->args[i]), q->args[i], &q->t[i])) {
            return false;
        }
    }
    q->lead = tensor_source(&q->t[0]);
    for (int i = 1; i < q->count; i++) {
        q->mixed |= tensor_source(&q->t[i]) != q->lead;
    }
    return true;
}

/* The out as all inputs are. False: they are not alike, or have one element or none. */
static bool
quick_infer(const quick *q, int variant, aicf_inferred *out)
{
    const aicf_op *op = q->handle->op;
    const aicf_tensor *first = q->t;
    bool many = false;

    if (first->rank > AICF_MAX_RANK || (first->rank && !first->sizes)) {
        return false;
    }
    out->dtype = op->dtypes[variant * op->params + op->inputs];
    out->device = first->device;
    out->rank = first->rank;
    out->ordered = false;
    for (int k = 0; k < first->rank; k++) {
        out->sizes[k] = first->sizes[k];
        many |= first->sizes[k] > 1;
        for (int i = 1; i < op->inputs; i++) {
            const aicf_tensor *t = &q->t[i];
            if (t->rank != first->rank || !t->sizes || t->sizes[k] != first->sizes[k]) {
                return false;
            }
        }
    }
    return many;
}

static bool
is_row_major(const aicf_tensor *t)
{
    int64_t below = 1;
    for (int i = t->rank - 1; t->strides && i >= 0; i--) {
        if (t->sizes[i] != 1 && t->strides[i] != below) {
            return false;
        }
        below *= t->sizes[i];
    }
    return true;
}

/* By the function that has the least to be told. */
static PyObject *
quick_torch(const quick *q, const aicf_inferred *out)
{
    core_state *core = q->handle->core;
    bool alike = out->dtype == q->t->dtype && is_row_major(q->t);
    PyObject *made = alike ? torch_new_like(core, q->args[0]) : NULL;
    return made || PyErr_Occurred() ? made : torch_new(core, out);
}

/* Makes the out, and borrows all again where Python may have run. */
static step
quick_make(quick *q, const aicf_inferred *out)
{
    aicf_tensor *t = &q->t[q->handle->op->inputs];
    const source *lead = q->lead;
    bool asked = true;

    if (lead->framework == FRAMEWORK_TORCH && out->device.type != DL_CPU) {
        q->array = quick_torch(q, out);
    } else if (lead->exchange && lead->exchange->allocate && lead->exchange->wrap) {
        q->managed = allocate_managed(lead, out, &asked);
    } else if (lead->framework == FRAMEWORK_NUMPY && out->device.type == DL_CPU) {
        q->array = numpy_new(q->handle->core, out->dtype, out->rank, out->sizes);
    }
    if ((!q->managed && !q->array) || (asked && !quick_borrow(q))) {
        return step_refused();
    }
    if (q->array) {
        return tensor_borrow(lead, q->array, t) ? STEP_DONE : STEP_NOT;
    }
    *t = (aicf_tensor){.source = lead};
    memcpy(t, &q->managed->tensor, sizeof q->managed->tensor);
    return STEP_DONE;
}

/* Up to the launch, with all that is checked. */
static step
quick_run(quick *q, aicf_status *status)
{
    const aicf_op *op = q->handle->op;
    aicf_inferred out;
    step asked = quick_ask(q);
    if (asked != STEP_DONE) {
        return asked;
    }
    int variant = quick_borrow(q) ? variant_first(op, q->t) : -1;
    if (variant < 0 || !quick_infer(q, variant, &out)) {
        return STEP_NOT;
    }
    step made = q->count == op->params ? STEP_DONE : quick_make(q, &out);
    if (made != STEP_DONE) {
        return made;
    }
    const void *begun = q->handle->images + (size_t)variant * op->call_size;
    const source *all = q->mixed ? NULL : q->lead;
    return op->plain(q->t, q->call, begun) && launch_borrowed(q->handle, all, q->call, q->t, status)
               ? STEP_DONE
               : STEP_NOT;
}

/* What the caller gets. */
static PyObject *
quick_result(quick *q)
{
    const int at = q->handle->op->inputs;
    PyObject *array = q->array;
    dl_managed *managed = q->managed;
    q->array = NULL;
    q->managed = NULL;
    if (managed) {
        return allocate_wrap(q->lead, managed);
    }
    if (array) {
        return array;
    }
    bool torch = tensor_source(&q->t[at])->framework == FRAMEWORK_TORCH;
    return torch && torch_written(q->handle->core, q->args[at]) < 0 ? NULL : Py_NewRef(q->args[at]);
}

/* Gives back an out that nobody gets; keeps a pending exception. */
static void
quick_end(quick *q)
{
    PyObject *type, *value, *trace;
    if (q->managed || q->array) {
        PyErr_Fetch(&type, &value, &trace);
        managed_drop(q->managed);
        Py_XDECREF(q->array);
        PyErr_Restore(type, value, trace);
    }
}

PyObject *
compute_borrowed(aicf_handle *handle, PyObject *const *args, PyObject *kwnames, bool asks)
{
    const int inputs = handle->op->inputs;
    bool named = kwnames && PyTuple_Size(kwnames) == 1 &&
                 PyTuple_GetItem(kwnames, 0) == handle->names[inputs];
    if (kwnames && !named) {
        return NULL;
    }
    FRAME_ROOM(handle);
    quick q = {
        .handle = handle,
        .args = args,
        .count = inputs + named,
        .asks = asks,
        .call = (aicf_call *)room,
        .t = (aicf_tensor *)(void *)(room + handle->tensors),
    };
    aicf_status status = aicf_ok();
    PyObject *result = NULL;
    if (quick_run(&q, &status) == STEP_DONE) {
        result = status.kind ? raise_status(handle, q.call, q.t, status) : quick_result(&q);
    }
    quick_end(&q);
    return result;
}
