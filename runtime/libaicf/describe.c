/* The text of a status: op and argument, what came, what is allowed. */
#include <inttypes.h>
#include <string.h>

#include <aicf/explain.h>

#include "check.h"
#include "condition.h"
#include "param.h"

typedef struct subject {
    aicf_status status;
    const aicf_call *call;
    const aicf_op *op;
    const aicf_tensor *t; /* the tensor it is about; NULL: none */
    const aicf_tensor *all;
    int index, other; /* which of a list it is, and which of the list that `native` names; or -1 */
} subject;

static bool
is_about_tensor(int check)
{
    switch ((aicf_check)check) {
    case AICF_CHECK_NONE:
    case AICF_CHECK_VALUE:
    case AICF_CHECK_WHERE:
    case AICF_CHECK_EXPRESSION:
    case AICF_CHECK_LIST:
    case AICF_CHECK_KERNEL: return false;
    case AICF_CHECK_DTYPE:
    case AICF_CHECK_RANK:
    case AICF_CHECK_SHAPE:
    case AICF_CHECK_DEVICE:
    case AICF_CHECK_BACKEND:
    case AICF_CHECK_READ_ONLY:
    case AICF_CHECK_OVERLAP:
    case AICF_CHECK_SELF_OVERLAP:
    case AICF_CHECK_BYTE_ORDER:
    case AICF_CHECK_ALIGNMENT:
    case AICF_CHECK_MEMORY:
    case AICF_CHECK_RANGE:
    case AICF_CHECK_NEGATIVE:
    case AICF_CHECK_CONJUGATE:
    case AICF_CHECK_GRADIENT:
    case AICF_CHECK_TANGENT:
    case AICF_CHECK_MASKED:
    case AICF_CHECK_SCALAR: return true;
    }
    return false;
}

static const aicf_tensor *
find_tensor(const subject *s)
{
    int param = s->status.arg;
    if (!s->all || param >= s->op->params || !is_about_tensor(s->status.check)) {
        return NULL;
    }
    int count = param_count(s->call, param);
    int index = s->index < 0 ? 0 : s->index;
    return index >= 0 && index < count ? s->all + param_start(s->call, param) + index : NULL;
}

/* The first tensor of a list that is not where the call is. */
static int
find_elsewhere(const subject *s)
{
    span list = span_of(s->all, s->call, s->status.arg);
    int i = 0;
    while (i < list.count &&
           (list.t[i].absent || aicf_device_same(list.t[i].device, s->call->device))) {
        i++;
    }
    return i < list.count ? i : -1;
}

/* Of a list which tensor: `native` says so where it means nothing else. */
static void
find_index(subject *s)
{
    int param = s->status.arg, check = s->status.check;
    overlap pair;
    s->index = s->other = -1;
    if (param >= s->op->params || check == AICF_CHECK_LIST || !is_about_tensor(check)) {
        return;
    }
    bool list = s->op->params_of[param].list >= 0;
    if (check == AICF_CHECK_OVERLAP) {
        if (s->all && s->op->has_lists && overlap_find(s->all, s->call, &pair)) {
            s->index = list ? pair.index : -1;
            s->other = s->op->params_of[pair.other].list >= 0 ? pair.other_index : -1;
        }
    } else if (list && check == AICF_CHECK_DEVICE) {
        s->index = s->all ? find_elsewhere(s) : -1;
    } else if (list) {
        s->index = s->status.native;
    }
}

static void
put_name(text *out, const char *name, int index)
{
    text_put(out, index < 0 ? "%s" : "%s[%d]", name, index);
}

/* The dtypes that the parameter takes in some variant, each once. */
static void
put_dtypes(text *out, const subject *s)
{
    const aicf_op *op = s->op;
    const char *comma = "";
    for (int v = 0; v < op->variants; v++) {
        aicf_dtype dtype = op->dtypes[v * op->params + s->status.arg];
        bool seen = s->call->variant >= 0 && v != s->call->variant;
        for (int w = 0; w < v && !seen; w++) {
            seen = s->call->variant < 0 && op->dtypes[w * op->params + s->status.arg] == dtype;
        }
        if (!seen && dtype) {
            text_put(out, "%s", comma);
            text_dtype(out, dtype);
            comma = ", ";
        }
    }
}

