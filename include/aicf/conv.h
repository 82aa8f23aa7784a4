/* 2-D convolutions and their gradients as sums over windows that move over a field: what CPU and
   CUDA kernels have to know of them.

   A window has taps, and lies at places. Along an axis, tap t of the window at place p is element
   first + p * step + t * tap_step of the field, if that is there, else a zero. The factor has one
   number for each of the `m` outputs of a group, its channels and taps; the outs have one for each
   image, output and place:

     over taps:    out[image][m][place] = sum over channels and taps of factor * field
     over places:  factor[m][channel][tap] = sum over images and places of out * field

   conv2d is the first, its weight gradient the second. Its input gradient is the first, with gy as
   the field, once for each phase of the strides. All strides of tensors are free. */
#ifndef AICF_CONV_H
#define AICF_CONV_H

#include <aicf/status.h>
#include <aicf/tensor.h>

typedef struct aicf_conv_axis {
    int64_t places, step;
    int64_t taps, tap_step; /* negative where the field is a gradient */
    int64_t first, size;
} aicf_conv_axis;

typedef struct aicf_conv {
    int64_t item; /* bytes of an element */
    int64_t images, groups, channels, m;
    aicf_conv_axis y, x;
    char *field, *factor, *out;
    const void *bias;          /* one an output; may be NULL */
    int64_t field_strides[4];  /* image, channel, row, column */
    int64_t factor_strides[4]; /* m, channel, tap of y, tap of x */
    int64_t out_strides[4];    /* image, m, place of y, place of x */
    int64_t factor_group;      /* from a group to the next; of the others channels and m */
} aicf_conv;

static inline int64_t
aicf_conv_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A dense tensor N C H W that lies as N H W C. */
static inline aicf_view
aicf_conv_channels_last(const void *data, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const aicf_view view = {(void *)(uintptr_t)data, 4, {n, c, h, w}, {h * w * c, 1, w * c, c}};
    return view;
}

/* What is summed for one out. */
static inline int64_t
aicf_conv_depth(const aicf_conv *c)
{
    return c->channels * c->y.taps * c->x.taps;
}

static inline void
aicf_conv_take(
    aicf_conv *c, int64_t item, const aicf_view *field, const aicf_view *factor,
    const aicf_view *out)
{
    c->item = item;
    c->images = field->sizes[0];
    c->field = (char *)field->data;
    c->factor = (char *)factor->data;
    c->out = (char *)out->data;
    c->bias = NULL;
    for (int i = 0; i < 4; i++) {
        c->field_strides[i] = field->strides[i];
        c->factor_strides[i] = factor->strides[i];
        c->out_strides[i] = out->strides[i];
    }
}

/* A conv2d of x by w, whose outs are `out`: conv2d, and, over places, its weight gradient. */
static inline aicf_conv
aicf_conv_of(
    int64_t item, const aicf_view *x, const aicf_view *w, const aicf_view *out,
    const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2], int64_t groups)
{
    aicf_conv c;
    aicf_conv_take(&c, item, x, w, out);
    c.groups = groups;
    c.channels = w->sizes[1];
    c.m = w->sizes[0] / groups;
    c.factor_group = c.m * w->strides[0];
    aicf_conv_axis *axes[2] = {&c.y, &c.x};
    for (int i = 0; i < 2; i++) {
        const aicf_conv_axis a = {out->sizes[2 + i], stride[i], w->sizes[2 + i],
                                  dilation[i],       -pad[i],   x->sizes[2 + i]};
        *axes[i] = a;
    }
    return c;
}

/* ---- taps in the field ------------------------------------------------------------------------
 */

