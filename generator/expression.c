#include "expression.h"

#include <string.h>

#include "expression_parse.h"

typedef struct operator_info {
    const char *text;
    expr_kind kind;
    int binding;
} operator_info;

static const operator_info operators[] = {
    {"or", EXPR_OR, 2}, {"and", EXPR_AND, 3}, {"<", EXPR_LT, 5},   {"<=", EXPR_LE, 5},
    {">", EXPR_GT, 5},  {">=", EXPR_GE, 5},   {"==", EXPR_EQ, 5},  {"!=", EXPR_NE, 5},
    {"+", EXPR_ADD, 6}, {"-", EXPR_SUB, 6},   {"*", EXPR_MUL, 7},  {"//", EXPR_FLOORDIV, 7},
    {"%", EXPR_MOD, 7}, {"/", EXPR_DIV, 7},   {NULL, EXPR_INT, 0},
};

static const char *const functions[] = {
    [FN_LEN] = "len",         [FN_PROD] = "prod",
    [FN_SUM] = "sum",         [FN_MIN] = "min",
    [FN_MAX] = "max",         [FN_CEIL_DIV] = "ceil_div",
    [FN_NUMEL] = "numel",     [FN_SIZEOF] = "sizeof",
    [FN_PRESENT] = "present", [FN_SAME_SHAPE] = "same_shape",
    [FN_ALIGNED] = "aligned", [FN_STRIDE] = "stride",
    [FN_BATCHES] = "batches",
};
enum { FUNCTION_COUNT = sizeof functions / sizeof *functions };

const char *
expr_function_name(expr_function function)
{
    return functions[function];
}

const char *
expr_operator(expr_kind kind)
{
    for (const operator_info *o = operators; o->text; o++) {
        if (o->kind == kind) {
            return o->text;
        }
    }
    return NULL;
}

int
expr_binding(expr_kind kind)
{
    for (const operator_info *o = operators; o->text; o++) {
        if (o->kind == kind) {
            return o->binding;
        }
    }
    return kind == EXPR_IF ? 1 : kind == EXPR_NOT ? 4 : kind == EXPR_NEG ? 8 : 9;
}

/* ---- nodes --------------------------------------------------------------------------------- */

static expr *
node(parser *p, expr_kind kind, loc where, const char *name)
{
    expr *e = arena_alloc(p->a, sizeof *e);
    *e = (expr){.kind = kind, .where = where, .name = name, .index = -1, .weight = 1};
    return e;
}

/* Adds an operand; false if there is none or the tree gets too heavy. */
static bool
add(parser *p, expr *e, expr *arg)
{
    if (!arg) {
        return false;
    }
    expr **args = arena_alloc(p->a, sizeof *args * ((size_t)e->count + 1));
    if (e->count) {
        memcpy(args, e->args, sizeof *args * (size_t)e->count);
    }
    args[e->count++] = arg;
    e->args = args;
    e->weight += arg->weight;
    if (e->weight > EXPRESSION_WEIGHT) {
        return fault(
            p->f, "expression-size", e->where, p->of, "an expression has at most %d parts",
            EXPRESSION_WEIGHT);
    }
    return true;
}

static expr *
pair(parser *p, expr_kind kind, loc where, expr *left, expr *right)
{
    expr *e = node(p, kind, where, NULL);
    return add(p, e, left) && add(p, e, right) ? e : NULL;
}

/* ---- steps --------------------------------------------------------------------------------- */

bool
parse_fault(parser *p, const char *expected)
{
    return fault(
        p->f, "expression-syntax", p->at->where, p->of, "%s is expected here, not %s", expected,
        token_describe(p->a, p->at));
}

bool
parse_take(parser *p, const char *text)
{
    if (!token_is(p->at, text)) {
        return false;
    }
    p->at++;
    return true;
}

bool
parse_expect(parser *p, const char *text, const char *after)
{
    if (!parse_take(p, text)) {
        return fault(
            p->f, "expression-syntax", p->at->where, p->of, "`%s` is expected %s, not %s", text,
            after, token_describe(p->a, p->at));
    }
    return true;
}

