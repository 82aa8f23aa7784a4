#include "tree.h"

#include <string.h>

#include "text.h"

node *
node_create(arena *a, node_kind kind, loc where)
{
    node *n = arena_alloc(a, sizeof *n);
    n->kind = kind;
    n->where = where;
    return n;
}

bool
node_is_null(const node *n)
{
    return n->kind == NODE_SCALAR && n->size == 0 && !n->quoted;
}

loc
node_text_loc(const node *n)
{
    loc where = n->where;
    where.column += n->quoted && !n->block;
    return where;
}

const char *
node_describe(const node *n)
{
    if (node_is_null(n)) {
        return "nothing";
    }
    static const char *const words[] = {
        [NODE_SCALAR] = "text",
        [NODE_LIST] = "a list",
        [NODE_MAP] = "a map",
        [NODE_BAD] = "a faulty value",
    };
    return words[n->kind];
}

const pair *
node_find(const node *map, const char *key)
{
    for (int i = 0; i < map->pairs.count; i++) {
        if (text_same(map->pairs.items[i].key, key)) {
            return &map->pairs.items[i];
        }
    }
    return NULL;
}
