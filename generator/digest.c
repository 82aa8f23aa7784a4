#include "digest.h"

#include <string.h>

static uint64_t
mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t
word_at(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Four lanes, each of every fourth word: while one waits for its product, the others go on. All are
   mixed with all at the end. */
void
digest_add(digest *d, const void *data, size_t size)
{
    const char *at = data;
    uint64_t a = mix(d->a, size), b = mix(d->b, size + 1);
    uint64_t c = mix(d->a, size + 2), e = mix(d->b, size + 3);
    for (; size >= 32; size -= 32) {
        a = mix(a, word_at(at));
        b = mix(b, word_at(at + 8));
        c = mix(c, word_at(at + 16));
        e = mix(e, word_at(at + 24));
        at += 32;
    }
    for (; size >= 8; size -= 8) {
        a = mix(a, word_at(at));
        at += 8;
    }
    for (; size > 0; size--) {
        b = mix(b, (unsigned char)*at++);
    }
    d->a = mix(mix(a, b), mix(c, e));
    d->b = mix(mix(b, c), mix(e, d->a));
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
