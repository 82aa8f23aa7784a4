#include <string.h>

#include "scope.h"

/* ---- functions of expressions --------------------------------------------------------------- */

#define FUNCTION ((const function *)c->thing)

static const char *
function_c(const cursor *c, buffer *scratch)
{
    return scope_c_expr(c, FUNCTION->e, scratch);
}

TEXT_FIELD(function_name, FUNCTION->name)
FLAG_FIELD(function_uses_call, expr_uses_of(c->op, FUNCTION->e).call)
FLAG_FIELD(function_uses_bad, expr_uses_of(c->op, FUNCTION->e).bad)

static bool
function_unused(const cursor *c)
{
    expr_uses uses = expr_uses_of(c->op, FUNCTION->e);
    return !uses.scope && !uses.call;
}

static const field function_fields[] = {
    FIELDS_COMMON,
    NAME("name", function_name),
    CODE("c", function_c),
    FLAG("uses_call", function_uses_call),
    FLAG("uses_bad", function_uses_bad),
    FLAG("unused", function_unused),
    FIELDS_END,
};
const thing thing_function = {"function", function_fields};

/* ---- conditions: `where` and guards --------------------------------------------------------- */

#define CONDITION ((const condition *)c->thing)

static const char *
condition_python(const cursor *c, buffer *scratch)
{
    return scope_python_expr(c, CONDITION->test, scratch);
}

TEXT_FIELD(condition_text, CONDITION->text)
TEXT_FIELD(condition_message, CONDITION->message)

static const field where_fields[] = {
    FIELDS_COMMON,
    TEXT("text", condition_text),
    TEXT("message", condition_message),
    PYTHON("python", condition_python),
    FIELDS_END,
};
const thing thing_where = {"condition", where_fields};

/* ---- variants ------------------------------------------------------------------------------- */

static const char *
variant_suffix(const cursor *c, buffer *scratch)
{
    (void)scratch;
    return c->variant->suffix;
}

static const char *
variant_tail(const cursor *c, buffer *scratch)
{
    (void)scratch;
    return c->plan->tails[c->index];
}

static const char *
variant_function(const cursor *c, buffer *scratch)
{
    (void)scratch;
    return c->plan->functions[c->index];
}

static ptrdiff_t
launch_index(const cursor *c)
{
    return (c->kernel - c->op->kernels.items) * c->op->variants.count + c->index;
}

TEXT_FIELD(variant_launcher, c->plan->launches[launch_index(c)].launcher)
TEXT_FIELD(variant_launch, c->plan->launches[launch_index(c)].launch)

static int
walk_params(const cursor *c, int from, int end, int at, cursor *element)
{
    if (from + at >= end) {
        return -1;
    }
    element->thing = &c->op->params.items[from + at];
    element->index = from + at;
    return at + 1;
}

static int
all_params(const cursor *c, int at, cursor *element)
{
    return walk_params(c, 0, c->op->params.count, at, element);
}

static int
tensor_params(const cursor *c, int at, cursor *element)
{
    return walk_params(c, 0, c->op->inputs + c->op->outs, at, element);
}

static int
variant_types(const cursor *c, int at, cursor *element)
{
    if (at >= c->op->types.count) {
        return -1;
    }
    element->thing = dtypes_of[c->variant->vars[at]].name;
    return at + 1;
}

static bool
variant_taken(const cursor *c)
{
    return c->kernel && c->kernel->variants[c->index];
}

static const field variant_fields[] = {
    FIELDS_COMMON,
    NAME("suffix", variant_suffix),
    NAME("tail", variant_tail),
    NAME("function", variant_function),
    NAME("launcher", variant_launcher),
    NAME("launch", variant_launch),
    FLAG("taken", variant_taken),
    EACH("params", all_params, thing_param),
    EACH("tensors", tensor_params, thing_param),
    EACH("types", variant_types, thing_word),
    FIELDS_END,
};
const thing thing_variant = {"variant", variant_fields};

