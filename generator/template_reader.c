#include "template_reader.h"

#include <string.h>

loc
reader_loc(const reader *r, const char *at)
{
    loc where = {1, 1};
    for (const char *c = r->text; c < at; c++) {
        where.column++;
        if (*c == '\n') {
            where.line++;
            where.column = 1;
        }
    }
    return where;
}

void
reader_skip_spaces(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n')) {
        r->at++;
    }
}

bool
reader_is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

word
reader_word(reader *r)
{
    reader_skip_spaces(r);
    word w = {r->at, 0};
    while (r->at < r->end && reader_is_word_char(*r->at)) {
        r->at++;
    }
    w.size = (size_t)(r->at - w.text);
    return w;
}

bool
word_is(word w, const char *text)
{
    return strlen(text) == w.size && !memcmp(text, w.text, w.size);
}

bool
reader_char(reader *r, char c)
{
    reader_skip_spaces(r);
    if (r->at == r->end || *r->at != c) {
        return reader_fault(r, r->at, "`%c` expected", c);
    }
    r->at++;
    return true;
}

bool
reader_string(reader *r, word *out)
{
    if (!reader_char(r, '"')) {
        return false;
    }
    char *text = arena_alloc(r->memory, (size_t)(r->end - r->at) + TEMPLATE_PAD);
    out->text = text;
    for (; r->at < r->end && *r->at != '"' && *r->at != '\n'; r->at++) {
        bool escaped = *r->at == '\\' && r->at + 1 < r->end;
        r->at += escaped;
        *text++ = escaped && *r->at == 'n' ? '\n' : *r->at;
    }
    out->size = (size_t)(text - out->text);
    return reader_char(r, '"');
}

/* ---- names ---------------------------------------------------------------------------------- */

static void
suggest_field(reader *r, const char *name, const thing *of)
{
    const char *known[96];
    int count = 0;
    for (const field *f = of->fields; f->name && count < 96; f++) {
        known[count++] = f->name;
    }
    fault_suggest(r->faults, name, known, count);
}

const field *
reader_field(reader *r, int *slot)
{
    word variable = reader_word(r);
    for (*slot = r->slot_count - 1; *slot >= 0; --*slot) {
        if (r->slots[*slot].size == variable.size &&
            !memcmp(r->slots[*slot].name, variable.text, variable.size)) {
            break;
        }
    }
    if (*slot < 0) {
        reader_fault(
            r, variable.text, "no variable `%.*s` here", (int)variable.size, variable.text);
        return NULL;
    }
    if (!reader_char(r, '.')) {
        return NULL;
    }
    word name = reader_word(r);
    const thing *is = r->slots[*slot].is;
    for (const field *f = is->fields; f->name; f++) {
        if (word_is(name, f->name)) {
            return f;
        }
    }
    const char *copy = arena_copy(r->memory, name.text, name.size);
    reader_fault(r, name.text, "no field `%s` in a %s", copy, is->name);
    suggest_field(r, copy, is);
    return NULL;
}

const encoder *
reader_encoder(reader *r)
{
    word name = reader_word(r);
    const encoder *e = encoder_find(name.text, name.size);
    if (!e) {
        reader_fault(r, name.text, "no encoder `%.*s`", (int)name.size, name.text);
    }
    return e;
}
