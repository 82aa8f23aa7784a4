/* What opgen wrote into a folder, and from what: OUT/.opgen. And OUT/.opgen.work, which is there
   while it writes: the same lines, for the files that are being staged. */
#ifndef OPGEN_STAMP_H
#define OPGEN_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "buffer.h"
#include "digest.h"
#include "dict.h"

#define STAMP_NAME ".opgen"
#define STAMP_WORK ".opgen.work"

typedef struct stamp_entry {
    const char *path;
    long long size;
    char digest[DIGEST_LENGTH + 1];
} stamp_entry;

typedef struct stamp {
    char input[DIGEST_LENGTH + 1]; /* empty: none was read */
    LIST(stamp_entry) entries;
    dict *by_path; /* the first entry of a path; NULL until one is looked for */
    int next;      /* the entry behind the one that was found last */
} stamp;

/* Whether the stamp is of this input, by its first line. */
bool stamp_is_of(const char *path, const digest *input);

/* Empty if there is none, or one that this opgen did not write. Paths that lead out of the folder
   are left out. */
stamp *stamp_read(arena *a, const char *path);

/* Paths are mostly looked for in the order of the stamp. NULL: it has none of that path. */
const stamp_entry *stamp_find(arena *a, stamp *s, const char *path);

void stamp_print_head(buffer *into, const digest *input);
void stamp_print_entry(buffer *into, const char *hex, size_t size, const char *path);

#endif
