/* C strings and comments, and lines of C that are too long, laid out as clang-format does. */
#ifndef OPGEN_ENCODE_C_H
#define OPGEN_ENCODE_C_H

#include "buffer.h"

enum { C_COLUMNS = 100 };

void encode_c_string(buffer *out, const char *text);
void encode_c_comment(buffer *out, const char *text);

/* Breaks the last line of `out`, from `start` on, if it is too long: a call or declaration after
   its first parenthesis, with its arguments filled in; an initialiser after its brace, one element
   a line; an element in braces aligned behind its brace. */
void encode_c_fill(buffer *out, size_t start, buffer *scratch);

#endif
