#include "arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks form a stack: `last` is the one that grows. A request larger than a block gets one of its
   own size. Memory is zeroed when it is handed out, so that a restored arena is as good as new. */
typedef struct block {
    struct block *before;
    size_t size, used;
    alignas(max_align_t) char data[];
} block;

struct arena {
    block *last;
};

enum { BLOCK_SIZE = 64 * 1024 };

static _Noreturn void
out_of_memory(void)
{
    fputs("opgen: out of memory\n", stderr);
    exit(1);
}

static block *
block_create(block *before, size_t size)
{
    block *b = malloc(sizeof *b + size);
    if (!b) {
        out_of_memory();
    }
    b->before = before;
    b->size = size;
    b->used = 0;
    return b;
}

arena *
arena_create(void)
{
    arena *a = malloc(sizeof *a);
    if (!a) {
        out_of_memory();
    }
    a->last = block_create(NULL, BLOCK_SIZE);
    return a;
}

void
arena_destroy(arena *a)
{
    if (!a) {
        return;
    }
    while (a->last) {
        block *before = a->last->before;
        free(a->last);
        a->last = before;
    }
    free(a);
}

void *
arena_alloc(arena *a, size_t size)
{
    size_t align = alignof(max_align_t);
    if (size > SIZE_MAX / 2) {
        out_of_memory();
    }
    size = (size + align - 1) / align * align;
    if (a->last->size - a->last->used < size) {
        a->last = block_create(a->last, size > BLOCK_SIZE ? size : BLOCK_SIZE);
    }
    void *memory = a->last->data + a->last->used;
    a->last->used += size;
    return memset(memory, 0, size);
}

char *
arena_copy(arena *a, const char *text, size_t size)
{
    char *copy = arena_alloc(a, size + 1);
    if (size) {
        memcpy(copy, text, size);
    }
    return copy;
}

char *
arena_join(arena *a, const char *first, const char *second, const char *third)
{
    size_t one = strlen(first), two = strlen(second), three = strlen(third);
    char *text = arena_alloc(a, one + two + three + 1);
    memcpy(text, first, one);
    memcpy(text + one, second, two);
    memcpy(text + one + two, third, three);
    return text;
}

char *
arena_print(arena *a, const char *format, ...)
{
    char small[256]; /* most texts fit and are formatted once */
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (size < 0) {
        out_of_memory();
    }
    char *text = arena_alloc(a, (size_t)size + 1);
    if ((size_t)size < sizeof small) {
        memcpy(text, small, (size_t)size);
    } else {
        vsnprintf(text, (size_t)size + 1, format, again);
    }
    va_end(again);
    return text;
}

arena_mark
arena_save(arena *a)
{
    return (arena_mark){a->last, a->last->used};
}

void
arena_restore(arena *a, arena_mark mark)
{
    while (a->last != mark.block) {
        block *before = a->last->before;
        free(a->last);
        a->last = before;
    }
    a->last->used = mark.used;
}

void *
list_grow(arena *a, void *items, int count, int *room, size_t size)
{
    if (count < *room) {
        return items;
    }
    *room = *room ? *room * 2 : 4;
    void *grown = arena_alloc(a, (size_t)*room * size);
    if (count) {
        memcpy(grown, items, (size_t)count * size);
    }
    return grown;
}
