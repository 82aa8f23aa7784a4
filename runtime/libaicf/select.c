#include "param.h"
#include "select.h"

/* Every out and inout is empty: all was checked, and there is nothing to write. */
static bool
writes_nothing(const aicf_tensor *t, const aicf_call *call)
{
    const aicf_op *op = call->op;
    for (int p = 0; p < op->inputs + op->outs; p++) {
        if (!param_is_written(&op->params_of[p])) {
            continue;
        }
        int start = param_start(call, p), count = param_count(call, p);
        for (int i = start; i < start + count; i++) {
            if (!t[i].absent && t[i].numel) {
                return false;
            }
        }
    }
    return true;
}

bool
aicf_call_arch_fits(const aicf_call *call, const aicf_kernel *kernel)
{
    const aicf_backend *backend = call->op->backends[kernel->backend].backend;
    if (!kernel->arch || !backend->arch) {
        return true;
    }
    int arch = backend->arch(call->device);
    return kernel->arch_exact ? arch == kernel->arch : arch >= kernel->arch;
}

static bool
size_workspace(const aicf_kernel *kernel, const aicf_scope *scope, aicf_call *call)
{
    call->workspace_size = 0;
    return !kernel->workspace ||
           (kernel->workspace(scope, &call->workspace_size) && call->workspace_size >= 0);
}

static bool
libs_open(const aicf_kernel *kernel, int *detail)
{
    for (int i = 0; kernel->libs && kernel->libs[i]; i++) {
        if (!library_open(kernel->libs[i])) {
            *detail = i;
            return false;
        }
    }
    return true;
}

static bool
guards_hold(const aicf_kernel *kernel, const aicf_scope *scope, int *detail)
{
    *detail = kernel->guard ? kernel->guard(scope) : -1;
    return *detail < 0;
}

fit
select_try(const binding *b, aicf_call *call, int backend, int index, int *detail)
{
    const aicf_kernel *kernel = &call->op->kernels[index];
    const aicf_entry *entry = &kernel->entries[call->variant];
    const aicf_tensor *t = b->scope.t;

    call->kernel = (int16_t)index;
    *detail = 0;
    return kernel->backend != backend                 ? FIT_BACKEND
           : !entry->launch                           ? FIT_DTYPE
           : !entry->launcher                         ? FIT_BUILT
           : !aicf_call_arch_fits(call, kernel)       ? FIT_ARCH
           : !layout_fits(kernel, call, t, detail)    ? FIT_LAYOUT
           : !place_views(kernel, call, t, detail)    ? FIT_RANK
           : !guards_hold(kernel, &b->scope, detail)  ? FIT_GUARD
           : !size_workspace(kernel, &b->scope, call) ? FIT_WORKSPACE
           : !libs_open(kernel, detail)               ? FIT_LIB
                                                      : FIT_YES;
}

bool
aicf_call_holds(aicf_call *call, const aicf_kernel *kernel, const aicf_scope *scope)
{
    int detail;
    bool holds = guards_hold(kernel, scope, &detail) && size_workspace(kernel, scope, call) &&
                 libs_open(kernel, &detail);
    call->workspace_size = holds ? call->workspace_size : 0; /* the next kernel may ask for none */
    return holds;
}

aicf_status
select_kernel(const binding *b, aicf_call *call, int backend)
{
    const aicf_op *op = call->op;
    int detail;
    int first = op->backends[backend].first, end = op->backends[backend].end;

    if (call->demanded >= 0) {
        first = call->demanded < op->kernel_count ? call->demanded : 0;
        end = call->demanded < op->kernel_count ? first + 1 : 0;
    }
    for (int i = first; i < end; i++) {
        if (select_try(b, call, backend, i, &detail) == FIT_YES) {
            bool idle = writes_nothing(b->scope.t, call);
            call->launch = idle ? NULL : op->kernels[i].entries[call->variant].launch;
            return aicf_ok();
        }
    }
    call->kernel = -1;
    call->workspace_size = 0;
    return aicf_unsupported(AICF_CHECK_KERNEL, 0, call->demanded);
}
