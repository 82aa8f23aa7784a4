/* A call from its beginning to its launch. */
#include <aicf/call.h>

#include <string.h>

#include "param.h"

int
aicf_call_count(const aicf_call *call, int param)
{
    return param_count(call, param);
}

int
aicf_call_start(const aicf_call *call, int param)
{
    return param_start(call, param);
}

void
aicf_call_init(aicf_call *call, const aicf_op *op, int variant)
{
    memset(call, 0, op->call_size);
    call->size = op->call_size;
    call->version = AICF_CALL_VERSION;
    call->op = op;
    call->count = aicf_call_start(call, op->params);
    call->variant = (int16_t)variant;
    call->demanded = -1;
    call->kernel = -1;
    if (op->defaults) {
        op->defaults(call);
    }
}

aicf_list
aicf_call_list(const aicf_call *call, int param)
{
    return (aicf_list){aicf_call_count(call, param),
                       aicf_call_views(call) + aicf_call_start(call, param)};
}

static aicf_status
launch_on(const aicf_backend *backend, const aicf_call *call)
{
    int32_t previous;
    if (backend->launch) {
        return backend->launch(call);
    }
    if (!backend->enter) {
        return call->launch(call);
    }
    aicf_status status = backend->enter(call->device, &previous);
    if (status.kind == AICF_OK) {
        status = call->launch(call);
        backend->leave(previous);
    }
    return status;
}

aicf_status
aicf_call_launch(const aicf_call *call)
{
    if (!call->launch) {
        return aicf_ok();
    }
    if (call->workspace_size && !call->workspace) {
        return (aicf_status){AICF_INTERNAL, 0, 0, 0, 0};
    }
    uint8_t index = call->op->kernels[call->kernel].backend;
    aicf_status status = launch_on(call->op->backends[index].backend, call);
    if (status.kind == AICF_BACKEND_ERROR) {
        status.backend = index;
    }
    return status;
}
