/* What torch keeps beside the memory: the negative bit, autograd's mode, versions; and its own new
   tensors. */
#include "storage.h"

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

/* ---- new tensors ----------------------------------------------------------------------------- */

/* A member of torch's, looked up once. Borrowed. */
static PyObject *
member_find(PyObject **slot, const char *name)
{
    if (once_known(slot)) {
        return once_known(slot);
    }
    PyObject *torch = PyImport_ImportModule("torch");
    PyObject *member = torch ? PyObject_GetAttrString(torch, name) : NULL;
    Py_XDECREF(torch);
    return once_settle(slot, member);
}

/* dtype= and device=. A new reference, as are the next. */
static PyObject *
options_make(const core_state *core, const aicf_inferred *out)
{
    PyObject *name = dtype_spelling(dtype_words_of(out->dtype));
    PyObject *torch = name ? PyImport_ImportModule("torch") : NULL;
    PyObject *dtype = torch ? PyObject_GetAttr(torch, name) : NULL;
    PyObject *device = PyUnicode_FromFormat(
        out->device.type == DL_CPU ? "cpu" : "cuda:%d", (int)out->device.index);
    PyObject *options = dtype && device ? PyDict_New() : NULL;
    if (options && (PyDict_SetItem(options, core->names[NAME_dtype], dtype) < 0 ||
                    PyDict_SetItem(options, core->names[NAME_device], device) < 0)) {
        Py_CLEAR(options);
    }
    Py_XDECREF(name);
    Py_XDECREF(torch);
    Py_XDECREF(dtype);
    Py_XDECREF(device);
    return options;
}

static PyObject *
options_find(core_state *core, const aicf_inferred *out)
{
    int index = out->device.index;
    if (out->device.type == DL_CPU || index < 0 || index >= TORCH_DEVICES) {
        return options_make(core, out);
    }
    PyObject **slot = &core->torch_options[dtype_index(dtype_words_of(out->dtype))][index];
    PyObject *known = once_known(slot);
    return Py_XNewRef(known ? known : once_settle(slot, options_make(core, out)));
}

/* Torch's own memory can be grown, and lent to another of its streams, by `resize_` and
   `record_stream`; what it takes over by DLPack cannot. */
PyObject *
torch_new(core_state *core, const aicf_inferred *out)
{
    int64_t strides[AICF_MAX_DIMS], below = 1;
    for (int i = out->rank - 1; i >= 0; i--) {
        strides[i] = out->ordered ? out->strides[i] : below;
        below *= out->sizes[i] ? out->sizes[i] : 1;
    }
    PyObject *empty = member_find(&core->torch_empty, "empty_strided"), *made = NULL;
    PyObject *options = empty ? options_find(core, out) : NULL;
    PyObject *shape = options ? tuple_of_numbers(out->sizes, out->rank) : NULL;
    PyObject *steps = shape ? tuple_of_numbers(strides, out->rank) : NULL;
    PyObject *args = steps ? PyTuple_Pack(2, shape, steps) : NULL;
    if (args) {
        made = PyObject_Call(empty, args, options);
    }
    Py_XDECREF(options);
    Py_XDECREF(shape);
    Py_XDECREF(steps);
    Py_XDECREF(args);
    return made;
}

PyObject *
torch_new_like(core_state *core, PyObject *object)
{
    PyObject *type = member_find(&core->torch_type, "Tensor");
    if (!type || (PyObject *)Py_TYPE(object) != type) {
        return NULL;
    }
    PyObject *like = member_find(&core->torch_empty_like, "empty_like");
    return like ? PyObject_CallFunctionObjArgs(like, object, NULL) : NULL;
}
