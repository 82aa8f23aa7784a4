#include "yaml_plain.h"

#include <string.h>

#include "dict.h"
#include "text.h"
#include "yaml_read.h"

/* A second reader beside libyaml is here for speed alone: libyaml's events take longer than all of
   opgen's checks. It stays small and decides nothing: what it takes, libyaml takes too, and
   makes the same tree of it (tests/generator/test_yaml_plain.py compares them); faults, and all
   that is rare, are libyaml's. So whoever here is not sure must say so.

   What is read: collections in block and flow style, comments, and scalars that end on the line
   where they begin, plain or quoted. Whoever meets something else says NULL or false, and so does
   the whole. Scalars lie in `copy`, which is the text with a NUL behind each of them; what is
   read is `text`, which stays as it is. Collections are gathered on two stacks. */
typedef struct reader {
    arena *memory;
    const char *text, *end;
    char *copy;
    const char *at, *line_start;
    int line, values;
    LIST(node *) items;
    LIST(pair) pairs;
} reader;

enum { MAP_SMALL = 16, KEY_MOST = 1000 /* libyaml takes 1024 characters */ };

static node *flow_read(reader *r, int depth);
static node *block_read(reader *r, int depth);

/* ---- characters ----------------------------------------------------------------------------- */

static bool
is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\0';
}

static int
column(const reader *r)
{
    return (int)(r->at - r->line_start);
}

static loc
here(const reader *r)
{
    return (loc){r->line, column(r) + 1};
}

/* To the next token, over spaces, comments and line ends. Marks and directives of documents begin
   at the start of a line. */
static bool
skip(reader *r)
{
    for (;;) {
        while (*r->at == ' ') {
            r->at++;
        }
        if (*r->at == '#') {
            if (r->at > r->line_start && r->at[-1] != ' ') {
                return false;
            }
            const char *line_end = memchr(r->at, '\n', (size_t)(r->end - r->at));
            r->at = line_end ? line_end : r->end;
        }
        if (*r->at != '\n') {
            break;
        }
        r->line_start = ++r->at;
        r->line++;
    }
    return column(r) > 0 ||
           (*r->at != '%' && strncmp(r->at, "---", 3) != 0 && strncmp(r->at, "...", 3) != 0);
}

/* Whether nothing but a comment follows on the line. */
static bool
line_ends(reader *r)
{
    while (*r->at == ' ') {
        r->at++;
    }
    return *r->at == '\n' || r->at == r->end || (*r->at == '#' && r->at[-1] == ' ');
}

/* ---- scalars -------------------------------------------------------------------------------- */

/* A key or a value. */
typedef struct scalar {
    const char *text;
    size_t size;
    loc where;
    bool quoted;
} scalar;

/* The scalar whose text is from `from` on in the copy, `size` bytes long. */
static scalar
scalar_take(reader *r, loc where, const char *from, size_t size, bool quoted)
{
    char *text = r->copy + (from - r->text);
    text[size] = '\0';
    return (scalar){text, size, where, quoted};
}

static node *
scalar_node(reader *r, const scalar *s)
{
    node *n = node_create(r->memory, NODE_SCALAR, s->where);
    n->text = s->text;
    n->size = (uint32_t)s->size;
    n->quoted = s->quoted;
    return n;
}

/* A byte of a plain scalar: one that may stand in it, one that may begin it too, one that has to be
   looked at, also inside of flow collections alone, and one that nothing is sure of. */
enum { INSIDE, BEGINS, LOOK, LOOK_FLOW, UNSURE };

/* clang-format off */
static const unsigned char plain_bytes[256] = {
    ['0' ... '9'] = BEGINS, ['A' ... 'Z'] = BEGINS, ['a' ... 'z'] = BEGINS, [0x80 ... 0xff] = BEGINS,
    ['_'] = BEGINS, ['.'] = BEGINS, ['('] = BEGINS, ['+'] = BEGINS, ['/'] = BEGINS, ['$'] = BEGINS,
    [' '] = LOOK, [':'] = LOOK, ['\n'] = LOOK, ['\0'] = LOOK, [','] = LOOK_FLOW, ['['] = LOOK_FLOW,
    [']'] = LOOK_FLOW, ['{'] = LOOK_FLOW, ['}'] = LOOK_FLOW, ['?'] = LOOK_FLOW,
    ['\t'] = UNSURE, ['\r'] = UNSURE,
};
/* clang-format on */

/* Where a plain scalar ends that goes on at `c`: before a line's end, a comment, the colon of a key
   or what separates in a flow collection. NULL: not sure. */
static const char *
plain_end(const char *c, bool flow)
{
    for (;; c++) {
        unsigned char kind = plain_bytes[(unsigned char)*c];
        if (kind <= BEGINS || (kind == LOOK_FLOW && !flow) || (*c == ' ' && c[1] != '#')) {
            continue;
        }
        bool ends = *c == ' ' || *c == '\n' || *c == '\0' || (*c == ':' && is_blank(c[1])) ||
                    *c == ',' || *c == ']' || *c == '}';
        return ends ? c : NULL;
    }
}

