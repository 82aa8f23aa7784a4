/* Texts to files, all or nothing. Every changed file is staged beside its target; a failure removes
   the stages; else all are renamed, files of ops that are gone are removed, and the stamp is written
   last. Killed at any instant, every file is old or new.

   The stamp is OUT/.opgen: a digest of all input, then one line a file: digest, size, path. It tells
   what opgen wrote, and so what it may remove. A file that changed after the stamp is looked at again,
   so one that was edited or deleted comes back. */
#ifndef OPGEN_WRITE_H
#define OPGEN_WRITE_H

#include "digest.h"
#include "render.h"

/* Whether `folder` holds what opgen wrote from this input, untouched: then there is nothing to do. */
bool write_is_current(const char *folder, const digest *input);

/* False after a complaint; then the folder is as it was. */
bool write_outputs(arena *a, const char *folder, const digest *input, const outputs *all);

#endif
