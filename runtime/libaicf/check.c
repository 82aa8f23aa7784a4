#include "check.h"

#include "param.h"

/* The first tensor that the dtype does not suit, or -1. */
static int
unsuited(span s, aicf_dtype dtype)
{
    for (int i = 0; dtype && i < s.count; i++) {
        if (!s.t[i].absent && s.t[i].dtype != dtype) {
            return i;
        }
    }
    return -1;
}

/* Which parameter, and which of its tensors, rules variant `v` out. Scalars follow the variant that
   the others say. */
static int
ruled_out_by(const aicf_tensor *t, const aicf_call *call, int params, int v, int *index)
{
    const aicf_dtype *dtypes = call->op->dtypes + v * call->op->params;
    for (int p = 0; p < params; p++) {
        *index = unsuited(span_of(t, call, p), dtypes[p]);
        if (*index >= 0) {
            return p;
        }
    }
    return -1;
}

/* The blame is on the parameter that the most variants got to. */
static aicf_status
find_variant(const aicf_tensor *t, aicf_call *call, int params)
{
    int blamed = -1, at = 0;
    for (int v = 0; v < call->op->variants; v++) {
        int index;
        int p = ruled_out_by(t, call, params, v, &index);
        if (p < 0) {
            call->variant = (int16_t)v;
            return aicf_ok();
        }
        if (p > blamed) {
            blamed = p;
            at = index;
        }
    }
    return aicf_unsupported(AICF_CHECK_DTYPE, blamed < 0 ? 0 : blamed, at);
}

/* A tensor that something is wrong with: what. */
static aicf_status
fault_of(const aicf_call *call, const aicf_tensor *t, int param, int index, int first)
{
    const aicf_op *op = call->op;
    aicf_dtype dtype = op->dtypes[call->variant * op->params + param];
    int role = op->params_of[param].role;

    if (t->refused) {
        return aicf_unsupported((aicf_check)t->refused, param, index);
    }
    if (role == AICF_SCALAR) {
        return aicf_unsupported(AICF_CHECK_SCALAR, param, 0);
    }
    if (dtype && t->dtype != dtype) {
        return aicf_unsupported(AICF_CHECK_DTYPE, param, index);
    }
    if (!aicf_device_same(t->device, call->device)) {
        return aicf_unsupported(AICF_CHECK_DEVICE, param, first);
    }
    return aicf_unsupported(AICF_CHECK_READ_ONLY, param, index);
}

static inline bool
is_faulty(const aicf_call *call, const aicf_tensor *t, aicf_dtype dtype, int role)
{
    return t->refused | (dtype && t->dtype != dtype) | !aicf_device_same(t->device, call->device) |
           (t->read_only & (role == AICF_OUT || role == AICF_INOUT)) |
           (role == AICF_SCALAR && t->numel != 1);
}

/* A parameter that must be given and was not. */
static inline bool
is_missing(const aicf_param *param, int role)
{
    return !param->optional && role != AICF_SCALAR && param->list < 0;
}

static aicf_status
check_param(const aicf_tensor *t, const aicf_call *call, int param, int first)
{
    const aicf_op *op = call->op;
    int role = op->params_of[param].role;
    aicf_dtype dtype = op->dtypes[call->variant * op->params + param];
    span s = span_of(t, call, param);

    for (int i = 0; i < s.count; i++) {
        if (s.t[i].absent) {
            if (is_missing(&op->params_of[param], role)) {
                return aicf_unsupported(AICF_CHECK_MEMORY, param, i);
            }
        } else if (is_faulty(call, &s.t[i], dtype, role)) {
            return fault_of(call, &s.t[i], param, i, first);
        }
    }
    return aicf_ok();
}

static inline bool
is_checked(const aicf_op *op, int param, int params)
{
    return param < params || param >= op->inputs + op->outs;
}

/* The device of the first tensor present, scalars last; *first: its parameter, -1: there is none */
static void
find_device(const aicf_tensor *t, aicf_call *call, int params, int *first)
{
    for (int p = 0; p < call->op->params; p++) {
        span s = span_of(t, call, p);
        for (int i = 0; is_checked(call->op, p, params) && i < s.count; i++) {
            if (!s.t[i].absent) {
                call->device = s.t[i].device;
                *first = p;
                return;
            }
        }
    }
    *first = -1;
}

static bool
serves(const aicf_op_backend *backend, int32_t type)
{
    for (const int32_t *d = backend->devices; *d; d++) {
        if (*d == type) {
            return true;
        }
    }
    return false;
}

/* Without any tensor there is nothing to do, and any backend does that: the host's if there is. */
static void
settle_without_tensors(aicf_call *call, int *backend)
{
    const aicf_op *op = call->op;
    *backend = 0;
    for (int i = 0; i < op->backend_count; i++) {
        const aicf_backend *own = op->backends[i].backend;
        *backend = own && own->host ? i : *backend;
    }
    call->device = (aicf_device){op->backends[*backend].devices[0], 0};
}

static aicf_status
find_backend(aicf_call *call, int first, int *backend)
{
    const aicf_op *op = call->op;
    if (first < 0) {
        settle_without_tensors(call, backend);
        return aicf_ok();
    }
    for (int i = 0; i < op->backend_count; i++) {
        if (serves(&op->backends[i], call->device.type)) {
            *backend = i;
            return aicf_ok();
        }
    }
    return aicf_unsupported(AICF_CHECK_BACKEND, first, 0);
}

/* Dense, and of the shape of the first that is present. */
static inline bool
is_plain(const aicf_tensor *t, const aicf_tensor *model)
{
    return t->dense && t->rank == model->rank && sizes_equal(t->sizes, model->sizes, t->rank);
}

/* Without lists: all that check_param looks at, in one go. False: something is wrong. */
static bool
are_fine(const aicf_tensor *t, aicf_call *call, int params)
{
    const aicf_op *op = call->op;
    const aicf_dtype *dtypes = op->dtypes + call->variant * op->params;
    const aicf_tensor *model = NULL;
    bool plain = true;

    for (int p = 0; p < op->params; p = p + 1 == params ? op->inputs + op->outs : p + 1) {
        int role = op->params_of[p].role;
        if (t[p].absent) {
            if (is_missing(&op->params_of[p], role)) {
                return false;
            }
        } else if (is_faulty(call, &t[p], dtypes[p], role)) {
            return false;
        } else if (role != AICF_SCALAR) {
            model = model ? model : &t[p];
            plain = plain && is_plain(&t[p], model);
        }
    }
    call->plain = plain && model;
    return true;
}

static aicf_status
check_params(const aicf_tensor *t, const aicf_call *call, int params, int first)
{
    aicf_status status = aicf_ok();
    for (int p = 0; p < call->op->params && !status.kind; p++) {
        if (is_checked(call->op, p, params)) {
            status = check_param(t, call, p, first);
        }
    }
    return status;
}

aicf_status
check_tensors(const aicf_tensor *t, aicf_call *call, int params, int *backend)
{
    int first;
    aicf_status status = call->variant < 0 ? find_variant(t, call, params) : aicf_ok();
    if (status.kind) {
        return status;
    }
    find_device(t, call, params, &first);
    call->plain = false;
    if (call->op->has_lists || !are_fine(t, call, params)) {
        status = check_params(t, call, params, first);
    }
    return status.kind ? status : find_backend(call, first, backend);
}
