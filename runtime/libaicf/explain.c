/* Why a kernel runs or does not: the same steps as prepare takes, on a copy of the call. */
#include <stdlib.h>
#include <string.h>

#include <aicf/explain.h>

#include "condition.h"
#include "param.h"
#include "prepare.h"
#include "select.h"
#include "text.h"

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
    text_add(out, "fits");
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    if (backend->host) {
        __builtin_cpu_init();
        bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
        text_add(out, v3 ? " (x86-64-v3)" : " (baseline)");
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
        text_add(out, "for ");
        text_add(out, backend_name(op, kernel->backend));
        text_add(out, ", the tensors are on ");
        text_device(out, call->device);
        break;
    case FIT_DTYPE: text_put(out, "not for %s", op->suffixes[call->variant]); break;
    case FIT_BUILT: put_not_built(out, op, kernel); break;
    case FIT_ARCH: put_arch(out, call, kernel); break;
    case FIT_LAYOUT: put_tensor(out, b, layout, detail); break;
    case FIT_RANK: put_tensor(out, b, "more dims than a view holds", detail); break;
    case FIT_GUARD: condition_put(out, call, b->scope.t, kernel->guards[detail], true); break;
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

/* Of tensors that were read: what prepare found of them, and where it goes on from. */
typedef struct reading {
    aicf_call *call; /* a copy */
    binding b;
    aicf_status status;
    int backend;
} reading;

/* One line, which begins with the kernel's name. Whether the kernel fits. */
static bool
put_kernel(reading *r, const aicf_tensor *t, int index, char *buffer, size_t size)
{
    int detail;
    text out = text_begin(buffer, size);
    text_add(&out, r->call->op->kernels[index].id);
    text_add(&out, ": ");
    if (r->status.kind) {
        aicf_status_describe(r->status, r->call, t, out.at, out.left);
        return false;
    }
    fit found = select_try(&r->b, r->call, r->backend, index, &detail);
    put_verdict(&out, &r->b, r->call, index, found, detail);
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

/* Leaves no copy where there is no memory for one. */
static void
read_tensors(reading *r, const aicf_tensor *t, const aicf_call *call)
{
    r->call = malloc(aicf_call_bytes(call->op, count_views(call)));
    if (r->call) {
        memcpy(r->call, call, call->op->call_size);
        r->status = prepare_checks(&r->b, t, r->call, &r->backend);
    }
}

static bool
put_no_memory(const aicf_call *call, int index, char *buffer, size_t size)
{
    text out = text_begin(buffer, size);
    text_put(&out, "%s: out of host memory", call->op->kernels[index].id);
    return false;
}

bool
aicf_call_explain(const aicf_tensor *t, const aicf_call *call, int index, char *buffer, size_t size)
{
    reading r;
    read_tensors(&r, t, call);
    bool fits =
        r.call ? put_kernel(&r, t, index, buffer, size) : put_no_memory(call, index, buffer, size);
    free(r.call);
    return fits;
}

int
aicf_call_explain_each(
    const aicf_tensor *t, const aicf_call *call, aicf_explained_fn tell, void *context)
{
    char line[1024];
    reading r;
    int answer = 0;

    read_tensors(&r, t, call);
    for (int i = 0; answer >= 0 && i < call->op->kernel_count; i++) {
        bool fits = r.call ? put_kernel(&r, t, i, line, sizeof line)
                           : put_no_memory(call, i, line, sizeof line);
        answer = tell(context, i, fits, line);
    }
    free(r.call);
    return answer;
}
