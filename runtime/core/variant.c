/* Which dtypes a call is about, where the arguments alone do not say it: then dtype= does, or an
   out that is given, or the first of the variable's list. */
#include "core.h"

#include <string.h>

/* The part of a suffix after `part` underscores, and its length. */
const char *
suffix_part(const char *suffix, int part, size_t *length)
{
    for (; part > 0 && suffix; part--) {
        suffix = strchr(suffix, '_');
        suffix = suffix ? suffix + 1 : NULL;
    }
    suffix = suffix ? suffix : "";
    *length = strcspn(suffix, "_");
    return suffix;
}

static bool
same_part(const char *a, const char *b, int part)
{
    size_t n, m;
    a = suffix_part(a, part, &n);
    b = suffix_part(b, part, &m);
    return n == m && strncmp(a, b, n) == 0;
}

static bool
variant_takes(const frame *f, int variant)
{
    const aicf_dtype *dtypes = f->op->dtypes + variant * f->op->params;
    for (int i = 0; i < f->count; i++) {
        aicf_dtype dtype = dtypes[frame_param(f, i)];
        if (!f->t[i].absent && dtype && f->t[i].dtype != dtype) {
            return false;
        }
    }
    return true;
}

/* With dtype= and no variant of it that takes the tensors, the first of it: then the tensors are
   what is refused. */
static int
variant_find(const frame *f)
{
    const aicf_op *op = f->op;
    const char *wanted = f->dtype_part >= 0 ? op->suffixes[f->dtype_part] : NULL;

    for (int v = 0; v < op->variants; v++) {
        bool same = !wanted || same_part(op->suffixes[v], wanted, f->handle->free_type);
        if (same && variant_takes(f, v)) {
            return v;
        }
    }
    return f->dtype_part;
}

/* The first tensor that its reader refused: the dtype of such a one says nothing. */
static aicf_status
refusal_find(const frame *f)
{
    for (int i = 0; i < f->count; i++) {
        if (f->t[i].refused && !f->t[i].absent) {
            int param = frame_param(f, i);
            aicf_check check = (aicf_check)f->t[i].refused;
            return aicf_unsupported(check, param, i - aicf_call_start(f->call, param));
        }
    }
    return aicf_ok();
}

void
variant_choose(frame *f)
{
    if (f->op->scalars) {
        scalars_settle(f);
    }
    if (f->status.kind == AICF_OK) {
        f->status = refusal_find(f);
    }
    if (f->call->variant < 0 && f->handle->free_type >= 0) {
        f->call->variant = (int16_t)variant_find(f);
    }
}
