#include <string.h>

#include "template_reader.h"

/* ---- tags in the text ----------------------------------------------------------------------- */

static const char *
find_tag(const reader *r)
{
    for (const char *c = r->at; c + 1 < r->end; c++) {
        if (c[0] == '@' && c[1] == '{') {
            return c;
        }
    }
    return r->end;
}

/* Where the control tag that starts at `tag` ends; NULL if it is a value or is not closed. */
static const char *
control_end(const reader *r, const char *tag)
{
    static const char *const words[] = {"for", "if", "else", "end", "quote", "fill", "#"};
    const char *c = tag + 2;
    bool control = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t size = strlen(words[i]);
        control |= (size_t)(r->end - c) > size && !memcmp(c, words[i], size) &&
                   !reader_is_word_char(c[size]) && c[size] != '.';
    }
    for (bool string = false; control && c < r->end; c++) {
        string ^= *c == '"' && c[-1] != '\\';
        if (*c == '}' && !string) {
            return c + 1;
        }
    }
    return NULL;
}

/* Whether the line that `tag` stands on holds nothing but control tags: then it vanishes. */
static bool
line_vanishes(const reader *r, const char *tag)
{
    const char *c = tag;
    while (c > r->text && c[-1] != '\n') {
        c--;
    }
    while (c < r->end && *c != '\n') {
        const char *after = r->end - c > 2 && c[0] == '@' && c[1] == '{' ? control_end(r, c) : NULL;
        if (!after && *c != ' ') {
            return false;
        }
        c = after ? after : c + 1;
    }
    return true;
}