/* ---- kernels -------------------------------------------------------------------------------- */

static const char *
kernel_backend(const cursor *c, buffer *scratch)
{
    (void)scratch;
    return c->table->backends.items[c->kernel->backend].name;
}

/* Its backend's place in op->backends: backends without kernels of the op are not in there. */
static const char *
kernel_backend_index(const cursor *c, buffer *scratch)
{
    int i = 0;
    while (c->plan->parts.items[i].backend != c->kernel->backend) {
        i++;
    }
    return scope_integer(i, scratch);
}

static const char *
kernel_workspace_text(const cursor *c, buffer *scratch)
{
    return scope_text_expr(c->kernel->workspace, scratch);
}

static const char *
kernel_workspace_python(const cursor *c, buffer *scratch)
{
    return scope_python_expr(c, c->kernel->workspace, scratch);
}

static int
kernel_variants(const cursor *c, int at, cursor *element)
{
    for (; at < c->op->variants.count; at++) {
        if (c->kernel->variants[at]) {
            element->variant = &c->op->variants.items[at];
            element->thing = element->variant;
            element->index = at;
            return at + 1;
        }
    }
    return -1;
}

static int
kernel_entries(const cursor *c, int at, cursor *element)
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
params_placed(const cursor *c, place where, int at, cursor *element)
{
    for (; at < c->op->inputs + c->op->outs; at++) {
        if (c->kernel->places[at] == where && c->op->params.items[at].list < 0) {
            element->thing = &c->op->params.items[at];
            element->index = at;
            return at + 1;
        }
    }
    return -1;
}

static int
kernel_own(const cursor *c, int at, cursor *element)
{
    return params_placed(c, PLACE_OWN, at, element);
}

static int
kernel_joint(const cursor *c, int at, cursor *element)
{
    return params_placed(c, PLACE_JOINT, at, element);
}

static int
kernel_matrix(const cursor *c, int at, cursor *element)
{
    return params_placed(c, PLACE_MATRIX, at, element);
}

static int
kernel_libs(const cursor *c, int at, cursor *element)
{
    if (at >= c->kernel->libs.count) {
        return -1;
    }
    element->thing = c->kernel->libs.items[at];
    return at + 1;
}

/* Dense tensors of one shape are as it wants them, and reach it as pointers or lines. */
static bool
kernel_plain(const cursor *c)
{
    const unsigned of_plain = LAYOUT_DENSE | LAYOUT_FLAT | LAYOUT_ROW | LAYOUT_STRIDED;
    for (int i = 0; i < c->op->inputs + c->op->outs; i++) {
        place where = c->kernel->places[i];
        if (!(c->kernel->layouts[i] & of_plain) ||
            (where != PLACE_JOINT && where != PLACE_POINTER)) {
            return false;
        }
    }
    return true;
}

/* Of tensors of one shape same_shape() is always true. */
static bool
kernel_asks(const cursor *c)
{
    bool guarded = false;
    for (int i = 0; i < c->kernel->guards.count; i++) {
        const expr *test = c->kernel->guards.items[i].test;
        guarded |= test->kind != EXPR_CALL || test->function != FN_SAME_SHAPE;
    }
    return guarded || c->kernel->workspace || c->kernel->libs.count;
}

static const char *
kernel_lines(const cursor *c, buffer *scratch)
{
    uint64_t bits = 0;
    for (int i = 0; i < c->op->inputs + c->op->outs && i < 64; i++) {
        bits |= (uint64_t)(c->kernel->places[i] == PLACE_JOINT) << i;
    }
    return scope_bits(bits, scratch);
}

TEXT_FIELD(kernel_id, c->kernel->id)
TEXT_FIELD(kernel_layout_text, c->kernel->layout_text)
TEXT_FIELD(kernel_arch, c->kernel->arch)
TEXT_FIELD(kernel_src, c->kernel->src)
TEXT_FIELD(kernel_determinism, c->kernel->bitwise ? "bitwise" : "run")
TEXT_FIELD(
    kernel_model_name, c->kernel->model >= 0 ? c->op->params.items[c->kernel->model].name : NULL)
