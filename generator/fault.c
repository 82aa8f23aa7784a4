#include "fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "buffer.h"

typedef struct note {
    struct note *next;
    loc where; /* .line 0: none */
    const char *text;
} note;

typedef struct record {
    const char *id;
    loc where;
    context of;
    const char *message;
    note *notes, **end;
    int number; /* in order of recording: makes the sort stable */
} record;

struct faults {
    arena *memory;
    const char *file, *text;
    size_t size;
    LIST(record *) all;
    int more; /* faults beyond FAULTS_MOST: not kept */
};

/* A file that is no table at all could have millions. */
enum { FAULTS_MOST = 1000 };

faults *
faults_create(arena *a, const char *file, const char *text, size_t size)
{
    faults *f = arena_alloc(a, sizeof *f);
    f->memory = a;
    f->file = file;
    f->text = text;
    f->size = size;
    return f;
}

int
faults_count(const faults *f)
{
    return f->all.count + f->more;
}

bool
faults_full(const faults *f)
{
    return f->more > 0;
}

const char *
faults_file(const faults *f)
{
    return f->file;
}

static const char *
format_text(arena *a, const char *format, va_list args)
{
    char text[512];
    int size = vsnprintf(text, sizeof text, format, args);
    if (size >= (int)sizeof text) {
        memcpy(text + sizeof text - 4, "...", 4);
    }
    return arena_copy(a, text, strlen(text));
}

bool
fault(faults *f, const char *id, loc where, context of, const char *format, ...)
{
    if (f->all.count == FAULTS_MOST) {
        f->more++;
        return false;
    }
    record *r = arena_alloc(f->memory, sizeof *r);
    va_list args;
    va_start(args, format);
    *r = (record){
        .id = id,
        .where = where,
        .of = of,
        .message = format_text(f->memory, format, args),
        .number = f->all.count,
    };
    va_end(args);
    r->end = &r->notes;
    *list_push(f->memory, &f->all) = r;
    return false;
}

static void
note_add(faults *f, loc where, const char *text)
{
    if (f->all.count == 0) {
        die("a note without a fault: %s", text);
    }
    if (f->more > 0) {
        return; /* it is of one that was not kept */
    }
    record *last = f->all.items[f->all.count - 1];
    note *n = arena_alloc(f->memory, sizeof *n);
    n->where = where;
    n->text = text;
    *last->end = n;
    last->end = &n->next;
}

void
fault_also(faults *f, loc where, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    note_add(f, where, format_text(f->memory, format, args));
    va_end(args);
}

/* ---- the nearest name ------------------------------------------------------------------------ */

static int
least(int a, int b)
{
    return a < b ? a : b;
}

enum { SUGGEST_LENGTH = 64 };

