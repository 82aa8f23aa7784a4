/* Whether tensors lie as a kernel wants them. */
#include "order.h"
#include "param.h"
#include "select.h"

static bool
is_nhwc(const aicf_tensor *t)
{
    static const int order[] = {1, 3, 2, 0};
    int64_t expect = 1;
    if (t->rank != 4) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        int64_t size = t->sizes[order[i]];
        if (t->numel && size != 1 && order_stride(t, order[i]) != expect) {
            return false;
        }
        expect *= size;
    }
    return true;
}

/* Dim `from_end` from the end has unit stride. */
static bool
has_unit_stride(const aicf_tensor *t, int from_end)
{
    int dim = t->rank - from_end;
    return dim >= 0 && (!t->numel || t->sizes[dim] == 1 || order_stride(t, dim) == 1);
}

/* All tensors of the kernel that may be flat are, in one order. Row-major ones are whatever their
   shapes. */
static bool
are_flat(const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t)
{
    const aicf_op *op = call->op;
    const aicf_tensor *model = NULL;
    bool dense = true, same = true;

    for (int p = 0; p < op->inputs + op->outs; p++) {
        int start = param_start(call, p), count = param_count(call, p);
        for (int i = start; i < start + count; i++) {
            if (!(kernel->layouts[p] & AICF_LAYOUT_FLAT) || t[i].absent) {
                continue;
            }
            model = model ? model : &t[i];
            dense &= t[i].dense;
            same = same && order_same(&t[i], model);
        }
    }
    return dense || (same && order_gapless(model));
}

static bool
lies_as(const aicf_tensor *t, int layouts)
{
    return (layouts & AICF_LAYOUT_STRIDED) || ((layouts & AICF_LAYOUT_DENSE) && t->dense) ||
           ((layouts & AICF_LAYOUT_NHWC) && is_nhwc(t)) ||
           ((layouts & AICF_LAYOUT_ROW) && (t->rank == 0 || has_unit_stride(t, 1))) ||
           ((layouts & AICF_LAYOUT_COL) && has_unit_stride(t, 2));
}

bool
layout_fits(const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t, int *param)
{
    const aicf_op *op = call->op;
    int easy = call->plain ? LAYOUT_PLAIN : AICF_LAYOUT_STRIDED;
    int flat = -1; /* not asked yet */

    for (int p = 0; p < op->inputs + op->outs; p++) {
        int layouts = kernel->layouts[p];
        if (layouts & easy) {
            continue;
        }
        if (layouts & AICF_LAYOUT_FLAT) {
            flat = flat < 0 ? are_flat(kernel, call, t) : flat;
            if (flat) {
                continue;
            }
        }
        int start = param_start(call, p), count = param_count(call, p);
        for (int i = start; i < start + count; i++) {
            if (!t[i].absent && !lies_as(&t[i], layouts)) {
                *param = p;
                return false;
            }
        }
    }
    return true;
}
