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

static bool
may_be_flat(const aicf_kernel *kernel, int param)
{
    return kernel->layouts[param] & AICF_LAYOUT_FLAT;
}

/* What most calls are; then nothing needs to be compared. */
static bool
are_dense(const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t)
{
    for (int p = 0; p < call->op->inputs + call->op->outs; p++) {
        span all = span_of(t, call, p);
        for (int i = 0; i < all.count && may_be_flat(kernel, p); i++) {
            if (!all.t[i].absent && !all.t[i].dense) {
                return false;
            }
        }
    }
    return true;
}

/* Tensors that are to be without gaps in one order. Row-major ones are whatever their shapes. */
typedef struct flatness {
    const aicf_tensor *model; /* the first; NULL: none yet */
    bool dense, same;
} flatness;

static void
flat_add(flatness *f, const aicf_tensor *t)
{
    if (!t->absent) {
        f->model = f->model ? f->model : t;
        f->dense &= t->dense;
        f->same = f->same && order_same(t, f->model);
    }
}

static bool
flat_holds(const flatness *f)
{
    return f->dense || (f->same && order_gapless(f->model));
}

/* The lists of `param`'s length, index by index, each with what is no list. */
static bool
lists_are_flat(
    const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t, int param,
    const flatness *rest)
{
    const aicf_op *op = call->op;
    for (int i = 0; i < param_count(call, param); i++) {
        flatness f = *rest;
        for (int p = param; p < op->inputs + op->outs; p++) {
            if (may_be_flat(kernel, p) && op->params_of[p].list == op->params_of[param].list) {
                flat_add(&f, &t[param_start(call, p) + i]);
            }
        }
        if (!flat_holds(&f)) {
            return false;
        }
    }
    return true;
}

/* All tensors of the kernel that may be flat are, in one order; of lists those at one index. */
static bool
are_flat(const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t)
{
    const aicf_op *op = call->op;
    flatness rest = {NULL, true, true};
    uint64_t seen = 0;

    if (are_dense(kernel, call, t)) {
        return true;
    }
    for (int p = 0; p < op->inputs + op->outs; p++) {
        if (may_be_flat(kernel, p) && op->params_of[p].list < 0) {
            flat_add(&rest, &t[param_start(call, p)]);
        }
    }
    for (int p = 0; op->has_lists && p < op->inputs + op->outs; p++) {
        int list = op->params_of[p].list;
        if (may_be_flat(kernel, p) && list >= 0 && !(seen >> list & 1)) {
            seen |= UINT64_C(1) << list;
            if (!lists_are_flat(kernel, call, t, p, &rest)) {
                return false;
            }
        }
    }
    return flat_holds(&rest);
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
