/* A row as JSON, its keys in the table's order: what the hash is of and the module embeds. */
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "json.h"

static void node_write(buffer *out, const node *n, field_kind kind, const fields *of);

/* A plain scalar of these kinds is what it looks like, of all others it is text. */
static bool
is_literal(const node *n, field_kind kind)
{
    bool truth = kind == KIND_BOOL || kind == KIND_LITERAL;
    bool number = kind == KIND_INT || kind == KIND_NUMBERS || kind == KIND_LITERAL;
    if (n->quoted) {
        return false;
    }
    if (truth && (strcmp(n->text, "true") == 0 || strcmp(n->text, "false") == 0)) {
        return true;
    }
    return number && (scalar_looks_int(n->text) || scalar_looks_real(n->text));
}

static void
scalar_write(buffer *out, const node *n, field_kind kind)
{
    if (!is_literal(n, kind)) {
        json_string(out, n->text);
    } else if (strpbrk(n->text, "xX")) {
        const char *hex = n->text + (*n->text == '-');
        buffer_print(out, "%s%llu", hex > n->text ? "-" : "", strtoull(hex, NULL, 16));
    } else {
        buffer_puts(out, n->text);
    }
}

static void
fields_write(buffer *out, const node *const *got, const fields *set)
{
    const char *separator = "{\"";
    for (int i = 0; i < set->count; i++) {
        const field *d = &set->items[i];
        if (got[i]) {
            buffer_puts(out, separator);
            buffer_puts(out, d->key);
            buffer_puts(out, "\": ");
            node_write(out, got[i], d->kind, d->form == FORM_MAP ? NULL : d->of);
            separator = ", \"";
        }
    }
    buffer_puts(out, *separator == '{' ? "{}" : "}");
}

static void
map_fields_write(buffer *out, const node *map, const fields *set)
{
    const node *got[FIELDS_MOST] = {NULL};
    for (int i = 0; i < map->pairs.count; i++) {
        got[map->pairs.items[i].field] = map->pairs.items[i].value;
    }
    fields_write(out, got, set);
}

static void
node_write(buffer *out, const node *n, field_kind kind, const fields *of)
{
    if (n->kind == NODE_SCALAR) {
        scalar_write(out, n, kind);
    } else if (n->kind == NODE_LIST) {
        buffer_putc(out, '[');
        for (int i = 0; i < n->items.count; i++) {
            buffer_puts(out, i ? ", " : "");
            node_write(out, n->items.items[i], kind, of);
        }
        buffer_putc(out, ']');
    } else if (of) {
        map_fields_write(out, n, of);
    } else {
        buffer_putc(out, '{');
        for (int i = 0; i < n->pairs.count; i++) {
            buffer_puts(out, i ? ", " : "");
            json_string(out, n->pairs.items[i].key);
            buffer_puts(out, ": ");
            node_write(out, n->pairs.items[i].value, kind, NULL);
        }
        buffer_putc(out, '}');
    }
}

static const char *
buffer_keep(arena *a, buffer *b)
{
    const char *kept = arena_copy(a, b->data, b->size);
    buffer_finish(b);
    return kept;
}

const char *
row_json(arena *a, const row *r)
{
    buffer out = {0}, rest = {0};
    buffer_puts(&out, "{\"op\": ");
    json_string(&out, r->name);
    if (r->family) {
        buffer_puts(&out, ", \"family\": ");
        json_string(&out, r->family);
    }
    fields_write(&rest, (const node *const *)r->fields + MEMBER_FIRST, &member_fields);
    buffer_puts(&out, ", ");
    buffer_add(&out, rest.data + 1, rest.size - 1);
    buffer_finish(&rest);
    return buffer_keep(a, &out);
}

const char *
table_json_head(arena *a, node *const *got)
{
    buffer out = {0};
    const char *separator = "{";
    for (int i = 0; i < TABLE_OPS; i++) {
        if (got[i]) {
            buffer_puts(&out, separator);
            json_string(&out, table_fields.items[i].key);
            buffer_puts(&out, ": ");
            node_write(&out, got[i], table_fields.items[i].kind, NULL);
            separator = ", ";
        }
    }
    buffer_putc(&out, '}');
    return buffer_keep(a, &out);
}
