#include "buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"

void
buffer_finish(buffer *b)
{
    free(b->data);
    *b = (buffer){0};
}

void
buffer_grow(buffer *b, size_t more)
{
    size_t room = b->room ? b->room : 256;
    while (room - b->size < more) {
        if (room > (size_t)-1 / 2) {
            fputs("opgen: out of memory\n", stderr);
            exit(1);
        }
        room *= 2;
    }
    char *data = realloc(b->data, room);
    if (!data) {
        fputs("opgen: out of memory\n", stderr);
        exit(1);
    }
    b->data = data;
    b->room = room;
}

void
buffer_print(buffer *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buffer_print_args(b, format, args);
    va_end(args);
}

void
buffer_print_args(buffer *b, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    buffer_reserve(b, 64); /* enough for nearly all, which are then formatted once */
    size_t room = b->room - b->size, size = format_text(b->data + b->size, room, format, args);
    if (size >= room) {
        buffer_reserve(b, size + 1);
        format_text(b->data + b->size, size + 1, format, again);
    }
    va_end(again);
    b->size += size;
}

const char *
buffer_text(buffer *b)
{
    buffer_reserve(b, 1);
    b->data[b->size] = '\0';
    return b->data;
}
