/* max_pool2d and avg_pool2d on the CPU, dense NCHW and NHWC, f16 and bf16 computed in f32. An out's
   elements are met row by row: of equals the first is the largest, and every NaN is larger than all
   before it. Outs are made a line at a time: side by side along a row, or along the channels.
   Bound by bytes. */
#include "pool.h"

#include <math.h>

#include <aicf/cpu/convert.h>

/* ---- taking a line ----------------------------------------------------------------------------
 */

#if LARGEST
#define STEPS(T, s)                                                                        \
    AICF_INLINE void take_steps_##s(                                                       \
        aicf_acc_##s *value, int64_t *at, place from, const T *x, int64_t step, int64_t n) \
    {                                                                                      \
        if (!at) {                                                                         \
            AICF_INDEPENDENT                                                               \
            for (int64_t i = 0; i < n; i++) {                                              \
                const aicf_acc_##s v = aicf_load_##s(x + i * step);                        \
                value[i] = (v > value[i]) | (v != v) ? v : value[i];                       \
            }                                                                              \
            return;                                                                        \
        }                                                                                  \
        AICF_INDEPENDENT                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                  \
            const aicf_acc_##s v = aicf_load_##s(x + i * step);                            \
            const bool larger = (v > value[i]) | (v != v);                                 \
            value[i] = larger ? v : value[i];                                              \
            at[i] = larger ? from.first + i * from.step : at[i];                           \
        }                                                                                  \
    }                                                                                      \
                                                                                           \
    /* All from one pixel, whose index has 32 bits: as wide as f32. */                     \
    AICF_CLONES static void take_pixel_##s(                                                \
        aicf_acc_##s *value, int32_t *at, int32_t pixel, const T *x, int64_t n)            \
    {                                                                                      \
        AICF_INDEPENDENT                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                  \
            const aicf_acc_##s v = aicf_load_##s(x + i);                                   \
            const bool larger = (v > value[i]) | (v != v);                                 \
            value[i] = larger ? v : value[i];                                              \
            at[i] = larger ? pixel : at[i];                                                \
        }                                                                                  \
    }
#else
#define STEPS(T, s)                                                                        \
    AICF_INLINE void take_steps_##s(                                                       \
        aicf_acc_##s *value, int64_t *at, place from, const T *x, int64_t step, int64_t n) \
    {                                                                                      \
        (void)at, (void)from;                                                              \
        AICF_INDEPENDENT                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                  \
            value[i] += aicf_load_##s(x + i * step);                                       \
        }                                                                                  \
    }
#endif

/* Reals of 32 and 64 bits. */
#define TAKE(T, s)                                                                         \
    STEPS(T, s)                                                                            \
                                                                                           \
    AICF_CLONES static void take_##s(                                                      \
        aicf_acc_##s *value, int64_t *at, place from, const T *x, int64_t step, int64_t n) \
    {                                                                                      \
        if (step == 1) {                                                                   \
            take_steps_##s(value, at, from, x, 1, n);                                      \
        } else if (step == 2) {                                                            \
            take_steps_##s(value, at, from, x, 2, n);                                      \
        } else {                                                                           \
            take_steps_##s(value, at, from, x, step, n);                                   \
        }                                                                                  \
    }                                                                                      \
                                                                                           \
    /* n neighbours of one window. */                                                      \
    static void take_run_##s(                                                              \
        aicf_acc_##s *value, int64_t *at, int64_t first, const T *x, int64_t n)            \
    {                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                  \
            const place from = {first + i, 0};                                             \
            take_steps_##s(value, at, from, x + i, 1, 1);                                  \
        }                                                                                  \
    }

/* Those of 16 bits: a line of them as f32, and that. */
#define TAKE_HALF(T, s)                                                                       \
    static void take_##s(                                                                     \
        float *value, int64_t *at, place from, const T *x, int64_t step, int64_t n)           \
    {                                                                                         \
        float line[LINE];                                                                     \
        aicf_converter_##s.load(x, step, n, line);                                            \
        take_f32(value, at, from, line, 1, n);                                                \
    }                                                                                         \
                                                                                              \
    static void take_run_##s(float *value, int64_t *at, int64_t first, const T *x, int64_t n) \
    {                                                                                         \
        float line[LINE];                                                                     \
        for (int64_t i = 0; i < n; i += LINE) {                                               \
            const int64_t count = aicf_least(LINE, n - i);                                    \
            aicf_converter_##s.load(x + i, 1, count, line);                                   \
            take_run_f32(value, at, first + i, line, count);                                  \
        }                                                                                     \
    }

TAKE(float, f32)
TAKE(double, f64)
TAKE_HALF(aicf_f16, f16)
TAKE_HALF(aicf_bf16, bf16)

