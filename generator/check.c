#include "check.h"

#include <string.h>

#include "checker.h"
#include "grad.h"
#include "sha256.h"

static const context nowhere = {NULL, NULL};

/* ---- backends -------------------------------------------------------------------------------- */

/* DLPack's device types. */
static const device_type device_types[] = {
    {"cpu", 1},        {"cuda", 2},     {"cuda_host", 3},     {"opencl", 4},
    {"vulkan", 7},     {"metal", 8},    {"vpi", 9},           {"rocm", 10},
    {"rocm_host", 11}, {"ext_dev", 12}, {"cuda_managed", 13}, {"oneapi", 14},
    {"webgpu", 15},    {"hexagon", 16}, {"maia", 17},         {"trn", 18},
};
enum { DEVICE_TYPES = sizeof device_types / sizeof *device_types };

static void
device_read(checker *c, context of, const node *n, backend *b, dict *taken, int backend_index)
{
    const char *known[DEVICE_TYPES];
    for (int i = 0; i < DEVICE_TYPES; i++) {
        known[i] = device_types[i].name;
        if (strcmp(known[i], n->text) == 0) {
            int first = dict_add(taken, n->text, backend_index);
            if (first >= 0) {
                fault(
                    c->faults, "device-taken", n->where, of,
                    "device `%s` is served already, by `%s`", n->text,
                    c->table->backends.items[first].name);
                fault_also(c->faults, c->table->backends.items[first].where, "it is here");
                return;
            }
            *list_push(c->memory, &b->devices) = device_types[i];
            return;
        }
    }
    fault(c->faults, "unknown-device", n->where, of, "`%s` is no device type of DLPack's", n->text);
    fault_suggest(c->faults, n->text, known, DEVICE_TYPES);
}

/* .c, .cu, .tpu.c */
static bool
is_suffix(const char *s)
{
    while (*s == '.' && s[1] >= 'a' && s[1] <= 'z') {
        s += 1 + strspn(s + 1, "abcdefghijklmnopqrstuvwxyz0123456789");
    }
    return *s == '\0';
}

static void
backend_read(checker *c, const pair *p, dict *devices)
{
    context of = {NULL, arena_print(c->memory, "backend %s", p->key)};
    node *got[BACKEND_COUNT];
    dtype_set without = {0};
    int index = c->table->backends.count;
    fields_read(c->faults, of, p->value, &backend_fields, false, got);
    name_check(c->faults, of, p->where, p->key, NAME_BACKEND);
    backend *b = list_push(c->memory, &c->table->backends);
    b->name = p->key;
    b->where = p->where;
    b->suffix = got[BACKEND_SUFFIX] ? got[BACKEND_SUFFIX]->text : "";
    if (!is_suffix(b->suffix)) {
        fault(
            c->faults, "suffix", got[BACKEND_SUFFIX]->where, of,
            "a suffix is .c or .cu or the like, not `%s`", b->suffix);
    }
    for (int i = 0; got[BACKEND_DEVICES] && i < got[BACKEND_DEVICES]->items.count; i++) {
        device_read(c, of, got[BACKEND_DEVICES]->items.items[i], b, devices, index);
    }
    if (got[BACKEND_WITHOUT] && dtypes_read(c, of, got[BACKEND_WITHOUT], &without)) {
        for (int i = 0; i < without.count; i++) {
            b->without[without.values[i]] = true;
        }
    }
}

/* ---- the head of the table ------------------------------------------------------------------- */

