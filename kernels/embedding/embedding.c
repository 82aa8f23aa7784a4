/* embedding on the CPU: out[i] = weight[idx[i]], rows of dense arrays; NaN for an index outside of
   weight, of which nothing is read. Bound by bytes. */
#include <aicf_ops/embedding.h>

#include <math.h>

#include <aicf/cpu/real.h>

enum { GRAIN = 32768 }; /* elements a part: long beside the cost of waking a thread */

typedef struct rows {
    const void *weight, *idx;
    void *out;
    int64_t V, D;
} rows;

#define EMBEDDING(T, s, I, i)                                                           \
    static void rows_##s##_##i(void *context, int64_t begin, int64_t end)               \
    {                                                                                   \
        const rows *r = (const rows *)context;                                          \
        for (int64_t a = begin; a < end; a++) {                                         \
            const int64_t v = ((const I *)r->idx)[a];                                   \
            T *out = (T *)r->out + a * r->D;                                            \
            if (v >= 0 && v < r->V) {                                                   \
                memcpy(out, (const T *)r->weight + v * r->D, sizeof(T) * (size_t)r->D); \
                continue;                                                               \
            }                                                                           \
            for (int64_t d = 0; d < r->D; d++) {                                        \
                aicf_store_##s(out + d, (aicf_acc_##s)NAN);                             \
            }                                                                           \
        }                                                                               \
    }                                                                                   \
                                                                                        \
    aicf_status aicf_cpu_embedding_loop_##s##_##i(                                      \
        const T *weight, const I *idx, T *out, int64_t V, int64_t D, int64_t A,         \
        int64_t padding_idx, aicf_stream stream)                                        \
    {                                                                                   \
        const rows r = {weight, idx, out, V, D};                                        \
        (void)padding_idx, (void)stream;                                                \
        aicf_parallel_for(A, GRAIN / D + 1, rows_##s##_##i, (void *)(uintptr_t)&r);     \
        return aicf_ok();                                                               \
    }

#define EMBEDDINGS(T, s)          \
    EMBEDDING(T, s, int64_t, i64) \
    EMBEDDING(T, s, int32_t, i32)

AICF_REALS(EMBEDDINGS)
