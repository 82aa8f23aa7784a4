/* vsnprintf for the formats that opgen's texts have most: those of %s, %d and %c alone take a tenth
   of its time. Any other format goes to it whole. */
#ifndef OPGEN_FORMAT_H
#define OPGEN_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

/* As vsnprintf: writes up to `room` bytes with the NUL, says how many there are without it. */
size_t format_text(char *at, size_t room, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
