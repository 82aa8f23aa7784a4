/* Scalars that came as numpy's arrays of no dims. Their element is in host memory and was read with
   the other numbers: where the row cannot have it by its address, for its dtype or its device, it
   is a number like any other. */
#include "core.h"

static bool
is_scalar(const frame *f, int i)
{
    return f->op->params_of[frame_param(f, i)].role == AICF_SCALAR;
}

/* Whether the variant takes all tensors but scalars. */
static bool
suits(const frame *f, int variant)
{
    const aicf_dtype *dtypes = f->op->dtypes + variant * f->op->params;
    for (int i = 0; i < f->count; i++) {
        aicf_dtype dtype = dtypes[frame_param(f, i)];
        if (!f->t[i].absent && !is_scalar(f, i) && dtype && f->t[i].dtype != dtype) {
            return false;
        }
    }
    return true;
}

/* Whether the other tensors lie where this one does. */
static bool
lies_there(const frame *f, const aicf_tensor *t)
{
    for (int i = 0; i < f->count; i++) {
        if (!f->t[i].absent && !is_scalar(f, i)) {
            return aicf_device_same(f->t[i].device, t->device);
        }
    }
    return true;
}

/* One that a bound call has from before was read then, and its array may have changed. */
static bool
was_read(const frame *f, int i, const aicf_scalar *number)
{
    const aicf_tensor *t = &f->t[i];
    bool fresh = !f->holds || f->seen[i];
    return fresh && number->dtype && !t->absent && !t->refused && t->rank == 0 &&
           tensor_source(t)->framework == FRAMEWORK_NUMPY;
}

static void
scalar_settle(frame *f, const aicf_attr *attr, int variant)
{
    int i = aicf_call_start(f->call, attr->of);
    aicf_tensor *t = &f->t[i];
    const void *number = (const char *)f->call + attr->offset;
    bool same = t->dtype == f->op->dtypes[variant * f->op->params + attr->of];
    if (!was_read(f, i, number) || (same && lies_there(f, t))) {
        return;
    }
    tensor_release(t);
    *t = (aicf_tensor){.absent = true, .dense = true};
    ((PyObject **)(uintptr_t)f->objects)[i] = NULL;
}

void
scalars_settle(frame *f)
{
    int variant = f->call->variant;
    for (int v = 0; variant < 0 && v < f->op->variants; v++) {
        variant = suits(f, v) ? v : -1;
    }
    for (int a = 0; variant >= 0 && a < f->op->attr_count; a++) {
        if (f->op->attrs[a].kind == AICF_ATTR_SCALAR) {
            scalar_settle(f, &f->op->attrs[a], variant);
        }
    }
}
