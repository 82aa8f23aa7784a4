/* out = all of xs, row after row. */
#include <string.h>

#include <aicf_ops/join.h>

static void
join(aicf_list xs, char *out, int64_t row)
{
    for (int64_t i = 0; i < xs.count; i++) {
        size_t bytes = (size_t)(xs.views[i].sizes[0] * row);
        if (bytes) {
            memcpy(out, xs.views[i].data, bytes);
        }
        out += bytes;
    }
}

aicf_status
jz_cpu_join_rows_f32(aicf_list xs, float *out, int64_t C, aicf_stream stream)
{
    (void)stream;
    join(xs, (char *)out, 4 * C);
    return aicf_ok();
}

aicf_status
jz_cpu_join_rows_f64(aicf_list xs, double *out, int64_t C, aicf_stream stream)
{
    (void)stream;
    join(xs, (char *)out, 8 * C);
    return aicf_ok();
}
