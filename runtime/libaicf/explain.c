/* Why a kernel runs or does not: the same steps as prepare takes, on a copy of the call. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "attribute.h"
#include "param.h"
#include "prepare.h"
#include "select.h"
#include "text.h"

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
    case AICF_ATTR_SCALAR: text_put(out, "a scalar"); break;
    }
}

static bool
is_name(const char *name, const char *word, size_t length)
{
    return strlen(name) == length && !memcmp(name, word, length);
}

/* The value of a word of a guard's text: a tensor, a dim, an attribute, or nothing. */
static void
put_word(text *out, const binding *b, const char *word, size_t length, const char **comma)
{
    const aicf_call *call = b->scope.call;
    const aicf_op *op = call->op;

    for (int p = 0; p < op->params; p++) {
        if (is_name(op->params_of[p].name, word, length) && param_count(call, p)) {
            const aicf_tensor *t = &b->scope.t[param_start(call, p)];
            text_put(out, "%s%s = ", *comma, op->params_of[p].name);
            text_tensor(out, t);
            if (!t->absent) {
                text_put(out, " at %p", t->data);
            }
            *comma = ", ";
            return;
        }
    }
    for (int d = 0; d < op->dim_count; d++) {
        if (is_name(op->dims[d].name, word, length)) {
            text_put(out, "%s%s = %" PRId64, *comma, op->dims[d].name, b->dims[d]);
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

/* Whether the name at `at` stands before it in the guard. */
static bool
is_repeated(const char *guard, const char *at, size_t length)
{
    const char *c = guard;
    while (c < at) {
        size_t own = name_length(c);
        if (own == length && !memcmp(c, at, length)) {
            return true;
        }
        c = own ? c + own : skip_other(c);
    }
    return false;
}

/* "K % 8 == 0: K = 30": each name once. */
static void
put_guard(text *out, const binding *b, const char *guard)
{
    const char *comma = ": ";
    const char *c = guard;
    text_put(out, "%s", guard);
    while (*c) {
        size_t length = name_length(c);
        if (length && !is_repeated(guard, c, length)) {
            put_word(out, b, c, length, &comma);
        }
        c = length ? c + length : skip_other(c);
    }
}

static const char *
backend_name(const aicf_op *op, int index)
{
    const aicf_backend *backend = op->backends[index].backend;
    return backend ? backend->name : "its backend";
}

/* Of the kernel's backend: whether any kernel was linked. */
static bool
is_backend_built(const aicf_op *op, int index)
{
    for (int i = op->backends[index].first; i < op->backends[index].end; i++) {
        for (int v = 0; v < op->variants; v++) {
            if (op->kernels[i].entries[v].launcher) {
                return true;
            }
        }
    }
    return false;
}

static void
put_not_built(text *out, const aicf_op *op, const aicf_kernel *kernel)
{
    if (is_backend_built(op, kernel->backend)) {
        text_put(out, kernel->arch ? "not built for this arch" : "not built");
    } else {
        text_put(out, "%s: not built", backend_name(op, kernel->backend));
    }
}

static void
put_arch(text *out, const aicf_call *call, const aicf_kernel *kernel)
{
    int arch = call->op->backends[kernel->backend].backend->arch(call->device);
    text_put(out, "needs sm_%d%s, ", kernel->arch, kernel->arch_exact ? "a" : " or later");
    text_device(out, call->device);
    arch < 0 ? text_put(out, " is unknown") : text_put(out, " is sm_%d", arch);
}

static void
put_tensor(text *out, const binding *b, const char *what, int param)
{
    const aicf_call *call = b->scope.call;
    text_put(out, "%s: %s = ", what, call->op->params_of[param].name);
    text_tensor(out, &b->scope.t[param_start(call, param)]);
}

/* Which of the two builds of a CPU kernel the loader has taken. */
static void
put_fits(text *out, const aicf_op *op, const aicf_kernel *kernel)
{
    const aicf_backend *backend = op->backends[kernel->backend].backend;
    text_put(out, "fits");
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    if (backend->host) {
        __builtin_cpu_init();
        bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
        text_put(out, v3 ? " (x86-64-v3)" : " (baseline)");
    }
#else
    (void)backend;
#endif
}

static void
put_verdict(text *out, const binding *b, const aicf_call *call, int index, fit found, int detail)
{
    const aicf_op *op = call->op;
    const aicf_kernel *kernel = &op->kernels[index];
    const char *layout = kernel->layout_text ? kernel->layout_text : "layout";

    switch (found) {
    case FIT_YES: put_fits(out, op, kernel); break;
    case FIT_BACKEND:
        text_put(out, "for %s, the tensors are on ", backend_name(op, kernel->backend));
        text_device(out, call->device);
        break;
    case FIT_DTYPE: text_put(out, "not for %s", op->suffixes[call->variant]); break;
    case FIT_BUILT: put_not_built(out, op, kernel); break;
    case FIT_ARCH: put_arch(out, call, kernel); break;
    case FIT_LAYOUT: put_tensor(out, b, layout, detail); break;
    case FIT_RANK: put_tensor(out, b, "more dims than a view holds", detail); break;
    case FIT_GUARD: put_guard(out, b, kernel->guards[detail]); break;
    case FIT_WORKSPACE: text_put(out, "its workspace is too large to count"); break;
    case FIT_LIB:
        text_put(
            out,
            "library %s was not found, or not in a build that can be used "
            "(AICF_LIB_<NAME> says where)",
            kernel->libs[detail]);
        break;
    }
}

static bool
explain(const aicf_tensor *t, aicf_call *call, int index, text *out)
{
    binding b;
    int backend, detail;
    aicf_status status = prepare_checks(&b, t, call, &backend);

    if (status.kind) {
        aicf_status_describe(status, call, t, out->at, out->left);
        return false;
    }
    fit found = select_try(&b, call, backend, index, &detail);
    put_verdict(out, &b, call, index, found, detail);
    return found == FIT_YES;
}

/* As prepare will count the tensors; it refuses lengths that are none. */
static int
count_views(const aicf_call *call)
{
    int count = 0;
    for (int p = 0; p < call->op->params; p++) {
        int own = param_count(call, p);
        count += own > 0 && own < INT32_MAX / 4 && count < INT32_MAX / 4 ? own : 0;
    }
    return count;
}

bool
aicf_call_explain(const aicf_tensor *t, const aicf_call *call, int index, char *buffer, size_t size)
{
    text out = text_begin(buffer, size);
    aicf_call *copy = malloc(aicf_call_bytes(call->op, count_views(call)));

    text_put(&out, "%s: ", call->op->kernels[index].id);
    if (!copy) {
        text_put(&out, "out of host memory");
        return false;
    }
    memcpy(copy, call, call->op->call_size);
    bool fits = explain(t, copy, index, &out);
    free(copy);
    return fits;
}
