/* Which tensors share memory. Sound: a "no" is always right; some apart are taken for a "yes". */
#include <aicf/tensor.h>

#include "order.h"

static int64_t
gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* The greatest step that divides every stride of `t`, in bytes, and `step`. */
static int64_t
common_step(const aicf_tensor *t, int64_t step)
{
    order_walk walk = order_begin(t);
    while (order_next(&walk)) {
        step = gcd(step, walk.stride * aicf_dtype_size(t->dtype));
    }
    return step;
}

/* How many bytes `t` covers, taken as one piece that begins `*low` bytes from data, if the dims
   whose stride is a multiple of `step` are left out. */
static int64_t
piece(const aicf_tensor *t, int64_t step, int64_t *low)
{
    int64_t item = aicf_dtype_size(t->dtype);
    int64_t length = item;
    order_walk walk = order_begin(t);

    *low = 0;
    while (order_next(&walk)) {
        int64_t stride = walk.stride * item;
        if (stride % step) {
            int64_t reach = (walk.size - 1) * stride;
            *low += reach < 0 ? reach : 0;
            length += reach < 0 ? -reach : reach;
        }
    }
    return length;
}

/* Every element of either lies in its tensor's piece moved by a multiple of `step`: pieces that are
   apart on that circle never meet (two columns of one matrix, two halves of its rows). */
static bool
apart(const aicf_tensor *a, const aicf_tensor *b, int64_t step)
{
    int64_t low_a, low_b;
    int64_t length_a = piece(a, step, &low_a), length_b = piece(b, step, &low_b);
    uintptr_t from_a = (uintptr_t)a->data + (uintptr_t)low_a;
    uintptr_t from_b = (uintptr_t)b->data + (uintptr_t)low_b;
    uintptr_t circle = (uintptr_t)step;
    uintptr_t gap = from_b >= from_a ? (from_b - from_a) % circle
                                     : (circle - (from_a - from_b) % circle) % circle;
    return gap >= (uintptr_t)length_a && circle - gap >= (uintptr_t)length_b;
}

static bool
apart_by_a_stride_of(const aicf_tensor *t, const aicf_tensor *a, const aicf_tensor *b)
{
    order_walk walk = order_begin(t);
    while (order_next(&walk)) {
        int64_t step = walk.stride * aicf_dtype_size(t->dtype);
        if (step && apart(a, b, step < 0 ? -step : step)) {
            return true;
        }
    }
    return false;
}

static bool
interleave(const aicf_tensor *a, const aicf_tensor *b)
{
    int64_t step = common_step(b, common_step(a, 0));
    return step &&
           (apart(a, b, step) || apart_by_a_stride_of(a, a, b) || apart_by_a_stride_of(b, a, b));
}

/* The very same elements in the same order: dims of size 1 do not count, so that an out of shape
   (1, 4) over the memory of (4,) is the same. */
static bool
same_elements(const aicf_tensor *a, const aicf_tensor *b)
{
    if (a->data != b->data || a->dtype != b->dtype || a->numel != b->numel) {
        return false;
    }
    order_walk in_a = order_begin(a), in_b = order_begin(b);
    while (order_next(&in_a)) {
        if (!order_next(&in_b) || in_a.size != in_b.size || in_a.stride != in_b.stride) {
            return false;
        }
    }
    return !order_next(&in_b);
}

bool
aicf_tensors_overlap(const aicf_tensor *out, const aicf_tensor *in, bool exact)
{
    if (out->end <= in->first || in->end <= out->first || !out->numel || !in->numel) {
        return false;
    }
    return !(exact && same_elements(out, in)) && !interleave(out, in);
}

/* The least stride above `last` of the dims of size > 1, made positive, and that dim's size; 0 if
   there is none. False: two dims have it, or there is one of stride 0. */
static bool
next_stride(const aicf_tensor *t, uint64_t last, uint64_t *least, uint64_t *size)
{
    int equal = 0;
    order_walk walk = order_begin(t);

    *least = 0;
    while (order_next(&walk)) {
        uint64_t stride = walk.stride < 0 ? 0 - (uint64_t)walk.stride : (uint64_t)walk.stride;
        if (stride == 0) {
            return false;
        }
        if (stride > last && (*least == 0 || stride <= *least)) {
            equal = stride == *least ? equal + 1 : 0;
            *least = stride;
            *size = (uint64_t)walk.size;
        }
    }
    return equal == 0;
}

/* Sorted by stride, each stride must step over all that the smaller ones reach. */
bool
aicf_tensor_overlaps_itself(const aicf_tensor *t)
{
    uint64_t reach = 0, last = 0, size = 0;
    if (t->dense) {
        return false;
    }
    for (;;) {
        uint64_t least;
        if (!next_stride(t, last, &least, &size)) {
            return true;
        }
        if (least == 0) {
            return false;
        }
        if (least <= reach) {
            return true;
        }
        reach += (size - 1) * least;
        last = least;
    }
}
