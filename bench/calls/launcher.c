/* The launchers of `add`, as the module has them, behind plain pointers for those who are no
 * module. */
#include "launcher.h"

#include <aicf_ops/add.h>

#define EXPORT __attribute__((visibility("default")))

static void
view_set(aicf_view *view, const float *data, int64_t n)
{
    view->data = (void *)data;
    view->rank = 1;
    view->sizes[0] = n;
    view->strides[0] = 1;
}

EXPORT int
bench_cpu(const float *a, const float *b, float *out, int64_t n, void *stream)
{
    aicf_view views[3];
    view_set(&views[0], a, n);
    view_set(&views[1], b, n);
    view_set(&views[2], out, n);
    return aicf_cpu_add_loop_f32(&views[0], &views[1], &views[2], n, n, (aicf_stream)stream).kind;
}

EXPORT int
bench_cuda(const float *a, const float *b, float *out, int64_t n, void *stream)
{
    if (!aicf_cuda_add_vec_f32) {
        return -1;
    }
    return aicf_cuda_add_vec_f32(a, b, out, n, n, (aicf_stream)stream).kind;
}

/* In the place of a launch. */
EXPORT int
bench_nothing(const float *a, const float *b, float *out, int64_t n, void *stream)
{
    (void)a, (void)b, (void)out, (void)n, (void)stream;
    return 0;
}
