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

enum { MAX_JOINT = 64 };

/* The tensors that share one shape, its dims laid down innermost first and then turned round. */
typedef struct joint {
    int count;
    int top; /* the dim that is being laid down; -1: none yet */
    const aicf_tensor *t[MAX_JOINT];
    aicf_view *views[MAX_JOINT];
    int64_t next[MAX_JOINT]; /* the stride that a dim needs to merge with the one at the top */
} joint;

/* Where dim `dim` of a shape of `rank` dims is read in `t`: 0 where it is broadcast. */
static inline int64_t
stride_in(const aicf_tensor *t, int rank, int dim)
{
    int own = dim - (rank - t->rank);
    if (own < 0 || t->sizes[own] == 1) {
        return 0;
    }
    return t->strides ? t->strides[own] : order_stride(t, own);
}

/* One more dim outside those laid down; `closed` ones may not grow. False: there is no room. */
static bool
joint_add(joint *j, int rank, int dim, int64_t size, int closed)
{
    int64_t strides[MAX_JOINT];
    bool merge = j->top >= closed;

    for (int i = 0; i < j->count; i++) {
        strides[i] = stride_in(j->t[i], rank, dim);
        merge &= strides[i] == j->next[i];
    }
    if (!merge && ++j->top == AICF_MAX_RANK) {
        return false;
    }
    for (int i = 0; merge && i < j->count; i++) {
        j->views[i]->sizes[j->top] *= size;
        j->next[i] *= size;
    }
    for (int i = 0; !merge && i < j->count; i++) {
        j->views[i]->sizes[j->top] = size;
        j->views[i]->strides[j->top] = strides[i];
        j->next[i] = strides[i] * size;
    }
    return true;
}

static inline void
swap(int64_t *a, int64_t *b)
{
    int64_t kept = *a;
    *a = *b;
    *b = kept;
}

static void
joint_end(const joint *j)
{
    for (int i = 0; i < j->count; i++) {
        aicf_view *v = j->views[i];
        v->rank = j->top + 1;
        for (int low = 0, high = j->top; low < high; low++, high--) {
            swap(&v->sizes[low], &v->sizes[high]);
            swap(&v->strides[low], &v->strides[high]);
        }
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
    for (int dim = shape->rank - 1; dim >= 0; dim--) {
        int64_t size = shape->sizes[dim];
        if (size != 1 && !joint_add(j, shape->rank, dim, size, 0)) {
            return false;
        }
    }
    if (j->top < 0) {
        j->top = 0;
        for (int i = 0; i < j->count; i++) {
            j->views[i]->sizes[0] = 1;
            j->views[i]->strides[0] = 0;
        }
    }
    return true;
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
            int64_t stride = t->strides ? t->strides[dim] : order_stride(t, dim);
            j->views[i]->sizes[k] = t->sizes[dim];
            j->views[i]->strides[k] = t->sizes[dim] == 1 ? 0 : stride;
        }
    }
    j->top = 1;
    for (int dim = shape->rank - 3; dim >= 0; dim--) {
        int64_t size = shape->sizes[dim];
        if (size != 1 && !joint_add(j, shape->rank, dim, size, 2)) {
            return false;
        }
    }
    return true;
}

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
    const int tensors = op->inputs + op->outs;
    aicf_view *views = aicf_call_views(call);
    joint j;

    j.count = 0;
    j.top = -1;
    for (int p = 0; p < tensors; p++) {
        int i = param_start(call, p);
        *param = p;
        if (kernel->places[p] == kind && op->params_of[p].list < 0 && !t[i].absent) {
            if (j.count == MAX_JOINT ||
                !broadcasts_to(&t[i], shape, kind == AICF_PLACE_MATRIX ? 2 : 0)) {
                return false;
            }
            j.views[j.count] = &views[i];
            j.t[j.count++] = &t[i];
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
