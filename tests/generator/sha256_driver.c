/* Texts from stdin, each behind its size in a line: a line each with the digest in plain C and the
   one by the processor's own instructions, or `-` where it has none. */
#include <stdio.h>
#include <stdlib.h>

#include "../../generator/sha256.c"

static compressor *
own(void)
{
#if HAS_X86
    return has_sha() ? compress_x86 : NULL;
#else
    return NULL;
#endif
}

int
main(void)
{
    size_t size;
    char plain[65], fast[65] = "-";
    while (scanf("%zu", &size) == 1 && getchar() == '\n') {
        char *data = malloc(size ? size : 1); /* so that a sanitizer sees its end */
        if (!data || fread(data, 1, size, stdin) != size) {
            return 1;
        }
        hash(compress, data, size, plain);
        if (own()) {
            hash(own(), data, size, fast);
        }
        printf("%s %s\n", plain, fast);
        free(data);
    }
    return 0;
}