/* The end of a control tag, and of its line where that vanishes. */
static bool
take_close(reader *r, const char *tag)
{
    if (!reader_char(r, '}')) {
        return false;
    }
    const char *c = r->at + strspn(r->at, " ");
    if ((c == r->end || *c == '\n') && line_vanishes(r, tag)) {
        r->at = c < r->end ? c + 1 : c;
    }
    return true;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static step *
step_of(reader *r, int index)
{
    return &r->out->steps.items[index];
}

static int
step_add(reader *r, step_kind kind)
{
    list_push(r->memory, &r->out->steps)->kind = kind;
    return r->out->steps.count - 1;
}

/* The same, and the text before it becomes a part of it. */
static int
step_join(reader *r, step_kind kind)
{
    int last = r->out->steps.count - 1;
    if (last < 0 || r->target > last || step_of(r, last)->kind != STEP_TEXT) {
        return step_add(r, kind);
    }
    step_of(r, last)->kind = kind;
    return last;
}

/* The step goes on where the next one will be. */
static void
step_end(reader *r, int index)
{
    r->target = r->out->steps.count;
    step_of(r, index)->end = r->target;
}

static word
copy_text(reader *r, const char *from, const char *to)
{
    size_t size = (size_t)(to - from);
    char *copy = arena_alloc(r->memory, size + TEMPLATE_PAD);
    memcpy(copy, from, size);
    return (word){copy, size};
}

/* The same without its line breaks and what the lines are indented by. */
static word
join_lines(reader *r, const char *from, const char *to)
{
    char *joined = arena_alloc(r->memory, (size_t)(to - from) + TEMPLATE_PAD), *end = joined;
    while (from < to) {
        if (*from == '\n') {
            from += 1 + strspn(from + 1, " ");
        } else {
            *end++ = *from++;
        }
    }
    return (word){joined, (size_t)(end - joined)};
}

static void
add_text(reader *r, const char *from, const char *to)
{
    word w = r->filled ? join_lines(r, from, to) : copy_text(r, from, to);
    if (w.size > 0) {
        step *s = step_of(r, step_add(r, STEP_TEXT));
        s->text = w.text;
        s->size = w.size;
    }
}

static bool read_body(reader *r, const char *opened, bool *at_else);

static bool
read_value(reader *r, const char *tag)
{
    int slot;
    const char *name = r->at;
    const field *f = reader_field(r, &slot);
    if (!f || !reader_char(r, '|')) {
        return false;
    }
    const char *encoder_at = r->at;
    const encoder *e = reader_encoder(r);
    if (!e || !reader_char(r, '}')) {
        return false;
    }
    if (!(e->takes & 1u << f->kind)) {
        return reader_fault(r, name, "`%s` cannot go through the encoder `%s`", f->name, e->name);
    }
    if (!strcmp(e->name, "text") && !r->quoted) {
        return reader_fault(r, encoder_at, "the encoder `text` is only for the inside of @{quote}");
    }
    const char *line = tag;
    while (line > r->text && line[-1] != '\n') {
        line--;
    }
    step *s = step_of(r, step_join(r, STEP_VALUE));
    s->slot = slot;
    s->field = f;
    s->encoder = e;
    s->indent = e->lines ? (int)strspn(line, " ") : 0;
    return true;
}

static bool
read_for(reader *r, const char *tag)
{
    word name = reader_word(r), in = reader_word(r), between = {"", 0};
    int slot;
    if (!name.size || !word_is(in, "in")) {
        return reader_fault(r, name.text, "`for NAME in VARIABLE.LIST` expected");
    }
    reader_skip_spaces(r);
    const char *list_at = r->at;
    const field *f = reader_field(r, &slot);
    if (!f) {
        return false;
    }
    if (f->kind != FIELD_LIST) {
        return reader_fault(r, list_at, "`%s` is not a list", f->name);
    }
    word sep = reader_word(r);
    if (sep.size && !word_is(sep, "sep")) {
        return reader_fault(r, sep.text, "`sep \"...\"` or `}` expected");
    }
    if ((sep.size && !reader_string(r, &between)) || !take_close(r, tag)) {
        return false;
    }
    if (r->slot_count == TEMPLATE_SLOTS) {
        return reader_fault(r, tag, "loops too deep");
    }
    int index = step_add(r, STEP_FOR);
    step *s = step_of(r, index);
    s->slot = slot;
    s->field = f;
    s->into = r->slot_count;
    s->text = between.text;
    s->size = between.size;
    r->slots[r->slot_count].name = name.text;
    r->slots[r->slot_count].size = name.size;
    r->slots[r->slot_count++].is = f->of;
    bool good = read_body(r, tag, NULL);
    r->slot_count--;
    step_end(r, index);
    return good;
}

static bool
read_if(reader *r, const char *tag)
{
    const char *start = r->at;
    int slot;
    bool negated = word_is(reader_word(r), "not");
    if (!negated) {
        r->at = start;
    }
    const field *f = reader_field(r, &slot);
    if (!f || !take_close(r, tag)) {
        return false;
    }
    int index = step_join(r, STEP_IF);
    step *s = step_of(r, index);
    s->slot = slot;
    s->field = f;
    s->negated = negated;
    bool at_else = false;
    bool good = read_body(r, tag, &at_else);
    int over = good && at_else ? step_add(r, STEP_GO) : -1;
    step_end(r, index);
    if (over >= 0) {
        good = read_body(r, tag, NULL);
        step_end(r, over);
    }
    return good;
}

static bool
read_quote(reader *r, const char *tag)
{
    const encoder *e = reader_encoder(r);
    if (!e || !take_close(r, tag)) {
        return false;
    }
    if (r->quoted || !(e->takes & 1u << FIELD_TEXT)) {
        return reader_fault(
            r, tag, r->quoted ? "a quote in a quote" : "`%s` does not quote", e->name);
    }
    int index = step_add(r, STEP_QUOTE);
    step_of(r, index)->encoder = e;
    r->quoted = true;
    bool good = read_body(r, tag, NULL);
    r->quoted = false;
    step_end(r, index);
    return good;
}

static bool
read_fill(reader *r, const char *tag)
{
    if (!take_close(r, tag)) {
        return false;
    }
    int index = step_add(r, STEP_FILL);
    r->filled = true;
    bool good = read_body(r, tag, NULL);
    r->filled = false;
    step_end(r, index);
    return good;
}

/* The tag at the reader, which stands behind `@{`. Sets `ends` at @{end} and @{else}. */
static bool
read_tag(reader *r, const char *tag, bool *ends, bool *at_else)
{
    const char *start = r->at;
    if (*r->at == '#') {
        const char *end = control_end(r, tag);
        if (!end) {
            return reader_fault(r, tag, "a tag that is not closed");
        }
        r->at = end - 1;
        return take_close(r, tag);
    }
    word w = reader_word(r);
    if (word_is(w, "for")) {
        return read_for(r, tag);
    }
    if (word_is(w, "if")) {
        return read_if(r, tag);
    }
    if (word_is(w, "quote")) {
        return read_quote(r, tag);
    }
    if (word_is(w, "fill")) {
        return read_fill(r, tag);
    }
    if (word_is(w, "end") || word_is(w, "else")) {
        *ends = true;
        if (word_is(w, "else") && !at_else) {
            return reader_fault(r, tag, "an @{else} without its @{if}");
        }
        if (at_else) {
            *at_else = word_is(w, "else");
        }
        return take_close(r, tag);
    }
    r->at = start;
    return read_value(r, tag);
}

/* Text and tags up to the @{end} (or @{else}, where `at_else` is not NULL) of the tag at `opened`;
   up to the end of the file if that is NULL. */
static bool
read_body(reader *r, const char *opened, bool *at_else)
{
    for (;;) {
        const char *tag = find_tag(r), *text_end = tag;
        if (tag < r->end && line_vanishes(r, tag)) {
            while (text_end > r->at && text_end[-1] == ' ') {
                text_end--;
            }
        }
        add_text(r, r->at, text_end);
        r->at = tag;
        if (tag == r->end) {
            return opened ? reader_fault(r, opened, "a tag that is not closed") : true;
        }
        r->at += 2;
        bool ends = false;
        if (!read_tag(r, tag, &ends, at_else)) {
            return false;
        }
        if (ends) {
            return opened ? true : reader_fault(r, tag, "an @{end} without its beginning");
        }
    }
}

/* `@{each op PATH}` or `@{once PATH}`. */
static bool
read_first_line(reader *r)
{
    if (r->end - r->at < 2 || memcmp(r->at, "@{", 2)) {
        return reader_fault(r, r->at, "`@{each op PATH}` or `@{once PATH}` expected");
    }
    r->at += 2;
    word w = reader_word(r);
    r->out->per_op = word_is(w, "each");
    if (!(r->out->per_op && word_is(reader_word(r), "op")) && !word_is(w, "once")) {
        return reader_fault(r, w.text, "`@{each op PATH}` or `@{once PATH}` expected");
    }
    reader_skip_spaces(r);
    const char *path = r->at, *line = memchr(path, '\n', (size_t)(r->end - path));
    if (!line || line - path < 2 || line[-1] != '}') {
        return reader_fault(r, path, "a path and `}` expected");
    }
    r->out->path = arena_copy(r->memory, path, (size_t)(line - 1 - path));
    r->at = line + 1;
    if (*path == '/' || strstr(r->out->path, "..")) {
        return reader_fault(r, path, "a path inside the output folder expected");
    }
    return true;
}

template_file *
template_parse(arena *a, faults *f, const char *name, const char *text, size_t size)
{
    reader r = {.memory = a, .faults = f, .text = text, .end = text + size};
    r.at = text;
    r.out = arena_alloc(a, sizeof *r.out);
    r.out->name = name;
    r.slots[0].name = "table";
    r.slots[0].size = strlen("table");
    r.slots[0].is = &thing_table;
    r.slots[1].name = "op";
    r.slots[1].size = strlen("op");
    r.slots[1].is = &thing_op;
    if (!read_first_line(&r)) {
        return NULL;
    }
    r.slot_count = r.out->per_op ? 2 : 1;
    return read_body(&r, NULL, NULL) ? r.out : NULL;
}
