/* Final names: two rows must not meet in a C symbol or a source file. */
#include <string.h>

#include "checker.h"

/* What the headers under include/aicf declare with a name that a row could make too. */
/* clang-format off */
static const char *const runtime_symbols[] = {
    "attr_kind", "backend_cpu", "backend_cuda", "call_arch_fits", "call_attributes_hold",
    "call_bytes", "call_count", "call_dims", "call_explain", "call_explain_each", "call_holds",
    "call_init", "call_launch", "call_list", "call_start", "call_views", "converter_bf16",
    "converter_bool", "converter_f16", "converter_f32", "converter_f64", "converter_i16",
    "converter_i32", "converter_i64", "converter_i8", "converter_u8", "cuda_is_lost",
    "cuda_use_driver", "device_same", "dim_kind", "dtype_size", "explained_fn", "graph_s",
    "item_kind", "launch_fn", "lib_symbol", "line", "line_dense", "line_device", "line_has",
    "line_of", "line_settle", "module_close", "module_init", "module_name_docs", "module_open",
    "module_require", "node", "node_s", "op_backend", "op_code", "op_infer", "op_prepare", "openblas_enter",
    "openblas_leave", "parallel_for", "plain_apart", "plain_backend", "plain_choose", "plain_holds",
    "plain_next", "plain_place", "plain_prepare", "plain_share", "plain_take", "plain_usable",
    "scope_aligned", "scope_batches", "scope_broadcast_numel", "scope_numel", "scope_present",
    "scope_same_shape", "scope_stride", "scope_sum", "status_describe", "stream_s", "event_s",
    "tensor_overlaps_itself", "tensor_settle", "tensors_overlap", "tensors_same_shape", "test_fn",
    "value_fn", NULL,
};

static const char *const runtime_constants[] = {
    "ATTR_AXES", "ATTR_AXIS", "ATTR_BOOL", "ATTR_ENUM", "ATTR_FLOAT", "ATTR_INT", "ATTR_INTS",
    "ATTR_SCALAR", "BACKEND_CPU_H", "BACKEND_CUDA_H", "BACKEND_ERROR", "BACKEND_H",
    "BACKEND_VERSION", "CALL_H", "CALL_VERSION", "CHECK_ALIGNMENT", "CHECK_BACKEND",
    "CHECK_BYTE_ORDER", "CHECK_CONJUGATE", "CHECK_DEVICE", "CHECK_DTYPE", "CHECK_EXPRESSION",
    "CHECK_GRADIENT", "CHECK_KERNEL", "CHECK_LIST", "CHECK_MASKED", "CHECK_MEMORY",
    "CHECK_NEGATIVE", "CHECK_NONE", "CHECK_OVERLAP", "CHECK_RANGE", "CHECK_RANK", "CHECK_READ_ONLY",
    "CHECK_SCALAR", "CHECK_SELF_OVERLAP", "CHECK_SHAPE", "CHECK_TANGENT", "CHECK_VALUE",
    "CHECK_WHERE", "CORE_CAPSULE", "CORE_VERSION", "DIM_LET", "DIM_LIST", "DIM_PACK", "DTYPE_ENUM",
    "DTYPE_H", "EXPLAIN_H", "ITEM_AXIS", "ITEM_BROADCAST", "ITEM_DIM", "ITEM_PACK", "ITEM_PERMUTED",
    "ITEM_REDUCED", "ITEM_VALUE", "KERNEL_H", "LAYOUT_COL", "LAYOUT_DENSE", "LAYOUT_FLAT",
    "LAYOUT_NHWC", "LAYOUT_ROW", "LAYOUT_STRIDED", "LENGTHS_MOST", "LENGTHS_SHIFT", "MAX_DIMS",
    "MAX_RANK", "MODULE_H", "MODULE_SLOTS", "NO_MEMORY", "PLACE_JOINT", "PLACE_MATRIX", "PLACE_OWN",
    "PLACE_POINTER", "PLAIN", "PLAIN_H", "STATUS_H", "TENSOR_H", NULL,
};
/* clang-format on */

