#include <inttypes.h>
#include <string.h>

#include "scope.h"

/* ---- parameters ----------------------------------------------------------------------------- */

#define PARAM ((const param *)c->thing)

static const dtype_info *
dtype_of(const cursor *c)
{
    const variant *v = c->variant ? c->variant : &c->op->variants.items[0];
    return &dtypes_of[v->params[c->index]];
}

static place
place_of(const cursor *c)
{
    return c->kernel ? c->kernel->places[c->index] : PLACE_POINTER;
}

/* No required parameter comes after it: a typed call may leave it out. */
static bool
is_tail(const cursor *c)
{
    for (int i = c->index; i < c->op->inputs + c->op->outs; i++) {
        if (!c->op->params.items[i].optional) {
            return false;
        }
    }
    return true;
}

static const char *
param_role(const cursor *c, buffer *scratch)
{
    static const char *const roles[] = {"IN", "OUT", "INOUT", "SCALAR"};
    (void)scratch;
    return roles[PARAM->role];
}

static const char *
param_exact(const cursor *c, buffer *scratch)
{
    return PARAM->exact ? scope_bits(PARAM->exact, scratch) : NULL;
}

static const char *
param_layout(const cursor *c, buffer *scratch)
{
    static const char *const names[] = {"DENSE", "FLAT", "NHWC", "ROW", "COL", "STRIDED"};
    unsigned layouts = c->kernel ? c->kernel->layouts[c->index] : 0;
    for (int i = 0; i < 6; i++) {
        if (layouts & 1u << i) {
            buffer_puts(scratch, scratch->size ? " | AICF_LAYOUT_" : "AICF_LAYOUT_");
            buffer_puts(scratch, names[i]);
        }
    }
    return layouts ? buffer_text(scratch) : "0";
}

static int
param_layouts(const cursor *c, int at, cursor *element)
{
    static const char *const names[] = {"dense", "flat", "nhwc", "row", "col", "strided"};
    for (; at < 6; at++) {
        if (c->kernel->layouts[c->index] & 1u << at) {
            element->thing = names[at];
            return at + 1;
        }
    }
    return -1;
}

static const char *
param_place(const cursor *c, buffer *scratch)
{
    static const char *const names[] = {"POINTER", "OWN", "JOINT", "MATRIX"};
    (void)scratch;
    return names[place_of(c)];
}

static int
param_exact_names(const cursor *c, int at, cursor *element)
{
    for (; at < c->op->params.count; at++) {
        if (PARAM->exact >> at & 1) {
            element->thing = c->op->params.items[at].name;
            return at + 1;
        }
    }
    return -1;
}

/* Its view, in launch functions: with lists, tensors have no fixed number. */
static const char *
param_view(const cursor *c, buffer *scratch)
{
    bool lists = false;
    for (int i = 0; i < c->index; i++) {
        lists |= c->op->params.items[i].list >= 0;
    }
    static const char *const first[] = {"v[0]", "v[1]", "v[2]", "v[3]", "v[4]", "v[5]"};
    if (!lists && c->index < (int)(sizeof first / sizeof *first)) {
        return first[c->index];
    }
    buffer_print(scratch, lists ? "v[aicf_call_start(head, %d)]" : "v[%d]", c->index);
    return buffer_text(scratch);
}

/* The optional outs beside this one. */
static int
param_other_optionals(const cursor *c, int at, cursor *element)
{
    for (; at < c->op->outs; at++) {
        int i = c->op->inputs + at;
        if (i != c->index && c->op->params.items[i].optional) {
            element->thing = &c->op->params.items[i];
            element->index = i;
            return at + 1;
        }
    }
    return -1;
}

/* The first argument: what a generic call returns is of its type. */
FLAG_FIELD(param_leads, c->index == 0 && c->op->inputs > 0)
static const char *
param_test_python(const cursor *c, buffer *scratch)
{
    return scope_python_expr(c, PARAM->shape.test, scratch);
}

