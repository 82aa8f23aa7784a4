/* Lines of a formula that is costly, and so is compiled for f32 and f64 alone: block by block, read
   into and written from what it is computed in. For the rest there is AICF_UNARY_LINE of lines.h.
 */
#ifndef AICF_CPU_BLOCKS_H
#define AICF_CPU_BLOCKS_H

#include <aicf/cpu/convert.h>
#include <aicf/cpu/lines.h>

/* What computes a lot for each element is worth a third clone, for AVX-512. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define AICF_CLONES_WIDE \
    __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define AICF_CLONES_WIDE
#endif

enum { AICF_BLOCK = 512 }; /* elements: three such lie in the first cache */

/* n values each, side by side; out may be x or y, and y is for formulas of two. */
typedef void aicf_block_fn(const void *x, const void *y, void *out, int64_t n, const double *p);

/* The context of aicf_blocks_line. */
typedef struct aicf_blocks {
    const aicf_converter *dtype; /* of all views */
    aicf_block_fn *block;        /* in its accumulator type */
    int inputs;                  /* 1 or 2 */
    double p[2];
} aicf_blocks;

AICF_ONCE void
aicf_blocks_line(char *const *at, const int64_t *step, int64_t n, const void *context)
{
    const aicf_blocks *b = (const aicf_blocks *)context;
    const aicf_converter *dtype = b->dtype;
    double room[3][AICF_BLOCK];
    for (int64_t begin = 0; begin < n; begin += AICF_BLOCK) {
        const int64_t count = n - begin < AICF_BLOCK ? n - begin : AICF_BLOCK;
        void *held[3] = {NULL, NULL, NULL}, *memory = NULL;
        for (int i = 0; i <= b->inputs; i++) {
            memory = at[i] + begin * step[i] * dtype->item;
            held[i] = dtype->plain && step[i] == 1 ? memory : room[i];
            if (i < b->inputs && held[i] != memory) {
                dtype->load(memory, step[i], count, held[i]);
            }
        }
        b->block(held[0], held[1], held[b->inputs], count, b->p);
        if (held[b->inputs] != memory) {
            dtype->store(held[b->inputs], count, memory, step[b->inputs]);
        }
    }
}

/* Defines <name>_f32 and <name>_f64: out = FORMULA(x, p), of two: FORMULA(x, y, p). */
#define AICF_UNARY_BLOCKS(name, FORMULA)               \
    AICF_BLOCKS_OF(name, f32, float, FORMULA(x[i], p)) \
    AICF_BLOCKS_OF(name, f64, double, FORMULA(x[i], p))

#define AICF_BINARY_BLOCKS(name, FORMULA)                    \
    AICF_BLOCKS_OF(name, f32, float, FORMULA(x[i], y[i], p)) \
    AICF_BLOCKS_OF(name, f64, double, FORMULA(x[i], y[i], p))

#define AICF_BLOCKS_OF(name, s, real, value)                                             \
    AICF_CLONES_WIDE static void name##_##s(                                             \
        const void *first, const void *second, void *to, int64_t n, const double *given) \
    {                                                                                    \
        const real *x = (const real *)first, *y = (const real *)second;                  \
        real *out = (real *)to;                                                          \
        const real p[2] = {(real)given[0], (real)given[1]};                              \
        (void)y, (void)p;                                                                \
        AICF_INDEPENDENT                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                \
            out[i] = value;                                                              \
        }                                                                                \
    }

/* The block of a formula for dtype T. */
#define AICF_BLOCK_FOR(name, T) (sizeof(T) == sizeof(double) ? name##_f64 : name##_f32)

#endif
