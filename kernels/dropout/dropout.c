/* dropout on the CPU: out = x / (1 - p), or 0 where the element's number (aicf/philox.h) says so,
   NaN too. x and out dense; f16 and bf16 computed in f32; out may be exactly x. Bound by the ten
   rounds of Philox, which are vectorised over blocks. */
#include <aicf_ops/dropout.h>

#include <string.h>

#include <aicf/cpu/real.h>
#include <aicf/philox.h>

enum {
    GRAIN = 16384, /* elements a part: long beside the cost of waking a thread */
    BLOCKS = 64,   /* of numbers made at once */
    NUMBERS = BLOCKS * AICF_PHILOX_SIZE
};

typedef struct dropped {
    const void *x;
    void *out;
    uint64_t seed, offset;
    uint32_t limit; /* of what is dropped */
    double scale;   /* of what is kept */
} dropped;

/* The numbers of elements [first, first + NUMBERS), where first is a multiple of 4. */
AICF_INLINE void
numbers_of(const dropped *d, uint64_t first, uint32_t *numbers)
{
    uint32_t n0[BLOCKS], n1[BLOCKS], n2[BLOCKS], n3[BLOCKS];
    for (uint64_t i = 0; i < BLOCKS; i++) {
        const uint64_t block = first / AICF_PHILOX_SIZE + i;
        const aicf_philox made = aicf_philox_block(d->seed, d->offset, block);
        n0[i] = made.number[0];
        n1[i] = made.number[1];
        n2[i] = made.number[2];
        n3[i] = made.number[3];
    }
    for (int i = 0; i < BLOCKS; i++) {
        numbers[AICF_PHILOX_SIZE * i] = n0[i];
        numbers[AICF_PHILOX_SIZE * i + 1] = n1[i];
        numbers[AICF_PHILOX_SIZE * i + 2] = n2[i];
        numbers[AICF_PHILOX_SIZE * i + 3] = n3[i];
    }
}

static int64_t
scalar_integer(const aicf_scalar *scalar)
{
    return scalar->data ? *(const int64_t *)scalar->data : scalar->host.integer;
}

#define DROPOUT(T, s)                                                                      \
    AICF_CLONES static void dropout_part_##s(void *context, int64_t begin, int64_t end)    \
    {                                                                                      \
        const dropped *d = (const dropped *)context;                                       \
        const aicf_acc_##s scale = (aicf_acc_##s)d->scale;                                 \
        const uint32_t limit = d->limit;                                                   \
        uint32_t numbers[NUMBERS];                                                         \
        for (int64_t first = begin; first < end; first += NUMBERS) {                       \
            const T *x = (const T *)d->x + first;                                          \
            T *out = (T *)d->out + first;                                                  \
            const int64_t n = end - first < NUMBERS ? end - first : NUMBERS;               \
            numbers_of(d, (uint64_t)first, numbers);                                       \
            AICF_INDEPENDENT                                                               \
            for (int64_t i = 0; i < n; i++) {                                              \
                const aicf_acc_##s kept = aicf_load_##s(x + i) * scale;                    \
                aicf_store_##s(out + i, numbers[i] < limit ? 0 : kept);                    \
            }                                                                              \
        }                                                                                  \
    }                                                                                      \
                                                                                           \
    aicf_status aicf_cpu_dropout_loop_##s(                                                 \
        const T *x, T *out, int64_t A, const aicf_scalar *seed, const aicf_scalar *offset, \
        double p, aicf_stream stream)                                                      \
    {                                                                                      \
        (void)stream;                                                                      \
        if (p == 1) {                                                                      \
            memset(out, 0, sizeof(T) * (size_t)A);                                         \
            return aicf_ok();                                                              \
        }                                                                                  \
        dropped d = {                                                                      \
            x,                                                                             \
            out,                                                                           \
            (uint64_t)scalar_integer(seed),                                                \
            (uint64_t)scalar_integer(offset),                                              \
            aicf_philox_limit(p),                                                          \
            1 / (1 - p)};                                                                  \
        aicf_parallel_for(A, GRAIN, dropout_part_##s, &d);                                 \
        return aicf_ok();                                                                  \
    }

AICF_REALS(DROPOUT)
