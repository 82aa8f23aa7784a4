#include <string.h>

#include "python.h"
#include "scope.h"

/* ---- type variables ------------------------------------------------------------------------- */

#define TYPEVAR ((const typevar *)c->thing)
TEXT_FIELD(typevar_name, TYPEVAR->name)
FLAG_FIELD(typevar_free, TYPEVAR->bound_by < 0)

static int
typevar_values(const cursor *c, int at, cursor *element)
{
    if (at >= TYPEVAR->count) {
        return -1;
    }
    element->thing = dtypes_of[TYPEVAR->values[at]].name;
    return at + 1;
}

static const field typevar_fields[] = {
    FIELDS_COMMON,
    NAME("name", typevar_name),
    FLAG("free", typevar_free),
    EACH("values", typevar_values, thing_word),
    FIELDS_END,
};
const thing thing_typevar = {"type variable", typevar_fields};

/* ---- gradients ------------------------------------------------------------------------------ */

#define GRAD ((const grad_entry *)c->thing)
TEXT_FIELD(grad_name, GRAD->name)
TEXT_FIELD(grad_text, GRAD->text)
FLAG_FIELD(grad_is_step, GRAD->param < 0)

static const field grad_fields[] = {
    FIELDS_COMMON, NAME("name", grad_name), TEXT("text", grad_text), FLAG("is_step", grad_is_step),
    FIELDS_END,
};
const thing thing_grad = {"gradient", grad_fields};

/* ---- parameters and attributes of the op ---------------------------------------------------- */

static int
params_between(const cursor *c, int from, int end, int at, cursor *element)
{
    if (from + at >= end) {
        return -1;
    }
    element->thing = &c->op->params.items[from + at];
    element->index = from + at;
    return at + 1;
}

static int
op_params(const cursor *c, int at, cursor *element)
{
    return params_between(c, 0, c->op->params.count, at, element);
}

static int
op_inputs(const cursor *c, int at, cursor *element)
{
    return params_between(c, 0, c->op->inputs, at, element);
}

static int
op_outs(const cursor *c, int at, cursor *element)
{
    return params_between(c, c->op->inputs, c->op->inputs + c->op->outs, at, element);
}

static int
outs_where(const cursor *c, bool optional, int at, cursor *element)
{
    for (; at < c->op->outs; at++) {
        if (c->op->params.items[c->op->inputs + at].optional == optional) {
            return op_outs(c, at, element);
        }
    }
    return -1;
}

static int
op_required_outs(const cursor *c, int at, cursor *element)
{
    return outs_where(c, false, at, element);
}

static int
op_optional_outs(const cursor *c, int at, cursor *element)
{
    return outs_where(c, true, at, element);
}

static int
op_tensors(const cursor *c, int at, cursor *element)
{
    return params_between(c, 0, c->op->inputs + c->op->outs, at, element);
}

LIST_FIELD(op_attrs, c->op->attrs.items, c->op->attrs.count)
FILTER_FIELD(op_enums, attr, c->op->attrs.items, c->op->attrs.count, e->kind == ATTR_ENUM)
FILTER_FIELD(op_defaults, attr, c->op->attrs.items, c->op->attrs.count, e->has_default)
LIST_FIELD(op_dims, c->op->dims.items, c->op->dims.count)
FILTER_FIELD(
    op_launch_dims, dim, c->op->dims.items, c->op->dims.count, e->kind != DIM_LIST && !e->varies)
FILTER_FIELD(op_lets, dim, c->op->dims.items, c->op->dims.count, e->kind == DIM_LET)
LIST_FIELD(op_wheres, c->op->wheres.items, c->op->wheres.count)
LIST_FIELD(op_types, c->op->types.items, c->op->types.count)
FILTER_FIELD(op_free_types, typevar, c->op->types.items, c->op->types.count, e->bound_by < 0)
LIST_FIELD(op_grads, c->op->grads.items, c->op->grads.count)
LIST_FIELD(op_values, c->plan->values.items, c->plan->values.count)
LIST_FIELD(op_tests, c->plan->tests.items, c->plan->tests.count)
LIST_FIELD(op_sources, c->plan->sources.items, c->plan->sources.count)
LIST_FIELD(op_tolerances, c->op->test.tolerances.items, c->op->test.tolerances.count)

static int
op_variants(const cursor *c, int at, cursor *element)
{
    if (at >= c->op->variants.count) {
        return -1;
    }
    element->variant = &c->op->variants.items[at];
    element->thing = element->variant;
    element->index = at;
    return at + 1;
}

static int
op_kernels(const cursor *c, int at, cursor *element)
{
    if (at >= c->op->kernels.count) {
        return -1;
    }
    element->kernel = c->plan->kernels[at];
    element->thing = element->kernel;
    element->index = at;
    return at + 1;
}

static int
op_guarded(const cursor *c, int at, cursor *element)
{
    for (; at < c->op->kernels.count; at++) {
        if (c->plan->kernels[at]->guards.count) {
            return op_kernels(c, at, element);
        }
    }
    return -1;
}

