#include "ffi.h"

#include <stdlib.h>
#include <string.h>

/* Dtypes that no row has are here for the messages that refuse them. */
static const aicf_dtype dtypes[] = {
    [XLA_FFI_DataType_PRED] = AICF_BOOL,
    [XLA_FFI_DataType_S8] = AICF_I8,
    [XLA_FFI_DataType_S16] = AICF_I16,
    [XLA_FFI_DataType_S32] = AICF_I32,
    [XLA_FFI_DataType_S64] = AICF_I64,
    [XLA_FFI_DataType_U8] = AICF_U8,
    [XLA_FFI_DataType_U16] = AICF_DTYPE(1, 16),
    [XLA_FFI_DataType_U32] = AICF_DTYPE(1, 32),
    [XLA_FFI_DataType_U64] = AICF_DTYPE(1, 64),
    [XLA_FFI_DataType_F16] = AICF_F16,
    [XLA_FFI_DataType_BF16] = AICF_BF16,
    [XLA_FFI_DataType_F32] = AICF_F32,
    [XLA_FFI_DataType_F64] = AICF_F64,
    [XLA_FFI_DataType_C64] = AICF_DTYPE(5, 64),
    [XLA_FFI_DataType_C128] = AICF_DTYPE(5, 128),
};

enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* What was compiled does not fit the row that is loaded. */
static XLA_FFI_Error *
other_row(const request *r, const char *what)
{
    return error_create(
        r->frame, XLA_FFI_Error_Code_FAILED_PRECONDITION,
        "%s.%s: %s: the program was compiled for another row of that name: compile it again",
        r->op->package, r->op->name, what);
}

static XLA_FFI_Error *
find_op(request *r)
{
    const XLA_FFI_Attrs *attrs = &r->frame->attrs;
    const XLA_FFI_ByteSpan *name = attributes_text(attrs, attributes_find(attrs, "aicf.op"));
    if (!name) {
        return error_create(
            r->frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "a call of ours without aicf.op");
    }
    r->op = registry_find(name->ptr, name->len);
    if (r->op) {
        return NULL;
    }
    const char *dot = memchr(name->ptr, '.', name->len);
    return error_create(
        r->frame, XLA_FFI_Error_Code_NOT_FOUND,
        "%.*s is not loaded in this process: import %.*s.jax before", (int)name->len, name->ptr,
        (int)(dot ? dot - name->ptr : (ptrdiff_t)name->len), name->ptr);
}

/* Tensors over all parameters: a list that is absent takes as many places as those of its length.
 */
static int64_t
count_tensors(const aicf_op *op, const int64_t *counts, int64_t *lengths)
{
    int64_t count = 0;
    for (int p = 0; p < op->params; p++) {
        int list = op->params_of[p].list;
        if (counts[p] < 0 || counts[p] > (list < 0 ? 1 : INT16_MAX)) {
            return -1;
        }
        if (list >= 0 && counts[p]) {
            lengths[list] = counts[p];
        }
    }
    for (int p = 0; p < op->params; p++) {
        int list = op->params_of[p].list;
        if (list >= 0 && counts[p] && counts[p] != lengths[list]) {
            return -1;
        }
        count += list < 0 ? 1 : lengths[list];
    }
    return count;
}

