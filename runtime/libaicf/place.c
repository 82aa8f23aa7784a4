/* Views: tensors as a kernel takes them. */
#include <string.h>

#include "order.h"
#include "param.h"
#include "select.h"

/* For present tensors without elements or address: kernels tell absent ones by NULL. */
static const _Alignas(64) char nowhere[64];

static void *
address_of(const aicf_tensor *t)
{
    return t->data || t->absent ? t->data : (void *)(uintptr_t)nowhere;
}

static void
place_absent(aicf_view *view)
{
    view->data = NULL;
    view->rank = 0;
}

static bool
place_own(aicf_view *view, const aicf_tensor *t)
{
    int64_t below = 1;
    if (t->rank > AICF_MAX_RANK) {
        return false;
    }
    for (int i = t->rank - 1; i >= 0; i--) {
        view->sizes[i] = t->sizes[i];
        view->strides[i] = t->sizes[i] == 1 ? 0 : t->strides ? t->strides[i] : below;
        below *= t->sizes[i];
    }
    view->rank = t->rank;
    return true;
}

/* The tensors that share one shape, its dims laid down innermost first and then turned round. */
typedef struct joint {
    const aicf_tensor *const *t;
    aicf_view *const *views;
    int count;
    int top; /* the dim that is being laid down; -1: none yet */
    bool room;
} joint;

/* Where dim `dim` of a shape of `rank` dims is read in `t`: 0 where it is broadcast. */
static int64_t
stride_in(const aicf_tensor *t, int rank, int dim)
{
    int own = dim - (rank - t->rank);
    if (own < 0 || t->sizes[own] == 1) {
        return 0;
    }
    return t->strides ? t->strides[own] : order_stride(t, own);
}

static bool
joint_merges(const joint *j, int rank, int dim)
{
    for (int i = 0; i < j->count; i++) {
        const aicf_view *v = j->views[i];
        if (stride_in(j->t[i], rank, dim) != v->strides[j->top] * v->sizes[j->top]) {
            return false;
        }
    }
    return true;
}

/* One more dim outside those laid down; `closed` ones may not grow. */
static void
joint_add(joint *j, int rank, int dim, int64_t size, int closed)
{
    bool merge = j->top >= closed && joint_merges(j, rank, dim);
    if (!merge && ++j->top == AICF_MAX_RANK) {
        j->room = false;
        return;
    }
    for (int i = 0; i < j->count; i++) {
        aicf_view *v = j->views[i];
        if (merge) {
            v->sizes[j->top] *= size;
        } else {
            v->sizes[j->top] = size;
            v->strides[j->top] = stride_in(j->t[i], rank, dim);
        }
    }
}

static void
reverse(int64_t *x, int64_t count)
{
    for (int64_t i = 0; i < count / 2; i++) {
        int64_t kept = x[i];
        x[i] = x[count - 1 - i];
        x[count - 1 - i] = kept;
    }
}

static void
joint_end(const joint *j)
{
    for (int i = 0; i < j->count; i++) {
        aicf_view *v = j->views[i];
        v->rank = j->top + 1;
        reverse(v->sizes, v->rank);
        reverse(v->strides, v->rank);
    }
}

/* Every dim of `t` is the shape's or broadcast to it, the last `skip` dims set aside. */
static bool
broadcasts_to(const aicf_tensor *t, const aicf_tensor *shape, int skip)
{
    if (t->rank > shape->rank) {
        return false;
    }
    for (int i = skip + 1; i <= t->rank; i++) {
        int64_t size = t->sizes[t->rank - i];
        if (size != 1 && size != shape->sizes[shape->rank - i]) {
            return false;
        }
    }
    return true;
}

static bool
place_joint(joint *j, const aicf_tensor *shape)
{
    for (int dim = shape->rank - 1; dim >= 0 && j->room; dim--) {
        if (shape->sizes[dim] != 1) {
            joint_add(j, shape->rank, dim, shape->sizes[dim], 0);
        }
    }
    if (j->top < 0) {
        j->top = 0;
        for (int i = 0; i < j->count; i++) {
            j->views[i]->sizes[0] = 1;
            j->views[i]->strides[0] = 0;
        }
    }
    return j->room;
}

/* The last two dims differ from tensor to tensor and are laid down as they are. */
static bool
place_matrix(joint *j, const aicf_tensor *shape)
{
    for (int i = 0; i < j->count; i++) {
        const aicf_tensor *t = j->t[i];
        if (t->rank < 2) {
            return false;
        }
        for (int k = 0; k < 2; k++) {
            int dim = t->rank - 1 - k;
            j->views[i]->sizes[k] = t->sizes[dim];
            j->views[i]->strides[k] = t->sizes[dim] == 1 ? 0 : order_stride(t, dim);
        }
    }
    j->top = 1;
    for (int dim = shape->rank - 3; dim >= 0 && j->room; dim--) {
        if (shape->sizes[dim] != 1) {
            joint_add(j, shape->rank, dim, shape->sizes[dim], 2);
        }
    }
    return j->room;
}