NUMBER_FIELD(kernel_arch_number, c->kernel->arch_number)
NUMBER_FIELD(kernel_model, c->kernel->model)
FLAG_FIELD(kernel_arch_exact, c->kernel->arch_exact)
FLAG_FIELD(kernel_bitwise, c->kernel->bitwise)
FLAG_FIELD(kernel_workspace, c->kernel->workspace != NULL)
LIST_FIELD(kernel_guards, c->kernel->guards.items, c->kernel->guards.count)
LIST_FIELD(kernel_tolerances, c->kernel->tolerances.items, c->kernel->tolerances.count)

static const field kernel_fields[] = {
    FIELDS_COMMON,
    NAME("id", kernel_id),
    NAME("backend_name", kernel_backend),
    NUMBER("backend_index", kernel_backend_index),
    TEXT("layout_text", kernel_layout_text),
    NAME("arch", kernel_arch),
    NUMBER("arch_number", kernel_arch_number),
    FLAG("arch_exact", kernel_arch_exact),
    FLAG("bitwise", kernel_bitwise),
    NAME("determinism", kernel_determinism),
    NUMBER("model", kernel_model),
    NAME("model_name", kernel_model_name),
    TEXT("src", kernel_src),
    FLAG("plain", kernel_plain),
    NUMBER("lines", kernel_lines),
    FLAG("asks", kernel_asks),
    FLAG("workspace", kernel_workspace),
    TEXT("workspace_text", kernel_workspace_text),
    PYTHON("workspace_python", kernel_workspace_python),
    EACH("guards", kernel_guards, thing_where),
    EACH("params", all_params, thing_param),
    EACH("tensors", tensor_params, thing_param),
    EACH("own", kernel_own, thing_param),
    EACH("joint", kernel_joint, thing_param),
    EACH("matrix", kernel_matrix, thing_param),
    EACH("variants", kernel_variants, thing_variant),
    EACH("entries", kernel_entries, thing_variant),
    EACH("libs", kernel_libs, thing_word),
    EACH("tolerances", kernel_tolerances, thing_tolerance),
    FIELDS_END,
};
const thing thing_kernel = {"kernel", kernel_fields};

/* ---- tolerances ----------------------------------------------------------------------------- */

#define TOLERANCE ((const tolerance *)c->thing)

static const char *
tolerance_rtol(const cursor *c, buffer *scratch)
{
    return scope_real(TOLERANCE->rtol, scratch);
}

static const char *
tolerance_atol(const cursor *c, buffer *scratch)
{
    return scope_real(TOLERANCE->atol, scratch);
}

TEXT_FIELD(tolerance_dtype, dtypes_of[TOLERANCE->dtype].name)

static const field tolerance_fields[] = {
    FIELDS_COMMON,
    NAME("dtype", tolerance_dtype),
    NUMBER("rtol", tolerance_rtol),
    NUMBER("atol", tolerance_atol),
    FIELDS_END,
};
const thing thing_tolerance = {"tolerance", tolerance_fields};

/* ---- sources -------------------------------------------------------------------------------- */

#define SOURCE ((const source *)c->thing)

TEXT_FIELD(source_src, SOURCE->path)
TEXT_FIELD(source_backend, c->table->backends.items[SOURCE->backend].name)
TEXT_FIELD(source_arch, SOURCE->arch)
NUMBER_FIELD(source_arch_number, SOURCE->kernel->arch_number)
FLAG_FIELD(source_arch_exact, SOURCE->kernel->arch_exact)

static const field source_fields[] = {
    FIELDS_COMMON,
    TEXT("src", source_src),
    NAME("backend_name", source_backend),
    NAME("arch", source_arch),
    NUMBER("arch_number", source_arch_number),
    FLAG("arch_exact", source_arch_exact),
    FIELDS_END,
};
const thing thing_source = {"source", source_fields};
