#include "order.h"

int64_t
order_stride(const aicf_tensor *t, int dim)
{
    int64_t below = 1;
    for (int i = t->rank - 1; i >= dim; i--) {
        int64_t stride = t->strides && t->sizes[i] != 1 ? t->strides[i] : below;
        if (i == dim) {
            return stride;
        }
        if (__builtin_mul_overflow(stride, t->sizes[i], &below)) {
            return 0;
        }
    }
    return below;
}

int
order_innermost(const aicf_tensor *t, int *dims)
{
    int64_t expect = 1;
    int count = 0;
    while (expect < t->numel) {
        int64_t size = 0;
        order_walk walk = order_begin(t);
        while (order_next(&walk)) {
            if (walk.stride == expect) {
                size = walk.size;
                dims[count] = walk.dim;
            }
        }
        if (size == 0) {
            return -1;
        }
        expect *= size;
        count++;
    }
    return count;
}

bool
order_gapless(const aicf_tensor *t)
{
    int dims[AICF_MAX_DIMS];
    return t->dense || order_innermost(t, dims) >= 0;
}

bool
order_same(const aicf_tensor *a, const aicf_tensor *b)
{
    const aicf_tensor *both[] = {a, b};
    if (!aicf_tensors_same_shape(both, 2)) {
        return false;
    }
    if (a->dense && b->dense) {
        return true;
    }
    order_walk in_a = order_begin(a), in_b = order_begin(b);
    while (order_next(&in_a) && order_next(&in_b)) {
        if (in_a.stride != in_b.stride) {
            return false;
        }
    }
    return true;
}
