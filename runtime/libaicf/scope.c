/* What the row's expressions may ask. */
#include <aicf/call.h>

#include <string.h>

#include "binding.h"
#include "order.h"
#include "param.h"
#include "select.h"

int64_t
aicf_scope_numel(const aicf_scope *scope, int param)
{
    span s = span_of(scope->t, scope->call, param);
    int64_t numel = 0;
    for (int i = 0; i < s.count; i++) {
        if (!s.t[i].absent && __builtin_add_overflow(numel, s.t[i].numel, &numel)) {
            return INT64_MAX;
        }
    }
    return numel;
}

bool
aicf_scope_present(const aicf_scope *scope, int param)
{
    span s = span_of(scope->t, scope->call, param);
    return s.count > 0 && !s.t[0].absent;
}

bool
aicf_scope_same_shape(const aicf_scope *scope, const int16_t *params)
{
    const aicf_tensor *pair[2] = {NULL, NULL};
    for (; *params >= 0; params++) {
        span s = span_of(scope->t, scope->call, *params);
        for (int i = 0; i < s.count; i++) {
            if (s.t[i].absent) {
                continue;
            }
            pair[0] = pair[0] ? pair[0] : &s.t[i];
            pair[1] = &s.t[i];
            if (!scope->call->plain && !aicf_tensors_same_shape(pair, 2)) {
                return false;
            }
        }
    }
    return true;
}

static bool
is_aligned(const aicf_tensor *t, int64_t bytes)
{
    if (t->absent || !t->numel) {
        return true;
    }
    if ((uintptr_t)t->data % (uintptr_t)bytes) {
        return false;
    }
    order_walk walk = order_begin(t);
    while (order_next(&walk)) {
        bool unit = walk.stride == 1 || walk.stride == -1;
        if (!unit && walk.stride * aicf_dtype_size(t->dtype) % bytes) {
            return false;
        }
    }
    return true;
}

bool
aicf_scope_aligned(const aicf_scope *scope, int64_t bytes, const int16_t *params)
{
    if (bytes <= 0) {
        return false;
    }
    for (; *params >= 0; params++) {
        span s = span_of(scope->t, scope->call, *params);
        for (int i = 0; i < s.count; i++) {
            if (!is_aligned(&s.t[i], bytes)) {
                return false;
            }
        }
    }
    return true;
}

bool
aicf_scope_stride(const aicf_scope *scope, int param, int64_t index, int64_t *stride)
{
    span s = span_of(scope->t, scope->call, param);
    *stride = 0;
    if (s.count == 0 || s.t->absent) {
        return false;
    }
    index += index < 0 ? s.t->rank : 0;
    if (index < 0 || index >= s.t->rank) {
        return false;
    }
    *stride = order_stride(s.t, (int)index);
    return true;
}

/* As the kernel that is being tried has it in its view, where it takes matrices; else by itself. */
int64_t
aicf_scope_batches(const aicf_scope *scope, int param)
{
    const aicf_call *call = scope->call;
    span s = span_of(scope->t, scope->call, param);
    if (s.count == 0 || s.t->absent) {
        return 0;
    }
    if (call->kernel >= 0 && call->op->kernels[call->kernel].places[param] == AICF_PLACE_MATRIX) {
        return aicf_call_views(call)[param_start(call, param)].rank - 2;
    }
    return place_batches(s.t);
}

/* The list parameter that binds a dim. */
static int
list_of(const binding *b, int dim)
{
    const aicf_op *op = b->scope.call->op;
    for (int p = 0; p < op->inputs; p++) {
        if (op->params_of[p].list >= 0 && binding_mentions(b, p, dim)) {
            return p;
        }
    }
    return -1;
}

bool
aicf_scope_sum(const aicf_scope *scope, int dim, int64_t *sum)
{
    const aicf_op *op = scope->call->op;
    int64_t dims[BINDING_DIMS];
    binding b;

    *sum = 0;
    memcpy(dims, aicf_call_dims(scope->call), (size_t)op->dim_count * sizeof *dims);
    binding_resume(&b, scope, dims);
    int param = list_of(&b, dim);
    if (param < 0) {
        return false;
    }
    for (int i = 0; i < param_count(scope->call, param); i++) {
        binding_list(&b, op->params_of[param].list, i, op->inputs);
        if (__builtin_add_overflow(*sum, dims[dim], sum)) {
            return false;
        }
    }
    return true;
}

bool
aicf_scope_broadcast_numel(const aicf_scope *scope, const int16_t *packs, int64_t *numel)
{
    int64_t sizes[AICF_MAX_DIMS];
    int rank = binding_broadcast(scope->packs, packs, sizes);
    bool empty = false;

    *numel = 1;
    for (int i = 0; i < rank; i++) {
        empty |= sizes[i] == 0;
    }
    for (int i = 0; i < rank && !empty; i++) {
        if (__builtin_mul_overflow(*numel, sizes[i], numel)) {
            return false;
        }
    }
    *numel = empty ? 0 : *numel;
    return rank >= 0;
}
