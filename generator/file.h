/* Whole files, and what went wrong with one in one line. */
#ifndef OPGEN_FILE_H
#define OPGEN_FILE_H

#include <stdbool.h>

#include "arena.h"
#include "buffer.h"

/* Prints `opgen: PATH: why`, after errno, and returns false. */
bool file_complain(const char *path, const char *doing);

/* Appends the file's bytes. False with errno set. */
bool file_read(const char *path, buffer *into);
bool file_read_open(int fd, buffer *into); /* of an open file, which it closes */

/* Reads it for the rest of the run, a NUL behind its end. NULL after a complaint, also where it is
   far too large for a table or a template. */
char *file_load(arena *a, const char *path, size_t *size);

/* The names in a folder that end in `suffix`, in the order of their bytes. False after a complaint.
 */
typedef LIST(const char *) file_names;
bool file_list(arena *a, const char *folder, const char *suffix, file_names *names);

#endif
