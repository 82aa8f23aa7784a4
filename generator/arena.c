#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "format.h"

/* Blocks form a stack: `last` is the one that grows. A request larger than a block gets one of its
   own size. What lies behind `at` is zero, as it came from the system or as arena_restore left it.
   The first block is small, for there are small arenas; the others are mapped in huge pages
   where the system has them: to fault a large table's memory in by 4 KiB takes as long as to read
   it. */
typedef struct block {
    struct block *before;
    size_t size;
    alignas(max_align_t) char data[];
} block;

enum { FIRST_SIZE = 64 * 1024, BLOCK_SIZE = 4 << 20, HUGE_PAGE = 2 << 20, LIST_LARGE = 64 };

static _Noreturn void
out_of_memory(void)
{
    fputs("opgen: out of memory\n", stderr);
    exit(1);
}

/* NULL without memory. The address is a multiple of HUGE_PAGE. */
static void *
map_aligned(size_t size)
{
    size_t slack = HUGE_PAGE, head;
    char *map =
        mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        return NULL;
    }
    head = (slack - (uintptr_t)map % slack) % slack;
    if (head > 0) {
        munmap(map, head);
    }
    munmap(map + head + size, slack - head);
#ifdef MADV_HUGEPAGE
    madvise(map + head, size, MADV_HUGEPAGE);
#endif
    return map + head;
}

static block *
block_map(block *before, size_t size)
{
    size = size + sizeof(block) > BLOCK_SIZE ? size + sizeof(block) : BLOCK_SIZE;
    size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    block *b = map_aligned(size);
    if (!b) {
        out_of_memory();
    }
    b->before = before;
    b->size = size - sizeof *b;
    return b;
}

static void
block_free(block *b)
{
    if (b->before) {
        munmap(b, sizeof *b + b->size);
    } else {
        free(b);
    }
}

arena *
arena_create(void)
{
    arena *a = malloc(sizeof *a);
    block *first = calloc(1, sizeof *first + FIRST_SIZE);
    if (!a || !first) {
        out_of_memory();
    }
    first->size = FIRST_SIZE;
    *a = (arena){first->data, first->data + FIRST_SIZE, first};
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
        block_free(a->last);
        a->last = before;
    }
    free(a);
}

void *
arena_grow(arena *a, size_t size, size_t align)
{
    if (size > SIZE_MAX / 2) {
        out_of_memory();
    }
    a->last = block_map(a->last, size);
    a->at = a->last->data;
    a->end = a->at + a->last->size;
    return arena_take(a, size, align);
}

char *
arena_copy(arena *a, const char *text, size_t size)
{
    char *copy = arena_take(a, size + 1, 1);
    if (size) {
        memcpy(copy, text, size);
    }
    return copy;
}

char *
arena_join(arena *a, const char *first, const char *second, const char *third)
{
    size_t one = strlen(first), two = strlen(second), three = strlen(third);
    char *text = arena_take(a, one + two + three + 1, 1);
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
    size_t size = format_text(small, sizeof small, format, args);
    va_end(args);
    char *text = arena_take(a, size + 1, 1);
    if (size < sizeof small) {
        memcpy(text, small, size);
    } else {
        format_text(text, size + 1, format, again);
    }
    va_end(again);
    return text;
}

arena_mark
arena_save(arena *a)
{
    return (arena_mark){a->last, a->at};
}

void
arena_restore(arena *a, arena_mark mark)
{
    char *used = a->at;
    while (a->last != mark.block) {
        block *before = a->last->before;
        block_free(a->last);
        a->last = before;
        used = before->data + before->size;
    }
    a->at = mark.at;
    a->end = a->last->data + a->last->size;
    memset(a->at, 0, (size_t)(used - a->at));
}

void *
list_make_room(arena *a, void *items, int count, int *room, int more, size_t size)
{
    if (more <= *room - count) {
        return items;
    }
    *room = count + more;
    void *grown = arena_alloc(a, (size_t)*room * size);
    if (count) {
        memcpy(grown, items, (size_t)count * size);
    }
    return grown;
}

void *
list_grow(arena *a, void *items, int count, int *room, size_t size)
{
    int more = count ? count : size > LIST_LARGE ? 1 : 4;
    return count < *room ? items : list_make_room(a, items, count, room, more, size);
}
