#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "expression_parse.h"
#include "expression_text.h"
#include "model.h"

typedef struct writer {
    buffer *out;
    const op *row;
} writer;

/* How tight C binds what an expression is emitted as; arguments of functions stand as they are. */
enum { ARGUMENT = 1, CHOICE = 1, EITHER, BOTH, COMPARISON, OPERAND, UNARY = OPERAND, ATOM };

static void emit(const writer *w, const expr *e, int binding);

/* ---- leaves -------------------------------------------------------------------------------- */

static void
emit_integer(const writer *w, int64_t value)
{
    if (value == INT64_MIN) {
        buffer_puts(w->out, "INT64_MIN");
    } else if (value > INT32_MAX || value < -INT32_MAX) {
        buffer_print(
            w->out, "%sINT64_C(%" PRId64 ")", value < 0 ? "-" : "", value < 0 ? -value : value);
    } else {
        buffer_print(w->out, "%" PRId64, value);
    }
}

/* Where a float is wanted: integers are converted, and exactly so or there is no answer. */
static void
emit_real(const writer *w, const expr *e, int binding)
{
    int64_t exact = INT64_C(1) << 53;
    if (e->type == TYPE_REAL) {
        emit(w, e, binding);
    } else if (e->kind == EXPR_INT && e->integer >= -exact && e->integer <= exact) {
        expr_emit_real(w->out, (double)e->integer);
    } else {
        buffer_puts(w->out, "aicf_int_real(bad, ");
        emit(w, e, ARGUMENT);
        buffer_putc(w->out, ')');
    }
}

static void
emit_upper(const writer *w, const char *name)
{
    for (; *name; name++) {
        buffer_putc(w->out, (char)toupper((unsigned char)*name));
    }
}

/* AICF_GEMM_ACT_RELU */
static void
emit_enumerator(const writer *w, const attr *owner, const char *value)
{
    const char *parts[] = {w->row->symbol, w->row->name, owner->name, value};
    for (int i = 0; i < 4; i++) {
        if (i) {
            buffer_putc(w->out, '_');
        }
        emit_upper(w, parts[i]);
    }
}

/* The values and the count of an attribute of several integers: "call->stride, 2". */
static void
emit_ints(const writer *w, const expr *e)
{
    const attr *owner = &w->row->attrs.items[e->index];
    if (owner->kind == ATTR_INTS) {
        buffer_print(w->out, "call->%s, %d", owner->name, owner->size);
    } else {
        buffer_print(w->out, "call->%s.values, call->%s.count", owner->name, owner->name);
    }
}

/* Parameters or packs from argument `first` on: "(const int16_t[]){0, 1, -1}". */
static void
emit_indexes(const writer *w, const expr *e, int first)
{
    buffer_puts(w->out, "(const int16_t[]){");
    for (int i = first; i < e->count; i++) {
        buffer_print(w->out, "%d, ", e->args[i]->index);
    }
    buffer_puts(w->out, "-1}");
}

/* ---- operators ----------------------------------------------------------------------------- */

static void
emit_number(const writer *w, const expr *e, bool real, int binding)
{
    if (real) {
        emit_real(w, e, binding);
    } else {
        emit(w, e, binding);
    }
}

/* Two numbers, or two bools, around an operator of C. */
static void
emit_operands(const writer *w, const expr *e, bool real)
{
    emit_number(w, e->args[0], real, OPERAND);
    buffer_print(w->out, " %s ", expr_operator(e->kind));
    emit_number(w, e->args[1], real, OPERAND);
}

/* A chain of one kind stands without parentheses; `&&` within `||` has them, as compilers ask. */
static void
emit_logic(const writer *w, const expr *e, const char *sign)
{
    emit(w, e->args[0], e->args[0]->kind == e->kind ? EITHER : COMPARISON);
    buffer_print(w->out, " %s ", sign);
    emit(w, e->args[1], COMPARISON);
}