static int
op_backends(const cursor *c, int at, cursor *element)
{
    if (at >= c->plan->parts.count) {
        return -1;
    }
    element->thing = &c->table->backends.items[c->plan->parts.items[at].backend];
    element->index = at;
    return at + 1;
}

static int
op_libs(const cursor *c, int at, cursor *element)
{
    if (at >= c->plan->libs.count) {
        return -1;
    }
    element->thing = c->plan->libs.items[at];
    return at + 1;
}

static int
text_list(const text *items, int count, int at, cursor *element)
{
    if (at >= count) {
        return -1;
    }
    element->thing = items[at].data;
    return at + 1;
}

static int
op_accept(const cursor *c, int at, cursor *element)
{
    return text_list(c->op->test.accept.items, c->op->test.accept.count, at, element);
}

static int
op_reject(const cursor *c, int at, cursor *element)
{
    return text_list(c->op->test.reject.items, c->op->test.reject.count, at, element);
}

/* ---- the op --------------------------------------------------------------------------------- */

static bool
op_has_lists(const cursor *c)
{
    for (int i = 0; i < c->op->params.count; i++) {
        if (c->op->params.items[i].list >= 0) {
            return true;
        }
    }
    return false;
}

/* Whether launch functions need the call's own members, and its views. */
static bool
op_launch_call(const cursor *c)
{
    cursor ignored = *c;
    return c->op->attrs.count > 0 || op_launch_dims(c, 0, &ignored) >= 0;
}

static bool
op_launch_views(const cursor *c)
{
    for (int i = 0; i < c->op->inputs + c->op->outs; i++) {
        if (c->op->params.items[i].list < 0) {
            return true;
        }
    }
    return false;
}

static bool
op_has_sequences(const cursor *c)
{
    for (int i = 0; i < c->op->attrs.count; i++) {
        attr_kind kind = c->op->attrs.items[i].kind;
        if (kind == ATTR_INTS || kind == ATTR_AXES) {
            return true;
        }
    }
    return op_has_lists(c);
}

static const char *
op_flops(const cursor *c, buffer *scratch)
{
    return scope_text_expr(c->op->flops, scratch);
}

static const char *
op_bytes(const cursor *c, buffer *scratch)
{
    return scope_text_expr(c->op->bytes, scratch);
}

static const char *
op_flops_python(const cursor *c, buffer *scratch)
{
    return scope_python_expr(c, c->op->flops, scratch);
}

static const char *
op_bytes_python(const cursor *c, buffer *scratch)
{
    return scope_python_expr(c, c->op->bytes, scratch);
}

/* ---- functions of Python -------------------------------------------------------------------- */

/* A function's head or body, without its last line break. */
static const char *
without_break(buffer *scratch)
{
    scratch->size -= scratch->size && scratch->data[scratch->size - 1] == '\n';
    return buffer_text(scratch);
}

static const char *
op_relation_head(const cursor *c, buffer *scratch)
{
    relation_emit_signature(scratch, c->op);
    return without_break(scratch);
}

static const char *
op_relation_body(const cursor *c, buffer *scratch)
{
    relation_emit_body(scratch, c->op);
    return without_break(scratch);
}

static const char *
op_saved_head(const cursor *c, buffer *scratch)
{
    gradient_emit_saved_signature(scratch, c->op);
    return without_break(scratch);
}

static const char *
op_saved_body(const cursor *c, buffer *scratch)
{
    gradient_emit_saved_body(scratch, c->table, c->op);
    return without_break(scratch);
}

static const char *
op_backward_head(const cursor *c, buffer *scratch)
{
    gradient_emit_backward_signature(scratch, c->op);
    return without_break(scratch);
}

static const char *
op_backward_body(const cursor *c, buffer *scratch)
{
    gradient_emit_backward_body(scratch, c->table, c->op);
    return without_break(scratch);
}

/* ---- what else is of the op ------------------------------------------------------------------ */

static int
required_outs(const op *o)
{
    int count = 0;
    for (int i = 0; i < o->outs; i++) {
        count += !o->params.items[o->inputs + i].optional;
    }
    return count;
}

FLAG_FIELD(op_has_scalars, c->op->scalars > 0)
FLAG_FIELD(op_one_out, c->op->outs == 1)
/* The one required out comes alone where no optional one is asked for. */
FLAG_FIELD(op_alone, c->op->outs > 1 && required_outs(c->op) == 1)

TEXT_FIELD(op_name, c->op->name)
/* The Python function of the first variant. */
TEXT_FIELD(op_first_function, c->plan->functions[0])

