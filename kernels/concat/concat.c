/* concat on the CPU: out = xs side by side along one axis; all dense. To bytes it is rows, [L, N *
   R] elements of each tensor, copied behind each other; a bool becomes 0 or 1. Bound by bytes. */
#include <aicf_ops/concat.h>

#include <string.h>

enum { GRAIN = 131072 }; /* bytes a part: long beside the cost of waking a thread */

typedef struct joined {
    aicf_list xs;
    int64_t axis, unit; /* unit: bytes of one index of the axis */
    int64_t pitch;      /* bytes of a row of out */
    uint8_t *out;
    bool truth;
} joined;

static int64_t
width_of(const joined *j, int64_t i)
{
    return j->xs.views[i].sizes[j->axis] * j->unit;
}

static void
copy_bytes(const uint8_t *x, uint8_t *out, int64_t n, bool truth)
{
    if (!truth) {
        memcpy(out, x, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = x[i] != 0;
    }
}

/* Bytes [begin, end) of out. */
static void
join_part(void *context, int64_t begin, int64_t end)
{
    const joined *j = (const joined *)context;
    int64_t row = begin / j->pitch, at = begin % j->pitch, i = 0;
    while (at >= width_of(j, i)) {
        at -= width_of(j, i++);
    }
    while (begin < end) {
        const int64_t width = width_of(j, i), left = end - begin;
        const int64_t n = width - at < left ? width - at : left;
        const uint8_t *x = (const uint8_t *)j->xs.views[i].data;
        if (n > 0) {
            copy_bytes(x + row * width + at, j->out + begin, n, j->truth);
        }
        begin += n;
        at = 0;
        if (++i == j->xs.count) {
            i = 0;
            row++;
        }
    }
}

static aicf_status
join(aicf_list xs, void *out, int64_t L, int64_t axis, int64_t unit, bool truth)
{
    joined j = {xs, axis, unit, 0, (uint8_t *)out, truth};
    for (int64_t i = 0; i < xs.count; i++) {
        j.pitch += width_of(&j, i);
    }
    if (L * j.pitch > 0) {
        aicf_parallel_for(L * j.pitch, GRAIN, join_part, &j);
    }
    return aicf_ok();
}

#define CONCAT_OF(T, s, truth)                                                        \
    aicf_status aicf_cpu_concat_loop_##s(                                             \
        aicf_list xs, T *out, int64_t L, int64_t R, int64_t axis, aicf_stream stream) \
    {                                                                                 \
        (void)stream;                                                                 \
        return join(xs, out, L, axis, R * (int64_t)sizeof(T), truth);                 \
    }
#define CONCAT(T, s) CONCAT_OF(T, s, false)

CONCAT(float, f32)
CONCAT(aicf_f16, f16)
CONCAT(aicf_bf16, bf16)
CONCAT(double, f64)
CONCAT(int8_t, i8)
CONCAT(uint8_t, u8)
CONCAT(int16_t, i16)
CONCAT(int32_t, i32)
CONCAT(int64_t, i64)
CONCAT_OF(aicf_bool, bool, true)