#if LARGEST
#define TAKE_PIXEL_HALF(T, s)                                                                   \
    static void take_pixel_##s(float *value, int32_t *at, int32_t pixel, const T *x, int64_t n) \
    {                                                                                           \
        float line[LINE];                                                                       \
        aicf_converter_##s.load(x, 1, n, line);                                                 \
        take_pixel_f32(value, at, pixel, line, n);                                              \
    }

TAKE_PIXEL_HALF(aicf_f16, f16)
TAKE_PIXEL_HALF(aicf_bf16, bf16)

/* ---- making lines of outs ----------------------------------------------------------------------
 */

#define PIXEL_WITH_INDICES(T, s)                                                             \
    static void pixel_with_indices_##s(                                                      \
        const pool *p, aicf_span rows, aicf_span columns, const T *x, int64_t to, int64_t n) \
    {                                                                                        \
        const int64_t width = p->z.size;                                                     \
        aicf_acc_##s value[LINE];                                                            \
        int32_t at[LINE];                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                    \
            value[i] = -(aicf_acc_##s)INFINITY;                                              \
            at[i] = (int32_t)(rows.begin * width + columns.begin);                           \
        }                                                                                    \
        for (int64_t h = rows.begin; h < rows.end; h++) {                                    \
            for (int64_t w = columns.begin; w < columns.end; w++) {                          \
                const int64_t pixel = h * width + w;                                         \
                take_pixel_##s(value, at, (int32_t)pixel, x + pixel * p->channels, n);       \
            }                                                                                \
        }                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                    \
            p->indices[to + i] = at[i];                                                      \
        }                                                                                    \
        aicf_converter_##s.store(value, n, (T *)p->to + to, 1);                              \
    }

AICF_REALS(PIXEL_WITH_INDICES)
#endif

/* Whether indices are asked for, and have 32 bits. */
#define NEAR(p) ((p)->indices && (p)->y.size * (p)->z.size <= INT32_MAX)

#if LARGEST
#define WITH_INDICES(s) pixel_with_indices_##s(p, rows, columns, x, to, n)
#else
#define WITH_INDICES(s) (void)0
#endif