TEXT_FIELD(param_name, PARAM->name)
TEXT_FIELD(param_dtype_enum, dtype_of(c)->enum_name)
TEXT_FIELD(param_ctype, dtype_of(c)->ctype)
TEXT_FIELD(param_dtype, dtype_of(c)->name)
TEXT_FIELD(param_dtype_text, PARAM->dtype.text)
TEXT_FIELD(param_shape, PARAM->shape.text)
TEXT_FIELD(param_list_name, PARAM->list >= 0 ? c->op->dims.items[PARAM->list].name : NULL)
TEXT_FIELD(param_order_name, PARAM->order >= 0 ? c->op->params.items[PARAM->order].name : NULL)
NUMBER_FIELD(param_list, PARAM->list)
NUMBER_FIELD(param_order, PARAM->order)
NUMBER_FIELD(param_item_count, PARAM->shape.items.count)
NUMBER_FIELD(param_other_count, PARAM->shape.other.count)
FLAG_FIELD(param_optional, PARAM->optional)
FLAG_FIELD(param_is_list, PARAM->list >= 0)
FLAG_FIELD(param_is_in, PARAM->role == ROLE_IN)
FLAG_FIELD(param_is_out, PARAM->role == ROLE_OUT)
FLAG_FIELD(param_is_inout, PARAM->role == ROLE_INOUT)
FLAG_FIELD(param_is_scalar, PARAM->role == ROLE_SCALAR)
FLAG_FIELD(param_is_view, place_of(c) != PLACE_POINTER)
FLAG_FIELD(param_has_other, PARAM->shape.test != NULL)
FLAG_FIELD(param_saved, c->op->saves >> c->index & 1)
LIST_FIELD(param_items, PARAM->shape.items.items, PARAM->shape.items.count)
LIST_FIELD(param_other, PARAM->shape.other.items, PARAM->shape.other.count)

static const field param_fields[] = {
    FIELDS_COMMON,
    NAME("name", param_name),
    NAME("role", param_role),
    NAME("dtype", param_dtype),
    NAME("dtype_enum", param_dtype_enum),
    NAME("ctype", param_ctype),
    TEXT("dtype_text", param_dtype_text),
    TEXT("shape", param_shape),
    FLAG("optional", param_optional),
    FLAG("tail", is_tail),
    FLAG("is_list", param_is_list),
    FLAG("is_in", param_is_in),
    FLAG("is_out", param_is_out),
    FLAG("is_inout", param_is_inout),
    FLAG("is_scalar", param_is_scalar),
    FLAG("is_view", param_is_view),
    FLAG("saved", param_saved),
    NUMBER("list_index", param_list),
    NAME("list_name", param_list_name),
    NUMBER("order", param_order),
    NAME("order_name", param_order_name),
    NUMBER("exact", param_exact),
    EACH("exact_names", param_exact_names, thing_word),
    CODE("layout", param_layout),
    EACH("layouts", param_layouts, thing_word),
    NAME("place", param_place),
    CODE("view", param_view),
    FLAG("leads", param_leads),
    EACH("other_optionals", param_other_optionals, thing_param),
    EACH("items", param_items, thing_item),
    EACH("other", param_other, thing_item),
    NUMBER("item_count", param_item_count),
    NUMBER("other_count", param_other_count),
    FLAG("has_other", param_has_other),
    PYTHON("test_python", param_test_python),
    FIELDS_END,
};
const thing thing_param = {"param", param_fields};

/* ---- items of a shape ----------------------------------------------------------------------- */

#define ITEM ((const item *)c->thing)

static const char *
item_kind_name(const cursor *c, buffer *scratch)
{
    static const char *const kinds[] = {"DIM",       "PACK",    "AXIS",    "VALUE",
                                        "BROADCAST", "REDUCED", "PERMUTED"};
    (void)scratch;
    return kinds[ITEM->kind];
}