/* What the tensors before it are: they rule out what it could be else. */
static void
put_earlier_dtypes(text *out, const subject *s)
{
    const char *before = " with ";
    for (int p = 0; s->all && s->call->variant < 0 && p < s->status.arg; p++) {
        const aicf_tensor *t = &s->all[param_start(s->call, p)];
        if (param_count(s->call, p) && !t->absent) {
            text_put(out, "%s%s ", before, s->op->params_of[p].name);
            text_dtype(out, t->dtype);
            before = ", ";
        }
    }
}

/* A list of two dtypes, each of which it might have: the tensor of the first. */
static const aicf_tensor *
find_unlike(const subject *s)
{
    if (!s->t || s->index <= 0 || s->call->variant >= 0) {
        return NULL;
    }
    bool taken = false;
    for (int v = 0; v < s->op->variants; v++) {
        taken |= s->op->dtypes[v * s->op->params + s->status.arg] == s->t->dtype;
    }
    const aicf_tensor *first = s->t - s->index;
    return taken && !first->absent && first->dtype != s->t->dtype ? first : NULL;
}

static void
put_dtype_fault(text *out, const subject *s)
{
    const aicf_tensor *unlike = find_unlike(s);
    if (unlike) {
        text_put(out, "the tensors of a list are of one dtype; ");
        put_name(out, s->op->params_of[s->status.arg].name, 0);
        text_put(out, " is ");
        text_dtype(out, unlike->dtype);
        return;
    }
    text_put(out, "its dtype is not taken; allowed: ");
    put_dtypes(out, s);
    put_earlier_dtypes(out, s);
}

static void
put_shape_fault(text *out, const subject *s)
{
    const aicf_op *op = s->op;
    if (s->status.arg >= op->inputs + op->outs) {
        return;
    }
    text_put(out, "its shape must be %s", op->shapes[s->status.arg].text);
    const char *before = ", with ";
    for (int p = 0; s->all && p < op->inputs + op->outs; p++) {
        const aicf_tensor *t = &s->all[param_start(s->call, p)];
        bool written = op->params_of[p].role == AICF_OUT;
        bool shown = p != s->status.arg && !written && param_count(s->call, p) > 0;
        if (shown && !t->absent && t->rank >= 0 && t->rank <= AICF_MAX_DIMS) {
            text_put(out, "%s%s: %s = ", before, op->params_of[p].name, op->shapes[p].text);
            text_sizes(out, t->sizes, t->rank);
            before = ", ";
        }
    }
}

/* `native` names another parameter. */
static const char *
other_name(const subject *s)
{
    int other = s->status.native;
    return other >= 0 && other < s->op->params ? s->op->params_of[other].name : "another tensor";
}

static void
put_device_fault(text *out, const subject *s)
{
    text_put(out, "all tensors must be on one device; %s is on ", other_name(s));
    text_device(out, s->call->device);
}

static void
put_backend_fault(text *out, const subject *s)
{
    text_put(out, "no backend of %s serves its device; there are ", s->op->package);
    for (int i = 0; i < s->op->backend_count; i++) {
        const aicf_backend *backend = s->op->backends[i].backend;
        text_put(out, i ? ", %s" : "%s", backend ? backend->name : "one that is not built");
    }
}

static void
put_real_bounds(text *out, const aicf_attr *a)
{
    const char *comma = "; allowed: ";
    if (a->bounded_below) {
        text_put(out, "%sat least %.17g", comma, a->least.real);
        comma = ", ";
    }
    if (a->bounded_above) {
        text_put(out, "%sat most %.17g", comma, a->most.real);
    }
}

/* Those of 64 bits are said to whom they stop. */
static void
put_integer_bounds(text *out, const aicf_attr *a, bool low, bool high)
{
    const char *comma = "; allowed: ";
    if (a->bounded_below || low) {
        text_put(
            out, "%sat least %" PRId64, comma, a->bounded_below ? a->least.integer : INT64_MIN);
        comma = ", ";
    }
    if (a->bounded_above || high) {
        text_put(out, "%sat most %" PRId64, comma, a->bounded_above ? a->most.integer : INT64_MAX);
    }
}