/* The greatest whole number of at most a / b; requires b > 0. */
static inline int64_t
aicf_conv_floor(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Leaves an axis the taps that are in the field at some place, and returns how many before them are
   in it at none. */
static inline int64_t
aicf_conv_trim_axis(aicf_conv_axis *a)
{
    if (a->taps <= 1 || a->tap_step == 0 || a->places < 1) {
        return 0;
    }
    const int64_t last = a->first + (a->places - 1) * a->step, edge = a->size - 1 - a->first;
    const bool forwards = a->tap_step > 0;
    const int64_t step = forwards ? a->tap_step : -a->tap_step;
    const int64_t lower = -aicf_conv_floor(forwards ? last : edge, step);
    const int64_t upper = aicf_conv_floor(forwards ? edge : last, step) + 1;
    const int64_t end = aicf_conv_least(upper, a->taps), begin = lower > 0 ? lower : 0;
    if (begin >= end) {
        a->taps = 0;
        return 0;
    }
    a->first += begin * a->tap_step;
    a->taps = end - begin;
    return begin;
}

/* The same sums over taps without those of nothing but zeros: a weight that is one number read
   again and again may have 2**60 of them. */
static inline void
aicf_conv_trim(aicf_conv *c)
{
    c->factor += aicf_conv_trim_axis(&c->y) * c->factor_strides[2] * c->item;
    c->factor += aicf_conv_trim_axis(&c->x) * c->factor_strides[3] * c->item;
}

/* ---- input gradients --------------------------------------------------------------------------
 */

/* The greatest that divides both. */
static inline int64_t
aicf_conv_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The elements phase, phase + stride, ... of an axis as the places of its input gradient. The taps
   that reach them are from `tap` on each `every`-th one. */
typedef struct aicf_conv_phase {
    aicf_conv_axis axis;
    int64_t phase, stride, tap, every;
} aicf_conv_phase;

/* a * b without its multiples of m; requires both below m. */
static inline int64_t
aicf_conv_times(int64_t a, int64_t b, int64_t m)
{
    uint64_t sum = 0, next = (uint64_t)b;
    for (uint64_t rest = (uint64_t)a; rest != 0; rest /= 2) {
        sum = rest % 2 ? (sum + next) % (uint64_t)m : sum;
        next = next * 2 % (uint64_t)m;
    }
    return (int64_t)sum;
}

/* The least tap >= 0 whose multiple of `dilation` leaves `rest` when divided by `stride`; -1: none
   does. Requires 0 <= rest < stride. */
static inline int64_t
aicf_conv_tap_of(int64_t rest, int64_t stride, int64_t dilation)
{
    /* Euclid's: at each step a is dilation * x but for multiples of the stride. */
    int64_t a = stride, b = dilation % stride, x = 0, y = 1;
    while (b != 0) {
        const int64_t times = a / b, next = a - times * b, factor = x - times * y;
        a = b;
        b = next;
        x = y;
        y = factor;
    }
    if (rest % a != 0) {
        return -1;
    }
    const int64_t every = stride / a;
    x = (x % every + every) % every;
    return aicf_conv_times(rest / a, x, every);
}

/* Requires phase < size. */
static inline aicf_conv_phase
aicf_conv_phase_of(
    int64_t phase, int64_t size, int64_t taps, int64_t outs, int64_t stride, int64_t pad,
    int64_t dilation)
{
    aicf_conv_phase p = {{0, 1, 0, 0, 0, outs}, phase, 0, 0, 1};
    p.axis.places = (size - 1 - phase) / stride + 1;
    p.stride = p.axis.places > 1 ? stride : 0;
    /* phase + pad - tap * dilation divides by the stride at one of `every` taps, and of their next
       ones, or at none. */
    const int64_t every = stride / aicf_conv_divisor(stride, dilation);
    const int64_t tap = aicf_conv_tap_of((phase + pad) % stride, stride, dilation);
    if (tap >= 0 && tap < taps) {
        p.tap = tap;
        p.axis.taps = (taps - 1 - tap) / every + 1;
        p.axis.first = (phase + pad - tap * dilation) / stride;
        p.every = p.axis.taps > 1 ? every : 1;
        p.axis.tap_step = p.axis.taps > 1 ? -(every * dilation / stride) : 0;
    }
    return p;
}

/* The input gradient of a conv2d by w in one phase of the rows and one of the columns. */
static inline aicf_conv
aicf_conv_dx_of(
    int64_t item, const aicf_view *gy, const aicf_view *w, const aicf_view *gx,
    const aicf_conv_phase *y, const aicf_conv_phase *x, int64_t groups)
{
    aicf_conv c;
    aicf_conv_take(&c, item, gy, w, gx);
    c.groups = groups;
    c.channels = w->sizes[0] / groups;
    c.m = w->sizes[1];
    c.factor_group = c.channels * w->strides[0];
    c.factor_strides[0] = w->strides[1];
    c.factor_strides[1] = w->strides[0];
    const aicf_conv_phase *phases[2] = {y, x};
    for (int i = 0; i < 2; i++) {
        const aicf_conv_phase *p = phases[i];
        c.factor += p->tap * w->strides[2 + i] * item;
        c.factor_strides[2 + i] = p->every * w->strides[2 + i];
        c.out += p->phase * gx->strides[2 + i] * item;
        c.out_strides[2 + i] = p->stride * gx->strides[2 + i];
    }
    c.y = y->axis;
    c.x = x->axis;
    return c;
}

/* Calls run(conv, context) for each pair of phases, until one of them fails. */
static inline aicf_status
aicf_conv_each_phase(
    int64_t item, const aicf_view *gy, const aicf_view *w, const aicf_view *gx,
    const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2], int64_t groups,
    aicf_status (*run)(const aicf_conv *c, void *context), void *context)
{
    const int64_t rows = aicf_conv_least(stride[0], gx->sizes[2]);
    const int64_t columns = aicf_conv_least(stride[1], gx->sizes[3]);
    aicf_status status = aicf_ok();
    for (int64_t i = 0; i < rows * columns && !status.kind; i++) {
        const int64_t phase[2] = {i / columns, i % columns};
        aicf_conv_phase p[2];
        for (int axis = 0; axis < 2; axis++) {
            const int dim = 2 + axis;
            p[axis] = aicf_conv_phase_of(
                phase[axis], gx->sizes[dim], w->sizes[dim], gy->sizes[dim], stride[axis], pad[axis],
                dilation[axis]);
        }
        const aicf_conv c = aicf_conv_dx_of(item, gy, w, gx, &p[0], &p[1], groups);
        status = run(&c, context);
    }
    return status;
}

#endif
