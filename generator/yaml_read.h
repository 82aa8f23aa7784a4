/* Strict YAML: UTF-8, one document, maps and lists and scalars in block or flow style. Duplicate
   keys, anchors, aliases, tags, directives, merge keys and nesting over 16 are faults. */
#ifndef OPGEN_YAML_READ_H
#define OPGEN_YAML_READ_H

#include "tree.h"

/* Values: what fifteen thousand rows have. A tree of them takes 150 MB. */
enum { YAML_DEPTH = 16, YAML_VALUES = 1250000 };

/* NULL where the text cannot be read on; else a tree, even if some faults were recorded, so that
   the check can report the others too. A NUL stands behind the end of `text`. */
node *yaml_read(arena *a, faults *f, const char *text, size_t size);

/* The same by libyaml's events alone, of a text whose characters were looked at. */
node *yaml_read_events(arena *a, faults *f, const char *text, size_t size);

#endif
