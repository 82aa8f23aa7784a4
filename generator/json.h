/* JSON, for the row that a module embeds and everything else that speaks it. */
#ifndef OPGEN_JSON_H
#define OPGEN_JSON_H

#include "buffer.h"

/* Quoted and escaped; non-ASCII characters stay UTF-8. */
void json_string(buffer *out, const char *text);

#endif
