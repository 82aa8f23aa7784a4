/* What a YAML file says, before anything is known of its meaning: scalars, lists, maps, each with
   the place where it stands. */
#ifndef OPGEN_TREE_H
#define OPGEN_TREE_H

#include <stdint.h>

#include "arena.h"
#include "fault.h"

typedef enum node_kind {
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAP,
    NODE_BAD /* a fault was recorded for it; whoever meets it says nothing more */
} node_kind;

typedef struct node node;

typedef struct pair {
    const char *key;
    loc where; /* of the key */
    bool quoted;
    int field; /* which of the fields it was read as; set by fields_read */
    node *value;
} pair;

struct node {
    node_kind kind : 8;
    bool quoted; /* anything but plain */
    bool block;  /* literal or folded */
    uint32_t size;
    loc where;
    union {               /* by the kind; of a scalar, both counts are 0 */
        const char *text; /* NUL-terminated, without NULs inside */
        LIST(node *) items;
        LIST(pair) pairs;
    };
};

node *node_create(arena *a, node_kind kind, loc where);
/* Nothing was written: `key:`. */
bool node_is_null(const node *n);
/* Where the text of a scalar begins: after the quote. */
loc node_text_loc(const node *n);
/* "a list", "a map", "text", "nothing": for messages. */
const char *node_describe(const node *n);
/* The pair of a map, or NULL. */
const pair *node_find(const node *map, const char *key);

#endif
