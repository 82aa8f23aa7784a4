/* A condition of a row with the values of its names. */
#include "condition.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "attribute.h"
#include "param.h"

/* Where the values are. */
typedef struct context {
    const aicf_call *call;
    const aicf_tensor *t;
    bool addresses;
} context;

static void
put_scalar(text *out, const aicf_scalar *scalar)
{
    bool real = (scalar->dtype & 0xff) == 2 || (scalar->dtype & 0xff) == 4;
    if (scalar->data) {
        text_put(out, "what is at %p", scalar->data);
    } else if (real) {
        text_put(out, "%.17g", scalar->host.real);
    } else {
        text_put(out, "%" PRId64, scalar->host.integer);
    }
}

static void
put_attribute(text *out, const aicf_call *call, int attr)
{
    const aicf_attr *a = &call->op->attrs[attr];
    const void *at = attribute_at(call, attr);
    const aicf_ints *ints = at;

    switch ((aicf_attr_kind)a->kind) {
    case AICF_ATTR_BOOL: text_put(out, *(const bool *)at ? "true" : "false"); break;
    case AICF_ATTR_INT:
    case AICF_ATTR_AXIS: text_put(out, "%" PRId64, *(const int64_t *)at); break;
    case AICF_ATTR_FLOAT: text_put(out, "%.17g", *(const double *)at); break;
    case AICF_ATTR_ENUM: text_put(out, "'%s'", a->values[*(const int *)at]); break;
    case AICF_ATTR_INTS: text_sizes(out, at, a->size); break;
    case AICF_ATTR_AXES: text_sizes(out, ints->values, ints->count); break;
    case AICF_ATTR_SCALAR: put_scalar(out, at); break;
    }
}

static bool
is_name(const char *name, const char *word, size_t length)
{
    return strlen(name) == length && !memcmp(name, word, length);
}

static void
put_tensor_value(text *out, const aicf_tensor *t, bool addresses)
{
    text_tensor(out, t);
    if (!t->absent && addresses) {
        text_put(out, " at %p", t->data);
    }
}

/* The value of a word of a condition's text: a tensor, a dim, an attribute, or nothing. What varies
   over lists has no one value. */
static void
put_word(text *out, const context *c, const char *word, size_t length, const char **comma)
{
    const aicf_call *call = c->call;
    const aicf_op *op = call->op;

    for (int p = 0; c->t && p < op->params; p++) {
        bool tensor = op->params_of[p].role != AICF_SCALAR && param_count(call, p);
        if (tensor && is_name(op->params_of[p].name, word, length)) {
            text_put(out, "%s%s = ", *comma, op->params_of[p].name);
            put_tensor_value(out, &c->t[param_start(call, p)], c->addresses);
            *comma = ", ";
            return;
        }
    }
    for (int d = 0; d < op->dim_count; d++) {
        if (is_name(op->dims[d].name, word, length) && !op->dims[d].varies) {
            int64_t value = aicf_call_dims(call)[d];
            text_put(out, "%s%s = %" PRId64, *comma, op->dims[d].name, value);
            *comma = ", ";
            return;
        }
    }
    for (int i = 0; i < op->attr_count; i++) {
        if (is_name(op->attrs[i].name, word, length)) {
            text_put(out, "%s%s = ", *comma, op->attrs[i].name);
            put_attribute(out, call, i);
            *comma = ", ";
            return;
        }
    }
}

/* The length of the name that `at` begins, 0 if it begins none. */
static size_t
name_length(const char *at)
{
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_') {
        length++;
    }
    return length;
}

/* Behind a text in quotes, or behind one letter that is no name's. */
static const char *
skip_other(const char *at)
{
    const char *close = *at == '\'' || *at == '"' ? strchr(at + 1, *at) : at;
    return close ? close + 1 : at + strlen(at);
}

/* Whether the name at `at` stands before it in the condition. */
static bool
is_repeated(const char *condition, const char *at, size_t length)
{
    const char *c = condition;
    while (c < at) {
        size_t own = name_length(c);
        if (own == length && !memcmp(c, at, length)) {
            return true;
        }
        c = own ? c + own : skip_other(c);
    }
    return false;
}

void
condition_put(
    text *out, const aicf_call *call, const aicf_tensor *t, const char *condition, bool addresses)
{
    const context from = {call, t, addresses};
    const char *comma = ": ";
    const char *c = condition;
    text_put(out, "%s", condition);
    while (*c) {
        size_t length = name_length(c);
        if (length && !is_repeated(condition, c, length)) {
            put_word(out, &from, c, length, &comma);
        }
        c = length ? c + length : skip_other(c);
    }
}
