#include "dict.h"

#include <stdint.h>
#include <string.h>

/* Open addressing, at most half full; the number of slots is a power of two. */
typedef struct slot {
    const char *key;
    uint32_t hash;
    int value;
} slot;

enum { DICT_LEAST = 16 };

struct dict {
    arena *memory;
    slot *slots;
    size_t room, count;
};

/* Eight bytes at once. */
static uint32_t
hash_of(const char *key)
{
    size_t size = strlen(key);
    uint64_t hash = size, word;
    for (; size >= sizeof word; size -= sizeof word) {
        memcpy(&word, key, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
        key += sizeof word;
    }
    for (word = 0; size > 0; size--) {
        word = word << 8 | (unsigned char)*key++;
    }
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32);
}

dict *
dict_create(arena *a)
{
    dict *d = arena_alloc(a, sizeof *d);
    d->memory = a;
    d->room = DICT_LEAST;
    d->slots = arena_alloc(a, d->room * sizeof *d->slots);
    return d;
}

void
dict_reserve(dict *d, int count)
{
    while (d->room / 2 <= (size_t)count) {
        d->room *= 2;
    }
    d->slots = arena_alloc(d->memory, d->room * sizeof *d->slots);
}

void
dict_clear(dict *d)
{
    d->room = DICT_LEAST;
    d->count = 0;
    memset(d->slots, 0, d->room * sizeof *d->slots);
}

/* The slot that holds `key`, or the free one where it would go. */
static slot *
slot_of(const dict *d, const char *key, uint32_t hash)
{
    size_t i = hash & (d->room - 1);
    while (d->slots[i].key && (d->slots[i].hash != hash || strcmp(d->slots[i].key, key) != 0)) {
        i = (i + 1) & (d->room - 1);
    }
    return &d->slots[i];
}

static void
dict_grow(dict *d)
{
    slot *old = d->slots;
    size_t room = d->room;
    d->room *= 2;
    d->slots = arena_alloc(d->memory, d->room * sizeof *d->slots);
    for (size_t i = 0; i < room; i++) {
        if (old[i].key) {
            *slot_of(d, old[i].key, old[i].hash) = old[i];
        }
    }
}

void
dict_expect(const dict *d, const char *key)
{
    __builtin_prefetch(&d->slots[hash_of(key) & (d->room - 1)], 1);
}

int
dict_find(const dict *d, const char *key)
{
    const slot *s = slot_of(d, key, hash_of(key));
    return s->key ? s->value : -1;
}

int
dict_add(dict *d, const char *key, int value)
{
    uint32_t hash = hash_of(key);
    slot *s = slot_of(d, key, hash);
    if (s->key) {
        return s->value;
    }
    *s = (slot){key, hash, value};
    if (++d->count * 2 > d->room) {
        dict_grow(d);
    }
    return -1;
}
