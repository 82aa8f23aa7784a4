/* The short way of prepare, for the call that is made most: a row of elementwise shapes, a known
   variant, and tensors that are plain: dense, of one shape and on one device. It is inline: each
   op's own source has it once more, where the compiler knows the row. One look at each tensor
   settles it, compares it with the first, finds its addresses and lays its view down. */
#ifndef AICF_PLAIN_H
#define AICF_PLAIN_H

#include <string.h>

#include <aicf/call.h>

#define AICF_PLAIN static inline __attribute__((always_inline))

/* What all tensors of a plain call share. */
typedef struct aicf_line {
    uint64_t device; /* both of its words: one compare */
    int32_t rank;
    const int64_t *sizes;
    int64_t numel;
    int64_t strides[AICF_MAX_RANK]; /* row-major, without gaps */
} aicf_line;

AICF_PLAIN uint64_t
aicf_line_device(const aicf_tensor *t)
{
    uint64_t words;
    _Static_assert(sizeof words == sizeof t->device, "type and index");
    memcpy(&words, &t->device, sizeof words);
    return words;
}

/* The line of one tensor. Its bytes can be counted whatever the dtype. False: it is empty, or not
   one that this way is for. */
AICF_PLAIN bool
aicf_line_of(const aicf_tensor *t, aicf_line *line)
{
    int64_t count = 1, bytes;
    if ((uint32_t)t->rank > AICF_MAX_RANK || (t->rank && !t->sizes)) {
        return false;
    }
    for (int i = t->rank - 1; i >= 0; i--) {
        line->strides[i] = count;
        if (t->sizes[i] <= 0 || __builtin_mul_overflow(count, t->sizes[i], &count)) {
            return false;
        }
    }
    line->device = aicf_line_device(t);
    line->rank = t->rank;
    line->sizes = t->sizes;
    line->numel = count;
    return !__builtin_mul_overflow(count, (int64_t)sizeof(double), &bytes);
}

/* The tensor's shape and device are the line's. */
AICF_PLAIN bool
aicf_line_has(const aicf_line *line, const aicf_tensor *t)
{
    const int rank = line->rank;
    if (t->rank != rank || aicf_line_device(t) != line->device || (rank && !t->sizes)) {
        return false;
    }
    for (int i = 0; i < rank; i++) {
        if (t->sizes[i] != line->sizes[i]) {
            return false;
        }
    }
    return true;
}

/* A tensor on the line: its elements lie one behind the other. */
AICF_PLAIN bool
aicf_line_dense(const aicf_line *line, const aicf_tensor *t)
{
    for (int i = 0; t->strides && i < line->rank; i++) {
        if (t->strides[i] != line->strides[i] && line->sizes[i] != 1) {
            return false;
        }
    }
    return true;
}

/* Settles a tensor that lies on the line. False: its memory is not as it must be. No element has
   more bytes than were counted for the line, so that the end of what begins below 2^62 is a number,
   and one that is too high shows, as does no address. */
AICF_PLAIN bool
aicf_line_settle(const aicf_line *line, aicf_tensor *t, aicf_dtype dtype)
{
    const uintptr_t item = (uintptr_t)aicf_dtype_size(dtype);
    uintptr_t first = (uintptr_t)t->data;
    if (__builtin_expect(t->byte_offset != 0, 0)) {
        if (!first || __builtin_add_overflow(first, t->byte_offset, &first)) {
            return false;
        }
        t->data = (void *)first;
        t->byte_offset = 0;
    }
    const uintptr_t end = first + (uintptr_t)line->numel * item;
    t->numel = line->numel;
    t->first = first;
    t->end = end;
    t->dense = true;
    return !(((first - 1) | end) >> 62 | (first & (item - 1)));
}

/* Whether a reader saw nothing that keeps the tensor from being read, or written. */
AICF_PLAIN bool
aicf_plain_usable(const aicf_tensor *t, bool written)
{
    return !t->refused && !(written && t->read_only);
}

AICF_PLAIN void
aicf_plain_place(
    const aicf_kernel *kernel, const aicf_tensor *t, aicf_view *view, int param, int64_t step)
{
    view->data = t->data;
    view->rank = 1;
    if (kernel->lines >> param & 1) {
        view->sizes[0] = t->numel;
        view->strides[0] = step;
    }
}

/* Every tensor is on the line, which is the first's, and no scalar is one. Finds which are present,
 * and the work. */
AICF_PLAIN bool
aicf_plain_take(
    const aicf_op *op, aicf_tensor *t, aicf_call *call, const aicf_line *line,
    const aicf_kernel *kernel, uint64_t *present)
{
    const int tensors = op->inputs + op->outs;
    const aicf_dtype *dtypes = op->dtypes + call->variant * op->params;
    aicf_view *views = (aicf_view *)((char *)call + op->call_size);
    int64_t bytes = 0, step = line->numel != 1;

    __asm__("" : "+r"(step)); /* else it is computed for each view */
    *present = 0;
#pragma GCC unroll 4
    for (int p = 0; p < tensors; p++) {
        if (op->params_of[p].optional && t[p].absent) {
            views[p].data = NULL;
            views[p].rank = 0;
            continue;
        }
        if (t[p].absent || t[p].dtype != dtypes[p] ||
            !aicf_plain_usable(&t[p], op->written >> p & 1) ||
            (p > 0 && !aicf_line_has(line, &t[p])) || !aicf_line_dense(line, &t[p]) ||
            !aicf_line_settle(line, &t[p], dtypes[p])) {
            return false;
        }
        aicf_plain_place(kernel, &t[p], &views[p], p, step);
        *present |= UINT64_C(1) << p;
        bytes += aicf_dtype_size(t[p].dtype);
    }
    for (int p = tensors; p < op->params; p++) {
        if (!t[p].absent) {
            return false;
        }
    }
    return !__builtin_mul_overflow(line->numel, bytes, &call->work);
}

