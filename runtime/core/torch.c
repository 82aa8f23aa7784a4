/* What torch keeps beside the memory: the negative bit, autograd's mode, versions. */
#include "core.h"

/* Torch exports the negative bit silently, by every protocol. Only views of complex storage have
   it, as the imaginary part of a conjugate: all their strides are even but where there is one
   element. */
bool
torch_may_be_negative(const aicf_tensor *t)
{
    if (t->numel > 1 && t->dense) {
        return false; /* its last stride is 1 */
    }
    for (int i = 0; t->numel > 1 && t->strides && i < t->rank; i++) {
        if (t->sizes[i] > 1 && t->strides[i] % 2) {
            return false;
        }
    }
    return t->numel > 0 && !t->refused;
}

/* Steals. */
static int
truth(PyObject *value)
{
    int is = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return is;
}

int
torch_ask_negative(const core_state *core, PyObject *object, aicf_tensor *t)
{
    int negative = truth(PyObject_CallMethodObjArgs(object, core->names[NAME_is_neg], NULL));
    if (negative > 0) {
        t->refused = AICF_CHECK_NEGATIVE;
    }
    return negative < 0 ? -1 : 0;
}

static int
grad_enabled(void)
{
    PyObject *torch = PyImport_ImportModule("torch");
    int enabled = torch ? truth(PyObject_CallMethod(torch, "is_grad_enabled", NULL)) : -1;
    Py_XDECREF(torch);
    return enabled;
}

bool
torch_ask_forward(core_state *core)
{
    PyObject *module = once_known(&core->forward_ad);
    if (!module) {
        module = once_settle(&core->forward_ad, PyImport_ImportModule("torch.autograd.forward_ad"));
    }
    PyObject *level = module ? PyObject_GetAttr(module, core->names[NAME__current_level]) : NULL;
    bool on = level && PyLong_Check(level) && PyLong_AsLong(level) >= 0;
    Py_XDECREF(level);
    PyErr_Clear(); /* a torch without it has no such mode */
    return on;
}

static int
has_tangent(const core_state *core, PyObject *object)
{
    PyObject *module = once_known(&core->forward_ad);
    PyObject *dual = PyObject_CallMethod(module, "unpack_dual", "O", object);
    PyObject *tangent = dual ? PyObject_GetAttrString(dual, "tangent") : NULL;
    int has = tangent ? tangent != Py_None : -1;
    Py_XDECREF(dual);
    Py_XDECREF(tangent);
    return has;
}

int
torch_ask_gradient(const core_state *core, PyObject *object, bool forward, uint8_t *refused)
{
    int needs = truth(PyObject_GetAttr(object, core->names[NAME_requires_grad]));
    if (needs > 0) {
        needs = grad_enabled();
        *refused = needs > 0 ? AICF_CHECK_GRADIENT : 0;
    }
    if (needs == 0 && forward) {
        needs = has_tangent(core, object);
        *refused = needs > 0 ? AICF_CHECK_TANGENT : 0;
    }
    return needs < 0 ? -1 : 0;
}

/* Tells autograd that a tensor which it may have saved has changed. */
int
torch_written(core_state *core, PyObject *object)
{
    PyObject *increment = once_known(&core->increment_version);
    if (!increment) {
        PyObject *graph = PyImport_ImportModule("torch.autograd.graph");
        increment = graph ? PyObject_GetAttrString(graph, "increment_version") : NULL;
        increment = once_settle(&core->increment_version, increment);
        Py_XDECREF(graph);
    }
    PyObject *done = increment ? PyObject_CallFunctionObjArgs(increment, object, NULL) : NULL;
    Py_XDECREF(done);
    return done ? 0 : -1;
}
