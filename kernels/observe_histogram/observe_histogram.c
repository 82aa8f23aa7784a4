/* observe_histogram on the CPU: hist[bin of x] += 1. The bin is computed in f32, of f64 in f64, as
   the CUDA kernels do it. Where there are several parts each counts into its share of the
   workspace, and those are added up. x without gaps in any order. Bound by the additions to the
   bins. */
#include <aicf_ops/observe_histogram.h>

#include <aicf/cpu/real.h>

enum {
    LEAST = 65536, /* elements a part, and */
    MOST = 16,     /* parts: the row's workspace expression says the same two numbers */
    LINE = 256     /* elements whose bins are computed before any is counted */
};

typedef struct counting {
    const void *x;
    int64_t n, share, bins; /* share: elements a part */
    double low, step;       /* half of where the range starts; bins in twice the unit of x */
    int64_t *counts;        /* [parts, bins], zeros */
} counting;

/* Cuts the elements into parts whose counts begin at 0. Returns how many. */
static int64_t
parts_of(counting *c, int64_t *workspace)
{
    const int64_t fitting = (c->n + LEAST - 1) / LEAST;
    const int64_t most = fitting < MOST ? fitting : MOST;
    c->share = (c->n + most - 1) / most;
    c->counts = workspace;
    const int64_t parts = (c->n + c->share - 1) / c->share;
    memset(workspace, 0, sizeof *workspace * (size_t)(parts * c->bins));
    return parts;
}

static void
add_up(const counting *c, int64_t parts, int64_t *hist)
{
    for (int64_t part = 0; part < parts; part++) {
        for (int64_t bin = 0; bin < c->bins; bin++) {
            hist[bin] += c->counts[part * c->bins + bin];
        }
    }
}

#define COUNT(T, s)                                                                             \
    /* Both ends are halved, so that a range of all finite numbers has a width. NaN: -1. */     \
    AICF_INLINE int32_t bin_##s(                                                                \
        aicf_acc_##s x, aicf_acc_##s low, aicf_acc_##s step, aicf_acc_##s top)                  \
    {                                                                                           \
        const aicf_acc_##s at = (x * (aicf_acc_##s)0.5 - low) * step;                           \
        const aicf_acc_##s held = at >= top ? top - 1 : at > 0 ? at : 0;                        \
        return (int32_t)(x != x ? -1 : held);                                                   \
    }                                                                                           \
                                                                                                \
    AICF_CLONES static void count_##s(const counting *c, int64_t first, int64_t n, int64_t *to) \
    {                                                                                           \
        const T *x = (const T *)c->x + first;                                                   \
        const aicf_acc_##s low = (aicf_acc_##s)c->low, step = (aicf_acc_##s)c->step;            \
        int32_t bins[LINE];                                                                     \
        for (int64_t i = 0; i < n; i += LINE) {                                                 \
            const int64_t m = n - i < LINE ? n - i : LINE;                                      \
            for (int64_t j = 0; j < m; j++) {                                                   \
                const aicf_acc_##s x_j = aicf_load_##s(x + i + j);                              \
                bins[j] = bin_##s(x_j, low, step, (aicf_acc_##s)c->bins);                       \
            }                                                                                   \
            for (int64_t j = 0; j < m; j++) {                                                   \
                to[bins[j] < 0 ? 0 : bins[j]] += bins[j] >= 0;                                  \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    static void count_parts_##s(void *context, int64_t begin, int64_t end)                      \
    {                                                                                           \
        const counting *c = (const counting *)context;                                          \
        for (int64_t part = begin; part < end; part++) {                                        \
            const int64_t first = part * c->share, left = c->n - first;                         \
            count_##s(c, first, left < c->share ? left : c->share, c->counts + part * c->bins); \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    aicf_status aicf_cpu_observe_histogram_loop_##s(                                            \
        const T *x, int64_t *hist, int64_t A, int64_t Bins, const aicf_scalar *lo,              \
        const aicf_scalar *hi, void *workspace, aicf_stream stream)                             \
    {                                                                                           \
        const aicf_acc_##s half = (aicf_acc_##s)0.5;                                            \
        const aicf_acc_##s low = (aicf_acc_##s)aicf_scalar_real(lo) * half;                     \
        const aicf_acc_##s high = (aicf_acc_##s)aicf_scalar_real(hi) * half;                    \
        counting c = {x, A, A, Bins, low, (aicf_acc_##s)Bins / (high - low), hist};             \
        (void)stream;                                                                           \
        if (A <= LEAST) {                                                                       \
            count_##s(&c, 0, A, hist);                                                          \
            return aicf_ok();                                                                   \
        }                                                                                       \
        const int64_t parts = parts_of(&c, (int64_t *)workspace);                               \
        aicf_parallel_for(parts, 1, count_parts_##s, &c);                                       \
        add_up(&c, parts, hist);                                                                \
        return aicf_ok();                                                                       \
    }

AICF_REALS(COUNT)