/* Ranges that meet are fine where they are one, and the row allows it. */
AICF_PLAIN bool
aicf_plain_share(const aicf_op *op, const aicf_tensor *t, int p, int q)
{
    bool exact = ((op->params_of[p].exact >> q) | (op->params_of[q].exact >> p)) & 1;
    return exact && t[p].data == t[q].data && t[p].dtype == t[q].dtype;
}

AICF_PLAIN bool
aicf_plain_apart(const aicf_op *op, const aicf_tensor *t, uint64_t present)
{
    const int tensors = op->inputs + op->outs;
#pragma GCC unroll 4
    for (int p = 0; p < tensors; p++) {
        if (!((op->written & present) >> p & 1)) {
            continue;
        }
#pragma GCC unroll 4
        for (int q = 0; q < tensors; q++) {
            if (q != p && present >> q & 1 && t[q].first < t[p].end && t[p].first < t[q].end &&
                !aicf_plain_share(op, t, p, q)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

AICF_PLAIN const aicf_op_backend *
aicf_plain_backend(const aicf_op *op, int32_t type)
{
#pragma GCC unroll 4
    for (int i = 0; i < op->backend_count; i++) {
#pragma GCC unroll 4
        for (const int32_t *d = op->backends[i].devices; *d; d++) {
            if (*d == type) {
                return &op->backends[i];
            }
        }
    }
    return NULL;
}

/* The next kernel from index `i` on that is there for the dtypes and the device, `end` if none. */
AICF_PLAIN int
aicf_plain_next(const aicf_op *op, const aicf_call *call, int i, int end)
{
    for (; i < end; i++) {
        const aicf_kernel *kernel = &op->kernels[i];
        const aicf_entry *entry = &kernel->entries[call->variant];
        if (entry->launch && entry->launcher &&
            (!kernel->arch || aicf_call_arch_fits(call, kernel))) {
            break;
        }
    }
    return i;
}

/* What a kernel asks beside layouts. A pack has the one shape where a present argument binds it. */
AICF_PLAIN bool
aicf_plain_holds(
    const aicf_op *op, const aicf_kernel *kernel, aicf_call *call, const aicf_tensor *t,
    uint64_t present)
{
    aicf_pack packs[AICF_MAX_DIMS];
    if (!kernel->asks) {
        return true;
    }
    for (int d = 0; d < op->dim_count; d++) {
        bool bound = op->binders[d] & present;
        packs[d] = bound ? (aicf_pack){t->sizes, t->rank} : (aicf_pack){NULL, -1};
    }
    const aicf_scope scope = {call, t, packs};
    return aicf_call_holds(call, kernel, &scope);
}

/* The views are those of kernel `i`: the first, from it on, that takes the call. False: none, or
   one comes before it that takes plain tensors in a way of its own. */
AICF_PLAIN bool
aicf_plain_choose(
    const aicf_op *op, aicf_call *call, const aicf_tensor *t, uint64_t present, int i, int end)
{
    aicf_view *views = (aicf_view *)((char *)call + op->call_size);
    call->kernel = (int16_t)i;
    while (!aicf_plain_holds(op, &op->kernels[i], call, t, present)) {
        i = aicf_plain_next(op, call, i + 1, end);
        if (i == end || !op->kernels[i].plain) {
            return false;
        }
        call->kernel = (int16_t)i;
        for (uint64_t rest = present; rest; rest &= rest - 1) {
            int p = __builtin_ctzll(rest);
            aicf_plain_place(&op->kernels[i], &t[p], &views[p], p, t->numel != 1);
        }
    }
    call->launch = op->kernels[i].entries[call->variant].launch;
    return true;
}

/* op->plain of a row whose `binders` are set; `op` is the call's. */
AICF_PLAIN bool
aicf_plain_prepare(const aicf_op *op, aicf_tensor *t, aicf_call *call, const aicf_call *begun)
{
    uint64_t present;
    aicf_line line;

    if (begun) {
        memcpy(call, begun, op->call_size);
    } else if (call->variant < 0 || call->demanded >= 0 || call->refused) {
        return false;
    }
    if (t->absent || !aicf_line_of(t, &line)) {
        return false;
    }
    const aicf_op_backend *backend = aicf_plain_backend(op, (int32_t)line.device);
    if (!backend) {
        return false;
    }
    memcpy(&call->device, &line.device, sizeof call->device);
    int first = aicf_plain_next(op, call, backend->first, backend->end);
    if (first == backend->end || !op->kernels[first].plain ||
        !aicf_plain_take(op, t, call, &line, &op->kernels[first], &present) ||
        !(op->written & present) || !aicf_plain_apart(op, t, present)) {
        return false;
    }
    int64_t *dims = (int64_t *)((char *)call + op->dims_offset);
    for (int d = 0; d < op->dim_count; d++) {
        dims[d] = op->binders[d] & present ? line.numel : 0;
    }
    call->plain = true;
    return !(op->attr_count && !aicf_call_attributes_hold(call, t)) &&
           aicf_plain_choose(op, call, t, present, first, backend->end);
}

#endif