NUMBER_FIELD(item_dim, ITEM->kind == ITEM_VALUE || ITEM->kind == ITEM_BROADCAST ? -1 : ITEM->dim)
NUMBER_FIELD(item_axis, ITEM->axis)
NUMBER_FIELD(item_keep, ITEM->keep)
TEXT_FIELD(item_text, ITEM->text)
FLAG_FIELD(item_is_value, ITEM->kind == ITEM_VALUE)
LIST_FIELD(item_packs, ITEM->packs, ITEM->pack_count)

static const char *
item_python(const cursor *c, buffer *scratch)
{
    return ITEM->kind == ITEM_VALUE ? scope_python_expr(c, ITEM->value, scratch) : NULL;
}

TEXT_FIELD(
    item_dim_name, ITEM->kind == ITEM_VALUE || ITEM->kind == ITEM_BROADCAST
                       ? NULL
                       : c->op->dims.items[ITEM->dim].name)
TEXT_FIELD(item_axis_name, ITEM->axis >= 0 ? c->op->attrs.items[ITEM->axis].name : NULL)
TEXT_FIELD(item_keep_name, ITEM->keep >= 0 ? c->op->attrs.items[ITEM->keep].name : NULL)

static int
item_pack_names(const cursor *c, int at, cursor *element)
{
    if (at >= ITEM->pack_count) {
        return -1;
    }
    element->thing = c->op->dims.items[ITEM->packs[at]].name;
    return at + 1;
}

static const field item_fields[] = {
    FIELDS_COMMON,
    NAME("kind", item_kind_name),
    NUMBER("dim", item_dim),
    NUMBER("axis", item_axis),
    NUMBER("keep", item_keep),
    NAME("dim_name", item_dim_name),
    NAME("axis_name", item_axis_name),
    NAME("keep_name", item_keep_name),
    TEXT("text", item_text),
    PYTHON("python", item_python),
    FLAG("is_value", item_is_value),
    EACH("packs", item_packs, thing_number),
    EACH("pack_names", item_pack_names, thing_word),
    FIELDS_END,
};
const thing thing_item = {"item", item_fields};

/* ---- dims ----------------------------------------------------------------------------------- */

#define DIM_OF ((const dim *)c->thing)

static const char *
dim_kind_name(const cursor *c, buffer *scratch)
{
    static const char *const kinds[] = {
        "AICF_DIM", "AICF_DIM_PACK", "AICF_DIM_LIST", "AICF_DIM_LET"};
    (void)scratch;
    return kinds[DIM_OF->kind];
}

static const char *
dim_text(const cursor *c, buffer *scratch)
{
    return scope_text_expr(DIM_OF->value, scratch);
}

static const char *
dim_python(const cursor *c, buffer *scratch)
{
    return scope_python_expr(c, DIM_OF->value, scratch);
}

/* The arguments that a plain call's pack is the shape of. */
static const char *
dim_binders(const cursor *c, buffer *scratch)
{
    int index = (int)(DIM_OF - c->op->dims.items);
    uint64_t bits = 0;
    for (int i = 0; i < c->op->inputs && i < 64; i++) {
        const item *first = c->op->params.items[i].shape.items.items;
        bits |= (uint64_t)(first->kind == ITEM_PACK && first->dim == index) << i;
    }
    return scope_bits(bits, scratch);
}

TEXT_FIELD(dim_name, DIM_OF->name)
FLAG_FIELD(dim_varies, DIM_OF->varies)
FLAG_FIELD(dim_is_pack, DIM_OF->kind == DIM_PACK)
FLAG_FIELD(dim_is_let, DIM_OF->kind == DIM_LET)
FLAG_FIELD(dim_is_list, DIM_OF->kind == DIM_LIST)

static const field dim_fields[] = {
    FIELDS_COMMON,
    NAME("name", dim_name),
    NAME("kind", dim_kind_name),
    NUMBER("binders", dim_binders),
    FLAG("varies", dim_varies),
    FLAG("is_pack", dim_is_pack),
    FLAG("is_let", dim_is_let),
    FLAG("is_list", dim_is_list),
    TEXT("text", dim_text),
    PYTHON("python", dim_python),
    FIELDS_END,
};
const thing thing_dim = {"dim", dim_fields};