/* "aicf_int_add(bad, a, b)" */
static void
emit_arguments(const writer *w, const expr *e, const char *function)
{
    buffer_print(w->out, "%s(bad", function);
    for (int i = 0; i < e->count; i++) {
        buffer_puts(w->out, ", ");
        emit(w, e->args[i], ARGUMENT);
    }
    buffer_putc(w->out, ')');
}

static void
emit_divide(const writer *w, const expr *e)
{
    buffer_puts(w->out, "aicf_real_div(bad, ");
    emit_real(w, e->args[0], ARGUMENT);
    buffer_puts(w->out, ", ");
    emit_real(w, e->args[1], ARGUMENT);
    buffer_putc(w->out, ')');
}

static void
emit_arithmetic(const writer *w, const expr *e, const char *function)
{
    if (e->type == TYPE_INT) {
        emit_arguments(w, e, function);
        return;
    }
    buffer_puts(w->out, "aicf_real_check(bad, ");
    emit_operands(w, e, true);
    buffer_putc(w->out, ')');
}

static bool
is_word(const expr *e)
{
    return e->kind == EXPR_WORD;
}

static void
emit_words(const writer *w, const expr *e)
{
    const expr *name = is_word(e->args[0]) ? e->args[1] : e->args[0];
    const expr *word = is_word(e->args[0]) ? e->args[0] : e->args[1];
    const attr *owner = &w->row->attrs.items[name->index];
    buffer_print(w->out, "call->%s %s ", owner->name, expr_operator(e->kind));
    emit_enumerator(w, owner, word->name);
}

static void
emit_comparison(const writer *w, const expr *e)
{
    const expr *x = e->args[0], *y = e->args[1];
    if (is_word(x) || is_word(y)) {
        emit_words(w, e);
        return;
    }
    emit_operands(w, e, x->type == TYPE_REAL || y->type == TYPE_REAL);
}

static void
emit_if(const writer *w, const expr *e)
{
    emit(w, e->args[1], EITHER);
    buffer_puts(w->out, " ? ");
    emit_number(w, e->args[0], e->type == TYPE_REAL, EITHER);
    buffer_puts(w->out, " : ");
    emit_number(w, e->args[2], e->type == TYPE_REAL, CHOICE);
}

static void
emit_index(const writer *w, const expr *e)
{
    const attr *owner = &w->row->attrs.items[e->args[0]->index];
    const expr *i = e->args[1];
    if (i->kind == EXPR_INT && owner->kind == ATTR_INTS) {
        int64_t at = i->integer < 0 ? i->integer + owner->size : i->integer;
        buffer_print(w->out, "call->%s[%" PRId64 "]", owner->name, at);
        return;
    }
    buffer_puts(w->out, "aicf_ints_at(bad, ");
    emit_ints(w, e->args[0]);
    buffer_puts(w->out, ", ");
    emit(w, i, ARGUMENT);
    buffer_putc(w->out, ')');
}

/* ---- functions ----------------------------------------------------------------------------- */

static void
emit_over_ints(const writer *w, const expr *e, const char *function)
{
    buffer_print(w->out, "%s(bad, ", function);
    emit_ints(w, e->args[0]);
    buffer_putc(w->out, ')');
}

static void
emit_len(const writer *w, const expr *e)
{
    const expr *x = e->args[0];
    if (x->kind == EXPR_PACK) {
        buffer_print(w->out, "aicf_scope_rank(scope, %d)", x->index);
        return;
    }
    if (x->kind == EXPR_PARAM) {
        int list = w->row->params.items[x->index].list;
        buffer_print(w->out, "call->%s", w->row->dims.items[list].name);
        return;
    }
    const attr *owner = &w->row->attrs.items[x->index];
    if (owner->kind == ATTR_INTS) {
        buffer_print(w->out, "%d", owner->size);
    } else {
        buffer_print(w->out, "call->%s.count", owner->name);
    }
}

