#include "python_line.h"

#include <stdarg.h>
#include <stdbool.h>

static void
indent_to(buffer *out, int indent)
{
    buffer_reserve(out, (size_t)indent);
    memset(out->data + out->size, ' ', (size_t)indent);
    out->size += (size_t)indent;
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

/* Where a word stands next outside of brackets and strings; the end if it does not. */
static const char *
next_word(span text, const char *word)
{
    int depth = 0;
    size_t size = strlen(word);
    const char *c = text.at;
    for (; (c = skip_strings(c, text.end)) < text.end; c++) {
        depth += (*c == '(' || *c == '[') - (*c == ')' || *c == ']');
        if (depth == 0 && (size_t)(text.end - c) > size && !memcmp(c, word, size)) {
            return c;
        }
    }
    return text.end;
}

static void write_line(buffer *out, int indent, span line, const char *tail);

static void
write_inside(buffer *out, int indent, span inside)
{
    bool several = next_word(inside, ",") < inside.end;
    if (!several || indent + (inside.end - inside.at) <= PYTHON_COLUMNS) {
        write_line(out, indent, inside, "");
        return;
    }
    while (inside.at < inside.end) {
        span one = {inside.at, next_word(inside, ",")};
        write_line(out, indent, one, ",");
        inside.at = one.end < inside.end ? one.end + 1 : one.end;
        inside.at += inside.at < inside.end && *inside.at == ' ';
    }
}

/* A disjunction or conjunction, inside brackets: one operand a line. */
static bool
write_operands(buffer *out, int indent, span line, const char *tail)
{
    const char *word = next_word(line, " or ") < line.end ? " or " : " and ";
    if (next_word(line, word) == line.end) {
        return false;
    }
    while (line.at < line.end) {
        span one = {line.at + (*line.at == ' '), line.end}; /* the word stands before the operand */
        one.end = next_word(one, word);
        write_line(out, indent, one, one.end < line.end ? "" : tail);
        line.at = one.end;
    }
    return true;
}

static void
write_bracketed(buffer *out, int indent, span line, span inside, const char *tail)
{
    indent_to(out, indent);
    buffer_add(out, line.at, (size_t)(inside.at - line.at));
    buffer_putc(out, '\n');
    write_inside(out, indent + PYTHON_INDENT, inside);
    indent_to(out, indent);
    buffer_add(out, inside.end, (size_t)(line.end - inside.end));
    buffer_puts(out, tail);
    buffer_putc(out, '\n');
}

/* A value without brackets gets some. */
static bool
write_value(buffer *out, int indent, span line)
{
    const char *at = next_word(line, " = ");
    span value = {at + 3, line.end};
    if (at == line.end || next_word(value, " or ") == value.end) {
        return false;
    }
    indent_to(out, indent);
    buffer_add(out, line.at, (size_t)(value.at - line.at));
    buffer_puts(out, "(\n");
    write_line(out, indent + PYTHON_INDENT, value, "");
    indent_to(out, indent);
    buffer_puts(out, ")\n");
    return true;
}

static void
write_line(buffer *out, int indent, span line, const char *tail)
{
    span inside = {0};
    bool fits = indent + (line.end - line.at) + (long)strlen(tail) <= PYTHON_COLUMNS;
    bool value = next_word(line, " = ") < line.end;
    if (!fits &&
        (value ? write_value(out, indent, line) : write_operands(out, indent, line, tail))) {
        return;
    }
    if (!fits && last_brackets(line, &inside)) {
        write_bracketed(out, indent, line, inside, tail);
        return;
    }
    indent_to(out, indent);
    buffer_add(out, line.at, (size_t)(line.end - line.at));
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

void
python_assign(buffer *out, int indent, const char *to, const char *value)
{
    indent_to(out, indent);
    buffer_puts3(out, to, " = ", value);
    buffer_putc(out, '\n');
}