/* Whether one of an attribute's integers is this end of what 64 bits hold. */
static bool
reaches(const aicf_attr *a, const void *value, int64_t end)
{
    const int64_t *values = value;
    bool one = a->kind == AICF_ATTR_INT, several = a->kind == AICF_ATTR_INTS;
    for (int i = 0; i < (one ? 1 : several ? a->size : 0); i++) {
        if (values[i] == end) {
            return true;
        }
    }
    return false;
}

static void
put_bounds(text *out, const aicf_attr *a, const void *value)
{
    if (a->kind == AICF_ATTR_FLOAT) {
        put_real_bounds(out, a);
    } else {
        put_integer_bounds(out, a, reaches(a, value, INT64_MIN), reaches(a, value, INT64_MAX));
    }
}

/* A number that 64 bits do not hold was given as the nearest that they do. */
static void
put_integer(text *out, int64_t value)
{
    const char *beyond = value == INT64_MAX ? " or more" : value == INT64_MIN ? " or less" : "";
    text_put(out, "= %" PRId64 "%s ", value, beyond);
}

static bool
is_real(aicf_dtype dtype)
{
    return (dtype & 0xff) == 2 || (dtype & 0xff) == 4;
}

/* An integer of more than 64 bits came as a real. */
static void
put_number(text *out, const subject *s, const aicf_attr *a, const aicf_scalar *scalar)
{
    int variant = s->call->variant < 0 ? 0 : s->call->variant;
    double real = scalar->host.real;
    bool whole = !is_real(s->op->dtypes[variant * s->op->params + a->of]);
    if (!is_real(scalar->dtype)) {
        put_integer(out, scalar->host.integer);
    } else if (whole && (real >= 0x1p63 || real < -0x1p63)) {
        put_integer(out, real > 0 ? INT64_MAX : INT64_MIN);
    } else {
        text_put(out, "= %.17g ", real);
    }
}

static void
put_value(text *out, const subject *s, const aicf_attr *a, const void *value)
{
    const aicf_ints *axes = value;
    switch ((aicf_attr_kind)a->kind) {
    case AICF_ATTR_INT:
    case AICF_ATTR_AXIS: put_integer(out, *(const int64_t *)value); return;
    case AICF_ATTR_FLOAT: text_put(out, "= %.17g ", *(const double *)value); return;
    case AICF_ATTR_SCALAR: put_number(out, s, a, value); return;
    case AICF_ATTR_INTS:
        text_put(out, "= ");
        text_sizes(out, value, a->size);
        text_put(out, " ");
        return;
    case AICF_ATTR_AXES:
        text_put(out, "= ");
        text_sizes(out, axes->values, (int)(axes->count < 0 ? 0 : axes->count));
        text_put(out, " ");
        return;
    case AICF_ATTR_BOOL:
    case AICF_ATTR_ENUM: return;
    }
}

static void
put_value_fault(text *out, const subject *s)
{
    if (s->status.native < 0 || s->status.native >= s->op->attr_count) {
        text_put(out, "an attribute is out of range");
        return;
    }
    const aicf_attr *a = &s->op->attrs[s->status.native];
    bool axes = a->kind == AICF_ATTR_AXIS || a->kind == AICF_ATTR_AXES;

    const void *value = (const char *)s->call + a->offset;
    text_put(out, "%s ", a->name);
    put_value(out, s, a, value);
    text_put(out, "is out of range");
    text_put(out, a->kind == AICF_ATTR_AXES ? " or names an axis twice" : "");
    put_bounds(out, a, value);
    if (a->kind == AICF_ATTR_SCALAR && s->call->variant >= 0) {
        text_put(out, "; allowed: what its dtype holds, ");
        text_dtype(out, s->op->dtypes[s->call->variant * s->op->params + a->of]);
    }
    if (axes && s->all && param_count(s->call, a->of)) {
        int rank = s->all[param_start(s->call, a->of)].rank;
        text_put(out, "; %s has %d dims", s->op->params_of[a->of].name, rank);
    }
}

