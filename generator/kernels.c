/* The kernels of a row: what each takes, where its source is, and that all of them make sense
 * together. */
#include <string.h>

#include "checker.h"

#define FAULTS(r) ((r)->checker->faults)

typedef struct kernel_source {
    node *fields[KERNEL_COUNT];
    const node *map;
    context of;
} kernel_source;

/* ---- one kernel ------------------------------------------------------------------------------ */

static bool
backend_read(row_check *r, const kernel_source *s, kernel *k)
{
    const table *t = r->checker->table;
    const node *n = s->fields[KERNEL_BACKEND];
    LIST(const char *) known = {0};
    k->backend = -1;
    for (int i = 0; n && i < t->backends.count; i++) {
        if (strcmp(t->backends.items[i].name, n->text) == 0) {
            k->backend = i;
            return true;
        }
    }
    for (int i = 0; n && i < t->backends.count; i++) {
        *list_push(r->checker->memory, &known) = t->backends.items[i].name;
    }
    if (n) {
        fault(FAULTS(r), "unknown-backend", n->where, s->of, "`%s` is no backend", n->text);
        fault_suggest(FAULTS(r), n->text, known.items, known.count);
    }
    return false;
}

/* sm_80, sm_90a */
static bool
arch_read(row_check *r, const kernel_source *s, kernel *k)
{
    const node *n = s->fields[KERNEL_ARCH];
    if (!n) {
        return true;
    }
    size_t count = strncmp(n->text, "sm_", 3) == 0 ? strspn(n->text + 3, "0123456789") : 0;
    const char *rest = count ? n->text + 3 + count : n->text;
    bool exact = strcmp(rest, "a") == 0;
    if (count < 2 || count > 3 || n->text[3] == '0' || (*rest && !exact)) {
        return fault(
            FAULTS(r), "arch", n->where, s->of, "an arch is sm_80 or sm_90a, not `%s`", n->text);
    }
    k->arch = n->text;
    k->arch_exact = exact;
    for (size_t i = 0; i < count; i++) {
        k->arch_number = k->arch_number * 10 + (n->text[3 + i] - '0');
    }
    return true;
}

static bool
path_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
}

/* Relative, without ways up, and of characters that neither make nor a shell looks at. */
static const char *
path_fault(const char *path, const char *suffix)
{
    size_t length = strlen(path), end = strlen(suffix);
    for (const char *c = path; *c; c++) {
        if (!path_character(*c)) {
            return "may have letters, digits and _ - . / only";
        }
    }
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/' && part > path;
        size_t size = strcspn(part, "/");
        if (size == 0 || *part == '.' || *part == '-') {
            return "must be relative and stay in the tree";
        }
    }
    if (length <= end || strcmp(path + length - end, suffix) != 0) {
        return "must end with the suffix of its backend";
    }
    return NULL;
}

static bool
src_read(row_check *r, const kernel_source *s, kernel *k)
{
    const node *n = s->fields[KERNEL_SRC];
    const char *suffix = r->checker->table->backends.items[k->backend].suffix;
    if (n) {
        const char *wrong = path_fault(n->text, suffix);
        k->src = n->text;
        return !wrong || fault(FAULTS(r), "path", n->where, s->of, "path `%s` %s", n->text, wrong);
    }
    const char *base = r->op->family ? r->op->family : r->op->name;
    k->src = arena_print(
        r->checker->memory, "kernels/%s/%s%s%s%s", base, base, k->arch ? "_" : "",
        k->arch ? k->arch : "", suffix);
    return true;
}

static bool
libs_read(row_check *r, const kernel_source *s, kernel *k)
{
    const node *list = s->fields[KERNEL_LIBS];
    bool fine = true;
    for (int i = 0; list && i < list->items.count; i++) {
        const node *n = list->items.items[i];
        bool good = (*n->text >= 'a' && *n->text <= 'z') || (*n->text >= 'A' && *n->text <= 'Z');
        for (const char *c = n->text; *c; c++) {
            good &= path_character(*c) && *c != '/' && *c != '.' && *c != '-';
        }
        if (!good) {
            fine = fault(
                FAULTS(r), "lib", n->where, s->of,
                "a library is named as in cublasLt: letters, digits and _, not `%s`", n->text);
        }
        *list_push(r->checker->memory, &k->libs) = n->text;
    }
    return fine;
}

static expr *
expr_read(row_check *r, context of, const node *n, expr_type wanted)
{
    checker *c = r->checker;
    expr *e = expr_parse(c->memory, c->faults, of, node_text_loc(n), n->text);
    if (e && r->sound && !expr_check(c->memory, c->faults, of, r->op, e, wanted, false)) {
        return NULL;
    }
    return e;
}

