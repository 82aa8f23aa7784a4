/* Which of a call's tensors may share memory. */
#include <stdlib.h>

#include "check.h"
#include "param.h"

static inline bool
is_written(const aicf_op *op, int param)
{
    return param_is_written(&op->params_of[param]);
}

/* Whether the row lets one of the two be exactly the other. */
static bool
may_be_exact(const aicf_op *op, int p, int q)
{
    return ((op->params_of[p].exact >> q) | (op->params_of[q].exact >> p)) & 1;
}

static bool
collide(const aicf_tensor *a, const aicf_tensor *b, bool exact)
{
    return a->first < b->end && b->first < a->end && aicf_tensors_overlap(a, b, exact);
}

/* Parameter p is written, and t[p] present. */
static aicf_status
check_one(const aicf_tensor *t, const aicf_op *op, int p)
{
    if (!t[p].dense && aicf_tensor_overlaps_itself(&t[p])) {
        return aicf_unsupported(AICF_CHECK_SELF_OVERLAP, p, 0);
    }
    for (int q = 0; q < op->params; q++) {
        bool once = q != p && !t[q].absent && (q < p || !is_written(op, q));
        if (once && collide(&t[p], &t[q], may_be_exact(op, p, q))) {
            return aicf_unsupported(AICF_CHECK_OVERLAP, p, q);
        }
    }
    return aicf_ok();
}

/* With lists there are many tensors: only those are compared whose address ranges meet, found in
   the order of their addresses. */
typedef struct place {
    const aicf_tensor *t;
    int param, index;
    int written; /* the first place from this one on whose tensor is written */
} place;

static int
by_address(const void *a, const void *b)
{
    uintptr_t p = ((const place *)a)->t->first, q = ((const place *)b)->t->first;
    return (p > q) - (p < q);
}

static int
collect(const aicf_tensor *t, const aicf_call *call, place *places)
{
    int count = 0;
    for (int p = 0; p < call->op->params; p++) {
        int start = param_start(call, p);
        for (int i = 0; i < param_count(call, p); i++) {
            if (!t[start + i].absent && t[start + i].numel) {
                places[count++] = (place){&t[start + i], p, i, 0};
            }
        }
    }
    return count;
}

/* In the order of their addresses. */
static void
order(const aicf_op *op, place *places, int count)
{
    int written = count;
    qsort(places, (size_t)count, sizeof *places, by_address);
    for (int i = count - 1; i >= 0; i--) {
        written = is_written(op, places[i].param) ? i : written;
        places[i].written = written;
    }
}

/* Exactly the same is allowed between lists of one length at one index, never between two tensors
   of one list. */
static bool
pair_may_be_exact(const aicf_op *op, place a, place b)
{
    bool lists = op->params_of[a.param].list >= 0 && op->params_of[b.param].list >= 0;
    return a.param != b.param && (!lists || a.index == b.index) &&
           may_be_exact(op, a.param, b.param);
}

/* The next place from j on that `a` has to be compared with: two that are read may be one, and
   there may be many of those. */
static int
next_of(const place *places, int count, bool written, int j)
{
    return written || j == count ? j : places[j].written;
}

/* `found` is of use where the status says so. */
static aicf_status
sweep(const aicf_op *op, const place *places, int count, overlap *found)
{
    for (int i = 0; i < count; i++) {
        place a = places[i];
        const bool written = a.written == i;
        if (written && aicf_tensor_overlaps_itself(a.t)) {
            return aicf_unsupported(AICF_CHECK_SELF_OVERLAP, a.param, a.index);
        }
        int j = next_of(places, count, written, i + 1);
        while (j < count && places[j].t->first < a.t->end) {
            place b = places[j];
            if (collide(a.t, b.t, pair_may_be_exact(op, a, b))) {
                bool later = written && (a.param != b.param || a.index > b.index);
                place to = later ? a : b, from = later ? b : a;
                *found = (overlap){to.param, to.index, from.param, from.index};
                return aicf_unsupported(AICF_CHECK_OVERLAP, to.param, from.param);
            }
            j = next_of(places, count, written, j + 1);
        }
    }
    return aicf_ok();
}

static aicf_status
check_many(const aicf_tensor *t, const aicf_call *call, overlap *found)
{
    aicf_status status = {AICF_NO_MEMORY, 0, 0, 0, 0};
    place *places = malloc(((size_t)call->count + 1) * sizeof *places);
    if (places) {
        int count = collect(t, call, places);
        order(call->op, places, count);
        status = sweep(call->op, places, count, found);
    }
    free(places);
    return status;
}

bool
overlap_find(const aicf_tensor *t, const aicf_call *call, overlap *found)
{
    aicf_status status = check_many(t, call, found);
    return status.kind == AICF_UNSUPPORTED && status.check == AICF_CHECK_OVERLAP;
}

aicf_status
check_overlaps(const aicf_tensor *t, const aicf_call *call)
{
    const aicf_op *op = call->op;
    aicf_status status = aicf_ok();

    if (op->has_lists) {
        overlap found;
        return check_many(t, call, &found);
    }
    for (int p = 0; p < op->inputs + op->outs && !status.kind; p++) {
        if (is_written(op, p) && !t[p].absent) {
            status = check_one(t, op, p);
        }
    }
    return status;
}
