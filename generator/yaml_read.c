#include "yaml_read.h"

#include <string.h>
#include <yaml.h>

#include "dict.h"
#include "yaml_plain.h"

/* libyaml counts characters; `offset` is where character number `index` begins. Marks mostly come
   in the order of the file, so walking on from the last one costs one pass over the text in all. */
typedef struct cursor {
    size_t index, offset, line_start;
} cursor;

typedef struct reader {
    arena *memory;
    faults *faults;
    const char *text;
    size_t size;
    yaml_parser_t parser;
    cursor at;
    int values;
    bool stopped; /* nothing more can be read */
} reader;

static const context nowhere = {NULL, NULL};

static loc
reader_loc(reader *r, yaml_mark_t mark)
{
    cursor at = mark.index < r->at.index ? (cursor){0} : r->at;
    while (at.index < mark.index && at.offset < r->size) {
        if (r->text[at.offset++] == '\n') {
            at.line_start = at.offset;
        }
        while (at.offset < r->size && ((unsigned char)r->text[at.offset] & 0xc0) == 0x80) {
            at.offset++;
        }
        at.index++;
    }
    r->at = at;
    return (loc){(int)mark.line + 1, (int)(at.offset - at.line_start) + 1};
}

/* ---- characters, before libyaml sees them ---------------------------------------------------- */

/* The bytes of the character at `s`, 0 if they are no UTF-8; `code` is its number. */
static size_t
utf8_decode(const unsigned char *s, size_t size, unsigned *code)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t count = *s < 0x80   ? 1
                   : *s < 0xc0 ? 0
                   : *s < 0xe0 ? 2
                   : *s < 0xf0 ? 3
                   : *s < 0xf8 ? 4
                               : 0;
    if (count == 0 || count > size) {
        return 0;
    }
    *code = count == 1 ? *s : *s & (0x7fU >> count);
    for (size_t i = 1; i < count; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
        *code = *code << 6 | (s[i] & 0x3f);
    }
    bool bad = *code < least[count] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000);
    return bad ? 0 : count;
}

/* Only \n and \r\n end a line here: libyaml's further line ends would make its lines not ours. */
static bool
character_allowed(unsigned code, bool before_newline)
{
    if (code == '\r') {
        return before_newline;
    }
    return code == '\t' || code == '\n' || (code >= 0x20 && code < 0x7f) ||
           (code >= 0xa0 && code != 0x2028 && code != 0x2029 && code != 0xfeff && code < 0xfffe) ||
           (code >= 0x10000);
}