static bool
deeper(parser *p)
{
    if (++p->depth > EXPRESSION_DEPTH) {
        return fault(
            p->f, "expression-size", p->at->where, p->of, "an expression is at most %d deep",
            EXPRESSION_DEPTH);
    }
    return true;
}

/* ---- rules, from the loosest to the tightest ----------------------------------------------- */

/* The operator of one binding that stands next. */
static const operator_info *
operator_next(const parser *p, int binding)
{
    for (const operator_info *o = operators; o->text; o++) {
        if (o->binding == binding && token_is(p->at, o->text)) {
            return o;
        }
    }
    return NULL;
}

static expr *parse_unary(parser *p);

/* Left to right, of `binding` and what binds tighter. */
static expr *
parse_left(parser *p, int binding, expr *(*tighter)(parser *p))
{
    expr *left = tighter(p);
    const operator_info *o;
    while (left && (o = operator_next(p, binding)) != NULL) {
        loc where = p->at++->where;
        left = pair(p, o->kind, where, left, tighter(p));
    }
    return left;
}

static expr *
parse_product(parser *p)
{
    return parse_left(p, 7, parse_unary);
}

expr *
parse_sum(parser *p)
{
    return parse_left(p, 6, parse_product);
}

/* a < b < c is a < b and b < c. */
static expr *
parse_comparison(parser *p)
{
    expr *left = parse_sum(p), *chain = NULL;
    const operator_info *o;
    while (left && (o = operator_next(p, 5)) != NULL) {
        loc where = p->at++->where;
        expr *right = parse_sum(p);
        expr *link = pair(p, o->kind, where, left, right);
        chain = !chain || !link ? link : pair(p, EXPR_AND, where, chain, link);
        if (!chain) {
            return NULL;
        }
        left = right;
    }
    return left && chain ? chain : left;
}

static expr *
parse_not(parser *p)
{
    loc where = p->at->where;
    if (!parse_take(p, "not")) {
        return parse_comparison(p);
    }
    expr *e = node(p, EXPR_NOT, where, NULL);
    bool ok = deeper(p) && add(p, e, parse_not(p));
    p->depth--;
    return ok ? e : NULL;
}

static expr *
parse_and(parser *p)
{
    return parse_left(p, 3, parse_not);
}

expr *
parse_condition(parser *p)
{
    return parse_left(p, 2, parse_and);
}

static bool
parse_branches(parser *p, expr *choice)
{
    return add(p, choice, parse_condition(p)) &&
           parse_expect(p, "else", "after `x if condition`") && add(p, choice, parse_value(p));
}

expr *
parse_value(parser *p)
{
    expr *e = deeper(p) ? parse_condition(p) : NULL;
    if (e && token_is(p->at, "if")) {
        expr *choice = node(p, EXPR_IF, p->at++->where, NULL);
        e = add(p, choice, e) && parse_branches(p, choice) ? choice : NULL;
    }
    p->depth--;
    return e;
}

/* ---- atoms --------------------------------------------------------------------------------- */

static expr *
parse_integer(parser *p)
{
    const token *t = p->at++;
    if (t->integer > INT64_MAX) {
        fault(p->f, "expression-number", t->where, p->of, "`%s` is beyond 64 bits", t->text);
        return NULL;
    }
    expr *e = node(p, EXPR_INT, t->where, NULL);
    e->integer = (int64_t)t->integer;
    return e;
}

/* Arguments up to the closing parenthesis. */
static bool
parse_arguments(parser *p, expr *e)
{
    if (parse_take(p, ")")) {
        return true;
    }
    do {
        if (!add(p, e, parse_value(p))) {
            return false;
        }
    } while (parse_take(p, ","));
    return parse_expect(p, ")", "after the arguments");
}

static expr *
parse_call(parser *p, const token *name)
{
    bool items = p->items;
    expr *e = node(p, EXPR_CALL, name->where, name->text);
    int function = 0;
    while (function < FUNCTION_COUNT && strcmp(functions[function], name->text) != 0) {
        function++;
    }
    if (function == FUNCTION_COUNT && strcmp(name->text, "broadcast") != 0) {
        fault(p->f, "expression-function", name->where, p->of, "no function `%s`", name->text);
        fault_suggest(p->f, name->text, functions, FUNCTION_COUNT);
        return NULL;
    }
    if (function == FUNCTION_COUNT) {
        e->kind = EXPR_BROADCAST;
    } else {
        e->function = (expr_function)function;
    }
    p->items = false;
    bool ok = parse_arguments(p, e);
    p->items = items;
    return ok ? e : NULL;
}

