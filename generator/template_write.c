#include <string.h>

#include "encode_c.h"
#include "template.h"

/* One writing of a template. Scratch texts are kept from one value to the next. */
typedef struct writer {
    const step *steps;
    buffer *out;
    buffer scratch, quoted;
    cursor slots[TEMPLATE_SLOTS];
} writer;

static void write_steps(writer *w, const step *from, const step *to);

/* The lines of a value after its first stand as far in as the line of its tag. */
static void
indent_lines(buffer *out, size_t start, int indent)
{
    if (!memchr(out->data + start, '\n', out->size - start)) {
        return;
    }
    buffer copy = {0};
    buffer_add(&copy, out->data + start, out->size - start);
    out->size = start;
    for (size_t i = 0; i < copy.size; i++) {
        buffer_putc(out, copy.data[i]);
        bool blank = i + 1 < copy.size && copy.data[i + 1] == '\n';
        for (int j = 0; copy.data[i] == '\n' && !blank && j < indent; j++) {
            buffer_putc(out, ' ');
        }
    }
    buffer_finish(&copy);
}

/* Texts of a template are short: the first TEMPLATE_PAD bytes are copied whatever the size is. */
static inline void
write_text(buffer *out, const char *text, size_t size)
{
    if (!size) {
        return;
    }
    if (out->room - out->size < size + TEMPLATE_PAD) {
        buffer_reserve(out, size + TEMPLATE_PAD);
    }
    char *to = out->data + out->size;
    memcpy(to, text, TEMPLATE_PAD);
    if (size > TEMPLATE_PAD) {
        memcpy(to + TEMPLATE_PAD, text + TEMPLATE_PAD, size - TEMPLATE_PAD);
    }
    out->size += size;
}

static void
write_value(writer *w, const step *s)
{
    w->scratch.size = 0;
    write_text(w->out, s->text, s->size);
    const char *text = s->field->text(&w->slots[s->slot], &w->scratch);
    if (!text) {
        return;
    }
    if (s->encoder->write == encode_name) {
        encode_name(w->out, text);
        return;
    }
    size_t start = w->out->size;
    s->encoder->write(w->out, text);
    if (s->indent) {
        indent_lines(w->out, start, s->indent);
    }
}

static void
write_for(writer *w, const step *s)
{
    const cursor *of = &w->slots[s->slot];
    cursor *item = &w->slots[s->into];
    int count = 0;
    for (int at = 0;;) {
        *item = *of;
        item->index = count;
        item->first = count == 0;
        at = s->field->next(of, at, item);
        if (at < 0) {
            return;
        }
        if (count++ > 0) {
            write_text(w->out, s->text, s->size);
        }
        write_steps(w, s + 1, w->steps + s->end);
    }
}

static bool
holds(writer *w, const step *s)
{
    const cursor *c = &w->slots[s->slot];
    if (s->field->kind == FIELD_FLAG) {
        return s->field->flag(c);
    }
    if (s->field->kind == FIELD_LIST) {
        cursor item = *c;
        return s->field->next(c, 0, &item) >= 0;
    }
    w->scratch.size = 0;
    const char *text = s->field->text(c, &w->scratch);
    return text && *text;
}

/* The body is written behind the output, then taken away and encoded. */
static void
write_quote(writer *w, const step *s)
{
    size_t start = w->out->size;
    write_steps(w, s + 1, w->steps + s->end);
    w->quoted.size = 0;
    buffer_add(&w->quoted, w->out->data + start, w->out->size - start);
    w->out->size = start;
    s->encoder->write(w->out, buffer_text(&w->quoted));
}

static void
write_fill(writer *w, const step *s)
{
    size_t start = w->out->size;
    write_steps(w, s + 1, w->steps + s->end);
    encode_c_fill(w->out, start, &w->quoted);
}

static void
write_steps(writer *w, const step *s, const step *to)
{
    while (s < to) {
        const step *next = s + 1;
        switch (s->kind) {
        case STEP_TEXT: write_text(w->out, s->text, s->size); break;
        case STEP_VALUE: write_value(w, s); break;
        case STEP_IF:
            write_text(w->out, s->text, s->size);
            next = holds(w, s) != s->negated ? next : w->steps + s->end;
            break;
        case STEP_GO: next = w->steps + s->end; break;
        case STEP_FOR:
            write_for(w, s);
            next = w->steps + s->end;
            break;
        case STEP_QUOTE:
            write_quote(w, s);
            next = w->steps + s->end;
            break;
        case STEP_FILL:
            write_fill(w, s);
            next = w->steps + s->end;
            break;
        }
        s = next;
    }
}

void
template_write(const template_file *t, const cursor *where, buffer *out)
{
    writer w = {.steps = t->steps.items, .out = out};
    w.slots[0] = *where;
    w.slots[1] = *where;
    write_steps(&w, w.steps, w.steps + t->steps.count);
    buffer_finish(&w.scratch);
    buffer_finish(&w.quoted);
}

const char *
template_path(arena *a, const template_file *t, const cursor *where)
{
    buffer path = {0};
    for (const char *c = t->path; *c;) {
        size_t plain = *c == '{' ? 0 : strcspn(c, "{");
        if (plain) {
            buffer_add(&path, c, plain);
            c += plain;
        } else if (!strncmp(c, "{op}", 4) && where->op) {
            buffer_puts(&path, where->op->name);
            c += 4;
        } else if (!strncmp(c, "{package}", 9)) {
            buffer_puts(&path, where->table->package);
            c += 9;
        } else if (!strncmp(c, "{namespace}", 11)) {
            buffer_puts(&path, where->table->symbol);
            c += 11;
        } else {
            buffer_putc(&path, *c++);
        }
    }
    const char *result = arena_copy(a, path.data, path.size);
    buffer_finish(&path);
    return result;
}
