/* p -= lr * g; a buf, where there is one, counts the steps. */
#include "aicf_ops/step.h"

static int64_t
view_numel(const aicf_view *v)
{
    int64_t numel = 1;
    for (int64_t i = 0; i < v->rank; i++) {
        numel *= v->sizes[i];
    }
    return numel;
}

aicf_status
zoo_cpu_step_loop_f32(
    aicf_list ps, aicf_list gs, aicf_list bufs, const aicf_scalar *lr, aicf_stream stream)
{
    (void)stream;
    double rate = lr->data ? (double)*(const float *)lr->data : lr->host.real;
    for (int64_t i = 0; i < ps.count; i++) {
        float *p = ps.views[i].data, *buf = bufs.views[i].data;
        const float *g = gs.views[i].data;
        for (int64_t k = 0; k < view_numel(&ps.views[i]); k++) {
            p[k] -= (float)rate * g[k];
            if (buf) {
                buf[k] += 1;
            }
        }
    }
    return aicf_ok();
}
