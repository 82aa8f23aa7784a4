#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memrchr */
#endif
#include "encode.h"

#include <string.h>

#include "encode_c.h"
#include "fault.h"
#include "json.h"

size_t
encode_column(const buffer *out)
{
    const char *end = out->size ? memrchr(out->data, '\n', out->size) : NULL;
    return end ? out->size - (size_t)(end + 1 - out->data) : out->size;
}

/* ---- names, numbers, code ------------------------------------------------------------------- */

static const bool name_chars[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['_'] = true, ['a' ... 'z'] = true};

static bool
is_name_char(char c)
{
    return name_chars[(unsigned char)c];
}

/* One pass, for names are short. */
void
encode_name(buffer *out, const char *text)
{
    enum { PART = 64 };
    const char *from = text;
    size_t i;
    do {
        buffer_reserve(out, PART);
        char *to = out->data + out->size;
        for (i = 0; i < PART && is_name_char(from[i]); i++) {
            to[i] = from[i];
        }
        out->size += i;
        from += i;
    } while (i == PART);
    if (*from) {
        die("not a name: %s", text);
    }
}

static void
encode_upper(buffer *out, const char *text)
{
    size_t start = out->size;
    encode_name(out, text);
    for (char *c = out->data + start; c < out->data + out->size; c++) {
        *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    }
}

static void
encode_code(buffer *out, const char *text)
{
    buffer_puts(out, text);
}

/* ---- Python --------------------------------------------------------------------------------- */

/* The bytes of the character at `text`, and whether it may turn what a reader sees around, or ends
   lines for some reader: then it is written by number. */
static size_t
character(const char *text, size_t size, unsigned *code, bool *odd)
{
    unsigned char c = (unsigned char)*text;
    size_t length = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    length = length < size ? length : size;
    *code = length == 1 ? c : c & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        *code = *code << 6 | ((unsigned char)text[i] & 0x3f);
    }
    *odd = *code < 0x20 || (*code >= 0x7f && *code < 0xa0) || *code == 0x61c || *code == 0xfeff ||
           (*code >= 0x200b && *code <= 0x200f) || (*code >= 0x2028 && *code <= 0x202e) ||
           (*code >= 0x2066 && *code <= 0x2069);
    return length;
}

static void
encode_py_string(buffer *out, const char *text)
{
    size_t size = strlen(text);
    unsigned code;
    bool odd;
    buffer_putc(out, '"');
    for (size_t i = 0; i < size;) {
        size_t length = character(text + i, size - i, &code, &odd);
        if (text[i] == '\n') {
            buffer_puts(out, "\\n");
        } else if (text[i] == '"' || text[i] == '\\') {
            buffer_print(out, "\\%c", text[i]);
        } else if (odd) {
            buffer_print(out, code < 0x100 ? "\\x%02x" : "\\u%04x", code);
        } else {
            buffer_add(out, text + i, length);
        }
        i += length;
    }
    buffer_putc(out, '"');
}

/* Bytes that are themselves in any literal of Python. */
static size_t
literal_plain(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && text[i] >= ' ' && text[i] < 0x7f && text[i] != '"' && text[i] != '\\') {
        i++;
    }
    return i;
}

static void
encode_docstring(buffer *out, const char *text)
{
    size_t size = strlen(text);
    unsigned code;
    bool odd;
    while (size > 0 && text[size - 1] == '\n') {
        size--;
    }
    buffer_puts(out, "\"\"\"");
    for (size_t i = 0; i < size;) {
        size_t plain = literal_plain(text + i, size - i);
        buffer_add(out, text + i, plain);
        i += plain;
        if (i == size) {
            break;
        }
        size_t length = character(text + i, size - i, &code, &odd);
        bool closes = text[i] == '"' && (i + 1 == size || text[i + 1] == '"');
        if (text[i] == '\\' || closes) {
            buffer_print(out, "\\%c", text[i]);
        } else if (odd && text[i] != '\n') {
            buffer_print(out, code < 0x100 ? "\\x%02x" : "\\u%04x", code);
        } else {
            buffer_add(out, text + i, length);
        }
        i += length;
    }
    buffer_puts(out, "\"\"\"");
}

static void
encode_py_comment(buffer *out, const char *text)
{
    size_t size = strlen(text);
    unsigned code;
    bool odd;
    for (size_t i = 0; i < size;) {
        size_t length = character(text + i, size - i, &code, &odd);
        if (odd) {
            buffer_putc(out, ' ');
        } else {
            buffer_add(out, text + i, length);
        }
        i += length;
    }
}

/* ---- JSON, Make, Markdown ------------------------------------------------------------------- */

static void
encode_json_string(buffer *out, const char *text)
{
    json_string(out, text);
}

/* A word of a rule or of a list: backslashes count only before what Make would take apart. */
static void
encode_make(buffer *out, const char *text)
{
    size_t size = strlen(text);
    size_t slashes = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n' || text[i] == '\r') {
            die("a line break in a word of Make: %s", text);
        }
        bool apart = strchr(" #:\t", text[i]);
        for (size_t j = 0; apart && j <= slashes; j++) {
            buffer_putc(out, '\\');
        }
        if (text[i] == '$') {
            buffer_putc(out, '$');
        }
        buffer_putc(out, text[i]);
        slashes = text[i] == '\\' ? slashes + 1 : 0;
    }
}

