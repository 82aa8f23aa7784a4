/* Text for people, made only when asked for. */
#ifndef AICF_TEXT_H
#define AICF_TEXT_H

#include <aicf/call.h>

#pragma GCC visibility push(hidden)

typedef struct text {
    char *at;
    size_t left; /* the closing NUL included */
} text;

/* An empty text in a buffer of `size` bytes, which may be none. */
text text_begin(char *buffer, size_t size);

/* As it stands. */
void text_add(text *out, const char *what);

/* As printf does. That is slow where a library added to it, and asked for what is no %s, %d, %u or
   PRId64 alone. */
void text_put(text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "f32", or "u4 x 2" of what is not in the table. */
void text_dtype(text *out, aicf_dtype dtype);
/* "cpu", "cuda:0". */
void text_device(text *out, aicf_device device);
/* "(2, 3)". */
void text_sizes(text *out, const int64_t *sizes, int64_t count);
/* "f32 (2, 3) on cuda:0", strides too where they are not row-major. */
void text_tensor(text *out, const aicf_tensor *t);

#pragma GCC visibility pop

#endif
