/* Texts to files, all or nothing. Every changed file is staged beside its target; a failure removes
   the stages; else all are renamed, files of ops that are gone are removed, and the stamp is
   written last. Killed at any instant, every file is old or new.

   The stamp is OUT/.opgen: a digest of all input, then one line a file: digest, size, path. It
   tells what opgen wrote, and so what it may remove. A file that changed after the stamp is looked
   at again, so one that was edited or deleted comes back. */
#ifndef OPGEN_WRITE_H
#define OPGEN_WRITE_H

#include <stdbool.h>

#include "arena.h"
#include "digest.h"

/* Whether `folder` holds what opgen wrote from this input, untouched: then there is nothing to do.
 */
bool write_is_current(const char *folder, const digest *input);

/* One update of a folder, in which nothing is written before its end. Other runs on the folder wait
   from the beginning to the end. */
typedef struct update update;

/* NULL after a complaint. */
update *write_begin(arena *a, const char *folder, const digest *input);

/* A file that is to be there; a render_sink, `to` is the update. False if it was added before; that
   was printed. */
bool write_add(void *to, const char *path, const char *text, size_t size);

/* Makes the folder hold the files that were added, if `good`; it is freed either way. False if not
   good, or after a complaint: then the folder is as it was. */
bool write_end(update *u, bool good);

#endif
