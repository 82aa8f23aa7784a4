/* The calls of the driver that libaicf asks for by name: about contexts, which here are devices. */
#include "shim.h"

#include <stdint.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

static CUresult
device_get(CUdevice *device, int ordinal)
{
    int error = shim_enter("cuDeviceGet");
    if (!error && (ordinal < 0 || ordinal >= shim_now().devices)) {
        error = CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return (CUresult)shim_note(error, "cuDeviceGet");
}

static CUresult
get_state(CUdevice device, unsigned *flags, int *active)
{
    int error = shim_enter("cuDevicePrimaryCtxGetState");
    *flags = 0;
    *active = (int)(shim_started() >> device & 1);
    return (CUresult)shim_note(error, "cuDevicePrimaryCtxGetState");
}

static CUresult
retain(CUcontext *context, CUdevice device)
{
    int error = shim_enter("cuDevicePrimaryCtxRetain");
    if (!error) {
        shim_start(shim_started() | 1U << device);
    }
    *context = (CUcontext)(uintptr_t)(device + 1);
    return (CUresult)shim_note(error, "cuDevicePrimaryCtxRetain");
}

static CUresult
release(CUdevice device)
{
    (void)device;
    return (CUresult)shim_note(
        shim_enter("cuDevicePrimaryCtxRelease"), "cuDevicePrimaryCtxRelease");
}

static CUresult
push(CUcontext context)
{
    int error = shim_enter("cuCtxPushCurrent");
    if (!error && !shim_push((int)(uintptr_t)context - 1)) {
        error = CUDA_ERROR_UNKNOWN;
    }
    return (CUresult)shim_note(error, "cuCtxPushCurrent");
}

static CUresult
pop(CUcontext *context)
{
    int error = shim_enter("cuCtxPopCurrent");
    *context = NULL;
    if (!error && !shim_pop()) {
        error = CUDA_ERROR_INVALID_CONTEXT;
    }
    return (CUresult)shim_note(error, "cuCtxPopCurrent");
}

#define CALL(name, function) {name, (void (*)(void))function}

static const struct {
    const char *name;
    void (*function)(void);
} calls[] = {
    CALL("cuDeviceGet", device_get),          CALL("cuDevicePrimaryCtxGetState", get_state),
    CALL("cuDevicePrimaryCtxRetain", retain), CALL("cuDevicePrimaryCtxRelease", release),
    CALL("cuCtxPushCurrent", push),           CALL("cuCtxPopCurrent", pop),
};

cudaError_t
cudaGetDriverEntryPointByVersion(
    const char *symbol, void **function, unsigned version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *result)
{
    int error = shim_enter(__func__);
    *function = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (!strcmp(calls[i].name, symbol)) {
            memcpy(function, &calls[i].function, sizeof *function);
        }
    }
    if (result) {
        *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    }
    return (cudaError_t)shim_leave(
        error, __func__, "symbol=%s version=%u flags=%llu", symbol, version, flags);
}
