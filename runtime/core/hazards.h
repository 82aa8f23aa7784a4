/* Which items of a list have to come after which, by the bytes that they read and write. No plan of
   memory is asked: what shares bytes is in order, whatever shares them and why. No Python. */
#ifndef AICF_CORE_HAZARDS_H
#define AICF_CORE_HAZARDS_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes [first, end), all of those that a tensor's elements lie among. */
typedef struct extent {
    uintptr_t first, end;
    bool written; /* also where it is read as well */
} extent;

/* What nothing passes, in either direction. */
#define HAZARDS_ALL ((extent){0, UINTPTR_MAX, true})

typedef struct hazards hazards;

/* For so many items at most, that use some of these extents and no others. NULL: no memory. */
hazards *hazards_create(int64_t items, const extent *all, int64_t count);
void hazards_free(hazards *h);

/* The next item: begun, told of, ended. Before the end it may be asked of as well. False: no
   memory, and there is no going on. */
bool hazards_begin(hazards *h);
/* After all that wrote what it reads, and that read or wrote what it writes. */
bool hazards_uses(hazards *h, const extent *of, int64_t count);
/* After that one as well. */
void hazards_follow(hazards *h, int64_t item);
/* Whether that one is certainly done before it. */
bool hazards_is_past(const hazards *h, int64_t item);
void hazards_end(hazards *h);

/* Those that an item directly follows, the last first; no one of them follows another. Of the item
   that is begun too. */
const int32_t *hazards_of(const hazards *h, int64_t item, int64_t *count);

#endif
