/* Random numbers by position: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, Parallel random
   numbers: as easy as 1, 2, 3, 2011), and the one place that says which number an element has. For
   C and CUDA.

   Element i of a call has number i % 4 of block i / 4. The key of a block is the call's seed, its
   counter the block's index (the lower 64 bits) and the call's offset (the upper 64). So a number
   depends on seed, offset and index alone, and two calls of one seed share numbers only if their
   offsets are the same: an offset counts calls, and whoever makes the next one adds 1, whatever the
   sizes. */
#ifndef AICF_PHILOX_H
#define AICF_PHILOX_H

#include <stdint.h>

#if defined(__CUDACC__)
#define AICF_PHILOX_FUNCTION __host__ __device__ __forceinline__
#else
#define AICF_PHILOX_FUNCTION static inline __attribute__((always_inline))
#endif

enum { AICF_PHILOX_ROUNDS = 10, AICF_PHILOX_SIZE = 4 };

typedef struct aicf_philox {
    uint32_t number[AICF_PHILOX_SIZE];
} aicf_philox;

/* The upper half of a product. */
AICF_PHILOX_FUNCTION uint32_t
aicf_philox_high(uint32_t a, uint32_t b)
{
#if defined(__CUDA_ARCH__)
    return __umulhi(a, b);
#else
    return (uint32_t)((uint64_t)a * b >> 32);
#endif
}

AICF_PHILOX_FUNCTION aicf_philox
aicf_philox_rounds(
    uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t key_low, uint32_t key_high)
{
    for (int round = 0; round < AICF_PHILOX_ROUNDS; round++) {
        const uint32_t even = c0 * 0xd2511f53, even_high = aicf_philox_high(c0, 0xd2511f53);
        const uint32_t odd = c2 * 0xcd9e8d57, odd_high = aicf_philox_high(c2, 0xcd9e8d57);
        c0 = odd_high ^ c1 ^ key_low;
        c2 = even_high ^ c3 ^ key_high;
        c1 = odd;
        c3 = even;
        key_low += 0x9e3779b9;
        key_high += 0xbb67ae85;
    }
    const aicf_philox numbers = {{c0, c1, c2, c3}};
    return numbers;
}

AICF_PHILOX_FUNCTION aicf_philox
aicf_philox_block(uint64_t seed, uint64_t offset, uint64_t block)
{
    return aicf_philox_rounds(
        (uint32_t)block, (uint32_t)(block >> 32), (uint32_t)offset, (uint32_t)(offset >> 32),
        (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* An event of probability p below 1, to 32 bits, happens where a number is below this: of p = 0
   never. One of p = 1 is sure, and asks for no number. */
static inline uint32_t
aicf_philox_limit(double p)
{
    const double limit = p * 4294967296.0 + 0.5;
    return limit < 4294967295.0 ? (uint32_t)limit : 4294967295U;
}

#endif
