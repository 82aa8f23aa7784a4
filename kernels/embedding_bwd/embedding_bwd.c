/* embedding_bwd on the CPU: gw[v] = gy summed over the places where idx is v, in their order, in
   f32 (f64 in f64), rounded once; 0 where there is none. The places are sorted by counting:
   `workspace` holds where each v's begin, and the places. padding_idx, and what lies outside of gw,
   are left out. Bound by bytes. */
#include <aicf_ops/embedding_bwd.h>

#include <aicf/cpu/real.h>

enum {
    LINE = 256,   /* sums side by side */
    GRAIN = 32768 /* elements a part: long beside the cost of waking a thread */
};

typedef struct sorted {
    const void *gy;
    void *gw;
    int64_t V, D;
    int64_t *begin; /* V + 1 of them: places[begin[v] .. begin[v + 1]) are those of v */
    int64_t *places;
} sorted;

static sorted
sorted_in(void *workspace, const void *gy, void *gw, int64_t V, int64_t D)
{
    const sorted s = {gy, gw, V, D, (int64_t *)workspace, (int64_t *)workspace + V + 1};
    return s;
}

/* begin[v] is first counted one place further, then moved on by each place that is put down: so it
   ends up where v + 1 began. */
#define SORT(I, i)                                                                      \
    static void sort_##i(const sorted *s, const I *idx, int64_t A, int64_t padding_idx) \
    {                                                                                   \
        memset(s->begin, 0, sizeof *s->begin *(size_t)(s->V + 1));                      \
        for (int64_t a = 0; a < A; a++) {                                               \
            if (idx[a] >= 0 && idx[a] < s->V && idx[a] != padding_idx) {                \
                s->begin[idx[a] + 1]++;                                                 \
            }                                                                           \
        }                                                                               \
        for (int64_t v = 0; v < s->V; v++) {                                            \
            s->begin[v + 1] += s->begin[v];                                             \
        }                                                                               \
        for (int64_t a = 0; a < A; a++) {                                               \
            if (idx[a] >= 0 && idx[a] < s->V && idx[a] != padding_idx) {                \
                s->places[s->begin[idx[a]]++] = a;                                      \
            }                                                                           \
        }                                                                               \
        memmove(s->begin + 1, s->begin, sizeof *s->begin * (size_t)s->V);               \
        s->begin[0] = 0;                                                                \
    }

SORT(int64_t, i64)
SORT(int32_t, i32)

#define SUMS(T, s)                                                             \
    AICF_CLONES static void add_##s(aicf_acc_##s *sum, const T *gy, int64_t n) \
    {                                                                          \
        AICF_INDEPENDENT                                                       \
        for (int64_t d = 0; d < n; d++) {                                      \
            sum[d] += aicf_load_##s(gy + d);                                   \
        }                                                                      \
    }                                                                          \
                                                                               \
    static void rows_##s(void *context, int64_t first, int64_t end)            \
    {                                                                          \
        const sorted *p = (const sorted *)context;                             \
        const T *gy = (const T *)p->gy;                                        \
        for (int64_t v = first; v < end; v++) {                                \
            for (int64_t d = 0; d < p->D; d += LINE) {                         \
                const int64_t n = p->D - d < LINE ? p->D - d : LINE;           \
                aicf_acc_##s sum[LINE] = {0};                                  \
                for (int64_t i = p->begin[v]; i < p->begin[v + 1]; i++) {      \
                    add_##s(sum, gy + p->places[i] * p->D + d, n);             \
                }                                                              \
                for (int64_t i = 0; i < n; i++) {                              \
                    aicf_store_##s((T *)p->gw + v * p->D + d + i, sum[i]);     \
                }                                                              \
            }                                                                  \
        }                                                                      \
    }                                                                          \
                                                                               \
    LAUNCHER(T, s, int64_t, i64)                                               \
    LAUNCHER(T, s, int32_t, i32)

#define LAUNCHER(T, s, I, i)                                                                    \
    aicf_status aicf_cpu_embedding_bwd_loop_##s##_##i(                                          \
        const T *gy, const I *idx, T *gw, int64_t A, int64_t D, int64_t V, int64_t padding_idx, \
        void *workspace, aicf_stream stream)                                                    \
    {                                                                                           \
        const sorted p = sorted_in(workspace, gy, gw, V, D);                                    \
        (void)stream;                                                                           \
        sort_##i(&p, idx, A, padding_idx);                                                      \
        aicf_parallel_for(V, GRAIN / D + 1, rows_##s, (void *)(uintptr_t)&p);                   \
        return aicf_ok();                                                                       \
    }

AICF_REALS(SUMS)