static expr *
parse_name(parser *p)
{
    static const char *const reserved[] = {"and", "or", "not", "if", "else", "none", NULL};
    const token *t = p->at;
    for (int i = 0; reserved[i]; i++) {
        if (token_is(t, reserved[i])) {
            parse_fault(p, "a value");
            return NULL;
        }
    }
    p->at++;
    if (token_is(t, "true") || token_is(t, "false")) {
        expr *e = node(p, EXPR_BOOL, t->where, NULL);
        e->integer = token_is(t, "true");
        return e;
    }
    if (token_is(p->at, "(") && !(p->items && p->at->spaced)) {
        p->at++;
        return parse_call(p, t);
    }
    return node(p, EXPR_DIM, t->where, t->text);
}

static expr *
parse_parenthesis(parser *p)
{
    bool items = p->items;
    p->items = false;
    p->at++;
    expr *e = parse_value(p);
    p->items = items;
    return e && parse_expect(p, ")", "to close the parenthesis") ? e : NULL;
}

static expr *
parse_atom(parser *p)
{
    const token *t = p->at;
    if (t->kind == TOKEN_INT) {
        return parse_integer(p);
    }
    if (t->kind == TOKEN_REAL || t->kind == TOKEN_WORD) {
        expr *e = node(p, t->kind == TOKEN_REAL ? EXPR_REAL : EXPR_WORD, t->where, t->text);
        e->name = t->kind == TOKEN_WORD ? t->text : NULL;
        e->real = t->real;
        p->at++;
        return e;
    }
    if (t->kind == TOKEN_NAME) {
        return parse_name(p);
    }
    if (token_is(t, "(")) {
        return parse_parenthesis(p);
    }
    parse_fault(p, "a value");
    return NULL;
}

static expr *
parse_postfix(parser *p)
{
    expr *e = parse_atom(p);
    while (e && token_is(p->at, "[") && !(p->items && p->at->spaced)) {
        loc where = p->at++->where;
        bool items = p->items;
        p->items = false;
        e = pair(p, EXPR_INDEX, where, e, parse_value(p));
        p->items = items;
        if (e && !parse_expect(p, "]", "after the index")) {
            return NULL;
        }
    }
    return e;
}

/* A minus before a number is part of it, so that -2**63 can be written. */
static expr *
parse_negative(parser *p, loc where)
{
    if (p->at->kind == TOKEN_INT) {
        expr *e = node(p, EXPR_INT, where, NULL);
        e->integer = (int64_t)(0 - p->at++->integer);
        return e;
    }
    expr *e = node(p, EXPR_NEG, where, NULL), *arg = parse_unary(p);
    if (!add(p, e, arg)) {
        return NULL;
    }
    bool number = (arg->kind == EXPR_INT && arg->integer >= 0) ||
                  (arg->kind == EXPR_REAL && !(arg->real < 0));
    if (number) {
        arg->integer = -arg->integer;
        arg->real = arg->kind == EXPR_REAL ? -arg->real : 0;
        arg->where = where;
    }
    return number ? arg : e;
}

static expr *
parse_unary(parser *p)
{
    loc where = p->at->where;
    if (!parse_take(p, "-")) {
        return parse_postfix(p);
    }
    expr *e = deeper(p) ? parse_negative(p, where) : NULL;
    p->depth--;
    return e;
}

expr *
expr_parse(arena *a, faults *f, context of, loc where, const char *text)
{
    token few[TOKENS_FEW], *tokens = tokens_read(a, f, of, where, text, few);
    if (!tokens) {
        return NULL;
    }
    parser p = {.a = a, .f = f, .of = of, .at = tokens};
    expr *e = parse_value(&p);
    if (e && p.at->kind != TOKEN_END) {
        parse_fault(&p, "an operator or the end");
        return NULL;
    }
    return e;
}
