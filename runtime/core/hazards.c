#include "hazards.h"

#include <stdlib.h>

/* Bytes between two neighbours of all that extents begin and end at. */
typedef struct segment {
    int32_t writer;  /* the last, NONE: nobody wrote it */
    int32_t readers; /* since then, the last one's entry */
} segment;

typedef struct reader {
    int32_t item, next;
} reader;

struct hazards {
    int64_t count;   /* of items that are ended */
    int64_t words;   /* of a set of items */
    uint64_t *past;  /* a set for each item: all that are done before it */
    int64_t *begins; /* of an item's part of `after`, which ends where the next one's begins */
    int32_t *after;
    int64_t after_room;
    uintptr_t *bounds; /* each once, sorted */
    int64_t bound_count;
    segment *segments; /* one behind each bound */
    reader *readers;
    int64_t reader_count, reader_room;
};

enum { WORD = 64, NONE = -1 };

static int
compare(const void *a, const void *b)
{
    uintptr_t one = *(const uintptr_t *)a, other = *(const uintptr_t *)b;
    return one < other ? -1 : one > other;
}

static void
find_bounds(hazards *h, const extent *all, int64_t count)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        h->bounds[2 * i] = all[i].first;
        h->bounds[2 * i + 1] = all[i].end;
    }
    qsort(h->bounds, (size_t)(2 * count), sizeof *h->bounds, compare);
    for (int64_t i = 0; i < 2 * count; i++) {
        if (!kept || h->bounds[kept - 1] != h->bounds[i]) {
            h->segments[kept] = (segment){NONE, NONE};
            h->bounds[kept++] = h->bounds[i];
        }
    }
    h->bound_count = kept;
}

hazards *
hazards_create(int64_t items, const extent *all, int64_t count)
{
    size_t bounds = 2 * (size_t)count + 1;
    hazards *h = calloc(1, sizeof *h);
    if (!h) {
        return NULL;
    }
    h->words = (items + WORD - 1) / WORD;
    h->past = calloc((size_t)(items * h->words) + 1, sizeof *h->past);
    h->begins = calloc((size_t)items + 1, sizeof *h->begins);
    h->bounds = malloc(bounds * sizeof *h->bounds);
    h->segments = malloc(bounds * sizeof *h->segments);
    if (!h->past || !h->begins || !h->bounds || !h->segments) {
        hazards_free(h);
        return NULL;
    }
    find_bounds(h, all, count);
    return h;
}

void
hazards_free(hazards *h)
{
    if (h) {
        free(h->past);
        free(h->begins);
        free(h->after);
        free(h->bounds);
        free(h->segments);
        free(h->readers);
        free(h);
    }
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
    *count = h->begins[i + 1] - h->begins[i];
    return h->after + h->begins[i];
}

bool
hazards_begin(hazards *h)
{
    int64_t begin = h->begins[h->count], most = begin + h->count; /* it follows no more */
    if (most >= h->after_room) {
        int64_t room = 2 * most + WORD;
        int32_t *more = realloc(h->after, (size_t)room * sizeof *more);
        if (!more) {
            return false;
        }
        h->after = more;
        h->after_room = room;
    }
    h->begins[h->count + 1] = begin;
    return true;
}

void
hazards_end(hazards *h)
{
    h->count++;
}

/* ---- what it follows ------------------------------------------------------------------------- */

/* Those that it follows already and that are past by this one are left out. */
void
hazards_follow(hazards *h, int64_t other)
{
    uint64_t *past = past_of(h, h->count);
    const uint64_t *theirs = past_of(h, other);
    int64_t begin = h->begins[h->count], end = h->begins[h->count + 1];
    if (is_in(past, other)) {
        return;
    }
    int64_t kept = begin, at;
    for (int64_t i = begin; i < end; i++) {
        if (!is_in(theirs, h->after[i])) {
            h->after[kept++] = h->after[i];
        }
    }
    for (at = kept; at > begin && h->after[at - 1] < other; at--) {
        h->after[at] = h->after[at - 1];
    }
    h->after[at] = (int32_t)other;
    h->begins[h->count + 1] = kept + 1;
    for (int64_t w = 0; w < h->words; w++) {
        past[w] |= theirs[w];
    }
    past[other / WORD] |= UINT64_C(1) << (other % WORD);
}

static bool
read_segment(hazards *h, segment *s)
{
    if (h->reader_count == h->reader_room) {
        int64_t room = 2 * h->reader_room + WORD;
        reader *more = realloc(h->readers, (size_t)room * sizeof *more);
        if (!more) {
            return false;
        }
        h->readers = more;
        h->reader_room = room;
    }
    h->readers[h->reader_count] = (reader){(int32_t)h->count, s->readers};
    s->readers = (int32_t)h->reader_count++;
    return true;
}

static void
write_segment(hazards *h, segment *s)
{
    for (int32_t at = s->readers; at != NONE; at = h->readers[at].next) {
        if (h->readers[at].item != h->count) {
            hazards_follow(h, h->readers[at].item);
        }
    }
    *s = (segment){(int32_t)h->count, NONE};
}

/* The bound that is this address. */
static int64_t
bound_of(const hazards *h, uintptr_t address)
{
    int64_t low = 0, high = h->bound_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (h->bounds[middle] < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool
hazards_uses(hazards *h, const extent *of, int64_t count)
{
    bool kept = true;
    for (int64_t i = 0; i < count; i++) {
        segment *s = h->segments + bound_of(h, of[i].first);
        segment *end = h->segments + bound_of(h, of[i].end);
        for (; s < end && kept; s++) {
            if (s->writer != NONE && s->writer != h->count) {
                hazards_follow(h, s->writer);
            }
            if (of[i].written) {
                write_segment(h, s);
            } else {
                kept = read_segment(h, s);
            }
        }
    }
    return kept;
}
