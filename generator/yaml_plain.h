/* The YAML that tables are mostly written in, read without libyaml, in a fifth of its time. */
#ifndef OPGEN_YAML_PLAIN_H
#define OPGEN_YAML_PLAIN_H

#include "tree.h"

/* The tree that yaml_read would make with libyaml's events; NULL where the text has anything that
   this reader is not sure of, be it a fault or a style of YAML: then nothing was recorded. `text`
   has only characters that a table may have, and a NUL behind its end. */
node *yaml_plain_read(arena *a, const char *text, size_t size);

#endif
