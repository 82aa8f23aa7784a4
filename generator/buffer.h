/* A text that grows; its memory is its own. */
#ifndef OPGEN_BUFFER_H
#define OPGEN_BUFFER_H

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

typedef struct buffer {
    char *data; /* not NUL-terminated unless buffer_text was called */
    size_t size, room;
} buffer;

void buffer_finish(buffer *b); /* a zeroed buffer is empty and ready */
void buffer_print(buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_print_args(buffer *b, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
const char *buffer_text(buffer *b);
void buffer_grow(buffer *b, size_t more);

/* Room for so many bytes more. */
static inline void
buffer_reserve(buffer *b, size_t more)
{
    if (b->room - b->size < more) {
        buffer_grow(b, more);
    }
}

static inline void
buffer_add(buffer *b, const char *text, size_t size)
{
    buffer_reserve(b, size);
    if (size) {
        memcpy(b->data + b->size, text, size);
        b->size += size;
    }
}

static inline void
buffer_puts(buffer *b, const char *text)
{
    buffer_add(b, text, strlen(text));
}

static inline void
buffer_puts3(buffer *b, const char *first, const char *second, const char *third)
{
    buffer_puts(b, first);
    buffer_puts(b, second);
    buffer_puts(b, third);
}

static inline void
buffer_putc(buffer *b, char c)
{
    buffer_reserve(b, 1);
    b->data[b->size++] = c;
}

#endif
