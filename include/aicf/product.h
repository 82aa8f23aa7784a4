/* A product of matrices, out[m, n] = sum over k of a[m, k] * b[k, n], as a convolution (conv.h): a
   row of a is an image of one place, k its channels. */
#ifndef AICF_PRODUCT_H
#define AICF_PRODUCT_H

#include <aicf/conv.h>

/* `item`: bytes of an element of out. */
static inline aicf_conv
aicf_conv_of_product(
    int64_t item, const aicf_view *a, const aicf_view *b, const aicf_view *out, int64_t m,
    int64_t k, int64_t n)
{
    const aicf_conv_axis one = {1, 1, 1, 1, 0, 1};
    const aicf_conv c = {
        item,
        m,
        1,
        k,
        n,
        one,
        one,
        (char *)a->data,
        (char *)b->data,
        (char *)out->data,
        NULL,
        {a->strides[0], a->strides[1], 0, 0},
        {b->strides[1], b->strides[0], 0, 0},
        {out->strides[0], out->strides[1], 0, 0},
        0};
    return c;
}

#endif
