/* Windows of 2-D pooling, an axis at a time: window o holds the elements [o * stride - pad,
   o * stride - pad + window), of which [0, size) are there. Every window holds one that is. */
#ifndef AICF_CPU_WINDOW_H
#define AICF_CPU_WINDOW_H

#include <aicf/cpu/real.h>

typedef struct aicf_axis {
    int64_t size, outs, window, stride, pad;
} aicf_axis;

typedef struct aicf_span {
    int64_t begin, end;
} aicf_span;

static inline aicf_axis
aicf_axis_of(
    int64_t size, int64_t outs, const int64_t window[2], const int64_t stride[2],
    const int64_t pad[2], int axis)
{
    const aicf_axis a = {size, outs, window[axis], stride[axis], pad[axis]};
    return a;
}

static inline int64_t
aicf_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t
aicf_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The elements in window o. */
static inline aicf_span
aicf_axis_elements(const aicf_axis *a, int64_t o)
{
    const int64_t begin = o * a->stride - a->pad;
    const aicf_span span = {aicf_most(begin, 0), aicf_least(begin + a->window, a->size)};
    return span;
}

/* The windows that hold element i. */
static inline aicf_span
aicf_axis_windows(const aicf_axis *a, int64_t i)
{
    const int64_t at = i + a->pad;
    const aicf_span span = {
        at < a->window ? 0 : (at - a->window) / a->stride + 1,
        aicf_least(at / a->stride + 1, a->outs)};
    return span;
}

/* What window o counts for in a mean. */
static inline int64_t
aicf_axis_count(const aicf_axis *a, int64_t o, bool include_pad)
{
    const int64_t begin = o * a->stride - a->pad;
    const int64_t end = aicf_least(begin + a->window, a->size + a->pad);
    return include_pad ? end - begin : aicf_least(end, a->size) - aicf_most(begin, 0);
}

/* The end of the windows from `o.begin` on that count as much as that one does. */
static inline int64_t
aicf_axis_alike(const aicf_axis *a, aicf_span o, bool include_pad)
{
    const int64_t whole = a->size + (include_pad ? a->pad : 0) + a->pad - a->window;
    const bool alone = aicf_axis_count(a, o.begin, include_pad) < a->window;
    return alone ? o.begin + 1 : aicf_least(whole / a->stride + 1, o.end);
}

/* Places in a window at which any of the windows [o.begin, o.end) has one of the elements `i`. */
static inline aicf_span
aicf_axis_taps(const aicf_axis *a, aicf_span i, aicf_span o)
{
    const aicf_span span = {
        aicf_most(0, i.begin + a->pad - (o.end - 1) * a->stride),
        aicf_least(a->window, i.end + a->pad - o.begin * a->stride)};
    return span;
}

/* Those of the windows [o.begin, o.end) which have one of the elements `i` at place `tap`. */
static inline aicf_span
aicf_axis_at_tap(const aicf_axis *a, int64_t tap, aicf_span i, aicf_span o)
{
    const int64_t from = i.begin + a->pad - tap, to = i.end + a->pad - tap; /* of o * stride */
    const int64_t first = from <= 0 ? 0 : (from - 1) / a->stride + 1;
    const int64_t last = to <= 0 ? 0 : (to - 1) / a->stride + 1;
    const aicf_span span = {aicf_most(first, o.begin), aicf_least(last, o.end)};
    return span;
}

#endif
