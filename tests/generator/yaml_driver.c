/* Texts from stdin, each behind its size in a line: what the plain reader makes of one beside
   libyaml's events. A line each: `same`, `unsure` (the plain reader left it to libyaml), or what
   differs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../generator/yaml_plain.h"
#include "../../generator/yaml_read.h"

static bool
same_loc(loc a, loc b)
{
    return a.line == b.line && a.column == b.column;
}

static bool
same(const node *a, const node *b)
{
    if (a->kind != b->kind || !same_loc(a->where, b->where) || a->quoted != b->quoted ||
        a->block != b->block || a->size != b->size) {
        return false;
    }
    if (a->kind == NODE_SCALAR) {
        return strlen(a->text) == a->size && memcmp(a->text, b->text, a->size + 1) == 0;
    }
    bool fine =
        a->kind == NODE_LIST ? a->items.count == b->items.count : a->pairs.count == b->pairs.count;
    for (int i = 0; fine && a->kind == NODE_LIST && i < a->items.count; i++) {
        fine = same(a->items.items[i], b->items.items[i]);
    }
    for (int i = 0; fine && a->kind == NODE_MAP && i < a->pairs.count; i++) {
        const pair *p = &a->pairs.items[i], *q = &b->pairs.items[i];
        fine = strcmp(p->key, q->key) == 0 && same_loc(p->where, q->where) &&
               p->quoted == q->quoted && p->field == q->field && same(p->value, q->value);
    }
    return fine;
}

static const char *
verdict(arena *a, const char *text, size_t size)
{
    faults *f = faults_create(a, "text", text, size);
    const node *plain = yaml_plain_read(a, text, size);
    if (!plain) {
        return "unsure";
    }
    const node *events = yaml_read_events(a, f, text, size);
    return faults_count(f)       ? "libyaml finds a fault"
           : !events             ? "libyaml finds nothing"
           : same(plain, events) ? "same"
                                 : "another tree";
}

int
main(void)
{
    size_t size;
    while (scanf("%zu", &size) == 1 && getchar() == '\n') {
        arena *a = arena_create();
        char *text = malloc(size + 1); /* so that a sanitizer sees its end */
        if (!text || fread(text, 1, size, stdin) != size) {
            return 1;
        }
        text[size] = '\0';
        puts(verdict(a, text, size));
        free(text);
        arena_destroy(a);
    }
    return 0;
}
