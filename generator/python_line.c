#include "python_line.h"

#include <stdarg.h>
#include <stdbool.h>

static void
indent_to(buffer *out, int indent)
{
    for (int i = 0; i < indent; i++) {
        buffer_putc(out, ' ');
    }
}

size_t
python_line_begin(buffer *out, int indent)
{
    size_t start = out->size;
    indent_to(out, indent);
    return start;
}

/* ---- breaking ------------------------------------------------------------------------------- */

typedef struct span {
    const char *at, *end;
} span;

/* The character behind the string that starts at `c`. */
static const char *
string_end(const char *c, const char *end)
{
    char quote = *c++;
    while (c < end && *c != quote) {
        c += *c == '\\' ? 2 : 1;
    }
    return c < end ? c + 1 : end;
}

/* The next character from `c` on that stands outside of strings. */
static const char *
skip_strings(const char *c, const char *end)
{
    while (c < end && (*c == '"' || *c == '\'')) {
        c = string_end(c, end);
    }
    return c;
}

/* What stands between the last brackets that are not inside others; false if there is nothing. */
static bool
last_brackets(span line, span *inside)
{
    int depth = 0;
    bool found = false;
    for (const char *c = line.at; (c = skip_strings(c, line.end)) < line.end; c++) {
        if (*c == '(' || *c == '[') {
            if (depth++ == 0) {
                inside->at = c + 1;
            }
        } else if ((*c == ')' || *c == ']') && --depth == 0) {
            inside->end = c;
            found = inside->end > inside->at;
        }
    }
    return found;
}

static const char *
next_comma(span text)
{
    int depth = 0;
    const char *c = text.at;
    for (; (c = skip_strings(c, text.end)) < text.end; c++) {
        depth += (*c == '(' || *c == '[') - (*c == ')' || *c == ']');
        if (*c == ',' && depth == 0) {
            return c;
        }
    }
    return text.end;
}

static void write_line(buffer *out, int indent, span line, const char *tail);

static void
write_inside(buffer *out, int indent, span inside)
{
    bool several = next_comma(inside) < inside.end;
    if (!several || indent + (inside.end - inside.at) <= PYTHON_COLUMNS) {
        write_line(out, indent, inside, "");
        return;
    }
    while (inside.at < inside.end) {
        span one = {inside.at, next_comma(inside)};
        write_line(out, indent, one, ",");
        inside.at = one.end < inside.end ? one.end + 1 : one.end;
        inside.at += inside.at < inside.end && *inside.at == ' ';
    }
}

static void
write_line(buffer *out, int indent, span line, const char *tail)
{
    span inside = {0};
    bool fits = indent + (line.end - line.at) + (long)strlen(tail) <= PYTHON_COLUMNS;
    indent_to(out, indent);
    if (fits || !last_brackets(line, &inside)) {
        buffer_add(out, line.at, (size_t)(line.end - line.at));
        buffer_puts(out, tail);
        buffer_putc(out, '\n');
        return;
    }
    buffer_add(out, line.at, (size_t)(inside.at - line.at));
    buffer_putc(out, '\n');
    write_inside(out, indent + PYTHON_INDENT, inside);
    indent_to(out, indent);
    buffer_add(out, inside.end, (size_t)(line.end - inside.end));
    buffer_puts(out, tail);
    buffer_putc(out, '\n');
}

void
python_line_end(buffer *out, size_t start)
{
    if (out->size - start <= PYTHON_COLUMNS) {
        buffer_putc(out, '\n');
        return;
    }
    buffer copy = {0};
    buffer_add(&copy, out->data + start, out->size - start);
    int indent = 0;
    while (copy.data[indent] == ' ') {
        indent++;
    }
    out->size = start;
    write_line(out, indent, (span){copy.data + indent, copy.data + copy.size}, "");
    buffer_finish(&copy);
}

void
python_line(buffer *out, int indent, const char *format, ...)
{
    va_list args;
    size_t start = python_line_begin(out, indent);
    va_start(args, format);
    buffer_print_args(out, format, args);
    va_end(args);
    python_line_end(out, start);
}
