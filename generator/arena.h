/* Memory that is freed all at once. Everything opgen reads and builds lives in one; nothing in it
   is freed alone. Allocation does not fail: out of memory ends the program before anything is
   written. */
#ifndef OPGEN_ARENA_H
#define OPGEN_ARENA_H

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

/* What lies between `at` and `end` is free and zero. */
typedef struct arena {
    char *at, *end;
    struct block *last;
} arena;

arena *arena_create(void);
void arena_destroy(arena *a);

enum { ARENA_ALIGN = alignof(max_align_t) };
void *arena_grow(arena *a, size_t size, size_t align); /* in a further block */

/* Zeroed; `align` is a power of two. */
static inline void *
arena_take(arena *a, size_t size, size_t align)
{
    size_t pad = -(uintptr_t)a->at & (align - 1), room = (size_t)(a->end - a->at);
    if (room < pad || room - pad < size) {
        return arena_grow(a, size, align);
    }
    char *taken = a->at + pad;
    a->at = taken + size;
    return taken;
}

/* Zeroed, aligned for any type. */
static inline void *
arena_alloc(arena *a, size_t size)
{
    return arena_take(a, size, ARENA_ALIGN);
}

char *arena_copy(arena *a, const char *text, size_t size); /* adds a NUL */
char *arena_join(arena *a, const char *first, const char *second, const char *third);
char *arena_print(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What is allocated after a mark can be dropped together; used for one row's rendering. */
typedef struct arena_mark {
    struct block *block;
    char *at;
} arena_mark;
arena_mark arena_save(arena *a);
void arena_restore(arena *a, arena_mark mark);

/* A growing array of pointers or structures: `LIST(type)` declares one, list_push appends a zeroed
   element and returns it. It may start with `room` that is not the arena's. */
#define LIST(type)       \
    struct {             \
        type *items;     \
        int count, room; \
    }
void *list_grow(arena *a, void *items, int count, int *room, size_t size);
/* Room for `more` elements, where it is known how many come. */
#define list_reserve(a, list, more)  \
    ((list)->items = list_make_room( \
         (a), (list)->items, (list)->count, &(list)->room, more, sizeof *(list)->items))
void *list_make_room(arena *a, void *items, int count, int *room, int more, size_t size);
#define list_push(a, list)                                                                   \
    ((list)->items =                                                                         \
         list_grow((a), (list)->items, (list)->count, &(list)->room, sizeof *(list)->items), \
     &(list)->items[(list)->count++])

#endif