/* The first byte that no table may have, as a fault at its line and column. */
static bool
characters_check(faults *f, const char *text, size_t size)
{
    int line = 1;
    size_t start = 0;
    for (size_t i = 0; i < size;) {
        if (text[i] >= 0x20 && text[i] < 0x7f) { /* nearly all of it */
            i++;
            continue;
        }
        unsigned code = 0;
        size_t count = utf8_decode((const unsigned char *)text + i, size - i, &code);
        loc where = {line, (int)(i - start) + 1};
        if (count == 0) {
            return fault(
                f, "bad-utf8", where, nowhere, "byte 0x%02x is not UTF-8 here",
                (unsigned char)text[i]);
        }
        if (!character_allowed(code, i + 1 < size && text[i + 1] == '\n')) {
            return fault(
                f, "bad-character", where, nowhere, "character U+%04X must not stand in a table%s",
                code, code == 0xfeff ? ": save it without a byte order mark" : "");
        }
        i += count;
        if (code == '\n') {
            line++;
            start = i;
        }
    }
    return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void
syntax_fault(reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem ? p->problem : "this is no YAML";
    loc where = reader_loc(r, p->problem_mark);
    fault(r->faults, "yaml-syntax", where, nowhere, "%s", problem);
    if (p->context && p->context_mark.index < p->problem_mark.index) {
        fault_also(r->faults, reader_loc(r, p->context_mark), "%s from here", p->context);
    }
    r->stopped = true;
}

/* False at the end of what can be read. */
static bool
event_next(reader *r, yaml_event_t *event)
{
    r->stopped |= faults_full(r->faults);
    if (r->stopped) {
        return false;
    }
    if (!yaml_parser_parse(&r->parser, event)) {
        syntax_fault(r);
        return false;
    }
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

enum { MAP_SMALL = 16 };

static node *node_read(reader *r, yaml_event_t *event, int depth);

static void
extras_check(reader *r, loc where, const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor) {
        fault(
            r->faults, "anchor", where, nowhere,
            "anchors are not part of the table's language: `&%s`", (const char *)anchor);
    }
    if (tag) {
        fault(
            r->faults, "tag", where, nowhere, "tags are not part of the table's language: `%s`",
            (const char *)tag);
    }
}

static node *
scalar_read(reader *r, const yaml_event_t *event, loc where)
{
    node *n = node_create(r->memory, NODE_SCALAR, where);
    size_t size = event->data.scalar.length;
    n->text = arena_copy(r->memory, (const char *)event->data.scalar.value, size);
    n->size = (uint32_t)size;
    n->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    n->block = event->data.scalar.style == YAML_LITERAL_SCALAR_STYLE ||
               event->data.scalar.style == YAML_FOLDED_SCALAR_STYLE;
    extras_check(r, where, event->data.scalar.anchor, event->data.scalar.tag);
    if (memchr(n->text, '\0', size)) {
        fault(r->faults, "nul", where, nowhere, "a text cannot hold the character NUL");
        n->kind = NODE_BAD;
    }
    return n;
}

static void
list_read(reader *r, node *list, int depth)
{
    yaml_event_t event;
    while (event_next(r, &event)) {
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!end) {
            *list_push(r->memory, &list->items) = node_read(r, &event, depth);
        }
        yaml_event_delete(&event);
        if (end) {
            return;
        }
    }
}

static bool
key_check(reader *r, const node *key)
{
    if (key->kind == NODE_BAD) {
        return false;
    }
    if (key->kind != NODE_SCALAR) {
        return fault(
            r->faults, "complex-key", key->where, nowhere, "a key must be text, this is %s",
            node_describe(key));
    }
    if (strcmp(key->text, "<<") == 0 && !key->quoted) {
        return fault(
            r->faults, "merge-key", key->where, nowhere,
            "merge keys are not part of the table's language");
    }
    return true;
}

/* Where the key is already, or -1. Small maps are looked through, large ones get a dict. */
static int
key_first(reader *r, const node *map, dict **seen, const char *key)
{
    int count = map->pairs.count;
    if (count < MAP_SMALL) {
        const pair *p = node_find(map, key);
        return p ? (int)(p - map->pairs.items) : -1;
    }
    if (!*seen) {
        *seen = dict_create(r->memory);
        for (int i = 0; i < count; i++) {
            dict_add(*seen, map->pairs.items[i].key, i);
        }
    }
    return dict_add(*seen, key, count);
}

static void
pair_add(reader *r, node *map, dict **seen, const node *key, node *value)
{
    if (!key_check(r, key)) {
        return;
    }
    int first = key_first(r, map, seen, key->text);
    if (first >= 0) {
        fault(
            r->faults, "duplicate-key", key->where, nowhere, "key `%s` is here a second time",
            key->text);
        fault_also(r->faults, map->pairs.items[first].where, "the first one is here");
        return;
    }
    *list_push(r->memory, &map->pairs) = (pair){
        .key = key->text,
        .where = key->where,
        .quoted = key->quoted,
        .field = -1,
        .value = value,
    };
}

