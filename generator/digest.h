/* Whether texts are the same as at another time: 128 bits, fast, not against an adversary. */
#ifndef OPGEN_DIGEST_H
#define OPGEN_DIGEST_H

#include <stddef.h>
#include <stdint.h>

typedef struct digest {
    uint64_t a, b;
} digest;

/* Starts from a zeroed digest; the parts' borders count. */
void digest_add(digest *d, const void *data, size_t size);

enum { DIGEST_LENGTH = 32 };
void digest_print(const digest *d, char hex[DIGEST_LENGTH + 1]);

#endif
