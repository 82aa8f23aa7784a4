/* max_pool2d_bwd and avg_pool2d_bwd on the CPU, dense NCHW and NHWC: each element of gx gathers
   from the windows that hold it, in their order, summed in f32 (f64 in f64) and rounded once. An
   index that names no element of its window is met by none. Bound by bytes. */
#include "../pool2d/pool.h"

#define GATHER(T, s)                                                                               \
    /* n elements of gx, `step` apart, from as many windows. */                                    \
    AICF_CLONES static void take_##s(                                                              \
        aicf_acc_##s *value, int64_t step, const T *gy, const int64_t *at, place from,             \
        aicf_acc_##s count, int64_t n)                                                             \
    {                                                                                              \
        if (!LARGEST) {                                                                            \
            AICF_INDEPENDENT                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                      \
                value[i * step] += aicf_load_##s(gy + i) / count;                                  \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        AICF_INDEPENDENT                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const aicf_acc_##s v = aicf_load_##s(gy + i);                                          \
            value[i * step] += at[i] == from.first + i * from.step ? v : 0;                        \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* What the elements `w` of a row get from the windows `q` of one row of windows. The places   \
       in a window go backwards, so that an element meets its windows in their order. */           \
    static void windows_##s(                                                                       \
        const pool *p, aicf_acc_##s *value, aicf_span w, aicf_span q, int64_t line, int64_t row,   \
        int64_t height)                                                                            \
    {                                                                                              \
        if (q.end - q.begin == 1) {                                                                \
            const aicf_span run = aicf_axis_elements(&p->z, q.begin);                              \
            const int64_t width = aicf_axis_count(&p->z, q.begin, p->include_pad);                 \
            const aicf_acc_##s v = aicf_load_##s((const T *)p->from + line + q.begin) /            \
                                   (aicf_acc_##s)area(height, width);                              \
            for (int64_t i = aicf_most(run.begin, w.begin); i < aicf_least(run.end, w.end); i++) { \
                value[i - w.begin] += v;                                                           \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        const aicf_span taps = aicf_axis_taps(&p->z, w, q);                                        \
        for (int64_t tap = taps.end - 1; tap >= taps.begin; tap--) {                               \
            aicf_span o = aicf_axis_at_tap(&p->z, tap, w, q);                                      \
            while (o.begin < o.end) {                                                              \
                const int64_t end = aicf_axis_alike(&p->z, o, p->include_pad);                     \
                const int64_t width = aicf_axis_count(&p->z, o.begin, p->include_pad);             \
                const int64_t column = o.begin * p->z.stride - p->z.pad + tap;                     \
                const place from = {row * p->z.size + column, p->z.stride};                        \
                take_##s(                                                                          \
                    value + column - w.begin, p->z.stride, (const T *)p->from + line + o.begin,    \
                    p->indices ? p->indices + line + o.begin : NULL, from,                         \
                    (aicf_acc_##s)area(height, width), end - o.begin);                             \
                o.begin = end;                                                                     \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* The same where each window has one element, which its index names. */                       \
    static void named_##s(                                                                         \
        const pool *p, aicf_acc_##s *value, aicf_span w, aicf_span q, int64_t line, int64_t row)   \
    {                                                                                              \
        const uint64_t elements = (uint64_t)(w.end - w.begin);                                     \
        const uint64_t window = (uint64_t)p->z.window;                                             \
        const uint64_t before = (uint64_t)(row * p->z.size);                                       \
        for (int64_t o = q.begin; o < q.end; o++) {                                                \
            const uint64_t column = (uint64_t)p->indices[line + o] - before;                       \
            const uint64_t first = (uint64_t)(o * p->z.stride - p->z.pad);                         \
            const uint64_t place = column - (uint64_t)w.begin;                                     \
            if (place < elements && column - first < window) {                                     \
                value[place] += aicf_load_##s((const T *)p->from + line + o);                      \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* Elements `w` of one row of a plane. */                                                      \
    static void row_##s(const pool *p, int64_t plane, int64_t row, aicf_span w)                    \
    {                                                                                              \
        const aicf_span rows = aicf_axis_windows(&p->y, row);                                      \
        const aicf_span q = {                                                                      \
            aicf_axis_windows(&p->z, w.begin).begin, aicf_axis_windows(&p->z, w.end - 1).end};     \
        aicf_acc_##s value[LINE] = {0};                                                            \
        for (int64_t o = rows.begin; o < rows.end && q.begin < q.end; o++) {                       \
            const int64_t height = aicf_axis_count(&p->y, o, p->include_pad);                      \
            const int64_t line = (plane * p->y.outs + o) * p->z.outs;                              \
            if (LARGEST) {                                                                         \
                named_##s(p, value, w, q, line, row);                                              \
            } else {                                                                               \
                windows_##s(p, value, w, q, line, row, height);                                    \
            }                                                                                      \
        }                                                                                          \
        T *gx = (T *)p->to + (plane * p->y.size + row) * p->z.size;                                \
        for (int64_t i = w.begin; i < w.end; i++) {                                                \
            aicf_store_##s(gx + i, value[i - w.begin]);                                            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void rows_##s(void *context, int64_t begin, int64_t end)                                \
    {                                                                                              \
        const pool *p = (const pool *)context;                                                     \
        for (int64_t i = begin; i < end; i++) {                                                    \
            for (int64_t first = 0; first < p->z.size; first += LINE) {                            \
                const aicf_span w = {first, aicf_least(first + LINE, p->z.size)};                  \
                row_##s(p, i / p->y.size, i % p->y.size, w);                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* One pixel of an image: the channels [c, c + n). */                                          \
    static void pixel_##s(const pool *p, int64_t image, int64_t pixel, int64_t c, int64_t n)       \
    {                                                                                              \
        const aicf_span rows = aicf_axis_windows(&p->y, pixel / p->z.size);                        \
        const aicf_span columns = aicf_axis_windows(&p->z, pixel % p->z.size);                     \
        const place from = {pixel, 0};                                                             \
        aicf_acc_##s value[LINE] = {0};                                                            \
        for (int64_t o = rows.begin; o < rows.end; o++) {                                          \
            const int64_t height = aicf_axis_count(&p->y, o, p->include_pad);                      \
            for (int64_t q = columns.begin; q < columns.end; q++) {                                \
                const int64_t width = aicf_axis_count(&p->z, q, p->include_pad);                   \
                const int64_t at = ((image * p->y.outs + o) * p->z.outs + q) * p->channels + c;    \
                take_##s(                                                                          \
                    value, 1, (const T *)p->from + at, p->indices ? p->indices + at : NULL, from,  \
                    (aicf_acc_##s)area(height, width), n);                                         \
            }                                                                                      \
        }                                                                                          \
        T *gx = (T *)p->to + (image * p->y.size * p->z.size + pixel) * p->channels + c;            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            aicf_store_##s(gx + i, value[i]);                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void pixels_##s(void *context, int64_t begin, int64_t end)                              \
    {                                                                                              \
        const pool *p = (const pool *)context;                                                     \
        const int64_t pixels = p->y.size * p->z.size;                                              \
        for (int64_t i = begin; i < end; i++) {                                                    \
            for (int64_t c = 0; c < p->channels; c += LINE) {                                      \
                pixel_##s(p, i / pixels, i % pixels, c, aicf_least(LINE, p->channels - c));        \
            }                                                                                      \
        }                                                                                          \
    }

AICF_REALS(GATHER)

static int64_t
met_by(const pool *p)
{
    return aicf_least(p->y.window / p->y.stride + 1, p->y.outs) *
           aicf_least(p->z.window / p->z.stride + 1, p->z.outs);
}

/* Runs one of the above for all elements. */
static aicf_status
planes(const pool *p, int64_t N, void (*part)(void *, int64_t, int64_t))
{
    return pool_run(p, N * p->channels * p->y.size, p->z.size, met_by(p), part);
}

static aicf_status
nhwc(const pool *p, int64_t N, void (*part)(void *, int64_t, int64_t))
{
    return pool_run(p, N * p->y.size * p->z.size, p->channels, met_by(p), part);
}

#if LARGEST
#define LAUNCH(T, s, kernel, run, part)                                                         \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                   \
        const T *gy, const int64_t *indices, T *gx, int64_t N, int64_t C, int64_t P, int64_t Q, \
        int64_t P0, int64_t Q0, int64_t H, int64_t W, const int64_t window[2],                  \
        const int64_t stride[2], const int64_t pad[2], aicf_stream stream)                      \
    {                                                                                           \
        POOL_LAUNCH(gy, gx, indices, false, run, part##_##s);                                   \
    }
#else
#define LAUNCH(T, s, kernel, run, part)                                                         \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                   \
        const T *gy, T *gx, int64_t N, int64_t C, int64_t P, int64_t Q, int64_t P0, int64_t Q0, \
        int64_t H, int64_t W, const int64_t window[2], const int64_t stride[2],                 \
        const int64_t pad[2], bool count_include_pad, aicf_stream stream)                       \
    {                                                                                           \
        POOL_LAUNCH(gy, gx, NULL, count_include_pad, run, part##_##s);                          \
    }
#endif

AICF_REALS(LAUNCHERS)