enum { MAX_JOINT = 64 };

/* The shape that all parameters of this place are broadcast to: without a model that of the one
   with the most dims. */
static const aicf_tensor *
shape_of(const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t, int kind)
{
    const aicf_op *op = call->op;
    const aicf_tensor *shape = NULL;

    if (kernel->model >= 0 && !t[param_start(call, kernel->model)].absent) {
        return &t[param_start(call, kernel->model)];
    }
    for (int p = 0; p < op->inputs + op->outs; p++) {
        const aicf_tensor *one = &t[param_start(call, p)];
        bool taken = kernel->places[p] == kind && op->params_of[p].list < 0 && !one->absent;
        shape = taken && (!shape || one->rank > shape->rank) ? one : shape;
    }
    return shape;
}

/* All parameters of the kernel whose place is `kind`, together; there is one at least. */
static bool
place_together(
    const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t, int kind, int *param)
{
    const aicf_op *op = call->op;
    const aicf_tensor *shape = shape_of(kernel, call, t, kind);
    const aicf_tensor *tensors[MAX_JOINT];
    aicf_view *views[MAX_JOINT];
    joint j = {tensors, views, 0, -1, true};

    for (int p = 0; p < op->inputs + op->outs; p++) {
        int i = param_start(call, p);
        *param = p;
        if (kernel->places[p] == kind && op->params_of[p].list < 0 && !t[i].absent) {
            if (j.count == MAX_JOINT ||
                !broadcasts_to(&t[i], shape, kind == AICF_PLACE_MATRIX ? 2 : 0)) {
                return false;
            }
            views[j.count] = &aicf_call_views(call)[i];
            tensors[j.count++] = &t[i];
        }
    }
    *param = kernel->model >= 0 ? kernel->model : 0;
    if (!(kind == AICF_PLACE_JOINT ? place_joint(&j, shape) : place_matrix(&j, shape))) {
        return false;
    }
    joint_end(&j);
    return true;
}

/* All dense and of one shape: a joint view has one dim. */
static void
place_line(aicf_view *view, const aicf_tensor *t)
{
    view->rank = 1;
    view->sizes[0] = t->numel;
    view->strides[0] = t->numel != 1;
}

bool
place_lines(const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t)
{
    aicf_view *view = aicf_call_views(call);
    int tensors = call->op->inputs + call->op->outs;

    for (int p = 0; p < tensors; p++, t++, view++) {
        int place = kernel->places[p];
        if (!(kernel->layouts[p] & LAYOUT_PLAIN) ||
            (place != AICF_PLACE_JOINT && place != AICF_PLACE_POINTER)) {
            return false;
        }
        view->data = address_of(t);
        if (place == AICF_PLACE_JOINT) {
            place_line(view, t);
        }
        if (t->absent) {
            place_absent(view);
        }
    }
    return true;
}

static bool
place_list(const aicf_call *call, const aicf_tensor *t, int param, int place)
{
    int start = param_start(call, param), count = param_count(call, param);
    aicf_view *views = aicf_call_views(call);
    for (int i = start; i < start + count; i++) {
        views[i].data = address_of(&t[i]);
        if (place != AICF_PLACE_POINTER && !place_own(&views[i], &t[i])) {
            return false;
        }
    }
    return true;
}

bool
place_views(const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t, int *param)
{
    const aicf_op *op = call->op;
    aicf_view *views = aicf_call_views(call);
    unsigned together = 0;

    for (int p = 0; p < op->inputs + op->outs; p++) {
        int place = kernel->places[p];
        int i = param_start(call, p);
        *param = p;
        if (op->has_lists && op->params_of[p].list >= 0) {
            if (!place_list(call, t, p, place)) {
                return false;
            }
            continue;
        }
        if (t[i].absent) {
            place_absent(&views[i]);
            continue;
        }
        views[i].data = address_of(&t[i]);
        if (place == AICF_PLACE_JOINT && call->plain) {
            place_line(&views[i], &t[i]);
        } else if (place == AICF_PLACE_JOINT || place == AICF_PLACE_MATRIX) {
            together |= 1U << place;
        } else if (place == AICF_PLACE_OWN && !place_own(&views[i], &t[i])) {
            return false;
        }
    }
    return !together || ((!(together >> AICF_PLACE_JOINT & 1) ||
                          place_together(kernel, call, t, AICF_PLACE_JOINT, param)) &&
                         (!(together >> AICF_PLACE_MATRIX & 1) ||
                          place_together(kernel, call, t, AICF_PLACE_MATRIX, param)));
}

int64_t
place_batches(const aicf_tensor *t)
{
    int64_t batches = 0, stride = 0, size = 0;
    for (int dim = t->rank - 3; dim >= 0; dim--) {
        if (t->sizes[dim] == 1) {
            continue;
        }
        int64_t own = order_stride(t, dim);
        bool merges = batches && own == stride * size;
        size = merges ? size * t->sizes[dim] : t->sizes[dim];
        stride = merges ? stride : own;
        batches += !merges;
    }
    return batches;
}
