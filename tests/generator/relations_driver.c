/* infer of any op, asked with numbers alone: for comparing it with the row's relation in Python. */
#include <stdlib.h>
#include <string.h>

#include <aicf/call.h>

enum { TENSORS = 64 };

static const aicf_device cpu = {.type = 1};

/* A value of attribute `a` from so many integers; floats come as their bits. */
static void
attribute_set(aicf_call *call, const aicf_attr *a, const int64_t *values, int64_t count)
{
    void *at = (char *)call + a->offset;
    switch ((aicf_attr_kind)a->kind) {
    case AICF_ATTR_BOOL: *(bool *)at = values[0] != 0; break;
    case AICF_ATTR_INT:
    case AICF_ATTR_AXIS: *(int64_t *)at = values[0]; break;
    case AICF_ATTR_FLOAT: memcpy(at, values, sizeof(double)); break;
    case AICF_ATTR_ENUM: *(int *)at = (int)values[0]; break;
    case AICF_ATTR_INTS: memcpy(at, values, (size_t)count * sizeof *values); break;
    case AICF_ATTR_AXES: {
        aicf_ints *axes = at;
        axes->count = count;
        memcpy(axes->values, values, count > 0 ? (size_t)count * sizeof *values : 0);
        break;
    }
    case AICF_ATTR_SCALAR: ((aicf_scalar *)at)->host.integer = a->least.integer; break;
    }
}

/* `in` has the length of each list in the order of the dims, then of each tensor of the arguments
   its rank (-1: it is absent) and sizes, then of each attribute how many integers (-1 for all axes)
   and those. `out` gets the rank and sizes of each out. True if the op takes it. */
bool
relation_infer(const aicf_op *op, const int64_t *in, int64_t *out)
{
    static float memory[4];
    aicf_tensor t[TENSORS] = {0};
    aicf_inferred outs[TENSORS];
    aicf_call *call = calloc(1, aicf_call_bytes(op, TENSORS) + 64);
    aicf_call_init(call, op, -1);
    for (int d = 0; d < op->dim_count; d++) {
        if (op->dims[d].kind == AICF_DIM_LIST) {
            aicf_call_dims(call)[d] = *in++;
        }
    }
    int count = 0;
    for (int p = 0; p < op->params; p++) {
        int list = op->params_of[p].list;
        int64_t own = list < 0 ? 1 : aicf_call_dims(call)[list];
        for (int64_t i = 0; i < own; i++, count++) {
            t[count].absent = p >= op->inputs || *in < 0;
            if (p < op->inputs) {
                t[count].rank = *in < 0 ? 0 : (int32_t)*in;
                t[count].sizes = in + 1;
                in += 1 + t[count].rank;
            }
            t[count].data = memory;
            t[count].device = cpu;
            t[count].dtype = op->dtypes[p];
            if (!t[count].absent) {
                aicf_tensor_settle(&t[count]);
            }
        }
    }
    for (int i = 0; i < op->attr_count; i++) {
        int64_t values = *in++;
        attribute_set(call, &op->attrs[i], in, values);
        in += values > 0 ? values : 0;
    }
    aicf_status status = op->infer(t, call, outs);
    for (int i = 0; i < op->outs && !status.kind; i++) {
        *out++ = outs[i].rank;
        memcpy(out, outs[i].sizes, (size_t)outs[i].rank * sizeof *out);
        out += outs[i].rank;
    }
    free(call);
    return status.kind == AICF_OK;
}
