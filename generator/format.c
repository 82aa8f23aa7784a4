#include "format.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"

static bool
is_simple(const char *format)
{
    while ((format = strchr(format, '%'))) {
        if (format[1] != 's' && format[1] != 'd' && format[1] != 'c') {
            return false;
        }
        format += 2;
    }
    return true;
}

/* A growing text of which only what there is room for is kept. */
typedef struct kept {
    char *at;
    size_t size, room;
} kept;

static void
keep(kept *k, const char *text, size_t size)
{
    if (k->size < k->room) {
        size_t left = k->room - k->size;
        memcpy(k->at + k->size, text, size < left ? size : left);
    }
    k->size += size;
}

static void
keep_number(kept *k, int number)
{
    char digits[16], *first = digits + sizeof digits;
    unsigned rest = number < 0 ? 0u - (unsigned)number : (unsigned)number;
    do {
        *--first = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0) {
        *--first = '-';
    }
    keep(k, first, (size_t)(digits + sizeof digits - first));
}

static size_t
format_simple(char *at, size_t room, const char *format, va_list args)
{
    kept k = {at, 0, room};
    for (const char *tag; (tag = strchr(format, '%')); format = tag + 2) {
        keep(&k, format, (size_t)(tag - format));
        if (tag[1] == 's') {
            const char *text = va_arg(args, const char *);
            keep(&k, text, strlen(text));
        } else if (tag[1] == 'd') {
            keep_number(&k, va_arg(args, int));
        } else {
            keep(&k, &(char){(char)va_arg(args, int)}, 1);
        }
    }
    keep(&k, format, strlen(format));
    if (room > 0) {
        at[k.size < room ? k.size : room - 1] = '\0';
    }
    return k.size;
}

size_t
format_text(char *at, size_t room, const char *format, va_list args)
{
    if (is_simple(format)) {
        return format_simple(at, room, format, args);
    }
    int size = vsnprintf(at, room, format, args);
    if (size < 0) {
        die("a text that cannot be formatted: %s", format);
    }
    return (size_t)size;
}
