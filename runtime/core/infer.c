/* What an op would say and give, without doing it. */
#include "core.h"

/* The Specs of all outs, also of those that would not be computed. */
static PyObject *
specs_of_outs(const frame *f, const aicf_inferred *inferred)
{
    PyObject *specs = PyTuple_New(f->op->outs);
    for (int i = 0; specs && i < f->op->outs; i++) {
        PyObject *spec = spec_of_inferred(f->core, &inferred[i]);
        if (!spec) {
            Py_CLEAR(specs);
        } else {
            PyTuple_SetItem(specs, i, spec);
        }
    }
    return specs;
}

/* After the checks of the generic form, with the outs that it would have made. */
static PyObject *
infer(frame *f)
{
    if (frame_complete(f) < 0) {
        return NULL;
    }
    aicf_status status = f->status.kind ? f->status : f->op->prepare(f->t, f->call);
    if (status.kind) {
        return raise_refusal(f, status);
    }
    aicf_inferred *inferred = PyMem_Calloc((size_t)f->op->outs + 1, sizeof *inferred);
    if (!inferred) {
        return PyErr_NoMemory();
    }
    status = f->op->infer(f->t, f->call, inferred);
    PyObject *specs = status.kind ? raise_refusal(f, status) : specs_of_outs(f, inferred);
    PyMem_Free(inferred);
    return specs;
}

PyObject *
form_infer(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    FRAME_ROOM(handle);
    PyObject *made[64] = {NULL};
    frame f;
    PyObject *specs = NULL;

    if (frame_begin(&f, handle, room, -1, FORM_INFER, args, nargs, kwnames) < 0) {
        return NULL;
    }
    f.made = made;
    if (frame_read(&f, true) == 0) {
        specs = infer(&f);
        frame_drop(&f);
    }
    frame_end(&f);
    return specs;
}
