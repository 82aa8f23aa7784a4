/* The order in which a tensor's elements lie: strides, also of producers that give none. */
#ifndef AICF_ORDER_H
#define AICF_ORDER_H

#include <aicf/tensor.h>

#pragma GCC visibility push(hidden)

/* Walks the dims of size other than 1 from the last to the first. */
typedef struct order_walk {
    const aicf_tensor *t;
    int dim;
    int64_t size, stride;
    int64_t dense; /* the stride that row-major gives the next dim */
} order_walk;

static inline order_walk
order_begin(const aicf_tensor *t)
{
    order_walk walk = {t, t->rank, 0, 0, 1};
    return walk;
}

static inline bool
order_next(order_walk *walk)
{
    while (walk->dim-- > 0) {
        walk->size = walk->t->sizes[walk->dim];
        if (walk->size != 1) {
            walk->stride = walk->t->strides ? walk->t->strides[walk->dim] : walk->dense;
            walk->dense = (int64_t)((uint64_t)walk->dense * (uint64_t)walk->size);
            return true;
        }
    }
    walk->dim = 0;
    return false;
}

/* The stride of one dim; that of a dim of size 1 as if nothing lay between it and the next. */
int64_t order_stride(const aicf_tensor *t, int dim);

/* The dims of size other than 1, the innermost first, to `dims`, which has room for all; returns
   how many they are, -1 if there are gaps or elements twice: sorted by stride, each stride is the
   product of the sizes below it. */
int order_innermost(const aicf_tensor *t, int *dims);

/* No gaps and no element twice: row-major after some permutation of the dims. */
bool order_gapless(const aicf_tensor *t);

/* Of one shape, with the same strides where they count. */
bool order_same(const aicf_tensor *a, const aicf_tensor *b);

#pragma GCC visibility pop

#endif