enum { NOWHERE, ANYWHERE, AT_START };

static const unsigned char kinds[256] = {
    ['\\'] = ANYWHERE, ['`'] = ANYWHERE, ['*'] = ANYWHERE, ['['] = ANYWHERE, [']'] = ANYWHERE,
    ['|'] = ANYWHERE,  ['~'] = ANYWHERE, ['$'] = ANYWHERE, ['-'] = AT_START, ['+'] = AT_START,
    ['='] = AT_START,  ['.'] = AT_START, [')'] = AT_START, ['#'] = AT_START, ['>'] = AT_START,
};

/* Bytes that mean nothing in Markdown and HTML wherever they stand. */
static size_t
plain_size(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && ((name_chars[(unsigned char)text[i]] && text[i] != '_') || text[i] == ',')) {
        i++;
    }
    return i;
}

/* Whether a character of Markdown could mean something there. Between letters, `_` does not. */
static bool
is_markup(const char *text, size_t size, size_t i, bool start)
{
    char c = text[i];
    if (c == '_') {
        return i == 0 || i + 1 == size || !is_name_char(text[i - 1]) || !is_name_char(text[i + 1]);
    }
    return kinds[(unsigned char)c] == ANYWHERE || (start && kinds[(unsigned char)c] == AT_START);
}

/* Text as Markdown, and as HTML in it. */
static void
markdown(buffer *out, const char *text, size_t size, const char *line_break)
{
    bool start = true; /* nothing but digits and spaces in this line yet */
    for (size_t i = 0; i < size; i++) {
        size_t plain = start ? 0 : plain_size(text + i, size - i);
        buffer_add(out, text + i, plain);
        i += plain;
        char c = text[i]; /* the NUL at the end */
        if (i == size) {
            break;
        }
        if (c == '\n') {
            buffer_puts(out, line_break);
        } else if (c == '&') {
            buffer_puts(out, "&amp;");
        } else if (c == '<') {
            buffer_puts(out, "&lt;");
        } else {
            if (is_markup(text, size, i, start)) {
                buffer_putc(out, '\\');
            }
            buffer_putc(out, c);
        }
        start = c == '\n' || (start && ((c >= '0' && c <= '9') || c == ' '));
    }
}

static void
encode_md(buffer *out, const char *text)
{
    markdown(out, text, strlen(text), " ");
}

static void
encode_md_text(buffer *out, const char *text)
{
    size_t size = strlen(text);
    while (size > 0 && text[size - 1] == '\n') {
        size--;
    }
    markdown(out, text, size, "\n");
}

/* Backquotes enough to hold those inside. A bar would end a table's cell. */
static void
encode_md_code(buffer *out, const char *text)
{
    size_t size = strlen(text);
    size_t longest = 0, first = strcspn(text, "`");
    for (size_t i = first, run = 0; i < size; i++) {
        run = text[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    const char *pad = longest ? " " : "";
    for (size_t i = 0; i <= longest; i++) {
        buffer_putc(out, '`');
    }
    buffer_puts(out, pad);
    for (size_t i = 0; i < size;) {
        size_t plain = strcspn(text + i, "|\n");
        buffer_add(out, text + i, plain);
        i += plain;
        if (i < size) {
            buffer_puts(out, text[i++] == '\n' ? " " : "\\|");
        }
    }
    buffer_puts(out, pad);
    for (size_t i = 0; i <= longest; i++) {
        buffer_putc(out, '`');
    }
}

/* ---- the table ------------------------------------------------------------------------------ */

#define TAKES(kind) (1u << FIELD_##kind)
#define TAKES_TEXT \
    (TAKES(NAME) | TAKES(NUMBER) | TAKES(TEXT) | TAKES(C) | TAKES(PYTHON) | TAKES(JSON))

const encoder encoders[] = {
    {"name", encode_name, TAKES(NAME), false},
    {"upper", encode_upper, TAKES(NAME), false},
    {"number", encode_code, TAKES(NUMBER), false},
    {"c", encode_code, TAKES(C) | TAKES(NAME) | TAKES(NUMBER), false},
    {"python", encode_code, TAKES(PYTHON) | TAKES(NAME) | TAKES(NUMBER), false},
    {"json", encode_code, TAKES(JSON) | TAKES(NUMBER), false},
    {"c_string", encode_c_string, TAKES_TEXT, false},
    {"c_comment", encode_c_comment, TAKES_TEXT, false},
    {"py_string", encode_py_string, TAKES_TEXT, false},
    {"docstring", encode_docstring, TAKES_TEXT, true},
    {"py_comment", encode_py_comment, TAKES_TEXT, false},
    {"json_string", encode_json_string, TAKES_TEXT, false},
    {"make", encode_make, TAKES_TEXT, false},
    {"md", encode_md, TAKES_TEXT, false},
    {"md_text", encode_md_text, TAKES_TEXT, true},
    {"md_code", encode_md_code, TAKES_TEXT, false},
    {"text", encode_code, TAKES_TEXT, true},
    {NULL, NULL, 0, false},
};

const encoder *
encoder_find(const char *name, size_t size)
{
    for (const encoder *e = encoders; e->name; e++) {
        if (strlen(e->name) == size && !memcmp(e->name, name, size)) {
            return e;
        }
    }
    return NULL;
}