static void
put_scalar_fault(text *out, const subject *s)
{
    int variant = s->call->variant < 0 ? 0 : s->call->variant;
    text_put(out, "a scalar is a number or one element of ");
    text_dtype(out, s->op->dtypes[variant * s->op->params + s->status.arg]);
    text_put(out, " on ");
    text_device(out, s->call->device);
}

static void
put_where_fault(text *out, const subject *s)
{
    bool known = s->status.native >= 0 && s->status.native < s->op->where_count;
    const aicf_condition *where = known ? &s->op->wheres[s->status.native] : NULL;
    if (!where) {
        text_put(out, "a condition does not hold");
        return;
    }
    text_put(out, "%s (", where->message);
    condition_put(out, s->call, s->all, where->text, false);
    text_put(out, ")");
}

/* Of the lists that go together the first one that is there. */
static const char *
first_list(const subject *s, int list)
{
    int first = s->status.arg;
    for (int p = first - 1; p >= 0; p--) {
        bool absent = s->all && param_count(s->call, p) && s->all[param_start(s->call, p)].absent;
        first = s->op->params_of[p].list == list && !absent ? p : first;
    }
    return s->op->params_of[first].name;
}

static void
put_list_fault(text *out, const subject *s)
{
    int list = s->status.arg < s->op->params ? s->op->params_of[s->status.arg].list : -1;
    int first = s->status.native >> AICF_LENGTHS_SHIFT, own = s->status.native & AICF_LENGTHS_MOST;
    if (s->status.native < 0) {
        text_put(out, "a list's length is negative, or all are more than can be counted");
        return;
    }
    text_put(out, "lists that go together must have one length");
    if (s->status.native && list >= 0) {
        const char *name = first_list(s, list);
        text_put(out, ": it has %d, %s %d; give one tensor for each of %s", own, name, first, name);
    }
}

static void
put_expression_fault(text *out, const subject *s)
{
    bool known = s->status.native >= 0 && s->status.native < s->op->dim_count;
    text_put(
        out, "%s cannot be computed: it overflows or divides by zero",
        known ? s->op->dims[s->status.native].name : "a dim");
}

typedef struct told_kernels {
    text *out;
    int64_t demanded; /* the only one to speak of, or negative */
    const char *before;
} told_kernels;

static int
tell_misfit(void *context, int index, bool fits, const char *line)
{
    told_kernels *told = context;
    bool asked = told->demanded < 0 || told->demanded == index;
    if (asked && !fits && (told->demanded == index || !strstr(line, ": for "))) {
        text_add(told->out, told->before);
        text_add(told->out, line);
        told->before = "; ";
    }
    return 0;
}

/* Why each kernel that could have run does not. */
static void
put_kernel_fault(text *out, const subject *s)
{
    told_kernels told = {out, s->status.native, ": "};
    text_put(out, "no kernel fits");
    if (s->all) {
        aicf_call_explain_each(s->all, s->call, tell_misfit, &told);
    }
}

static void
put_memory_fault(text *out, const subject *s)
{
    bool was_read = s->t && s->t->device.type;
    text_put(
        out, s->t && s->t->absent ? "it is required"
             : was_read           ? "it has no plain memory"
                        : "it has no plain memory (fake, meta, sparse, wrapped, deleted?)");
}

