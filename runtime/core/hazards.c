#include "hazards.h"

#include <stdlib.h>

typedef struct item {
    uintptr_t low, high; /* all of its extents lie between */
    int64_t extents;     /* the end of its own, which begin where those before it end */
    int64_t after;       /* likewise of those that it follows */
} item;

struct hazards {
    int64_t count; /* of items that are ended */
    int64_t words; /* of a set of items */
    item *items;   /* behind an empty one */
    extent *extents;
    uint64_t *past; /* a set for each item: all that are done before it */
    int32_t *after;
    int64_t room; /* of `after` */
};

enum { WORD = 64 };

hazards *
hazards_create(int64_t items, int64_t extents)
{
    hazards *h = calloc(1, sizeof *h);
    if (!h) {
        return NULL;
    }
    h->words = (items + WORD - 1) / WORD;
    h->room = 4 * items;
    h->items = calloc((size_t)items + 1, sizeof *h->items);
    h->extents = calloc((size_t)extents + 1, sizeof *h->extents);
    h->past = calloc((size_t)(items * h->words) + 1, sizeof *h->past);
    h->after = calloc((size_t)h->room + 1, sizeof *h->after);
    if (!h->items || !h->extents || !h->past || !h->after) {
        hazards_free(h);
        return NULL;
    }
    return h;
}

void
hazards_free(hazards *h)
{
    if (h) {
        free(h->items);
        free(h->extents);
        free(h->past);
        free(h->after);
        free(h);
    }
}

static inline item *
item_of(const hazards *h, int64_t i)
{
    return &h->items[i + 1];
}

static inline uint64_t *
past_of(const hazards *h, int64_t i)
{
    return h->past + i * h->words;
}

static inline bool
is_in(const uint64_t *set, int64_t i)
{
    return set[i / WORD] >> (i % WORD) & 1;
}

bool
hazards_is_past(const hazards *h, int64_t i)
{
    return is_in(past_of(h, h->count), i);
}

const int32_t *
hazards_of(const hazards *h, int64_t i, int64_t *count)
{
    int64_t begin = item_of(h, i - 1)->after;
    *count = item_of(h, i)->after - begin;
    return h->after + begin;
}

bool
hazards_begin(hazards *h)
{
    const item *before = item_of(h, h->count - 1);
    int64_t most = before->after + h->count; /* it follows no more than there are */
    if (most > h->room) {
        int32_t *more = realloc(h->after, 2 * (size_t)most * sizeof *more);
        if (!more) {
            return false;
        }
        h->after = more;
        h->room = 2 * most;
    }
    *item_of(h, h->count) = (item){UINTPTR_MAX, 0, before->extents, before->after};
    return true;
}

/* ---- what it follows ------------------------------------------------------------------------- */

/* Those that it follows already and that are past by this one are left out. */
void
hazards_follow(hazards *h, int64_t other)
{
    item *now = item_of(h, h->count);
    uint64_t *past = past_of(h, h->count);
    const uint64_t *theirs = past_of(h, other);
    if (is_in(past, other)) {
        return;
    }
    int64_t kept = item_of(h, h->count - 1)->after, at;
    for (int64_t i = kept; i < now->after; i++) {
        if (!is_in(theirs, h->after[i])) {
            h->after[kept++] = h->after[i];
        }
    }
    for (at = kept; at > item_of(h, h->count - 1)->after && h->after[at - 1] < other; at--) {
        h->after[at] = h->after[at - 1];
    }
    h->after[at] = (int32_t)other;
    now->after = kept + 1;
    for (int64_t w = 0; w < h->words; w++) {
        past[w] |= theirs[w];
    }
    past[other / WORD] |= UINT64_C(1) << (other % WORD);
}

static bool
meets(const hazards *h, int64_t other, const extent *of, int64_t count)
{
    const extent *theirs = h->extents + item_of(h, other - 1)->extents;
    const extent *end = h->extents + item_of(h, other)->extents;
    for (; theirs < end; theirs++) {
        for (int64_t i = 0; i < count; i++) {
            if (of[i].first < theirs->end && theirs->first < of[i].end &&
                (of[i].written || theirs->written)) {
                return true;
            }
        }
    }
    return false;
}

/* From the last one back, so that most of those before are past when they are come to. */
void
hazards_uses(hazards *h, const extent *of, int64_t count)
{
    item *now = item_of(h, h->count);
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int64_t i = 0; i < count; i++) {
        low = of[i].first < low ? of[i].first : low;
        high = of[i].end > high ? of[i].end : high;
        h->extents[now->extents++] = of[i];
    }
    const uint64_t *past = past_of(h, h->count);
    for (int64_t other = h->count - 1; other >= 0; other--) {
        const item *theirs = item_of(h, other);
        if (theirs->low < high && low < theirs->high && !is_in(past, other) &&
            meets(h, other, of, count)) {
            hazards_follow(h, other);
        }
    }
    now->low = low < now->low ? low : now->low;
    now->high = high > now->high ? high : now->high;
}

void
hazards_end(hazards *h)
{
    h->count++;
}
