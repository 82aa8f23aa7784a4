/* Lines of Python, laid out as its formatters do. */
#ifndef OPGEN_PYTHON_LINE_H
#define OPGEN_PYTHON_LINE_H

#include "buffer.h"

enum { PYTHON_COLUMNS = 100, PYTHON_INDENT = 4 };

/* Starts a line so far in; gives where it starts. */
size_t python_line_begin(buffer *out, int indent);

/* Ends the line that starts there. If it is too long it is broken inside its last brackets: what
   stands in them goes on a line of its own, else on one a comma. */
void python_line_end(buffer *out, size_t start);

/* "A = x", which is never too long. */
void python_assign(buffer *out, int indent, const char *to, const char *value);

/* A whole line. */
void
python_line(buffer *out, int indent, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
