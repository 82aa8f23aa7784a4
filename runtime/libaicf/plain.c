#include "plain.h"

#include <string.h>

#include "attribute.h"
#include "binding.h"
#include "param.h"
#include "select.h"

/* Rows and calls that it is for: one compare each. */
static inline bool
is_candidate(const aicf_tensor *t, const aicf_call *call)
{
    const aicf_op *op = call->op;
    return op->elementwise && !op->has_lists && !op->where_count && call->variant >= 0 &&
           call->demanded < 0 && !call->refused && !t->absent && op->dim_count <= BINDING_DIMS;
}

/* What settle and the reader say of a tensor, as one word: dense alone, or dense and read-only. */
static inline uint32_t
flags_of(const aicf_tensor *t)
{
    _Static_assert(offsetof(aicf_tensor, refused) == offsetof(aicf_tensor, dense) + 3, "one word");
    uint32_t flags;
    memcpy(&flags, &t->dense, sizeof flags);
    return flags;
}

static const aicf_tensor dense_alone = {.dense = true},
                         dense_read_only = {.dense = true, .read_only = true};

/* Device and rank as in the first tensor, in two words; the dtype is the row's. */
static inline bool
has_form(const aicf_tensor *t, const aicf_tensor *model, aicf_dtype dtype)
{
    return (t->device.type == model->device.type) & (t->device.index == model->device.index) &
           (t->rank == model->rank) & ((t->dtype == dtype) | !dtype) & (t->numel == model->numel);
}

/* Every tensor is like the first, and no scalar is one. Adds up the work. */
static bool
are_alike(const aicf_tensor *t, aicf_call *call)
{
    const aicf_op *op = call->op;
    const aicf_dtype *dtypes = op->dtypes + call->variant * op->params;
    const uint32_t dense = flags_of(&dense_alone), read_only = flags_of(&dense_read_only);
    int tensors = op->inputs + op->outs;
    int64_t bytes = 0;

    for (int p = 0; p < tensors; p++) {
        uint32_t flags = flags_of(&t[p]);
        if (flags == dense || (flags == read_only && !param_is_written(&op->params_of[p]))) {
            bool like = has_form(&t[p], t, dtypes[p]) &&
                        (t[p].sizes == t->sizes || sizes_equal(t[p].sizes, t->sizes, t->rank));
            if (!like) {
                return false;
            }
            bytes += aicf_dtype_size(t[p].dtype);
        } else if (!t[p].absent || !op->params_of[p].optional) {
            return false;
        }
    }
    for (int p = tensors; p < op->params; p++) {
        if (!t[p].absent) {
            return false;
        }
    }
    return !__builtin_mul_overflow(t->numel, bytes, &call->work);
}

/* Ranges that meet are fine where they are one, and the row allows it. Sets whether anything is
   written. */
static bool
are_apart(const aicf_tensor *t, const aicf_op *op, bool *writes)
{
    int tensors = op->inputs + op->outs;
    *writes = false;
    for (int p = 0; p < tensors; p++) {
        if (!param_is_written(&op->params_of[p]) || t[p].absent) {
            continue;
        }
        const uintptr_t first = t[p].first, end = t[p].end;
        *writes |= first != end;
        for (int q = 0; q < tensors; q++) {
            if ((t[q].first >= end) | (first >= t[q].end) | (q == p) | t[q].absent) {
                continue;
            }
            bool exact = ((op->params_of[p].exact >> q) | (op->params_of[q].exact >> p)) & 1;
            if (!exact || t[p].data != t[q].data || t[p].dtype != t[q].dtype) {
                return false;
            }
        }
    }
    return true;
}

/* Every pack is the one shape. A row with lets takes the long way. */
static bool
bind(const aicf_tensor *t, aicf_call *call, aicf_pack packs[])
{
    const aicf_op *op = call->op;
    int64_t *dims = aicf_call_dims(call);

    for (int d = 0; d < op->dim_count; d++) {
        if (op->dims[d].kind != AICF_DIM_PACK) {
            return false;
        }
        packs[d].rank = -1;
        dims[d] = 0;
    }
    for (int p = 0; p < op->inputs; p++) {
        const aicf_item *item = op->shapes[p].items;
        if (item->kind == AICF_ITEM_PACK && !t[p].absent) {
            packs[item->dim] = (aicf_pack){t->sizes, t->rank};
            dims[item->dim] = t->numel;
        }
    }
    return true;
}

static int
backend_of(const aicf_call *call)
{
    const aicf_op *op = call->op;
    for (int i = 0; i < op->backend_count; i++) {
        for (const int32_t *d = op->backends[i].devices; *d; d++) {
            if (*d == call->device.type) {
                return i;
            }
        }
    }
    return -1;
}

bool
plain_prepare(const aicf_tensor *t, aicf_call *call)
{
    const aicf_op *op = call->op;
    aicf_pack packs[BINDING_DIMS];
    aicf_scope scope = {call, t, packs};
    bool writes;

    if (!is_candidate(t, call) || !are_alike(t, call) || !are_apart(t, op, &writes) ||
        !bind(t, call, packs)) {
        return false;
    }
    call->device = t->device;
    call->plain = true;
    if (op->attr_count && attributes_check(call, t).kind) {
        return false;
    }
    int backend = backend_of(call);
    if (backend < 0) {
        return false;
    }
    for (int i = op->backends[backend].first; i < op->backends[backend].end; i++) {
        plain_fit fits = select_plain(&scope, call, i);
        if (fits == PLAIN_YES) {
            call->launch = writes ? op->kernels[i].entries[call->variant].launch : NULL;
        }
        if (fits != PLAIN_NO) {
            return fits == PLAIN_YES;
        }
    }
    return false;
}
