#include "binding.h"

#include <string.h>

#include "match.h"
#include "param.h"

void
binding_begin(binding *b, const aicf_call *call, const aicf_tensor *t, int64_t *dims)
{
    const aicf_op *op = call->op;

    b->scope = (aicf_scope){call, t, b->packs};
    b->dims = dims;
    b->bound = 0;
    b->whole = 0;
    for (int d = 0; d < op->dim_count; d++) {
        b->packs[d].rank = -1;
        if (op->dims[d].kind == AICF_DIM_LIST) {
            b->bound |= UINT64_C(1) << d;
        } else {
            dims[d] = 0;
        }
    }
}

void
binding_resume(binding *b, const aicf_scope *scope, int64_t *dims)
{
    const aicf_op *op = scope->call->op;
    b->scope = (aicf_scope){scope->call, scope->t, b->packs};
    b->dims = dims;
    b->bound = 0;
    b->whole = 0;
    for (int d = 0; d < op->dim_count; d++) {
        b->packs[d] = scope->packs[d];
        b->bound |= UINT64_C(1) << d;
    }
    binding_forget(b);
}

void
binding_forget(binding *b)
{
    const aicf_op *op = b->scope.call->op;
    for (int d = 0; d < op->dim_count; d++) {
        if (op->dims[d].varies) {
            b->bound &= ~(UINT64_C(1) << d);
            b->packs[d].rank = -1;
            b->dims[d] = 0;
        }
    }
}

static const aicf_tensor *
tensor_at(const binding *b, int param, int index)
{
    return b->scope.t + param_start(b->scope.call, param) + index;
}

bool
binding_list(binding *b, int list, int index, int before)
{
    const aicf_op *op = b->scope.call->op;
    bool agree = true;

    binding_forget(b);
    for (int p = 0; p < op->inputs && p < before; p++) {
        if (op->params_of[p].list == list) {
            agree &= match_bind(b, p, tensor_at(b, p, index)) != MATCH_NO;
        }
    }
    return agree;
}

/* Past the lists of one length that stand together from `param` on, or past `param` alone. */
static int
group_end(const aicf_op *op, int param)
{
    int list = op->has_lists ? op->params_of[param].list : -1;
    int end = param + 1;
    while (list >= 0 && end < op->inputs && op->params_of[end].list == list) {
        end++;
    }
    return end;
}

/* The lists [*param, end), index by index, each tensor among those of the lists before it. What
   does not fit is the first such list's first: of it *param and *at are then the place. */
static match
bind_lists(binding *b, int *param, int end, int *at)
{
    int first = *param, fitting = end;
    int list = b->scope.call->op->params_of[first].list;
    int count = param_count(b->scope.call, first);
    uint64_t later = 0;

    for (int j = 0; j < count; j++) {
        binding_list(b, list, j, first);
        for (int p = first; p < fitting; p++) {
            match one = match_bind(b, p, tensor_at(b, p, j));
            if (one == MATCH_NO) {
                fitting = *param = p;
                *at = j;
            } else if (one == MATCH_LATER) {
                later |= UINT64_C(1) << (p & 63);
            }
        }
    }
    b->whole &= ~later;
    binding_forget(b);
    return fitting < end ? MATCH_NO : later ? MATCH_LATER : MATCH_YES;
}

/* Parameters [*param, end): lists that stand together, or one that is none. */
static match
bind_params(binding *b, int *param, int end, int *at)
{
    const aicf_op *op = b->scope.call->op;
    *at = 0;
    if (op->has_lists && op->params_of[*param].list >= 0) {
        return bind_lists(b, param, end, at);
    }
    const aicf_tensor *t = tensor_at(b, *param, 0);
    return t->absent ? MATCH_YES : match_bind(b, *param, t);
}

static aicf_status
compute_lets(binding *b)
{
    const aicf_op *op = b->scope.call->op;
    for (int d = 0; d < op->dim_count; d++) {
        if (op->dims[d].kind == AICF_DIM_LET) {
            if (!op->dims[d].value(&b->scope, &b->dims[d])) {
                return aicf_unsupported(AICF_CHECK_EXPRESSION, 0, d);
            }
            b->bound |= UINT64_C(1) << d;
        }
    }
    return aicf_ok();
}

/* Some shapes can be located only once others have bound their packs: as long as that goes on, all
   are tried again. Checks of what is bound are repeated; that is harmless. */
