/* The vocabulary as a JSON schema, so that editors know it: made of the same table as the reader */
#include <stdio.h>

#include "commands.h"
#include "fields.h"
#include "json.h"

static void
put_words(buffer *out, const char *const *words)
{
    buffer_puts(out, "{\"enum\": [");
    for (int i = 0; words[i]; i++) {
        buffer_print(out, "%s\"%s\"", i ? ", " : "", words[i]);
    }
    buffer_puts(out, "]}");
}

static void
put_layout(buffer *out)
{
    put_words(out, layout_words);
    buffer_puts(out, ", {\"type\": \"array\", \"minItems\": 1, \"items\": ");
    put_words(out, layout_words);
    buffer_puts(out, "}");
}

/* A schema of one value. */
static void
put_kind(buffer *out, const field *f)
{
    switch (f->kind) {
    case KIND_TEXT:
    case KIND_NAME:
    case KIND_SHAPE:
    case KIND_DTYPE:
    case KIND_CALL:
    case KIND_GRAD:
    case KIND_CASE:
    case KIND_PATH: buffer_puts(out, "{\"type\": \"string\"}"); break;
    case KIND_EXPR: buffer_puts(out, "{\"type\": [\"string\", \"number\", \"boolean\"]}"); break;
    case KIND_WORD: put_words(out, f->words); break;
    case KIND_BOOL: buffer_puts(out, "{\"type\": \"boolean\"}"); break;
    case KIND_INT: buffer_puts(out, "{\"type\": \"integer\"}"); break;
    case KIND_LITERAL:
        buffer_puts(
            out, "{\"anyOf\": [{\"type\": [\"number\", \"boolean\", \"string\"]}, "
                 "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}]}");
        break;
    case KIND_DTYPES:
        buffer_puts(
            out, "{\"anyOf\": [{\"type\": \"string\"}, "
                 "{\"type\": \"array\", \"items\": {\"type\": \"string\"}}]}");
        break;
    case KIND_CLASS:
        buffer_puts(
            out, "{\"anyOf\": [{\"type\": \"array\", \"items\": {\"type\": \"string\"}}, "
                 "{\"type\": \"object\", \"additionalProperties\": {\"type\": \"string\"}}]}");
        break;
    case KIND_LAYOUT:
        buffer_puts(out, "{\"anyOf\": [");
        put_layout(out);
        buffer_puts(out, "]}");
        break;
    case KIND_LAYOUTS:
        buffer_puts(out, "{\"anyOf\": [");
        put_layout(out);
        buffer_puts(out, ", {\"type\": \"object\", \"additionalProperties\": {\"anyOf\": [");
        put_layout(out);
        buffer_puts(out, "]}}]}");
        break;
    case KIND_NAMES:
        buffer_puts(out, "{\"type\": \"array\", \"items\": {\"type\": \"string\"}}");
        break;
    case KIND_NUMBERS:
        buffer_puts(
            out, "{\"type\": \"array\", \"items\": {\"type\": \"number\"}, \"minItems\": 2, "
                 "\"maxItems\": 2}");
        break;
    case KIND_FIELDS: buffer_print(out, "{\"$ref\": \"#/$defs/%s\"}", f->of->name); break;
    }
}

static void
put_form(buffer *out, const field *f)
{
    switch (f->form) {
    case FORM_ONE: put_kind(out, f); return;
    case FORM_LIST: buffer_puts(out, "{\"type\": \"array\", \"items\": "); break;
    case FORM_SOME: buffer_puts(out, "{\"type\": \"array\", \"minItems\": 1, \"items\": "); break;
    case FORM_MAP:
        buffer_puts(out, "{\"type\": \"object\", \"minProperties\": 1, \"additionalProperties\": ");
        break;
    }
    put_kind(out, f);
    buffer_putc(out, '}');
}

static void
put_field(buffer *out, const field *f)
{
    buffer_print(out, "    \"%s\": {\"description\": ", f->key);
    json_string(out, f->doc);
    buffer_puts(out, ", \"allOf\": [");
    put_form(out, f);
    buffer_puts(out, "]}");
}

static void
put_required(buffer *out, const fields *set)
{
    const char *between = "";
    buffer_puts(out, "\"required\": [");
    for (int i = 0; i < set->count; i++) {
        if (set->items[i].required) {
            buffer_print(out, "%s\"%s\"", between, set->items[i].key);
            between = ", ";
        }
    }
    buffer_putc(out, ']');
}

/* An object with these fields and no others. What a family says its members need not. */
static void
put_fields(buffer *out, const fields *set)
{
    buffer_puts(out, "{\"type\": \"object\", \"additionalProperties\": false, ");
    if (set == &row_fields) {
        buffer_puts(out, "\"oneOf\": [{\"required\": [\"family\", \"ops\"]}, {");
        put_required(out, set);
        buffer_puts(out, ", \"allOf\": [{\"required\": [\"op\"]}]}], ");
    } else if (set != &member_fields) {
        put_required(out, set);
        buffer_puts(out, ", ");
    }
    buffer_puts(out, "\"properties\": {\n");
    for (int i = 0; i < set->count; i++) {
        put_field(out, &set->items[i]);
        buffer_puts(out, i + 1 < set->count ? ",\n" : "\n");
    }
    buffer_puts(out, "  }}");
}

void
schema_print(void)
{
    static const fields *const sets[] = {
        &backend_fields, &row_fields,    &member_fields, &arg_fields,
        &out_fields,     &kernel_fields, &cost_fields,   &test_fields,
    };
    buffer out = {0};
    buffer_puts(&out, "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n");
    buffer_puts(&out, "\"title\": \"The capability table\",\n\"allOf\": [");
    put_fields(&out, &table_fields);
    buffer_puts(&out, "],\n\"$defs\": {\n");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        buffer_print(&out, "%s  \"%s\": ", i ? ",\n" : "", sets[i]->name);
        put_fields(&out, sets[i]);
    }
    buffer_puts(&out, "\n}}\n");
    fwrite(out.data, 1, out.size, stdout);
    buffer_finish(&out);
}
