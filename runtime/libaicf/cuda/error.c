#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include <aicf/backend/cuda.h>

#include "failure.h"

/* After these the context is lost: every later call of the process fails. */
static const cudaError_t fatal[] = {
    cudaErrorECCUncorrectable,
    cudaErrorNvlinkUncorrectable,
    cudaErrorIllegalAddress,
    cudaErrorLaunchTimeout,
    cudaErrorAssert,
    cudaErrorHardwareStackError,
    cudaErrorIllegalInstruction,
    cudaErrorMisalignedAddress,
    cudaErrorInvalidAddressSpace,
    cudaErrorInvalidPc,
    cudaErrorLaunchFailure,
    cudaErrorContextIsDestroyed,
    cudaErrorExternalDevice,
};

static const struct {
    cudaError_t error;
    const char *remedy;
} remedies[] = {
    {cudaErrorMemoryAllocation,
     "The device has too little free memory: free some, or split the work"},
    {cudaErrorNoDevice,
     "The driver sees no GPU: look at CUDA_VISIBLE_DEVICES, and at what was given to "
     "the container"},
    {cudaErrorInvalidDevice, "There is no device of that number"},
    {cudaErrorNoKernelImageForDevice,
     "The kernel was built for other GPUs: rebuild with this one's "
     "arch in CUDA_ARCHS"},
    {cudaErrorInvalidDeviceFunction,
     "The kernel was built for other GPUs: rebuild with this one's arch "
     "in CUDA_ARCHS"},
    {cudaErrorLaunchOutOfResources,
     "The kernel needs more registers or shared memory than this GPU has"},
    {cudaErrorInvalidConfiguration, "A grid or block is beyond what this GPU takes"},
    {cudaErrorNotPermitted,
     "The process may not use the device: look at the permissions of /dev/nvidia*"},
    {cudaErrorSystemNotReady,
     "Start what the machine needs first (nvidia-fabricmanager, where there is "
     "an NVSwitch)"},
    {cudaErrorSystemDriverMismatch,
     "The kernel module and libcuda.so are of different versions: reboot, "
     "or reload the module"},
    {cudaErrorCompatNotSupportedOnDevice,
     "The forward-compatibility libcuda.so does not support this "
     "GPU: use the driver's own"},
    {cudaErrorUnknown, "The driver did not start: look at dmesg and nvidia-smi"},
    {cudaErrorStreamCaptureUnsupported,
     "The stream is being captured into a graph, which does not allow "
     "this"},
    {cudaErrorStreamCaptureInvalidated,
     "While the stream was captured its thread did what a capture does not allow, to wait or to "
     "take memory, or another thread waited for the whole device"},
};

bool
aicf_cuda_is_lost(int32_t native)
{
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        if ((int32_t)fatal[i] == native) {
            return true;
        }
    }
    return false;
}

/* Without the right to open it the driver finds no device, or does not know what is wrong. */
static bool
is_forbidden(int32_t native)
{
    return (native == cudaErrorNoDevice || native == cudaErrorUnknown) &&
           access("/dev/nvidiactl", R_OK | W_OK) != 0 && errno == EACCES;
}

/* No driver and a driver that is too old are one error to CUDA. */
static void
put_driver(int32_t native, char *text, size_t size)
{
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) {
        snprintf(
            text, size, "No CUDA driver: libcuda.so.1 is not found; install the NVIDIA driver");
        return;
    }
    bool ptx = native == cudaErrorUnsupportedPtxVersion;
    snprintf(
        text, size, "The driver is for CUDA %d.%d, %s %d.%d: update the driver%s", driver / 1000,
        driver % 1000 / 10, ptx ? "the PTX of the kernel is from" : "this build needs",
        CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10,
        ptx ? ", or rebuild with this GPU's arch in CUDA_ARCHS" : "");
}

static void
put_remedy(int32_t native, char *text, size_t size)
{
    if (native == cudaErrorInsufficientDriver || native == cudaErrorUnsupportedPtxVersion) {
        put_driver(native, text, size);
        return;
    }
    if (is_forbidden(native)) {
        native = cudaErrorNotPermitted;
    }
    if (native == cudaErrorInitializationError) {
        snprintf(
            text, size, "%s",
            cuda_is_forked() ? "The process was forked after CUDA was used, which CUDA does not "
                               "survive: start it by spawn"
                             : "CUDA could not start; it cannot in a process that was forked after "
                               "its use");
        return;
    }
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++) {
        if ((int32_t)remedies[i].error == native) {
            snprintf(text, size, "%s", remedies[i].remedy);
        }
    }
    if (aicf_cuda_is_lost(native)) {
        snprintf(
            text, size,
            "A kernel, maybe an earlier one, has broken this process's CUDA: restart "
            "the process; compute-sanitizer shows which");
    }
}

void
cuda_error_text(int32_t native, char *text, size_t size)
{
    char remedy[240] = "", failure[320];
    cudaError_t error = (cudaError_t)native;
    put_remedy(native, remedy, sizeof remedy);
    failure_text(native, failure, sizeof failure);
    snprintf(
        text, size, "%s (%d): %s%s%s%s", cudaGetErrorName(error), native, cudaGetErrorString(error),
        remedy[0] ? ". " : "", remedy, failure);
}
