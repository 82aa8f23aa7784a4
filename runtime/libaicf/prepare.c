/* prepare and infer of every op, by its descriptor. */
#include "attribute.h"
#include "check.h"
#include "order.h"
#include "param.h"
#include "prepare.h"
#include "select.h"

#include <string.h>

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
            return aicf_unsupported(AICF_CHECK_LIST, p, -1);
        }
        count += own;
    }
    if (count > INT32_MAX / 4) {
        return aicf_unsupported(AICF_CHECK_LIST, 0, -1);
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

/* Puts the dims of size 1 between the `count` others, which stand in `dims` with the innermost
   first. Where they lie shows no stride, and matters where the out is longer along them: the first
   ones outside of all, a last one just inside of the dim to its left, others just outside of the
   one to their right. */
static void
order_ones(const aicf_tensor *model, int *dims, int count)
{
    int first = 0, last = model->rank - 1;
    while (first < last && model->sizes[first] == 1) {
        first++;
    }
    while (last > first && model->sizes[last] == 1) {
        last--;
    }
    for (int i = model->rank - 1; i >= 0; i--) {
        if (model->sizes[i] != 1) {
            continue;
        }
        int beside = i == model->rank - 1 ? last : i + 1, at = 0;
        while (at < count && (i < first || dims[at] != beside)) {
            at++;
        }
        at += first < i && i < model->rank - 1;
        memmove(dims + at + 1, dims + at, sizeof *dims * (size_t)(count - at));
        dims[at] = i;
        count++;
    }
}

/* The memory order of the row's `order`, where that tensor has the out's rank and no gaps. */
static void
order_as(aicf_inferred *out, const aicf_tensor *model)
{
    int dims[AICF_MAX_DIMS];
    int64_t below = 1;
    bool alike = !model->absent && !model->dense && model->rank == out->rank;
    int count = alike ? order_innermost(model, dims) : -1;
    for (int i = 0; count >= 0 && i < out->rank; i++) {
        count = out->sizes[i] == 0 ? -1 : count;
    }
    out->ordered = count >= 0;
    if (out->ordered) {
        order_ones(model, dims, count);
    }
    for (int k = 0; out->ordered && k < out->rank; k++) {
        out->strides[dims[k]] = below;
        below *= out->sizes[dims[k]];
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