static void
put_fault(text *out, const subject *s)
{
    switch ((aicf_check)s->status.check) {
    case AICF_CHECK_NONE: text_put(out, "supported"); return;
    case AICF_CHECK_DTYPE: put_dtype_fault(out, s); return;
    case AICF_CHECK_RANK:
        text_put(out, "dims must be 0 to %d, sizes not negative", AICF_MAX_DIMS);
        return;
    case AICF_CHECK_SHAPE: put_shape_fault(out, s); return;
    case AICF_CHECK_DEVICE: put_device_fault(out, s); return;
    case AICF_CHECK_BACKEND: put_backend_fault(out, s); return;
    case AICF_CHECK_READ_ONLY: text_put(out, "it is read-only, and would be written"); return;
    case AICF_CHECK_OVERLAP:
        text_put(out, "it is written, and shares memory with ");
        put_name(out, other_name(s), s->other);
        return;
    case AICF_CHECK_SELF_OVERLAP: text_put(out, "its own elements share memory"); return;
    case AICF_CHECK_BYTE_ORDER: text_put(out, "its byte order is not this machine's"); return;
    case AICF_CHECK_ALIGNMENT:
        text_put(out, "its address or a stride is no multiple of the item size");
        return;
    case AICF_CHECK_MEMORY: put_memory_fault(out, s); return;
    case AICF_CHECK_RANGE: text_put(out, "its elements are more than memory can hold"); return;
    case AICF_CHECK_NEGATIVE: text_put(out, "it is negated lazily: call its resolve_neg()"); return;
    case AICF_CHECK_CONJUGATE:
        text_put(out, "it is conjugated lazily: call its resolve_conj()");
        return;
    case AICF_CHECK_GRADIENT:
        text_put(
            out, "it requires grad, which this call does not record: detach() it, call under "
                 "no_grad(), or use torch.ops without an out");
        return;
    case AICF_CHECK_TANGENT:
        text_put(out, "it carries a forward-mode tangent, which this call would lose");
        return;
    case AICF_CHECK_MASKED: text_put(out, "it is masked, and the mask would be ignored"); return;
    case AICF_CHECK_VALUE: put_value_fault(out, s); return;
    case AICF_CHECK_SCALAR: put_scalar_fault(out, s); return;
    case AICF_CHECK_LIST: put_list_fault(out, s); return;
    case AICF_CHECK_WHERE: put_where_fault(out, s); return;
    case AICF_CHECK_EXPRESSION: put_expression_fault(out, s); return;
    case AICF_CHECK_KERNEL: put_kernel_fault(out, s); return;
    }
}

static void
put_unsupported(text *out, const subject *s)
{
    bool named = s->status.arg < s->op->params &&
                 (is_about_tensor(s->status.check) || s->status.check == AICF_CHECK_LIST);
    text_put(out, "%s: ", s->op->name);
    if (named) {
        put_name(out, s->op->params_of[s->status.arg].name, s->index);
        text_put(out, ": ");
    }
    put_fault(out, s);
    bool was_read = s->t && s->t->device.type; /* some are refused before */
    if (was_read && !s->t->absent) {
        text_put(out, "; got ");
        text_tensor(out, s->t);
    }
}

static void
put_backend_error(text *out, const subject *s)
{
    char words[768] = "";
    bool known = s->status.backend < s->op->backend_count;
    const aicf_backend *backend = known ? s->op->backends[s->status.backend].backend : NULL;
    bool kernel = s->call->kernel >= 0 && s->call->kernel < s->op->kernel_count;

    text_put(out, "%s", s->op->name);
    if (kernel) {
        text_put(out, ": kernel %s", s->op->kernels[s->call->kernel].id);
    }
    if (backend && backend->error_text) {
        backend->error_text(s->status.native, words, sizeof words);
    }
    words[0] ? text_put(out, " failed: %s", words)
             : text_put(out, " failed: error %d", (int)s->status.native);
    if (backend && !backend->host) {
        text_put(out, " (on ");
        text_device(out, s->call->device);
        text_put(out, s->op->code ? ", code for %s)" : ")", s->op->code);
    }
}

void
aicf_status_describe(
    aicf_status status, const aicf_call *call, const aicf_tensor *t, char *buffer, size_t size)
{
    text out = text_begin(buffer, size);
    subject s = {status, call, call->op, NULL, t, -1, -1};

    find_index(&s);
    s.t = find_tensor(&s);
    switch ((aicf_kind)status.kind) {
    case AICF_OK: text_put(&out, "%s: ok", s.op->name); break;
    case AICF_UNSUPPORTED: put_unsupported(&out, &s); break;
    case AICF_BACKEND_ERROR: put_backend_error(&out, &s); break;
    case AICF_NO_MEMORY: text_put(&out, "%s: out of host memory", s.op->name); break;
    case AICF_INTERNAL: text_put(&out, "%s: an internal error of the runtime", s.op->name); break;
    }
}
