/* cudaSetDevice starts a context on the device that it makes current: putting back a device that
   its caller never used would take some hundred MiB there. Where the caller's device has no
   context, ours goes on top of the driver's stack instead, and is taken off again. */
#include "device.h"

#include <stdatomic.h>

#include "driver.h"

/* Previous devices that are none. */
enum { STAYS = -1, POPS = -2 };

/* Devices seen with a context, and those that we hold the context of, as bits. */
static _Atomic uint64_t started, held;

_Atomic uint64_t device_contexts[MAX_DEVICES];

static uint64_t
bit_of(int device)
{
    return device >= 0 && device < MAX_DEVICES ? UINT64_C(1) << device : 0;
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
    const driver *d = driver_open();
    CUdevice from, to;
    CUcontext context;
    unsigned flags;
    int active = 1, now = -1;

    if (!bit_of(device) || !d || d->get_device(&from, current) != CUDA_SUCCESS ||
        d->get_device(&to, device) != CUDA_SUCCESS ||
        d->get_state(from, &flags, &active) != CUDA_SUCCESS) {
        return false;
    }
    if (active) {
        atomic_fetch_or(&started, bit_of(current));
        return false;
    }
    if (!retain(d, to, device, &context) || d->push(context) != CUDA_SUCCESS) {
        return false;
    }
    if (cudaGetDevice(&now) == cudaSuccess && now == device) {
        return true;
    }
    d->pop(&context);
    return false;
}

void
device_learn(int32_t device)
{
    CUdevice number, now;
    unsigned long long id;
    const driver *d = driver_fast();
    if (d && bit_of(device) && d->get_device(&number, device) == CUDA_SUCCESS &&
        d->current(&now) == CUDA_SUCCESS && now == number && d->id(NULL, &id) == CUDA_SUCCESS) {
        atomic_store_explicit(&device_contexts[device], id, memory_order_relaxed);
    }
}

cudaError_t
device_enter(int32_t device, int32_t *previous)
{
    int current;
    *previous = STAYS;
    here.context = 0;
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
    CUcontext context;
    const driver *d = previous == POPS ? driver_open() : NULL;
    here.context = 0;
    if (d) {
        d->pop(&context);
    } else if (previous >= 0) {
        cudaSetDevice(previous);
    }
}
