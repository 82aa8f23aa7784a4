#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memrchr */
#endif
#include "encode_c.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "encode.h"

static void
put_spaces(buffer *out, size_t count)
{
    buffer_reserve(out, count);
    memset(out->data + out->size, ' ', count);
    out->size += count;
}

static void
put_line(buffer *out, size_t indent)
{
    buffer_putc(out, '\n');
    put_spaces(out, indent);
}

/* ---- strings -------------------------------------------------------------------------------- */

/* What a byte of a string becomes: itself, itself or a letter behind a backslash, or three octal
   digits, so that what follows cannot join them. A question mark behind another is escaped too:
   they never begin a trigraph. */
enum { PLAIN, SPACE, MARK, QUOTED, LETTER, OCTAL };

static int
kind_of(char c)
{
    if (c == ' ') {
        return SPACE;
    }
    if (c == '?') {
        return MARK;
    }
    if (c == '"' || c == '\\') {
        return QUOTED;
    }
    if (c == '\n' || c == '\t' || c == '\r') {
        return LETTER;
    }
    return c > 0x20 && c < 0x7f ? PLAIN : OCTAL;
}

/* The kinds of all bytes, made once. */
static const unsigned char *
kinds(void)
{
    static unsigned char table[256];
    if (!table[' ']) {
        for (int i = 0; i < 256; i++) {
            table[i] = (unsigned char)kind_of((char)i);
        }
    }
    return table;
}

static size_t
put_escaped(char *at, char c, int kind)
{
    unsigned byte = (unsigned char)c;
    at[0] = '\\';
    if (kind != OCTAL) {
        at[1] = (char)(c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : c);
        return 2;
    }
    at[1] = (char)('0' + (byte >> 6));
    at[2] = (char)('0' + (byte >> 3 & 7));
    at[3] = (char)('0' + (byte & 7));
    return 4;
}

/* Writes one literal at `at`, where there is room for `room` characters and four more, and says how
   long it is; `text` moves behind what it holds: up to a line break, else as many words as fit. */
static size_t
put_literal(char *at, const char **text, const char *end, size_t room)
{
    const unsigned char *kind = kinds();
    const char *c = *text;
    size_t used = 0;
    while (c < end) {
        const char *full = (size_t)(end - c) > room - used ? c + (room - used) : end;
        while (c < full && kind[(unsigned char)*c] <= SPACE) {
            at[used++] = *c++;
        }
        if (c == end) {
            break;
        }
        if (*c == '"' && used + 2 <= room) { /* what most texts have that is not plain */
            at[used++] = '\\';
            at[used++] = *c++;
            continue;
        }
        size_t before = used;
        int is = kind[(unsigned char)*c];
        if (is <= SPACE || (is == MARK && (c == *text || c[-1] != '?'))) {
            at[used++] = *c;
        } else {
            used += put_escaped(at + used, *c, is);
        }
        if (used > room) { /* a space becomes itself, so the last of both is the same one */
            const char *space = memrchr(*text, ' ', (size_t)(c - *text));
            *text = space ? space + 1 : c;
            return space ? (size_t)((char *)memrchr(at, ' ', before) + 1 - at) : before;
        }
        if (*c++ == '\n' && (c == end || *c != '\n')) {
            break;
        }
    }
    *text = c;
    return used;
}

void
encode_c_string(buffer *out, const char *text)
{
    enum { LEAST = 24, MARGIN = 3 /* the quotes and what ends the statement */ };
    size_t column = encode_column(out);
    size_t room = column + MARGIN + LEAST < C_COLUMNS ? C_COLUMNS - column - MARGIN : LEAST;
    const char *end = text + strlen(text);
    do {
        buffer_reserve(out, room + column + 8);
        buffer_putc(out, '"');
        out->size += put_literal(out->data + out->size, &text, end, room);
        buffer_putc(out, '"');
        if (text < end) {
            put_line(out, column);
        }
    } while (text < end);
}

/* ---- comments ------------------------------------------------------------------------------- */

