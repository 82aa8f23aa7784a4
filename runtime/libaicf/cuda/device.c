/* cudaSetDevice starts a context on the device that it makes current: putting back a device that
   its caller never used would take some hundred MiB there. Where the caller's device has no
   context, ours goes on top of the driver's stack instead, and is taken off again. */
#include "device.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <cuda.h>

/* Previous devices that are none. */
enum { STAYS = -1, POPS = -2 };

/* Devices seen with a context, and those that we hold the context of, as bits. */
static _Atomic uint64_t started, held;

typedef struct driver {
    CUresult (*get_device)(CUdevice *device, int ordinal);
    CUresult (*get_state)(CUdevice device, unsigned *flags, int *active);
    CUresult (*retain)(CUcontext *context, CUdevice device);
    CUresult (*release)(CUdevice device);
    CUresult (*push)(CUcontext context);
    CUresult (*pop)(CUcontext *context);
} driver;

static bool
find(const char *symbol, void *slot)
{
    enum cudaDriverEntryPointQueryResult found;
    void *function = NULL;
#if CUDART_VERSION >= 12050
    cudaError_t error =
        cudaGetDriverEntryPointByVersion(symbol, &function, 12000, cudaEnableDefault, &found);
#else
    cudaError_t error = cudaGetDriverEntryPoint(symbol, &function, cudaEnableDefault, &found);
#endif
    memcpy(slot, &function, sizeof function);
    return error == cudaSuccess && found == cudaDriverEntryPointSuccess && function;
}

static bool
find_driver(driver *d)
{
    return find("cuDeviceGet", &d->get_device) &&
           find("cuDevicePrimaryCtxGetState", &d->get_state) &&
           find("cuDevicePrimaryCtxRetain", &d->retain) &&
           find("cuDevicePrimaryCtxRelease", &d->release) && find("cuCtxPushCurrent", &d->push) &&
           find("cuCtxPopCurrent", &d->pop);
}

static uint64_t
bit_of(int device)
{
    return device >= 0 && device < 64 ? UINT64_C(1) << device : 0;
}

/* One hold a device, for the life of the process: what was made in the context stays. */
static bool
retain(const driver *d, CUdevice number, int device, CUcontext *context)
{
    if (d->retain(context, number) != CUDA_SUCCESS) {
        return false;
    }
    if (atomic_fetch_or(&held, bit_of(device)) & bit_of(device)) {
        d->release(number);
    }
    return true;
}

/* Pushes the context of `device`, if `current` has none. False: not so, nothing was changed. */
static bool
push(int current, int device)
{
    driver d;
    CUdevice from, to;
    CUcontext context;
    unsigned flags;
    int active = 1, now = -1;

    if (!bit_of(device) || !find_driver(&d) || d.get_device(&from, current) != CUDA_SUCCESS ||
        d.get_device(&to, device) != CUDA_SUCCESS ||
        d.get_state(from, &flags, &active) != CUDA_SUCCESS) {
        return false;
    }
    if (active) {
        atomic_fetch_or(&started, bit_of(current));
        return false;
    }
    if (!retain(&d, to, device, &context) || d.push(context) != CUDA_SUCCESS) {
        return false;
    }
    if (cudaGetDevice(&now) == cudaSuccess && now == device) {
        return true;
    }
    d.pop(&context);
    return false;
}

cudaError_t
device_enter(int32_t device, int32_t *previous)
{
    int current;
    *previous = STAYS;
    cudaError_t error = cudaGetDevice(&current);
    if (error != cudaSuccess || current == device) {
        return error;
    }
    bool idle = !(atomic_load_explicit(&started, memory_order_relaxed) & bit_of(current));
    if (idle && push(current, device)) {
        *previous = POPS;
        return cudaSuccess;
    }
    error = cudaSetDevice(device);
    *previous = error == cudaSuccess ? current : STAYS;
    return error;
}

void
device_leave(int32_t previous)
{
    driver d;
    CUcontext context;
    if (previous == POPS && find_driver(&d)) {
        d.pop(&context);
    } else if (previous >= 0) {
        cudaSetDevice(previous);
    }
}