TEXT_FIELD(op_symbol, c->plan->symbol)
TEXT_FIELD(op_family, c->op->family)
TEXT_FIELD(op_doc, c->op->doc.data)
TEXT_FIELD(op_aten, c->op->aten.data)
TEXT_FIELD(op_json, c->op->json)
TEXT_FIELD(op_hash, c->op->hash)
TEXT_FIELD(op_first_dim, c->op->dims.count ? c->op->dims.items[0].name : NULL)
NUMBER_FIELD(op_input_count, c->op->inputs)
NUMBER_FIELD(op_out_count, c->op->outs)
NUMBER_FIELD(op_scalar_count, c->op->scalars)
NUMBER_FIELD(op_param_count, c->op->params.count)
NUMBER_FIELD(op_variant_count, c->op->variants.count)
NUMBER_FIELD(op_dim_count, c->op->dims.count)
NUMBER_FIELD(op_attr_count, c->op->attrs.count)
NUMBER_FIELD(op_where_count, c->op->wheres.count)
NUMBER_FIELD(op_kernel_count, c->op->kernels.count)
NUMBER_FIELD(op_backend_count, c->plan->parts.count)
FLAG_FIELD(op_has_functions, c->plan->values.count + c->plan->tests.count > 0)
FLAG_FIELD(op_partial, c->op->partial)
FLAG_FIELD(op_elementwise, c->op->elementwise)
FLAG_FIELD(op_has_grad, c->op->has_grad)

/* Shapes, and nothing but shapes, are what its tensors must agree in. */
static bool
op_plain(const cursor *c)
{
    bool packs = c->op->dims.count > 0;
    for (int i = 0; i < c->op->dims.count; i++) {
        packs &= c->op->dims.items[i].kind == DIM_PACK;
    }
    return packs && c->op->elementwise && !c->op->wheres.count && !op_has_lists(c);
}

static const char *
op_written(const cursor *c, buffer *scratch)
{
    uint64_t bits = 0;
    for (int i = 0; i < c->op->params.count && i < 64; i++) {
        role role = c->op->params.items[i].role;
        bits |= (uint64_t)(role == ROLE_OUT || role == ROLE_INOUT) << i;
    }
    return scope_bits(bits, scratch);
}

FLAG_FIELD(op_several_outs, c->op->outs > 1)

static const field op_fields[] = {
    FIELDS_COMMON,
    NAME("name", op_name),
    NAME("symbol", op_symbol),
    NAME("family", op_family),
    TEXT("doc", op_doc),
    TEXT("aten", op_aten),
    JSON("json", op_json),
    NAME("hash", op_hash),
    NAME("first_dim", op_first_dim),
    NAME("first_function", op_first_function),
    NUMBER("input_count", op_input_count),
    NUMBER("out_count", op_out_count),
    NUMBER("scalar_count", op_scalar_count),
    NUMBER("param_count", op_param_count),
    NUMBER("variant_count", op_variant_count),
    NUMBER("dim_count", op_dim_count),
    NUMBER("attr_count", op_attr_count),
    NUMBER("where_count", op_where_count),
    NUMBER("kernel_count", op_kernel_count),
    NUMBER("backend_count", op_backend_count),
    NUMBER("written", op_written),
    FLAG("partial", op_partial),
    FLAG("elementwise", op_elementwise),
    FLAG("plain", op_plain),
    FLAG("has_grad", op_has_grad),
    FLAG("has_lists", op_has_lists),
    FLAG("has_sequences", op_has_sequences),
    FLAG("has_functions", op_has_functions),
    FLAG("has_scalars", op_has_scalars),
    FLAG("launch_call", op_launch_call),
    FLAG("launch_views", op_launch_views),
    FLAG("several_outs", op_several_outs),
    FLAG("one_out", op_one_out),
    FLAG("alone", op_alone),
    EACH("params", op_params, thing_param),
    EACH("inputs", op_inputs, thing_param),
    EACH("outs", op_outs, thing_param),
    EACH("required_outs", op_required_outs, thing_param),
    EACH("optional_outs", op_optional_outs, thing_param),
    EACH("tensors", op_tensors, thing_param),
    EACH("attrs", op_attrs, thing_attr),
    EACH("enums", op_enums, thing_attr),
    EACH("defaults", op_defaults, thing_attr),
    EACH("dims", op_dims, thing_dim),
    EACH("launch_dims", op_launch_dims, thing_dim),
    EACH("lets", op_lets, thing_dim),
    EACH("wheres", op_wheres, thing_where),
    EACH("types", op_types, thing_typevar),
    EACH("free_types", op_free_types, thing_typevar),
    EACH("variants", op_variants, thing_variant),
    EACH("kernels", op_kernels, thing_kernel),
    EACH("guarded", op_guarded, thing_kernel),
    EACH("backends", op_backends, thing_backend),
    EACH("sources", op_sources, thing_source),
    EACH("values", op_values, thing_function),
    EACH("tests", op_tests, thing_function),
    EACH("libs", op_libs, thing_word),
    EACH("grads", op_grads, thing_grad),
    TEXT("flops", op_flops),
    TEXT("bytes", op_bytes),
    PYTHON("relation_head", op_relation_head),
    PYTHON("relation_body", op_relation_body),
    PYTHON("saved_head", op_saved_head),
    PYTHON("saved_body", op_saved_body),
    PYTHON("backward_head", op_backward_head),
    PYTHON("backward_body", op_backward_body),
    PYTHON("flops_python", op_flops_python),
    PYTHON("bytes_python", op_bytes_python),
    EACH("accept", op_accept, thing_word),
    EACH("reject", op_reject, thing_word),
    EACH("tolerances", op_tolerances, thing_tolerance),
    FIELDS_END,
};
const thing thing_op = {"op", op_fields};