/* Edits that make `b` of `a`, a swap of neighbours counting once (Damerau and Levenshtein). */
static int
distance(const char *a, const char *b)
{
    int rows[3][SUGGEST_LENGTH + 1];
    int width = (int)strlen(b);
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (int j = 0; j <= width; j++) {
        last[j] = j;
        before[j] = 0;
    }
    for (int i = 1; a[i - 1]; i++) {
        now[0] = i;
        for (int j = 1; j <= width; j++) {
            int change = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = least(change, least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                now[j] = least(now[j], before[j - 2] + 1);
            }
        }
        int *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[width];
}

void
fault_suggest(faults *f, const char *name, const char *const *known, int count)
{
    size_t length = strlen(name);
    if (length > SUGGEST_LENGTH || f->more > 0) {
        return;
    }
    const char *best = NULL;
    int near = length < 3 ? 2 : length < 6 ? 3 : 4; /* one more than what is near enough */
    for (int i = 0; i < count; i++) {
        if (known[i] && strlen(known[i]) <= SUGGEST_LENGTH) {
            int d = distance(name, known[i]);
            if (d < near && d < (int)strlen(known[i])) {
                near = d;
                best = known[i];
            }
        }
    }
    if (best) {
        note_add(f, (loc){0}, arena_print(f->memory, "did you mean `%s`?", best));
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

static int
compare(const void *a, const void *b)
{
    const record *x = *(record *const *)a, *y = *(record *const *)b;
    if (x->where.line != y->where.line) {
        return x->where.line < y->where.line ? -1 : 1;
    }
    if (x->where.column != y->where.column) {
        return x->where.column < y->where.column ? -1 : 1;
    }
    return x->number < y->number ? -1 : 1;
}

/* Bytes of the printable character beyond ASCII at `c`, 0 if they are none. */
static size_t
character_size(const unsigned char *c, size_t size)
{
    size_t count = *c >= 0xf0 ? 4 : *c >= 0xe0 ? 3 : *c >= 0xc2 ? 2 : 0;
    if (count == 0 || count > size || *c > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < count; i++) {
        if ((c[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool control = *c == 0xc2 && c[1] < 0xa0, surrogate = *c == 0xed && c[1] >= 0xa0;
    bool overlong = (*c == 0xe0 && c[1] < 0xa0) || (*c == 0xf0 && c[1] < 0x90);
    bool beyond = *c == 0xf4 && c[1] >= 0x90;
    return control || surrogate || overlong || beyond ? 0 : count;
}

/* Line ends and changes of direction: U+2028 to U+202E, U+2066 to U+2069. */
static bool
moves_text(const unsigned char *c)
{
    return c[0] == 0xe2 && ((c[1] == 0x80 && c[2] >= 0xa8 && c[2] <= 0xae) ||
                            (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
}

/* Control characters and bytes that are no UTF-8 must not reach a terminal. */
static void
print_safe(buffer *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\t') {
            buffer_putc(out, '\t');
        } else if (c < 0x20 || c == 0x7f) {
            buffer_putc(out, '?');
        } else if (c < 0x80) {
            buffer_putc(out, (char)c);
        } else {
            size_t count = character_size((const unsigned char *)text + i, size - i);
            bool safe = count && !moves_text((const unsigned char *)text + i);
            buffer_add(out, safe ? text + i : "?", safe ? count : 1);
            i += count ? count - 1 : 0;
        }
    }
}

static void
print_text(buffer *out, const char *text)
{
    print_safe(out, text, strlen(text));
}

typedef struct line {
    const char *text;
    size_t size;
} line;

enum { STRIDE = 1024 };

/* Found once for all faults: how many characters and lines begin before each STRIDE bytes of the
   file. So a fault costs the same wherever it is, on a line of any length. */
typedef struct stride {
    size_t characters;
    int lines; /* line breaks */
} stride;
typedef LIST(stride) stride_list;

static bool
begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

static void
strides_find(faults *f, stride_list *strides)
{
    stride now = {0};
    list_reserve(f->memory, strides, (int)(f->size / STRIDE) + 1);
    for (size_t i = 0; i < f->size; i++) {
        if (i % STRIDE == 0) {
            *list_push(f->memory, strides) = now;
        }
        now.lines += f->text[i] == '\n';
        now.characters += begins_character(f->text[i]);
    }
}

/* Where line `number` begins, from 1; beyond the file if it has not so many. */
static size_t
line_start(const faults *f, const stride_list *strides, int number)
{
    int low = 0, high = strides->count; /* the last stride before which it does not begin yet */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        *(strides->items[middle].lines < number - 1 ? &low : &high) = middle;
    }
    int lines = strides->count ? strides->items[low].lines : 0;
    size_t i = (size_t)low * STRIDE;
    for (; lines < number - 1 && i < f->size; i++) {
        lines += f->text[i] == '\n';
    }
    return lines < number - 1 ? f->size + 1 : i;
}

/* How many characters begin before byte `offset` of the file. */
static size_t
characters_before(const faults *f, const stride_list *strides, size_t offset)
{
    if (offset >= f->size) {
        offset = f->size;
    }
    size_t at = offset / STRIDE;
    if (at >= (size_t)strides->count) {
        return offset ? characters_before(f, strides, offset - 1) +
                            begins_character(f->text[offset - 1])
                      : 0;
    }
    size_t characters = strides->items[at].characters;
    for (size_t i = at * STRIDE; i < offset; i++) {
        characters += begins_character(f->text[i]);
    }
    return characters;
}

static line
line_of(const faults *f, const stride_list *strides, int number)
{
    size_t start = number < 1 ? f->size + 1 : line_start(f, strides, number);
    if (start > f->size) {
        return (line){"", 0};
    }
    size_t next = line_start(f, strides, number + 1), end = next > f->size ? f->size : next - 1;
    if (end > start && f->text[end - 1] == '\r') {
        end--;
    }
    return (line){f->text + start, end - start};
}

/* 1-based, in characters. */
static size_t
column_of(const faults *f, const stride_list *strides, loc where)
{
    line l = line_of(f, strides, where.line);
    size_t bytes = (size_t)where.column - 1, within = bytes < l.size ? bytes : l.size;
    if (l.size == 0) {
        return bytes + 1;
    }
    size_t start = (size_t)(l.text - f->text);
    return characters_before(f, strides, start + within) - characters_before(f, strides, start) +
           (bytes - within) + 1;
}

enum { SOURCE_WIDTH = 160 };

/* The part of a long line that has the column, so that the caret stays in sight. */
static void
print_source(buffer *out, line l, loc where)
{
    size_t column = (size_t)where.column - 1, start = 0;
    if (l.size > SOURCE_WIDTH && column > SOURCE_WIDTH * 3 / 4) {
        start = column - SOURCE_WIDTH / 2;
        while (start < l.size && start < column && !begins_character(l.text[start])) {
            start++;
        }
    }
    start = start > l.size ? l.size : start;
    size_t size = l.size - start > SOURCE_WIDTH ? SOURCE_WIDTH : l.size - start;
    const char *cut = start ? "..." : "";
    buffer_print(out, "%6d | %s", where.line, cut);
    print_safe(out, l.text + start, size);
    buffer_print(out, "%s\n       | %*s", start + size < l.size ? "..." : "", (int)strlen(cut), "");
    for (size_t i = start; i < column && i < l.size; i++) {
        if (begins_character(l.text[i])) {
            buffer_putc(out, l.text[i] == '\t' ? '\t' : ' ');
        }
    }
    for (size_t i = l.size; i < column; i++) {
        buffer_putc(out, ' ');
    }
    buffer_puts(out, "^\n");
}

static void
print_context(buffer *out, context of)
{
    if (of.op || of.part) {
        buffer_puts(out, "       = ");
        if (of.op) {
            buffer_puts(out, "row ");
            print_text(out, of.op);
        }
        if (of.op && of.part) {
            buffer_puts(out, ", ");
        }
        if (of.part) {
            print_text(out, of.part);
        }
        buffer_putc(out, '\n');
    }
}

static void
print_record(buffer *out, const faults *f, const stride_list *strides, const record *r)
{
    line l = line_of(f, strides, r->where.line);
    size_t column = column_of(f, strides, r->where);
    buffer_print(out, "%s:%d:%zu: error: ", f->file, r->where.line, column);
    print_text(out, r->message);
    buffer_print(out, " [%s]\n", r->id);
    print_source(out, l, r->where);
    print_context(out, r->of);
    for (const note *n = r->notes; n; n = n->next) {
        buffer_puts(out, "       = ");
        if (n->where.line) {
            size_t other = column_of(f, strides, n->where);
            buffer_print(out, "%s:%d:%zu: ", f->file, n->where.line, other);
        }
        print_text(out, n->text);
        buffer_putc(out, '\n');
    }
}

/* A fault in a family is met once a member; it is one fault. */
static bool
same(const record *a, const record *b)
{
    return a->where.line == b->where.line && a->where.column == b->where.column &&
           strcmp(a->id, b->id) == 0 && strcmp(a->message, b->message) == 0;
}

void
faults_print(const faults *constant)
{
    faults f = *constant;
    if (f.all.count == 0) {
        return;
    }
    stride_list strides = {0};
    buffer out = {0};
    strides_find(&f, &strides);
    size_t count = (size_t)f.all.count;
    record **sorted = arena_alloc(f.memory, (count + 1) * sizeof *sorted);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = f.all.items[i];
    }
    qsort(sorted, count, sizeof *sorted, compare);
    for (size_t i = 0; i < count; i++) {
        bool said = false;
        for (size_t j = i; j-- > 0 && !said && sorted[j]->where.line == sorted[i]->where.line &&
                           sorted[j]->where.column == sorted[i]->where.column;) {
            said = same(sorted[j], sorted[i]);
        }
        if (!said) {
            print_record(&out, &f, &strides, sorted[i]);
        }
    }
    if (f.more > 0) {
        buffer_print(&out, "opgen: %s: too many faults: what follows is not looked at\n", f.file);
    }
    fwrite(out.data, 1, out.size, stderr);
    buffer_finish(&out);
}

_Noreturn void
die_at(const char *file, int line_number, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "opgen: a fault of ours at %s:%d: ", file, line_number);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    putc('\n', stderr);
    abort();
}