/* A byte of a comment: what could end it, open another, or splice lines is pulled apart. */
static void
comment_byte(buffer *out, char c)
{
    char before = out->data[out->size - 1];
    if ((before == '*' && c == '/') || (before == '/' && c == '*') || (before == '?' && c == '?')) {
        buffer_putc(out, ' ');
    }
    buffer_putc(out, (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c);
}

/* Whether a word goes into a comment as it is, whatever stands before it. */
static bool
is_plain_word(const char *text, size_t size)
{
    static const bool odd[256] = {[0 ... 0x1f] = true, ['*'] = true,  ['/'] = true,
                                  ['?'] = true,        [0x7f] = true, [0xe2] = true};
    size_t i = 0;
    while (i < size && !odd[(unsigned char)text[i]]) {
        i++;
    }
    return i == size;
}

/* Marks that turn the direction of text are E2 80 xx and E2 81 xx: compilers warn of them. */
static bool
turns_text(const char *text, size_t size)
{
    return size >= 3 && !memcmp(text, "\xe2\x80", 2)
               ? (unsigned char)text[2] >= 0x8b
               : size >= 3 && !memcmp(text, "\xe2\x81", 2) && (unsigned char)text[2] >= 0xa0;
}

void
encode_c_comment(buffer *out, const char *text)
{
    size_t size = strlen(text);
    size_t indent = encode_column(out) + 3, column = indent;
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\n')) {
        size--;
    }
    buffer_puts(out, "/* ");
    for (size_t i = 0; i < size;) {
        size_t end = i;
        while (end < size && text[end] != ' ' && text[end] != '\n') {
            end++;
        }
        size_t tail = end == size ? 3 : 0;
        if (column > indent && column + 1 + (end - i) + tail > C_COLUMNS) {
            put_line(out, indent);
            column = indent;
        } else if (column > indent) {
            buffer_putc(out, ' ');
            column++;
        }
        size_t start = out->size;
        if (is_plain_word(text + i, end - i)) {
            buffer_add(out, text + i, end - i);
            i = end;
        }
        for (; i < end; i++) {
            if (turns_text(text + i, end - i)) {
                i += 2;
            } else {
                comment_byte(out, text[i]);
            }
        }
        column += out->size - start;
        while (i < size && (text[i] == ' ' || text[i] == '\n')) {
            i++;
        }
    }
    buffer_puts(out, " */");
}

/* ---- long lines ----------------------------------------------------------------------------- */

/* Where the element that starts at `text` ends: behind its comma, or before the closing bracket. */
static size_t
element_end(const char *text, size_t size)
{
    static const bool counts[256] = {
        ['"'] = true, ['('] = true, ['{'] = true, ['['] = true,
        [')'] = true, ['}'] = true, [']'] = true, [','] = true,
    };
    int depth = 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (!counts[(unsigned char)c]) {
            continue;
        }
        if (c == '"') {
            for (i++; i < size && text[i] != '"'; i++) {
                i += text[i] == '\\';
            }
        } else if (c == '(' || c == '{' || c == '[') {
            depth++;
        } else if (c == ')' || c == '}' || c == ']') {
            if (depth-- == 0) {
                return i;
            }
        } else if (c == ',' && depth == 0) {
            return i + 1;
        }
    }
    return size;
}

static size_t
fill_elements(buffer *out, const char *text, size_t size, size_t indent, size_t column);

/* An element at the end of `out`, which ends in `column`; a call that is too long for a line is
   broken as the whole is. Both say in which column the text then ends. */
static size_t
fill_element(buffer *out, const char *text, size_t size, size_t indent, size_t column)
{
    const char *round = memchr(text, '(', size);
    if (indent + size <= C_COLUMNS || !round) {
        buffer_add(out, text, size);
        return column + size;
    }
    size_t head = (size_t)(round + 1 - text);
    buffer_add(out, text, head);
    put_line(out, indent + 4);
    return fill_elements(out, text + head, size - head, indent + 4, indent + 4);
}

/* The elements of a list, as many a line as fit, all lines at `indent`; those that are broken, and
   members by name, stand on lines of their own. */
static size_t
fill_elements(buffer *out, const char *text, size_t size, size_t indent, size_t column)
{
    bool alone = size > 0 && *text == '.', broken = false;
    for (bool first = true; size > 0; first = false) {
        size_t end = element_end(text, size);
        end = end == 0 || text[end - 1] != ',' ? size : end;
        bool breaks = indent + end > C_COLUMNS;
        if (!first && (alone || broken || breaks || column + 1 + end > C_COLUMNS)) {
            put_line(out, indent);
            column = indent;
        } else if (!first) {
            buffer_putc(out, ' ');
            column++;
        }
        column = fill_element(out, text, end, indent, column);
        broken = breaks;
        text += end;
        size -= end;
        while (size > 0 && *text == ' ') {
            text++;
            size--;
        }
    }
    return column;
}