static void
emit_prod(const writer *w, const expr *e)
{
    const expr *x = e->args[0];
    if (x->kind == EXPR_BROADCAST) {
        buffer_puts(w->out, "aicf_broadcast_of(bad, scope, ");
        emit_indexes(w, x, 0);
        buffer_putc(w->out, ')');
    } else if (x->kind == EXPR_PACK) {
        emit(w, x, OPERAND);
    } else {
        emit_over_ints(w, e, "aicf_ints_prod");
    }
}

static void
emit_sum(const writer *w, const expr *e)
{
    if (e->args[0]->kind == EXPR_ATTR) {
        emit_over_ints(w, e, "aicf_ints_sum");
    } else {
        buffer_print(w->out, "aicf_sum_of(bad, scope, %d)", e->args[0]->index);
    }
}

/* Of several integers, or of all arguments, two at a time from the left. */
static void
emit_extremum(const writer *w, const expr *e)
{
    bool most = e->function == FN_MAX;
    if (e->count == 1) {
        emit_over_ints(w, e, most ? "aicf_ints_max" : "aicf_ints_min");
        return;
    }
    for (int i = 1; i < e->count; i++) {
        buffer_print(w->out, "aicf_%s_%s(", e->type == TYPE_REAL ? "real" : "int", e->name);
    }
    for (int i = 0; i < e->count; i++) {
        buffer_puts(w->out, i ? ", " : "");
        emit_number(w, e->args[i], e->type == TYPE_REAL, ARGUMENT);
        buffer_puts(w->out, i ? ")" : "");
    }
}

/* A parameter whose dtype is exactly this type variable. */
static int
param_of_type(const op *row, int type)
{
    for (int i = 0; i < row->params.count; i++) {
        const dtype_rule *rule = &row->params.items[i].dtype;
        if (rule->kind == DTYPE_VAR && rule->var == type) {
            return i;
        }
    }
    die("row %s: nothing is of type %d", row->name, type);
}

static void
emit_aligned(const writer *w, const expr *e)
{
    buffer_puts(w->out, "aicf_scope_aligned(scope, ");
    if (e->args[0]->kind == EXPR_INT) {
        emit(w, e->args[0], ARGUMENT);
    } else {
        buffer_puts(w->out, "aicf_int_positive(bad, ");
        emit(w, e->args[0], ARGUMENT);
        buffer_putc(w->out, ')');
    }
    buffer_puts(w->out, ", ");
    emit_indexes(w, e, 1);
    buffer_putc(w->out, ')');
}

static void
emit_call(const writer *w, const expr *e)
{
    int first = e->args[0]->index;
    switch (e->function) {
    case FN_LEN: emit_len(w, e); return;
    case FN_PROD: emit_prod(w, e); return;
    case FN_SUM: emit_sum(w, e); return;
    case FN_MIN:
    case FN_MAX: emit_extremum(w, e); return;
    case FN_CEIL_DIV: emit_arguments(w, e, "aicf_int_ceildiv"); return;
    case FN_NUMEL: buffer_print(w->out, "aicf_scope_numel(scope, %d)", first); return;
    case FN_SIZEOF:
        buffer_print(w->out, "aicf_sizeof(scope, %d)", param_of_type(w->row, first));
        return;
    case FN_PRESENT: buffer_print(w->out, "aicf_scope_present(scope, %d)", first); return;
    case FN_SAME_SHAPE:
        buffer_puts(w->out, "aicf_scope_same_shape(scope, ");
        emit_indexes(w, e, 0);
        buffer_putc(w->out, ')');
        return;
    case FN_ALIGNED: emit_aligned(w, e); return;
    case FN_STRIDE:
        buffer_print(w->out, "aicf_stride_of(bad, scope, %d, ", first);
        emit(w, e->args[1], ARGUMENT);
        buffer_putc(w->out, ')');
        return;
    case FN_BATCHES: buffer_print(w->out, "aicf_scope_batches(scope, %d)", first); return;
    }
}

/* ---- the tree ------------------------------------------------------------------------------ */