static bool
guards_read(row_check *r, const kernel_source *s, kernel *k)
{
    const node *list = s->fields[KERNEL_WHEN];
    bool fine = true;
    for (int i = 0; list && i < list->items.count; i++) {
        const node *n = list->items.items[i];
        condition *guard = list_push(r->checker->memory, &k->guards);
        guard->where = n->where;
        guard->text = n->text;
        guard->test = expr_read(r, s->of, n, TYPE_BOOL);
        fine &= guard->test != NULL;
    }
    if (s->fields[KERNEL_WORKSPACE]) {
        k->workspace = expr_read(r, s->of, s->fields[KERNEL_WORKSPACE], TYPE_INT);
        fine &= k->workspace != NULL;
    }
    return fine;
}

/* ---- its dtypes ------------------------------------------------------------------------------ */

static bool
var_has(const typevar *v, dtype_id dtype)
{
    for (int i = 0; i < v->count; i++) {
        if (v->values[i] == dtype) {
            return true;
        }
    }
    return false;
}

static int
typevar_index(const op *o, const char *name)
{
    for (int i = 0; i < o->types.count; i++) {
        if (strcmp(o->types.items[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Row `var` of `takes` becomes exactly what the kernel says. */
static bool
kernel_type_read(
    row_check *r, const kernel_source *s, const pair *p, bool (*takes)[DTYPE_COUNT], bool *own)
{
    int var = typevar_index(r->op, p->key);
    dtype_set set;
    bool fine = dtypes_read(r->checker, s->of, p->value, &set);
    if (var < 0) {
        LIST(const char *) known = {0};
        for (int i = 0; i < r->op->types.count; i++) {
            *list_push(r->checker->memory, &known) = r->op->types.items[i].name;
        }
        fault(
            FAULTS(r), "unknown-type", p->where, s->of, "`%s` is no type variable of this row",
            p->key);
        fault_suggest(FAULTS(r), p->key, known.items, known.count);
        return false;
    }
    own[var] = true;
    for (int i = 0; i < set.count; i++) {
        if (!var_has(&r->op->types.items[var], set.values[i])) {
            fine = fault(
                FAULTS(r), "type-outside", p->value->where, s->of, "`%s` is never %s in this row",
                p->key, dtypes_of[set.values[i]].name);
        }
        takes[var][set.values[i]] = true;
    }
    return fine;
}

static bool
kernel_variants_make(row_check *r, const kernel_source *s, kernel *k)
{
    const op *o = r->op;
    const backend *b = &r->checker->table->backends.items[k->backend];
    const node *map = s->fields[KERNEL_TYPES];
    bool takes[DTYPE_COUNT][DTYPE_COUNT] = {{false}}, own[DTYPE_COUNT] = {false}, fine = true;
    for (int i = 0; map && i < map->pairs.count; i++) {
        fine &= kernel_type_read(r, s, &map->pairs.items[i], takes, own);
    }
    bool any = false;
    k->variants = arena_alloc(r->checker->memory, (size_t)o->variants.count + 1);
    for (int v = 0; v < o->variants.count; v++) {
        bool good = true;
        for (int i = 0; i < o->types.count; i++) {
            dtype_id dtype = o->variants.items[v].vars[i];
            good &= own[i] ? takes[i][dtype] : !b->without[dtype];
        }
        k->variants[v] = good;
        any |= good;
    }
    if (fine && !any) {
        return fault(
            FAULTS(r), "kernel-without-dtypes", s->map->where, s->of,
            "backend `%s` leaves out all dtypes of the row", b->name);
    }
    return fine;
}

/* ---- reading all ----------------------------------------------------------------------------- */

static bool
kernel_read(row_check *r, const node *map, int index)
{
    arena *a = r->checker->memory;
    kernel_source s = {.map = map};
    const pair *id = node_find(map, "id");
    s.of.op = r->op->name;
    s.of.part = id && id->value->kind == NODE_SCALAR
                    ? arena_join(a, "kernel ", id->value->text, "")
                    : arena_print(a, "kernel number %d", index + 1);
    bool fine = fields_read(FAULTS(r), s.of, map, &kernel_fields, false, s.fields);
    kernel *k = list_push(a, &r->op->kernels);
    k->where = map->where;
    k->model = -1;
    const node *name = s.fields[KERNEL_ID], *determinism = s.fields[KERNEL_DETERMINISM];
    k->id = name ? name->text : "";
    k->bitwise = !determinism || strcmp(determinism->text, "bitwise") == 0;
    fine &= name && name_check(FAULTS(r), s.of, name->where, name->text, NAME_KERNEL);
    int first = name ? dict_add(r->checker->kernel_ids, name->text, index) : -1;
    if (first >= 0) {
        fine = fault(
            FAULTS(r), "duplicate-kernel", name->where, s.of, "kernel `%s` is here a second time",
            name->text);
        fault_also(FAULTS(r), r->op->kernels.items[first].where, "the first one is here");
    }
    fine &= arch_read(r, &s, k);
    fine &= libs_read(r, &s, k);
    fine &= tolerances_read(r->checker, s.of, s.fields[KERNEL_TOLERANCE], &k->tolerances);
    fine &= guards_read(r, &s, k);
    if (!backend_read(r, &s, k)) {
        return false;
    }
    fine &= src_read(r, &s, k);
    if (r->sound) {
        fine &= kernel_variants_make(r, &s, k);
        fine &= kernel_layouts_read(r, s.of, s.fields[KERNEL_LAYOUT], k);
        kernel_places(r->checker, r->op, k);
    }
    return fine;
}

/* ---- rules over all of them ------------------------------------------------------------------ */

/* Nothing but dtypes and layouts can keep it from running where its backend does. */
static bool
is_unguarded(const kernel *k)
{
    return k->guards.count == 0 && k->libs.count == 0;
}

static bool
arch_covers(const kernel *wide, const kernel *narrow)
{
    if (!wide->arch) {
        return true;
    }
    if (!narrow->arch) {
        return false;
    }
    return wide->arch_exact ? narrow->arch_exact && wide->arch_number == narrow->arch_number
                            : wide->arch_number <= narrow->arch_number;
}

static bool
shadowed_in(const op *o, int index, int variant_index, int *by)
{
    const kernel *k = &o->kernels.items[index];
    for (int i = 0; i < index; i++) {
        const kernel *j = &o->kernels.items[i];
        if (j->backend == k->backend && j->variants[variant_index] && is_unguarded(j) &&
            arch_covers(j, k) && kernel_layouts_cover(o, j, k)) {
            *by = i;
            return true;
        }
    }
    return false;
}

/* A library's kernel may stand behind one that takes all: it is there to be named. */
static bool
shadow_check(row_check *r, int index)
{
    const op *o = r->op;
    const kernel *k = &o->kernels.items[index];
    int by = -1;
    if (k->libs.count) {
        return true;
    }
    for (int v = 0; v < o->variants.count; v++) {
        if (k->variants[v] && !shadowed_in(o, index, v, &by)) {
            return true;
        }
    }
    if (by < 0) {
        return true;
    }
    context of = {o->name, arena_print(r->checker->memory, "kernel %s", k->id)};
    fault(
        FAULTS(r), "shadowed-kernel", k->where, of,
        "never runs: kernel `%s` is tried before and takes all that this one takes",
        o->kernels.items[by].id);
    fault_also(FAULTS(r), o->kernels.items[by].where, "`%s` is here", o->kernels.items[by].id);
    return false;
}

static bool
coverage_check(row_check *r)
{
    const op *o = r->op;
    const node *list = r->row->fields[ROW_KERNELS];
    for (int v = 0; v < o->variants.count && !o->partial; v++) {
        bool covered = false;
        for (int i = 0; i < o->kernels.count && !covered; i++) {
            const kernel *k = &o->kernels.items[i];
            covered = k->variants[v] && is_unguarded(k) && !k->arch && kernel_takes_dense(o, k);
        }
        if (!covered) {
            context of = {o->name, NULL};
            return fault(
                FAULTS(r), "uncovered", list->where, of,
                "no unguarded kernel takes dense tensors of `%s`: add one, or say `partial: true`",
                o->variants.items[v].suffix);
        }
    }
    return true;
}

/* One source file is compiled once an op: its kernels agree on what for. */
static bool
src_check(row_check *r, int index)
{
    const op *o = r->op;
    const kernel *k = &o->kernels.items[index];
    for (int i = 0; i < index; i++) {
        const kernel *j = &o->kernels.items[i];
        bool arch = (j->arch == NULL) != (k->arch == NULL) || (k->arch && strcmp(j->arch, k->arch));
        if (strcmp(j->src, k->src) == 0 && (arch || j->backend != k->backend)) {
            context of = {o->name, arena_print(r->checker->memory, "kernel %s", k->id)};
            fault(
                FAULTS(r), "src-clash", k->where, of,
                "%s is the source of `%s` too, for another %s", k->src, j->id,
                j->backend != k->backend ? "backend" : "arch");
            fault_also(FAULTS(r), j->where, "`%s` is here", j->id);
            return false;
        }
    }
    return true;
}

bool
kernels_read(row_check *r)
{
    const node *list = r->row->fields[ROW_KERNELS];
    bool fine = list != NULL;
    dict_clear(r->checker->kernel_ids);
    list_reserve(r->checker->memory, &r->op->kernels, list ? list->items.count : 0);
    for (int i = 0; list && i < list->items.count; i++) {
        fine &= kernel_read(r, list->items.items[i], i);
    }
    if (!fine || !r->sound) {
        return false;
    }
    for (int i = 0; i < r->op->kernels.count; i++) {
        fine &= src_check(r, i);
        fine &= shadow_check(r, i);
    }
    return coverage_check(r) && fine;
}