typedef struct joined {
    char data[512];
    size_t size;
} joined;

static void
join(joined *j, const char *part)
{
    size_t size = strlen(part);
    if (j->size + size + 2 > sizeof j->data) {
        die("a symbol of %zu characters", j->size + size);
    }
    if (j->size) {
        j->data[j->size++] = '_';
    }
    memcpy(j->data + j->size, part, size + 1);
    j->size += size;
}

/* What it holds, and not all that it has room for. */
static void
copy(joined *to, const joined *from)
{
    memcpy(to->data, from->data, from->size);
    to->size = from->size;
}

/* Constants and macros are the same in capitals. */
static void
capitals(joined *j)
{
    for (size_t i = 0; i < j->size; i++) {
        char c = j->data[i];
        j->data[i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
}

/* As many as most rows have: what room is made for at once. */
enum { SYMBOLS_MANY = 16 };

static context
owner_context(checker *c, const owner *o)
{
    context of = {o->op ? o->op->name : NULL, NULL};
    if (o->kind == OWNER_PARAM) {
        const param *p = &o->op->params.items[o->index];
        of.part = arena_join(c->memory, p->role == ROLE_OUT ? "out " : "arg ", p->name, "");
    } else if (o->kind == OWNER_ATTR) {
        of.part = arena_join(c->memory, "arg ", o->op->attrs.items[o->index].name, "");
    } else if (o->kind == OWNER_KERNEL) {
        of.part = arena_join(c->memory, "kernel ", o->op->kernels.items[o->index].id, "");
    }
    return of;
}

static loc
owner_loc(const owner *o)
{
    switch (o->kind) {
    case OWNER_OP: return o->op->where;
    case OWNER_PARAM: return o->op->params.items[o->index].where;
    case OWNER_ATTR: return o->op->attrs.items[o->index].where;
    case OWNER_KERNEL: return o->op->kernels.items[o->index].where;
    }
    die("an owner of kind %d", o->kind);
}

static void
symbol_take(checker *c, const joined *j, owner of)
{
    const char *symbol = arena_copy(c->memory, j->data, j->size);
    *list_push(c->memory, &c->claims) = (claim){symbol, of};
    dict_expect(c->symbols, symbol);
}

static void
collision(checker *c, const claim *mine, const owner *other)
{
    loc where = owner_loc(&mine->of);
    context of = owner_context(c, &mine->of);
    if (!other->op) {
        fault(
            c->faults, "symbol-collision", where, of, "the C symbol %s is the runtime's",
            mine->symbol);
        return;
    }
    fault(
        c->faults, "symbol-collision", where, of, "the C symbol %s would be row `%s`'s too",
        mine->symbol, other->op->name);
    context its = owner_context(c, other);
    fault_also(
        c->faults, owner_loc(other), "row %s%s%s", its.op, its.part ? ", " : "",
        its.part ? its.part : "");
}

/* One collision of two kernels is enough: the others of the same two say nothing new. */
static void
symbols_settle(checker *c)
{
    int said = -1; /* the kernel that it was said of */
    for (int i = 0; i < c->claims.count; i++) {
        const claim *mine = &c->claims.items[i];
        bool kernel = mine->of.kind == OWNER_KERNEL;
        if (kernel && mine->of.index == said) {
            continue;
        }
        int first = dict_add(c->symbols, mine->symbol, c->owners.count);
        if (first < 0) {
            *list_push(c->memory, &c->owners) = mine->of;
        } else {
            collision(c, mine, &c->owners.items[first]);
            said = kernel ? mine->of.index : said;
        }
    }
    c->claims.count = 0;
}

static void
kernel_symbols_take(checker *c, const op *o, int index)
{
    const kernel *k = &o->kernels.items[index];
    joined start;
    start.size = 0;
    join(&start, c->table->symbol);
    join(&start, c->table->backends.items[k->backend].name);
    join(&start, o->name);
    join(&start, k->id);
    for (int v = 0; v < o->variants.count; v++) {
        joined whole;
        copy(&whole, &start);
        join(&whole, o->variants.items[v].suffix);
        if (k->variants[v]) {
            symbol_take(c, &whole, (owner){o, OWNER_KERNEL, index});
        }
    }
}

/* The type of an enum attribute, and one constant a value. */
static void
enum_symbols_take(checker *c, const op *o, const joined *start, int index)
{
    const attr *a = &o->attrs.items[index];
    joined type;
    copy(&type, start);
    join(&type, a->name);
    symbol_take(c, &type, (owner){o, OWNER_ATTR, index});
    for (int i = 0; i < a->values.count; i++) {
        joined whole;
        copy(&whole, &type);
        join(&whole, a->values.items[i]);
        capitals(&whole);
        symbol_take(c, &whole, (owner){o, OWNER_ATTR, index});
    }
}

/* A constant a parameter: its index. */
static void
param_symbols_take(checker *c, const op *o, const joined *start)
{
    for (int i = 0; i < o->params.count; i++) {
        joined whole;
        copy(&whole, start);
        join(&whole, o->params.items[i].name);
        capitals(&whole);
        symbol_take(c, &whole, (owner){o, OWNER_PARAM, i});
    }
}

static void
op_symbols_take(checker *c, const op *o)
{
    static const char *const ends[] = {"op", "call"};
    joined start;
    start.size = 0;
    join(&start, c->table->symbol);
    join(&start, o->name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        joined whole;
        copy(&whole, &start);
        join(&whole, ends[i]);
        symbol_take(c, &whole, (owner){o, OWNER_OP, 0});
    }
    param_symbols_take(c, o, &start);
    for (int i = 0; i < o->attrs.count; i++) {
        if (o->attrs.items[i].kind == ATTR_ENUM) {
            enum_symbols_take(c, o, &start, i);
        }
    }
    for (int i = 0; i < o->kernels.count; i++) {
        kernel_symbols_take(c, o, i);
    }
    symbols_settle(c);
}

static void
runtime_take(checker *c, const char *prefix, const char *const *names)
{
    for (int i = 0; names[i]; i++) {
        joined j;
        j.size = 0;
        join(&j, prefix);
        join(&j, names[i]);
        symbol_take(c, &j, (owner){NULL, OWNER_OP, 0});
    }
    symbols_settle(c);
}

/* By default a source is named after its family, or else its op: an op of a family's name that is
   not of the family would share the file by accident. */
static void
files_check(checker *c, const row_list *rows)
{
    dict *families = dict_create(c->memory);
    for (int i = 0; i < rows->all.count; i++) {
        if (rows->all.items[i].family) {
            dict_add(families, rows->all.items[i].family, i);
        }
    }
    for (int i = 0; i < rows->all.count; i++) {
        const row *r = &rows->all.items[i];
        int first = r->name && !r->family ? dict_find(families, r->name) : -1;
        if (first >= 0) {
            context of = {r->name, NULL};
            fault(
                c->faults, "file-collision", r->name_where, of,
                "row `%s` and family `%s` would share the folder kernels/%s", r->name, r->name,
                r->name);
            fault_also(
                c->faults, rows->all.items[first].name_where, "`%s` is of that family",
                rows->all.items[first].name);
        }
    }
}

void
symbols_check(checker *c, const row_list *rows)
{
    c->symbols = dict_create(c->memory);
    dict_reserve(c->symbols, rows->all.count * SYMBOLS_MANY);
    list_reserve(c->memory, &c->owners, rows->all.count * SYMBOLS_MANY);
    if (strcmp(c->table->symbol, "aicf") == 0) {
        runtime_take(c, "aicf", runtime_symbols);
        runtime_take(c, "AICF", runtime_constants);
    }
    for (int i = 0; i < rows->all.count; i++) {
        if (rows->all.items[i].whole) {
            op_symbols_take(c, &c->table->ops.items[i]);
        }
    }
    files_check(c, rows);
}