static void
emit_bare(const writer *w, const expr *e)
{
    switch (e->kind) {
    case EXPR_INT: emit_integer(w, e->integer); return;
    case EXPR_REAL: expr_emit_real(w->out, e->real); return;
    case EXPR_BOOL: buffer_puts(w->out, e->integer ? "true" : "false"); return;
    case EXPR_DIM:
    case EXPR_PACK:
    case EXPR_ATTR: buffer_print(w->out, "call->%s", e->name); return;
    case EXPR_NEG:
        if (e->type == TYPE_INT) {
            emit_arguments(w, e, "aicf_int_neg");
        } else {
            buffer_putc(w->out, '-');
            emit(w, e->args[0], ATOM);
        }
        return;
    case EXPR_NOT:
        buffer_putc(w->out, '!');
        emit(w, e->args[0], UNARY);
        return;
    case EXPR_ADD: emit_arithmetic(w, e, "aicf_int_add"); return;
    case EXPR_SUB: emit_arithmetic(w, e, "aicf_int_sub"); return;
    case EXPR_MUL: emit_arithmetic(w, e, "aicf_int_mul"); return;
    case EXPR_FLOORDIV: emit_arguments(w, e, "aicf_int_floordiv"); return;
    case EXPR_MOD: emit_arguments(w, e, "aicf_int_mod"); return;
    case EXPR_DIV: emit_divide(w, e); return;
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
    case EXPR_EQ:
    case EXPR_NE: emit_comparison(w, e); return;
    case EXPR_AND: emit_logic(w, e, "&&"); return;
    case EXPR_OR: emit_logic(w, e, "||"); return;
    case EXPR_IF: emit_if(w, e); return;
    case EXPR_INDEX: emit_index(w, e); return;
    case EXPR_CALL: emit_call(w, e); return;
    case EXPR_WORD:
    case EXPR_PARAM:
    case EXPR_TYPEVAR:
    case EXPR_BROADCAST: break;
    }
    die("expression %d has no value in C", (int)e->kind);
}

static int
binding_of(const expr *e)
{
    bool negative = (e->kind == EXPR_INT && e->integer < 0) ||
                    (e->kind == EXPR_REAL && signbit(e->real)) ||
                    (e->kind == EXPR_NEG && e->type == TYPE_REAL);
    if (e->kind == EXPR_IF) {
        return CHOICE;
    }
    if (e->kind == EXPR_OR || e->kind == EXPR_AND) {
        return e->kind == EXPR_OR ? EITHER : BOTH;
    }
    if (e->kind >= EXPR_LT && e->kind <= EXPR_NE) {
        return COMPARISON;
    }
    return negative || e->kind == EXPR_NOT ? UNARY : ATOM;
}

static void
emit(const writer *w, const expr *e, int binding)
{
    bool inside = binding_of(e) < binding;
    buffer_puts(w->out, inside ? "(" : "");
    emit_bare(w, e);
    buffer_puts(w->out, inside ? ")" : "");
}

void
expr_emit_c(buffer *out, const op *row, const expr *e)
{
    writer w = {.out = out, .row = row};
    emit(&w, e, ARGUMENT);
}

/* ---- what the C uses ----------------------------------------------------------------------- */

/* Whether `name` stands in the text by itself: no part of a name and no member. */
static bool
mentions(const char *code, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = strstr(code, name); at; at = strstr(at + 1, name)) {
        char before = at == code ? ' ' : at[-1], after = at[size];
        if (!strchr("_>.", before) && !isalnum((unsigned char)before) && after != '_' &&
            !isalnum((unsigned char)after)) {
            return true;
        }
    }
    return false;
}

expr_uses
expr_uses_of(const op *row, const expr *e)
{
    buffer b = {0};
    expr_emit_c(&b, row, e);
    const char *code = buffer_text(&b);
    expr_uses uses = {
        .scope = mentions(code, "scope"),
        .call = mentions(code, "call"),
        .bad = mentions(code, "bad"),
    };
    buffer_finish(&b);
    return uses;
}