aicf_status
binding_arguments(binding *b)
{
    const aicf_op *op = b->scope.call->op;
    uint64_t before;
    bool later;

    do {
        before = b->bound;
        later = false;
        for (int p = 0, end; p < op->inputs; p = end) {
            int param = p, at;
            end = group_end(op, p);
            match found = bind_params(b, &param, end, &at);
            if (found == MATCH_NO) {
                return aicf_unsupported(AICF_CHECK_SHAPE, param, at);
            }
            later |= found == MATCH_LATER;
        }
    } while (later && b->bound != before);
    return compute_lets(b);
}

aicf_status
binding_plain(binding *b)
{
    const aicf_op *op = b->scope.call->op;
    for (int p = 0; p < op->inputs; p++) {
        const aicf_item *item = op->shapes[p].items;
        const aicf_tensor *t = &b->scope.t[p];
        if (item->kind == AICF_ITEM_PACK && !t->absent) {
            b->packs[item->dim].sizes = t->sizes;
            b->packs[item->dim].rank = t->rank;
            b->dims[item->dim] = t->numel;
            b->bound |= UINT64_C(1) << item->dim;
        }
    }
    return compute_lets(b);
}

static aicf_status
check_list(binding *b, int param)
{
    const aicf_op *op = b->scope.call->op;
    int list = op->params_of[param].list;
    int count = param_count(b->scope.call, param);
    aicf_status status = aicf_ok();

    for (int j = 0; j < count && !status.kind; j++) {
        binding_list(b, list, j, op->inputs);
        status = match_check(b, param, tensor_at(b, param, j));
        if (status.kind && status.check == AICF_CHECK_SHAPE) {
            status.native = j;
        }
    }
    binding_forget(b);
    return status;
}

aicf_status
binding_check(binding *b, int params)
{
    const aicf_op *op = b->scope.call->op;
    aicf_status status = aicf_ok();

    for (int p = 0; p < params && !status.kind; p++) {
        bool list = op->has_lists && op->params_of[p].list >= 0;
        bool whole = p < 64 && b->whole >> p & 1;
        if (whole) {
            continue;
        }
        if (list) {
            status = check_list(b, p);
        } else if (!tensor_at(b, p, 0)->absent) {
            status = match_check(b, p, tensor_at(b, p, 0));
        }
    }
    return status;
}

aicf_status
binding_out(binding *b, int param, aicf_inferred *out)
{
    int rank = match_sizes(b, param, out->sizes);
    if (rank < 0) {
        return aicf_unsupported(AICF_CHECK_SHAPE, param, 0);
    }
    int64_t bytes = aicf_dtype_size(out->dtype);
    for (int i = 0; i < rank; i++) {
        if (out->sizes[i] < 0) {
            return aicf_unsupported(AICF_CHECK_SHAPE, param, 0);
        }
        if (out->sizes[i] > 1 && __builtin_mul_overflow(bytes, out->sizes[i], &bytes)) {
            return aicf_unsupported(AICF_CHECK_RANGE, param, 0);
        }
    }
    out->rank = rank;
    return aicf_ok();
}

bool
binding_mentions(const binding *b, int param, int dim)
{
    const aicf_shape *shape = &b->scope.call->op->shapes[param];
    for (int i = 0; i < shape->count; i++) {
        if (shape->items[i].dim == dim && shape->items[i].kind <= AICF_ITEM_AXIS) {
            return true;
        }
    }
    return false;
}

int
binding_broadcast(const aicf_pack *of, const int16_t *packs, int64_t sizes[AICF_MAX_DIMS])
{
    int rank = 0;
    for (const int16_t *p = packs; *p >= 0; p++) {
        rank = of[*p].rank > rank ? of[*p].rank : rank;
    }
    for (int i = 0; i < rank; i++) {
        sizes[i] = 1;
    }
    for (const int16_t *p = packs; *p >= 0; p++) {
        const aicf_pack *pack = &of[*p];
        for (int i = 1; i <= pack->rank; i++) {
            int64_t size = pack->sizes[pack->rank - i];
            int64_t *to = &sizes[rank - i];
            if (size != *to && size != 1 && *to != 1) {
                return -1;
            }
            *to = size == 1 ? *to : size;
        }
    }
    return rank;
}