static bool
plain_read(reader *r, bool flow, scalar *s)
{
    const char *from = r->at;
    bool negative = *from == '-' && from[1] >= '0' && from[1] <= '9';
    const char *end =
        plain_bytes[(unsigned char)*from] == BEGINS || negative ? plain_end(from + 1, flow) : NULL;
    if (!end) {
        return false;
    }
    loc where = here(r);
    r->at = end;
    while (end[-1] == ' ') {
        end--;
    }
    *s = scalar_take(r, where, from, (size_t)(end - from), false);
    return true;
}

/* The character that a backslash and `c` stand for; NUL: not sure. */
static char
escaped(char c)
{
    return c == '"' || c == '\\' ? c : c == 'n' ? '\n' : c == 't' ? '\t' : '\0';
}

static bool
quoted_read(reader *r, scalar *s)
{
    const char *from = r->at + 1, *c = from;
    char quote = *r->at, *to = r->copy + (from - r->text);
    loc where = here(r);
    for (; *c != quote || (quote == '\'' && c[1] == quote); c++) {
        if (*c == '\n' || c == r->end) {
            return false;
        }
        char byte = *c;
        if (*c == quote) {
            c++;
        } else if (*c == '\\' && quote == '"') {
            byte = escaped(*++c);
            if (!byte) {
                return false;
            }
        }
        *to++ = byte;
    }
    r->at = c + 1;
    while (*r->at == ' ') {
        r->at++;
    }
    *s = scalar_take(r, where, from, (size_t)(to - (r->copy + (from - r->text))), true);
    return true;
}

static bool
scalar_read(reader *r, bool flow, scalar *s)
{
    if (r->values++ == YAML_VALUES) {
        return false;
    }
    return *r->at == '"' || *r->at == '\'' ? quoted_read(r, s) : plain_read(r, flow, s);
}

/* ---- collections ---------------------------------------------------------------------------- */

/* The items above `first` on the stack. */
static node *
list_finish(reader *r, loc where, int first)
{
    node *n = node_create(r->memory, NODE_LIST, where);
    int count = r->items.count - first;
    if (count) {
        size_t size = (size_t)count * sizeof *n->items.items;
        n->items.items = arena_alloc(r->memory, size);
        memcpy(n->items.items, r->items.items + first, size);
        n->items.count = n->items.room = count;
    }
    r->items.count = first;
    return n;
}

static node *
map_finish(reader *r, loc where, int first)
{
    node *n = node_create(r->memory, NODE_MAP, where);
    int count = r->pairs.count - first;
    if (count) {
        size_t size = (size_t)count * sizeof *n->pairs.items;
        n->pairs.items = arena_alloc(r->memory, size);
        memcpy(n->pairs.items, r->pairs.items + first, size);
        n->pairs.count = n->pairs.room = count;
    }
    r->pairs.count = first;
    return n;
}

/* Whether the map, whose pairs are those above `first`, has the key already. */
static bool
has_key(reader *r, int first, dict **seen, const char *key)
{
    int count = r->pairs.count - first;
    if (count < MAP_SMALL) {
        for (int i = first; i < r->pairs.count; i++) {
            if (text_same(r->pairs.items[i].key, key)) {
                return true;
            }
        }
        return false;
    }
    if (!*seen) {
        *seen = dict_create(r->memory);
        for (int i = first; i < r->pairs.count; i++) {
            dict_add(*seen, r->pairs.items[i].key, i);
        }
    }
    return dict_add(*seen, key, r->pairs.count) >= 0;
}

/* Whether a scalar that was just read is a key: then on behind its colon. What counts is how far
   that is from the key's first character, escapes and spaces too. */
static bool
is_key(reader *r, const scalar *s)
{
    int length = column(r) + 1 - s->where.column;
    bool is = *r->at == ':' && is_blank(r->at[1]) && length <= KEY_MOST;
    r->at += is;
    return is;
}

static bool
pair_push(reader *r, int first, dict **seen, const scalar *key, node *value)
{
    if (!value || has_key(r, first, seen, key->text)) {
        return false;
    }
    *list_push(r->memory, &r->pairs) = (pair){
        .key = key->text,
        .where = key->where,
        .quoted = key->quoted,
        .field = -1,
        .value = value,
    };
    return true;
}

/* ---- flow style ----------------------------------------------------------------------------- */

static node *
flow_value(reader *r, int depth)
{
    if (*r->at == '[' || *r->at == '{') {
        return flow_read(r, depth + 1);
    }
    scalar s;
    return scalar_read(r, true, &s) && *r->at != ':' ? scalar_node(r, &s) : NULL;
}