static void
head_read(checker *c, const node *root, node *const *got)
{
    int64_t version = 0;
    const node *schema = got[TABLE_SCHEMA];
    if (schema && scalar_int(c->faults, nowhere, schema, "schema", 0, INT32_MAX, &version) &&
        version != 1) {
        fault(
            c->faults, "schema-version", schema->where, nowhere,
            "this opgen reads schema 1, the table is of schema %s", schema->text);
    }
    const node *package = got[TABLE_PACKAGE], *symbol = got[TABLE_NAMESPACE];
    c->table->package = package ? package->text : "";
    c->table->symbol = symbol ? symbol->text : "";
    if (package) {
        name_check(c->faults, nowhere, package->where, package->text, NAME_PACKAGE);
    }
    if (symbol) {
        name_check(c->faults, nowhere, symbol->where, symbol->text, NAME_PACKAGE);
    }
    c->classes_faulty = !got[TABLE_DTYPES] && node_find(root, "dtypes");
    classes_read(c, got[TABLE_DTYPES]);
    dict *devices = dict_create(c->memory);
    for (int i = 0; got[TABLE_BACKENDS] && i < got[TABLE_BACKENDS]->pairs.count; i++) {
        backend_read(c, &got[TABLE_BACKENDS]->pairs.items[i], devices);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Indexes of rows and of table->ops agree. All rows come first: gradients name later ones. False
   if there are so many faults that not all were checked. */
static bool
rows_check(checker *c, row_list *rows)
{
    dict *names = dict_create(c->memory);
    list_reserve(c->memory, &c->table->ops, rows->all.count);
    for (int i = 0; i < rows->all.count && !faults_full(c->faults); i++) {
        row *r = &rows->all.items[i];
        r->whole = row_check_all(c, r, list_push(c->memory, &c->table->ops)) && r->whole;
        if (r->name) {
            dict_add(names, r->name, i);
        }
    }
    c->table->ops_by_name = names;
    return !faults_full(c->faults);
}

static bool
is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether the text names an op whose row has faults: then nothing is known of calls of it. */
static bool
names_faulty(checker *c, const row_list *rows, const char *written)
{
    while (*written) {
        size_t size = 0;
        while (is_name_character(written[size])) {
            size++;
        }
        if (size && size <= NAME_LENGTH) {
            char name[NAME_LENGTH + 1] = {0};
            memcpy(name, written, size);
            int index = op_find(c->table, name);
            if (index >= 0 && !rows->all.items[index].whole) {
                return true;
            }
        }
        written += size ? size : 1;
    }
    return false;
}

static void
grads_check(checker *c, const row_list *rows)
{
    bool any_faulty = faults_count(c->faults) > 0;
    for (int i = 0; i < rows->all.count; i++) {
        op *o = &c->table->ops.items[i];
        bool skip = !rows->all.items[i].whole || !o->has_grad;
        for (int j = 0; j < o->grads.count && !skip && any_faulty; j++) {
            skip = names_faulty(c, rows, o->grads.items[j].text);
        }
        if (!skip) {
            grad_check(c->memory, c->faults, c->table, o);
        }
    }
}

/* Over the head and the hashes of all rows, in order. */
static void
table_hash(checker *c, node *const *got)
{
    buffer all = {0};
    buffer_puts(&all, table_json_head(c->memory, got));
    for (int i = 0; i < c->table->ops.count; i++) {
        buffer_putc(&all, '\n');
        buffer_puts(&all, c->table->ops.items[i].hash);
    }
    sha256_hex(all.data, all.size, c->table->hash);
    buffer_finish(&all);
}

table *
check_table(arena *a, faults *f, const node *root)
{
    checker c = {.memory = a, .faults = f, .table = arena_alloc(a, sizeof *c.table)};
    node *got[TABLE_COUNT];
    row_list rows = {0};
    c.table->file = faults_file(f);
    c.names = dict_create(a);
    c.kernel_ids = dict_create(a);
    if (root->kind != NODE_MAP) {
        if (root->kind != NODE_BAD) {
            fault(
                f, "wrong-kind", root->where, nowhere, "a table must be a map, this is %s",
                node_describe(root));
        }
        return NULL;
    }
    fields_read(f, nowhere, root, &table_fields, false, got);
    head_read(&c, root, got);
    if (got[TABLE_OPS]) {
        rows_collect(&c, got[TABLE_OPS], &rows);
    }
    if (!rows_check(&c, &rows)) {
        return NULL;
    }
    symbols_check(&c, &rows);
    grads_check(&c, &rows);
    if (faults_count(f)) {
        return NULL;
    }
    table_hash(&c, got);
    return c.table;
}
