#include "json.h"

#include <stdbool.h>

static bool
is_plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
}

void
json_string(buffer *out, const char *text)
{
    buffer_putc(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        size_t plain = 0; /* what needs no escape goes out at once */
        while (text[plain] && is_plain((unsigned char)text[plain])) {
            plain++;
        }
        if (plain) {
            buffer_add(out, text, plain);
            text += plain - 1;
        } else if (c == '"' || c == '\\') {
            buffer_putc(out, '\\');
            buffer_putc(out, (char)c);
        } else if (c == '\n') {
            buffer_puts(out, "\\n");
        } else if (c == '\t') {
            buffer_puts(out, "\\t");
        } else {
            buffer_print(out, "\\u%04x", c);
        }
    }
    buffer_putc(out, '"');
}
