/* SHA-256 (FIPS 180-4). */
#ifndef OPGEN_SHA256_H
#define OPGEN_SHA256_H

#include <stddef.h>

/* Lower-case hex and a NUL. */
void sha256_hex(const void *data, size_t size, char hex[65]);

#endif
