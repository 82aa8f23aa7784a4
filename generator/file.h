/* Whole files, and what went wrong with one in one line. */
#ifndef OPGEN_FILE_H
#define OPGEN_FILE_H

#include <stdbool.h>

#include "arena.h"
#include "digest.h"

/* Prints `opgen: PATH: why`, after errno, and returns false. */
bool file_complain(const char *path, const char *doing);

/* The whole of a regular file, a NUL behind its end. NULL if it cannot be read. */
char *file_read(arena *a, const char *path, size_t *size);
char *file_read_open(arena *a, int fd, size_t *size); /* of an open file, which it closes */

/* Adds the file's bytes. False if it cannot be read. */
bool file_digest(const char *path, digest *d);

/* Reads it for the rest of the run, a NUL behind its end. NULL after a complaint, also where it is
   far too large for a table or a template, or where what has the name is a pipe, a socket or a
   device: but what is open already, as /dev/stdin, may be those. */
char *file_load(arena *a, const char *path, size_t *size);

/* The names in a folder that end in `suffix`, in the order of their bytes. False after a complaint.
 */
typedef LIST(const char *) file_names;
bool file_list(arena *a, const char *folder, const char *suffix, file_names *names);

#endif
