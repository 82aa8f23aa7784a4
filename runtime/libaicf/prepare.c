/* prepare and infer of every op, by its descriptor. */
#include "attribute.h"
#include "check.h"
#include "order.h"
#include "param.h"
#include "prepare.h"
#include "select.h"

static const aicf_status internal = {AICF_INTERNAL, 0, 0, 0, 0};

/* Lengths of lists are the caller's: none is negative, and all tensors can be counted. */
static aicf_status
count_tensors(aicf_call *call)
{
    const aicf_op *op = call->op;
    int64_t count = 0;
    for (int p = 0; p < op->params; p++) {
        int list = op->params_of[p].list;
        int64_t own = list < 0 ? 1 : aicf_call_dims(call)[list];
        if (own < 0 || own > INT32_MAX / 4) {
            return aicf_unsupported(AICF_CHECK_LIST, p, 0);
        }
        count += own;
    }
    if (count > INT32_MAX / 4) {
        return aicf_unsupported(AICF_CHECK_LIST, 0, 0);
    }
    call->count = (int32_t)count;
    return aicf_ok();
}

static aicf_status
check_wheres(const binding *b)
{
    const aicf_op *op = b->scope.call->op;
    for (int i = 0; i < op->where_count; i++) {
        if (!op->wheres[i].test(&b->scope)) {
            return aicf_unsupported(AICF_CHECK_WHERE, 0, i);
        }
    }
    return aicf_ok();
}

static aicf_status
check_attributes(const aicf_tensor *t, aicf_call *call)
{
    if (call->refused) {
        return aicf_unsupported(AICF_CHECK_VALUE, 0, call->refused - 1);
    }
    if (!call->op->attr_count) {
        return aicf_ok();
    }
    aicf_status status = attributes_check(call, t);
    return status.kind ? status : attributes_fold(call, t);
}

aicf_status
prepare_arguments(binding *b, const aicf_tensor *t, aicf_call *call, int params, int *backend)
{
    const aicf_op *op = call->op;
    if (op->dim_count > BINDING_DIMS) {
        return internal;
    }
    aicf_status status = op->has_lists ? count_tensors(call) : aicf_ok();
    if (!status.kind) {
        status = check_tensors(t, call, params, backend);
    }
    if (!status.kind) {
        status = check_attributes(t, call);
    }
    if (status.kind) {
        return status;
    }
    binding_begin(b, call, t, aicf_call_dims(call));
    status = op->elementwise && call->plain ? binding_plain(b) : binding_arguments(b);
    return status.kind ? status : check_wheres(b);
}

aicf_status
prepare_checks(binding *b, const aicf_tensor *t, aicf_call *call, int *backend)
{
    const aicf_op *op = call->op;
    aicf_status status = prepare_arguments(b, t, call, op->inputs + op->outs, backend);
    if (!status.kind && !(op->elementwise && call->plain)) {
        status = binding_check(b, op->inputs + op->outs);
    }
    return status.kind ? status : check_overlaps(t, call);
}

/* The bytes of all tensors, as far as they can be counted. */
static int64_t
work_of(const aicf_tensor *t, const aicf_call *call)
{
    int64_t work = 0;
    for (int i = 0; i < call->count; i++) {
        int64_t bytes = t[i].absent ? 0 : t[i].numel * aicf_dtype_size(t[i].dtype);
        if (__builtin_add_overflow(work, bytes, &work)) {
            return INT64_MAX;
        }
    }
    return work;
}

aicf_status
aicf_op_prepare(const aicf_tensor *t, aicf_call *call)
{
    binding b;
    int backend;
    aicf_status status = prepare_checks(&b, t, call, &backend);
    if (status.kind) {
        return status;
    }
    call->work = work_of(t, call);
    return select_kernel(&b, call, backend);
}

/* The memory order of the row's `order`, where that tensor has the out's shape and no gaps. */
static void
order_as(aicf_inferred *out, const aicf_tensor *model)
{
    int64_t below = 1;
    bool same = !model->absent && !model->dense && model->rank == out->rank;
    for (int i = 0; same && i < out->rank; i++) {
        same = model->sizes[i] == out->sizes[i];
    }
    out->ordered = same && order_gapless(model);
    for (int i = out->rank - 1; out->ordered && i >= 0; i--) {
        out->strides[i] = out->sizes[i] == 1 ? below : model->strides[i];
        below *= out->sizes[i];
    }
}

aicf_status
aicf_op_infer(const aicf_tensor *t, aicf_call *call, aicf_inferred *outs)
{
    const aicf_op *op = call->op;
    binding b;
    int backend;
    aicf_status status = prepare_arguments(&b, t, call, op->inputs, &backend);

    if (!status.kind && !(op->elementwise && call->plain)) {
        status = binding_check(&b, op->inputs);
    }
    for (int i = 0; i < op->outs && !status.kind; i++) {
        int param = op->inputs + i;
        int order = op->params_of[param].order;
        outs[i].dtype = op->dtypes[call->variant * op->params + param];
        outs[i].device = call->device;
        outs[i].ordered = false;
        status = binding_out(&b, param, &outs[i]);
        if (!status.kind && order >= 0) {
            order_as(&outs[i], &t[param_start(call, order)]);
        }
    }
    return status;
}