static bool
flow_pair(reader *r, int first, dict **seen, int depth)
{
    scalar key;
    return scalar_read(r, true, &key) && is_key(r, &key) && skip(r) &&
           pair_push(r, first, seen, &key, flow_value(r, depth));
}

static bool
flow_item(reader *r, int depth)
{
    node *n = flow_value(r, depth);
    if (n) {
        *list_push(r->memory, &r->items) = n;
    }
    return n != NULL;
}

/* From the bracket on to behind the other. A comma may stand behind the last element. */
static node *
flow_read(reader *r, int depth)
{
    bool map = *r->at == '{';
    char close = map ? '}' : ']';
    int first = map ? r->pairs.count : r->items.count;
    dict *seen = NULL;
    loc where = here(r);
    if (depth > YAML_DEPTH || r->values++ == YAML_VALUES) {
        return NULL;
    }
    r->at++;
    for (bool separated = true; skip(r);) {
        if (*r->at == close) {
            r->at++;
            return map ? map_finish(r, where, first) : list_finish(r, where, first);
        }
        if (!separated || !(map ? flow_pair(r, first, &seen, depth) : flow_item(r, depth)) ||
            !skip(r)) {
            return NULL;
        }
        separated = *r->at == ',';
        r->at += separated;
    }
    return NULL;
}

/* ---- block style ---------------------------------------------------------------------------- */

static bool
is_dash(const reader *r)
{
    return *r->at == '-' && is_blank(r->at[1]);
}

/* A scalar or a flow collection, and nothing behind it on its line. */
static node *
inline_read(reader *r, int depth)
{
    node *n = NULL;
    scalar s;
    if (*r->at == '[' || *r->at == '{') {
        n = flow_read(r, depth);
    } else if (scalar_read(r, false, &s)) {
        n = scalar_node(r, &s);
    }
    return n && line_ends(r) ? n : NULL;
}

/* The list whose first dash is at the reader. */
static node *
block_list(reader *r, int depth)
{
    int indent = column(r), first = r->items.count;
    loc where = here(r);
    while (is_dash(r)) {
        r->at++;
        if (!skip(r) || r->at == r->end || column(r) <= indent) {
            return NULL;
        }
        node *n = block_read(r, depth + 1);
        if (!n || !skip(r)) {
            return NULL;
        }
        *list_push(r->memory, &r->items) = n;
        if (r->at == r->end || column(r) < indent) {
            break;
        }
        if (column(r) > indent) {
            return NULL;
        }
    }
    return list_finish(r, where, first);
}

/* What stands behind the colon of a key of a map in column `indent`. A list may stand in the same
   column on the next line. */
static node *
block_value(reader *r, int indent, int depth)
{
    int line = r->line;
    if (!skip(r) || r->at == r->end) {
        return NULL;
    }
    if (r->line == line) {
        return inline_read(r, depth);
    }
    if (column(r) > indent) {
        return block_read(r, depth);
    }
    return column(r) == indent && is_dash(r) && depth <= YAML_DEPTH ? block_list(r, depth) : NULL;
}

/* The map in column `indent` whose first key, which is `key`, was just read. */
static node *
block_map(reader *r, int indent, scalar key, int depth)
{
    int first = r->pairs.count;
    dict *seen = NULL;
    loc where = key.where;
    for (;;) {
        node *value = block_value(r, indent, depth + 1);
        if (!pair_push(r, first, &seen, &key, value) || !skip(r)) {
            return NULL;
        }
        if (r->at == r->end || column(r) < indent) {
            return map_finish(r, where, first);
        }
        if (column(r) > indent || !scalar_read(r, false, &key) || !is_key(r, &key)) {
            return NULL;
        }
    }
}

/* Any node, from its first token on. Depth counts collections: the root's is 1. */
static node *
block_read(reader *r, int depth)
{
    if (depth > YAML_DEPTH || r->values++ == YAML_VALUES) {
        return NULL; /* for a scalar that is too cautious, and harmless */
    }
    if (is_dash(r)) {
        return block_list(r, depth);
    }
    if (*r->at == '[' || *r->at == '{') {
        return inline_read(r, depth);
    }
    int indent = column(r);
    scalar s;
    if (!scalar_read(r, false, &s)) {
        return NULL;
    }
    if (is_key(r, &s)) {
        return block_map(r, indent, s, depth);
    }
    return line_ends(r) ? scalar_node(r, &s) : NULL;
}

node *
yaml_plain_read(arena *a, const char *text, size_t size)
{
    reader r = {.memory = a, .text = text, .end = text + size, .line = 1};
    arena_mark start = arena_save(a);
    r.copy = arena_copy(a, text, size);
    r.at = r.line_start = text;
    node *root = skip(&r) && r.at < r.end ? block_read(&r, 1) : NULL;
    if (!root || root->kind == NODE_SCALAR || !skip(&r) || r.at < r.end) {
        arena_restore(a, start);
        return NULL;
    }
    return root;
}