static void
map_read(reader *r, node *map, int depth)
{
    dict *seen = NULL;
    node *key = NULL;
    yaml_event_t event;
    while (event_next(r, &event)) {
        bool end = event.type == YAML_MAPPING_END_EVENT;
        if (!end) {
            node *n = node_read(r, &event, depth);
            if (key) {
                pair_add(r, map, &seen, key, n);
            }
            key = key ? NULL : n;
        }
        yaml_event_delete(&event);
        if (end) {
            return;
        }
    }
}

static node *
collection_read(reader *r, const yaml_event_t *event, loc where, int depth)
{
    bool map = event->type == YAML_MAPPING_START_EVENT;
    node *n = node_create(r->memory, map ? NODE_MAP : NODE_LIST, where);
    if (depth > YAML_DEPTH) {
        fault(r->faults, "too-deep", where, nowhere, "nested more than %d deep", YAML_DEPTH);
        r->stopped = true;
        return n;
    }
    if (map) {
        extras_check(r, where, event->data.mapping_start.anchor, event->data.mapping_start.tag);
        map_read(r, n, depth + 1);
    } else {
        extras_check(r, where, event->data.sequence_start.anchor, event->data.sequence_start.tag);
        list_read(r, n, depth + 1);
    }
    return n;
}

/* Depth counts collections: the root's is 1. */
static node *
node_read(reader *r, yaml_event_t *event, int depth)
{
    loc where = reader_loc(r, event->start_mark);
    if (r->values++ == YAML_VALUES && !r->stopped) {
        r->stopped = true;
        fault(
            r->faults, "too-many-values", where, nowhere, "a table has at most %d keys and values",
            YAML_VALUES);
    }
    if (event->type == YAML_SCALAR_EVENT) {
        return scalar_read(r, event, where);
    }
    if (event->type == YAML_ALIAS_EVENT) {
        fault(
            r->faults, "alias", where, nowhere,
            "aliases are not part of the table's language: `*%s`",
            (const char *)event->data.alias.anchor);
        return node_create(r->memory, NODE_BAD, where);
    }
    return collection_read(r, event, where, depth);
}

/* ---- the document ---------------------------------------------------------------------------- */

static void
document_start(reader *r, const yaml_event_t *event, bool second)
{
    loc where = reader_loc(r, event->start_mark);
    if (second) {
        fault(
            r->faults, "second-document", where, nowhere,
            "a table is one document, a second begins");
        r->stopped = true;
    } else if (
        event->data.document_start.version_directive ||
        event->data.document_start.tag_directives.start !=
            event->data.document_start.tag_directives.end) {
        fault(
            r->faults, "directive", where, nowhere,
            "directives are not part of the table's language");
    }
}

static node *
stream_read(reader *r)
{
    node *root = NULL;
    yaml_event_t event;
    while (event_next(r, &event)) {
        bool end = event.type == YAML_STREAM_END_EVENT;
        if (event.type == YAML_DOCUMENT_START_EVENT) {
            document_start(r, &event, root != NULL);
        } else if (
            !end && event.type != YAML_STREAM_START_EVENT &&
            event.type != YAML_DOCUMENT_END_EVENT) {
            root = node_read(r, &event, 1);
        }
        yaml_event_delete(&event);
        if (end) {
            break;
        }
    }
    return root;
}

node *
yaml_read_events(arena *a, faults *f, const char *text, size_t size)
{
    reader r = {.memory = a, .faults = f, .text = text, .size = size};
    if (!yaml_parser_initialize(&r.parser)) {
        die("libyaml cannot start");
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    node *root = stream_read(&r);
    yaml_parser_delete(&r.parser);
    if (!r.stopped && (!root || node_is_null(root))) {
        fault(f, "empty-document", (loc){1, 1}, nowhere, "the file has no table in it");
        return NULL;
    }
    return r.stopped ? NULL : root;
}

node *
yaml_read(arena *a, faults *f, const char *text, size_t size)
{
    if (!characters_check(f, text, size)) {
        return NULL;
    }
    node *root = yaml_plain_read(a, text, size);
    return root ? root : yaml_read_events(a, f, text, size);
}
