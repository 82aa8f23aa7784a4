/* What the write stage does to folders and files in them. `dir` is an open folder, paths are
   relative to it. Functions that return false leave errno set. */
#ifndef OPGEN_FOLDER_H
#define OPGEN_FOLDER_H

#include <stdbool.h>

#include "arena.h"

/* A lock that lasts until the result is closed or the process ends: on the folder, or on the
   nearest one above it that is there. -1: the file system has none. */
int folder_lock(arena *a, const char *path);

/* Makes it and those above it; an open folder, or -1. */
int folder_create(const char *path);

/* Removes a folder with all that is in it. */
void folder_remove(const char *path);

/* The folders that `path` needs; and the same taken away again, where they are empty. */
bool folder_make_parents(int dir, const char *path);
void folder_drop_parents(int dir, const char *path);

/* The whole of a regular file, or NULL. */
char *folder_read(arena *a, int dir, const char *path, size_t *size);

/* Writes a whole new file. On failure there is none. It may not be on the disk yet: after a power
   failure, what was lost has another size than the stamp says, and is written again. */
bool folder_write(int dir, const char *path, const char *content, size_t size);

#endif