#define POOL(T, s)                                                                            \
    static void begin_##s(aicf_acc_##s *value, int64_t n)                                     \
    {                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                     \
            value[i] = LARGEST ? -(aicf_acc_##s)INFINITY : 0;                                 \
        }                                                                                     \
    }                                                                                         \
                                                                                              \
    /* One row of a plane: the outs `o` of it. */                                             \
    static void row_##s(const pool *p, int64_t plane, int64_t row, aicf_span o)               \
    {                                                                                         \
        const aicf_span rows = aicf_axis_elements(&p->y, row), all = {0, p->z.size};          \
        const aicf_span taps = aicf_axis_taps(&p->z, all, o);                                 \
        const int64_t width = p->z.size, stride = p->z.stride;                                \
        const T *x = (const T *)p->from + plane * p->y.size * width;                          \
        const int64_t to = (plane * p->y.outs + row) * p->z.outs + o.begin;                   \
        int64_t *at = p->indices ? p->indices + to : NULL;                                    \
        aicf_acc_##s value[LINE];                                                             \
        begin_##s(value, o.end - o.begin);                                                    \
        for (int64_t i = o.begin; at && i < o.end; i++) {                                     \
            at[i - o.begin] = rows.begin * width + aicf_axis_elements(&p->z, i).begin;        \
        }                                                                                     \
        for (int64_t h = rows.begin; h < rows.end; h++) {                                     \
            if (o.end - o.begin == 1) {                                                       \
                const aicf_span run = aicf_axis_elements(&p->z, o.begin);                     \
                const int64_t first = h * width + run.begin;                                  \
                take_run_##s(value, at, first, x + first, run.end - run.begin);               \
                continue;                                                                     \
            }                                                                                 \
            for (int64_t tap = taps.begin; tap < taps.end; tap++) {                           \
                const aicf_span q = aicf_axis_at_tap(&p->z, tap, all, o);                     \
                const int64_t skip = q.begin - o.begin;                                       \
                const int64_t first = h * width + q.begin * stride - p->z.pad + tap;          \
                const place from = {first, stride};                                           \
                if (q.begin < q.end) {                                                        \
                    take_##s(                                                                 \
                        value + skip, at ? at + skip : NULL, from, x + first, stride,         \
                        q.end - q.begin);                                                     \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
        const int64_t height = aicf_axis_count(&p->y, row, p->include_pad);                   \
        for (int64_t i = o.begin; i < o.end && !LARGEST; i++) {                               \
            value[i - o.begin] /=                                                             \
                (aicf_acc_##s)area(height, aicf_axis_count(&p->z, i, p->include_pad));        \
        }                                                                                     \
        aicf_converter_##s.store(value, o.end - o.begin, (T *)p->to + to, 1);                 \
    }                                                                                         \
                                                                                              \
    static void rows_##s(void *context, int64_t begin, int64_t end)                           \
    {                                                                                         \
        const pool *p = (const pool *)context;                                                \
        for (int64_t i = begin; i < end; i++) {                                               \
            for (int64_t q = 0; q < p->z.outs; q += LINE) {                                   \
                const aicf_span o = {q, aicf_least(q + LINE, p->z.outs)};                     \
                row_##s(p, i / p->y.outs, i % p->y.outs, o);                                  \
            }                                                                                 \
        }                                                                                     \
    }                                                                                         \
                                                                                              \
    /* One pixel of an image: the channels [c, c + n). */                                     \
    static void pixel_##s(const pool *p, int64_t image, int64_t pixel, int64_t c, int64_t n)  \
    {                                                                                         \
        const int64_t width = p->z.size, row = pixel / p->z.outs, column = pixel % p->z.outs; \
        const aicf_span rows = aicf_axis_elements(&p->y, row);                                \
        const aicf_span columns = aicf_axis_elements(&p->z, column);                          \
        const T *x = (const T *)p->from + image * p->y.size * width * p->channels + c;        \
        const int64_t to = (image * p->y.outs * p->z.outs + pixel) * p->channels + c;         \
        int64_t *at = p->indices ? p->indices + to : NULL;                                    \
        aicf_acc_##s value[LINE], count = 1;                                                  \
        if (NEAR(p)) {                                                                        \
            WITH_INDICES(s);                                                                  \
            return;                                                                           \
        }                                                                                     \
        begin_##s(value, n);                                                                  \
        for (int64_t i = 0; at && i < n; i++) {                                               \
            at[i] = rows.begin * width + columns.begin;                                       \
        }                                                                                     \
        for (int64_t h = rows.begin; h < rows.end; h++) {                                     \
            for (int64_t w = columns.begin; w < columns.end; w++) {                           \
                const place from = {h * width + w, 0};                                        \
                take_##s(value, at, from, x + from.first * p->channels, 1, n);                \
            }                                                                                 \
        }                                                                                     \
        if (!LARGEST) {                                                                       \
            count = (aicf_acc_##s)area(                                                       \
                aicf_axis_count(&p->y, row, p->include_pad),                                  \
                aicf_axis_count(&p->z, column, p->include_pad));                              \
        }                                                                                     \
        for (int64_t i = 0; i < n && !LARGEST; i++) {                                         \
            value[i] /= count;                                                                \
        }                                                                                     \
        aicf_converter_##s.store(value, n, (T *)p->to + to, 1);                               \
    }                                                                                         \
                                                                                              \
    static void pixels_##s(void *context, int64_t begin, int64_t end)                         \
    {                                                                                         \
        const pool *p = (const pool *)context;                                                \
        const int64_t outs = p->y.outs * p->z.outs;                                           \
        for (int64_t i = begin; i < end; i++) {                                               \
            for (int64_t c = 0; c < p->channels; c += LINE) {                                 \
                pixel_##s(p, i / outs, i % outs, c, aicf_least(LINE, p->channels - c));       \
            }                                                                                 \
        }                                                                                     \
    }

AICF_REALS(POOL)

static int64_t
met_by(const pool *p)
{
    return aicf_least(p->y.window, p->y.size) * aicf_least(p->z.window, p->z.size);
}

/* Runs one of the above for all outs. */
static aicf_status
planes(const pool *p, int64_t N, void (*part)(void *, int64_t, int64_t))
{
    return pool_run(p, N * p->channels * p->y.outs, p->z.outs, met_by(p), part);
}

static aicf_status
nhwc(const pool *p, int64_t N, void (*part)(void *, int64_t, int64_t))
{
    return pool_run(p, N * p->y.outs * p->z.outs, p->channels, met_by(p), part);
}

#if LARGEST
#define LAUNCH(T, s, kernel, run, part)                                                    \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                              \
        const T *x, T *out, int64_t *indices, int64_t N, int64_t C, int64_t H, int64_t W,  \
        int64_t P0, int64_t Q0, int64_t P, int64_t Q, const int64_t window[2],             \
        const int64_t stride[2], const int64_t pad[2], bool ceil_mode, aicf_stream stream) \
    {                                                                                      \
        (void)ceil_mode;                                                                   \
        POOL_LAUNCH(x, out, indices, false, run, part##_##s);                              \
    }
#else
#define LAUNCH(T, s, kernel, run, part)                                                         \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                   \
        const T *x, T *out, int64_t N, int64_t C, int64_t H, int64_t W, int64_t P0, int64_t Q0, \
        int64_t P, int64_t Q, const int64_t window[2], const int64_t stride[2],                 \
        const int64_t pad[2], bool ceil_mode, bool count_include_pad, aicf_stream stream)       \
    {                                                                                           \
        (void)ceil_mode;                                                                        \
        POOL_LAUNCH(x, out, NULL, count_include_pad, run, part##_##s);                          \
    }
#endif

AICF_REALS(LAUNCHERS)