static bool
take_room(request *r, int64_t count)
{
    size_t call = (aicf_call_bytes(r->op, (int)count) + 15) & ~(size_t)15;
    size_t bytes = call + (size_t)count * sizeof *r->t;
    r->heap = bytes > sizeof r->room ? malloc(bytes) : NULL;
    char *room = r->heap ? r->heap : r->room;
    r->call = (aicf_call *)room;
    r->t = (aicf_tensor *)(room + call);
    return r->heap || bytes <= sizeof r->room;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void
read_buffer(aicf_tensor *t, const XLA_FFI_Buffer *buffer, aicf_device device)
{
    *t = (aicf_tensor){
        .data = buffer->data,
        .device = device,
        .rank = buffer->rank > INT32_MAX ? INT32_MAX : (int32_t)buffer->rank,
        .dtype = (unsigned)buffer->dtype < DTYPES ? dtypes[buffer->dtype] : 0,
        .sizes = buffer->dims,
    };
    aicf_tensor_settle(t);
}

typedef struct taker {
    int64_t operand, result;
} taker;

/* The next buffers for one tensor: NULL, or what is wrong with them. */
static const char *
take_tensor(const request *r, taker *next, aicf_role role, aicf_tensor *t, aicf_device device)
{
    const XLA_FFI_Args *args = &r->frame->args;
    const XLA_FFI_Rets *rets = &r->frame->rets;
    const XLA_FFI_Buffer *operand = NULL, *result = NULL;

    if (role != AICF_OUT) {
        operand = next->operand < args->size ? args->args[next->operand++] : NULL;
    }
    if (role == AICF_OUT || role == AICF_INOUT) {
        result = next->result < rets->size ? rets->rets[next->result++] : NULL;
    }
    if ((role != AICF_OUT && !operand) || (role != AICF_IN && role != AICF_SCALAR && !result)) {
        return "too few buffers";
    }
    read_buffer(t, operand ? operand : result, device);
    bool apart = operand && result && operand->data != result->data && t->numel;
    return apart ? "the result of an argument in place is not in its memory" : NULL;
}

static XLA_FFI_Error *
take_tensors(const request *r, const int64_t *counts, aicf_device device)
{
    const aicf_op *op = r->op;
    aicf_tensor *t = r->t;
    taker next = {0, 0};
    for (int p = 0; p < op->params; p++) {
        const aicf_param *param = &op->params_of[p];
        int64_t places = param->list < 0 ? 1 : aicf_call_dims(r->call)[param->list];
        for (int64_t i = 0; i < places; i++, t++) {
            const char *fault = NULL;
            if (counts[p]) {
                fault = take_tensor(r, &next, (aicf_role)param->role, t, device);
            } else {
                *t = (aicf_tensor){.absent = true};
            }
            if (fault) {
                return other_row(r, fault);
            }
        }
    }
    bool all = next.operand == r->frame->args.size && next.result == r->frame->rets.size;
    return all ? NULL : other_row(r, "too many buffers");
}

/* ---- attributes ------------------------------------------------------------------------------ */

static XLA_FFI_Error *
take_attributes(const request *r)
{
    const aicf_op *op = r->op;
    const XLA_FFI_Attrs *attrs = &r->frame->attrs;
    for (int i = 0; i < op->attr_count; i++) {
        const aicf_attr *attr = &op->attrs[i];
        if (attr->kind == AICF_ATTR_SCALAR) {
            continue;
        }
        int64_t index = attributes_find(attrs, attr->name);
        if (index < 0 || !attributes_set(r->call, attr, attrs, index)) {
            return other_row(r, attr->name);
        }
    }
    return NULL;
}

static XLA_FFI_Error *
take_kernel(const request *r)
{
    const XLA_FFI_Attrs *attrs = &r->frame->attrs;
    const XLA_FFI_ByteSpan *id = attributes_text(attrs, attributes_find(attrs, "aicf.kernel"));
    for (int i = 0; id && i < r->op->kernel_count; i++) {
        const char *own = r->op->kernels[i].id;
        if (strlen(own) == id->len && memcmp(own, id->ptr, id->len) == 0) {
            r->call->demanded = (int16_t)i;
            return NULL;
        }
    }
    return id ? other_row(r, "kernel") : NULL;
}

XLA_FFI_Error *
request_begin(request *r, aicf_device device)
{
    const XLA_FFI_Attrs *attrs = &r->frame->attrs;
    int64_t lengths[64] = {0};
    size_t params = 0;

    r->heap = NULL;
    XLA_FFI_Error *error = find_op(r);
    if (error) {
        return error;
    }
    const int64_t *counts =
        attributes_integers(attrs, attributes_find(attrs, "aicf.counts"), &params);
    int64_t count =
        counts && params == (size_t)r->op->params ? count_tensors(r->op, counts, lengths) : -1;
    if (count < 0) {
        return other_row(r, "aicf.counts");
    }
    if (!take_room(r, count)) {
        return error_create(
            r->frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "%s: no memory for a call of %lld",
            r->op->name, (long long)count);
    }
    aicf_call_init(r->call, r->op, -1);
    for (int d = 0; d < r->op->dim_count; d++) {
        if (r->op->dims[d].kind == AICF_DIM_LIST) {
            aicf_call_dims(r->call)[d] = lengths[d];
        }
    }
    error = take_tensors(r, counts, device);
    error = error ? error : take_attributes(r);
    return error ? error : take_kernel(r);
}

void
request_end(request *r)
{
    free(r->heap);
}
