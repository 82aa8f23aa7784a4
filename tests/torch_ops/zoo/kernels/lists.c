/* Ops on lists of tensors, in f32 and f64. */
#include <string.h>

#include "aicf_ops/concat.h"
#include "aicf_ops/momentum.h"

static int64_t
elements(const aicf_view *v)
{
    int64_t count = 1;
    for (int64_t i = 0; i < v->rank; i++) {
        count *= v->sizes[i];
    }
    return count;
}

/* Each tensor has L pieces; the pieces of all tensors stand one after the other. */
static void
join(aicf_list xs, char *out, int64_t L, int64_t item)
{
    for (int64_t l = 0; l < L; l++) {
        for (int64_t i = 0; i < xs.count; i++) {
            int64_t bytes = elements(&xs.views[i]) / L * item;
            memcpy(out, (const char *)xs.views[i].data + l * bytes, (size_t)bytes);
            out += bytes;
        }
    }
}

#define LISTS(T, S)                                                                    \
    aicf_status kinds_cpu_concat_loop_##S(                                             \
        aicf_list xs, T *out, int64_t L, int64_t R, int64_t axis, aicf_stream stream)  \
    {                                                                                  \
        (void)R, (void)axis, (void)stream;                                             \
        join(xs, (char *)out, L, sizeof *out);                                         \
        return aicf_ok();                                                              \
    }                                                                                  \
    aicf_status kinds_cpu_momentum_loop_##S(                                           \
        aicf_list ps, aicf_list gs, aicf_list bufs, const aicf_scalar *lr, double mu,  \
        aicf_stream stream)                                                            \
    {                                                                                  \
        (void)stream;                                                                  \
        double rate = lr->data ? (double)*(const float *)lr->data : lr->host.real;     \
        for (int64_t i = 0; i < ps.count; i++) {                                       \
            T *p = ps.views[i].data, *buf = bufs.count ? bufs.views[i].data : NULL;    \
            const T *g = gs.views[i].data;                                             \
            for (int64_t k = 0; k < elements(&ps.views[i]); k++) {                     \
                double step = buf ? mu * (double)buf[k] + (double)g[k] : (double)g[k]; \
                p[k] = (T)((double)p[k] - rate * step);                                \
                if (buf) {                                                             \
                    buf[k] = (T)step;                                                  \
                }                                                                      \
            }                                                                          \
        }                                                                              \
        return aicf_ok();                                                              \
    }
LISTS(float, f32)
LISTS(double, f64)
