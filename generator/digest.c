#include "digest.h"

#include <string.h>

static uint64_t
mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* Two lanes, each of every other word; both are mixed with both at the end. */
void
digest_add(digest *d, const void *data, size_t size)
{
    const char *at = data;
    uint64_t a = mix(d->a, size + 1), b = mix(d->b, ~(uint64_t)size), word;
    for (; size >= 2 * sizeof word; size -= 2 * sizeof word) {
        memcpy(&word, at, sizeof word);
        a = mix(a, word);
        memcpy(&word, at + sizeof word, sizeof word);
        b = mix(b, word);
        at += 2 * sizeof word;
    }
    for (; size > 0; size--) {
        a = mix(a, (unsigned char)*at++);
    }
    d->a = mix(a, b);
    d->b = mix(b, a + 1);
}

void
digest_print(const digest *d, char hex[DIGEST_LENGTH + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < DIGEST_LENGTH; i++) {
        uint64_t half = i < 16 ? d->a : d->b;
        hex[i] = digits[half >> (60 - i % 16 * 4) & 15];
    }
    hex[DIGEST_LENGTH] = '\0';
}
