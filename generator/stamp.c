#include "stamp.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"

static const char head[] = "opgen stamp 1 ";

/* Relative, and never above the folder. */
static bool
is_inside(const char *path)
{
    for (const char *c = path; c; c = strchr(c, '/')) {
        c += *c == '/' && c != path;
        if (*c == '/' || *c == '\0' || !strncmp(c, "../", 3) || !strcmp(c, "..")) {
            return false;
        }
    }
    return true;
}

static bool
read_entry(stamp_entry *e, char *line)
{
    char *end;
    if (strlen(line) < DIGEST_LENGTH + 4 || line[DIGEST_LENGTH] != ' ') {
        return false;
    }
    memcpy(e->digest, line, DIGEST_LENGTH);
    e->size = strtoll(line + DIGEST_LENGTH + 1, &end, 10);
    e->path = end + 1;
    return *end == ' ' && e->size >= 0 && is_inside(e->path);
}

bool
stamp_is_of(const char *path, const digest *input)
{
    char line[sizeof head - 1 + DIGEST_LENGTH], hex[DIGEST_LENGTH + 1];
    digest_print(input, hex);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = fd >= 0 && read(fd, line, sizeof line) == (ssize_t)sizeof line &&
              !memcmp(line, head, sizeof head - 1) &&
              !memcmp(line + sizeof head - 1, hex, DIGEST_LENGTH);
    if (fd >= 0) {
        close(fd);
    }
    return is;
}

stamp *
stamp_read(arena *a, const char *path)
{
    stamp *s = arena_alloc(a, sizeof *s);
    size_t size;
    char *text = file_read(a, path, &size);
    if (!text || size <= sizeof head + DIGEST_LENGTH || memcmp(text, head, sizeof head - 1)) {
        return s;
    }
    memcpy(s->input, text + sizeof head - 1, DIGEST_LENGTH);
    char *line = strchr(text, '\n');
    int lines = 0;
    for (const char *c = line; c; c = strchr(c + 1, '\n')) {
        lines++;
    }
    list_reserve(a, &s->entries, lines);
    while (line && line[1]) {
        char *next = strchr(++line, '\n');
        stamp_entry e = {0};
        if (next) {
            *next = '\0';
        }
        if (read_entry(&e, line)) {
            *list_push(a, &s->entries) = e;
        }
        line = next;
    }
    return s;
}

static void
index_paths(arena *a, stamp *s)
{
    s->by_path = dict_create(a);
    dict_reserve(s->by_path, s->entries.count);
    for (int i = 0; i < s->entries.count; i++) {
        dict_add(s->by_path, s->entries.items[i].path, i);
    }
}

const stamp_entry *
stamp_find(arena *a, stamp *s, const char *path)
{
    int i = s->next;
    if (i >= s->entries.count || strcmp(s->entries.items[i].path, path) != 0) {
        if (!s->by_path) {
            index_paths(a, s);
        }
        i = dict_find(s->by_path, path);
    }
    if (i < 0) {
        return NULL;
    }
    s->next = i + 1;
    return &s->entries.items[i];
}

void
stamp_print_head(buffer *into, const digest *input)
{
    char hex[DIGEST_LENGTH + 1];
    digest_print(input, hex);
    buffer_print(into, "%s%s\n", head, hex);
}

void
stamp_print_entry(buffer *into, const char *hex, size_t size, const char *path)
{
    char number[24], *digit = number + sizeof number;
    *--digit = '\0';
    do {
        *--digit = (char)('0' + size % 10);
        size /= 10;
    } while (size > 0);
    buffer_puts(into, hex);
    buffer_putc(into, ' ');
    buffer_puts(into, digit);
    buffer_putc(into, ' ');
    buffer_puts(into, path);
    buffer_putc(into, '\n');
}
