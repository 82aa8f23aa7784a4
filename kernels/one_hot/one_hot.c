/* one_hot on the CPU: a row of out is 0 but 1 at idx, dense arrays; all 0 for an index outside of
   the row. Bound by bytes. */
#include <aicf_ops/one_hot.h>

#include <aicf/cpu/real.h>

enum { GRAIN = 65536 }; /* elements a part: long beside the cost of waking a thread */

typedef struct rows {
    const void *idx;
    void *out;
    int64_t classes;
} rows;

static inline void
aicf_store_i64(int64_t *p, double x)
{
    *p = (int64_t)x;
}

#define ONE_HOT(T, s, I, i)                                                                    \
    static void rows_##i##_##s(void *context, int64_t begin, int64_t end)                      \
    {                                                                                          \
        const rows *r = (const rows *)context;                                                 \
        T *out = (T *)r->out;                                                                  \
        memset(out + begin * r->classes, 0, sizeof(T) * (size_t)((end - begin) * r->classes)); \
        for (int64_t a = begin; a < end; a++) {                                                \
            const int64_t at = ((const I *)r->idx)[a];                                         \
            if (at >= 0 && at < r->classes) {                                                  \
                aicf_store_##s(out + a * r->classes + at, 1);                                  \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
                                                                                               \
    aicf_status aicf_cpu_one_hot_loop_##i##_##s(                                               \
        const I *idx, T *out, int64_t A, int64_t classes, aicf_stream stream)                  \
    {                                                                                          \
        const rows r = {idx, out, classes};                                                    \
        (void)stream;                                                                          \
        aicf_parallel_for(A, GRAIN / classes + 1, rows_##i##_##s, (void *)(uintptr_t)&r);      \
        return aicf_ok();                                                                      \
    }

#define ONE_HOTS(T, s)          \
    ONE_HOT(T, s, int64_t, i64) \
    ONE_HOT(T, s, int32_t, i32)

AICF_REALS(ONE_HOTS)
ONE_HOTS(int64_t, i64)
