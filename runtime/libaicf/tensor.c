/* What a producer's description of a tensor really says: see aicf_tensor_settle. */
#include <aicf/tensor.h>

/* Counts the elements and looks whether they are row-major without gaps. The count is that of a
   tensor without zeros among its sizes, so that no product of some sizes overflows either. */
static aicf_check
count_elements(aicf_tensor *t)
{
    int64_t expect = 1;
    bool empty = false, dense = true;

    for (int i = t->rank - 1; i >= 0; i--) {
        int64_t size = t->sizes[i];
        if (size > 1) {
            dense &= !t->strides || t->strides[i] == expect;
            if (__builtin_mul_overflow(expect, size, &expect)) {
                return AICF_CHECK_RANGE;
            }
        } else if (size < 0) {
            return AICF_CHECK_RANK;
        } else {
            empty |= size == 0;
        }
    }
    int64_t bytes;
    if (__builtin_mul_overflow(expect, aicf_dtype_size(t->dtype), &bytes)) {
        return AICF_CHECK_RANGE;
    }
    t->numel = empty ? 0 : expect;
    t->dense = dense || empty;
    return AICF_CHECK_NONE;
}

/* The offsets of the lowest and the highest element, in elements. False: overflow. */
static bool
find_reach(const aicf_tensor *t, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = t->numel - 1;
    if (t->dense) {
        return true;
    }
    *high = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t reach;
        int64_t *side = t->strides[i] < 0 ? low : high;
        if (__builtin_mul_overflow(t->sizes[i] - 1, t->strides[i], &reach) && t->sizes[i] > 1) {
            return false;
        }
        if (t->sizes[i] > 1 && __builtin_add_overflow(*side, reach, side)) {
            return false;
        }
    }
    return true;
}

/* The addresses of the elements. They are in the lowest quarter, as all of processes and devices
   are, and so do not wrap around. */
static aicf_check
find_range(aicf_tensor *t)
{
    int64_t item = aicf_dtype_size(t->dtype);
    int64_t low, high;
    uintptr_t address = (uintptr_t)t->data;

    if (!find_reach(t, &low, &high) || __builtin_mul_overflow(low, item, &low) ||
        __builtin_add_overflow(high, 1, &high) || __builtin_mul_overflow(high, item, &high)) {
        return AICF_CHECK_RANGE;
    }
    if (low == INT64_MIN || (uintptr_t)-low > address ||
        __builtin_add_overflow(address, (uintptr_t)high, &t->end) || t->end >> 62) {
        return AICF_CHECK_RANGE;
    }
    t->first = address - (uintptr_t)-low;
    return address % (uintptr_t)(item < 8 ? item : 8) ? AICF_CHECK_ALIGNMENT : AICF_CHECK_NONE;
}

static aicf_check
settle(aicf_tensor *t)
{
    if (t->rank < 0 || t->rank > AICF_MAX_DIMS || (t->rank > 0 && !t->sizes)) {
        return AICF_CHECK_RANK;
    }
    if (t->dtype >> 16 != 1 || aicf_dtype_size(t->dtype) == 0) {
        return AICF_CHECK_DTYPE;
    }
    aicf_check fault = count_elements(t);
    if (fault) {
        return fault;
    }
    if (t->data) {
        uintptr_t address;
        if (__builtin_add_overflow((uintptr_t)t->data, t->byte_offset, &address)) {
            return AICF_CHECK_RANGE;
        }
        t->data = (void *)address;
    }
    t->byte_offset = 0;
    t->first = t->end = (uintptr_t)t->data;
    if (t->numel == 0) {
        return AICF_CHECK_NONE;
    }
    return t->data ? find_range(t) : AICF_CHECK_MEMORY;
}

void
aicf_tensor_settle(aicf_tensor *t)
{
    t->numel = 0;
    t->first = t->end = 0;
    t->dense = true;
    if (!t->absent && !t->refused) {
        t->refused = (uint8_t)settle(t);
    }
}

bool
aicf_tensors_same_shape(const aicf_tensor *const *t, int count)
{
    const aicf_tensor *model = NULL;
    for (int i = 0; i < count; i++) {
        if (t[i]->absent) {
            continue;
        }
        model = model ? model : t[i];
        if (t[i]->rank != model->rank) {
            return false;
        }
        for (int dim = 0; dim < model->rank; dim++) {
            if (t[i]->sizes[dim] != model->sizes[dim]) {
                return false;
            }
        }
    }
    return true;
}