/* `{ A, B } name;` or `{A, B},`, one element a line. */
static void
fill_block(buffer *out, const char *text, size_t size, size_t indent, bool comma)
{
    while (size > 0 && *text != '}') {
        size_t end = element_end(text, size);
        bool last = end == 0 || text[end - 1] != ',';
        size_t length = end;
        while (last && length > 0 && text[length - 1] == ' ') {
            length--;
        }
        put_line(out, indent + 4);
        buffer_add(out, text, length);
        if (last && comma) {
            buffer_putc(out, ',');
        }
        text += end;
        size -= end;
        while (size > 0 && *text == ' ') {
            text++;
            size--;
        }
    }
    put_line(out, indent);
    buffer_add(out, text, size);
}

/* Where the operand that starts at `text` ends: behind its `&&` or `||`, or at the end. */
static size_t
operand_end(const char *text, size_t size)
{
    int depth = 0;
    for (size_t i = 0; i + 3 < size; i++) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (text[i] == ' ' && depth == 0 &&
            (!memcmp(text + i, " && ", 4) || !memcmp(text + i, " || ", 4))) {
            return i + 3;
        }
    }
    return size;
}

/* A chain of `&&` and `||`: below its `=` if it fits in one line there, else its lines aligned
   behind `return` or `=`. False if it is none. */
static bool
fill_chain(buffer *out, const char *line, size_t size)
{
    if (!memchr(line, '&', size) && !memchr(line, '|', size)) {
        return false;
    }
    const char *assign = strstr(line, " = "), *back = strstr(line, "return ");
    size_t start = back ? (size_t)(back - line) + 7 : assign ? (size_t)(assign - line) + 3 : size;
    if (start == size || start + operand_end(line + start, size - start) == size) {
        return false;
    }
    size_t indent = strspn(line, " ") + 4;
    if (!back && indent + size - start <= C_COLUMNS) {
        buffer_add(out, line, start - 1);
        put_line(out, indent);
        buffer_add(out, line + start, size - start);
        return true;
    }
    buffer_add(out, line, start);
    for (size_t i = start, column = start; i < size;) {
        size_t end = operand_end(line + i, size - i);
        if (i > start && column + 1 + end > C_COLUMNS) {
            put_line(out, start);
            column = start;
        } else if (i > start) {
            buffer_putc(out, ' ');
            column++;
        }
        buffer_add(out, line + i, end);
        column += end;
        i += end + (i + end < size);
    }
    return true;
}

/* Of a declaration, the space behind the type that it starts with: it may break there. */
static const char *
type_end(const char *line, const char *round)
{
    const char *c = round;
    while (c > line && *c != ' ') {
        c--;
    }
    return *line != ' ' && c > line ? c : NULL;
}

static void
fill_line(buffer *out, const char *line, size_t size)
{
    size_t indent = strspn(line, " ");
    const char *brace = memchr(line, '{', size), *round = memchr(line, '(', size);
    const char *assign = brace ? strstr(line, " = ") : NULL;
    bool initialiser = brace && assign && assign < brace;
    const char *type = round && !brace ? type_end(line, round) : NULL;
    type = type && size - (size_t)(type + 1 - line) <= C_COLUMNS ? type : NULL;
    if (brace && brace == line + indent) {
        buffer_add(out, line, indent + 1);
        fill_elements(out, brace + 1, size - indent - 1, indent + 1, indent + 1);
    } else if (initialiser && indent > 0) {
        size_t head = (size_t)(assign - line) + 2;
        buffer_add(out, line, head);
        put_line(out, indent + 4);
        buffer_add(out, line + head + 1, (size_t)(brace - line) - head);
        fill_block(out, brace + 1, size - (size_t)(brace + 1 - line), indent + 4, true);
    } else if (brace && (!round || brace < round)) {
        const char *inside = brace + 1 + (brace[1] == ' ');
        buffer_add(out, line, (size_t)(brace + 1 - line));
        fill_block(out, inside, size - (size_t)(inside - line), indent, initialiser);
    } else if (type) {
        buffer_add(out, line, (size_t)(type - line));
        buffer_putc(out, '\n');
        buffer_add(out, type + 1, size - (size_t)(type + 1 - line));
    } else if (!fill_chain(out, line, size)) {
        fill_element(out, line, size, indent, 0);
    }
}

void
encode_c_fill(buffer *out, size_t start, buffer *scratch)
{
    size_t line = start - encode_column(&(buffer){out->data, start, start});
    if (out->size - line <= C_COLUMNS) {
        return;
    }
    scratch->size = 0;
    buffer_add(scratch, out->data + line, out->size - line);
    out->size = line;
    fill_line(out, buffer_text(scratch), scratch->size);
}
