/* The driver's functions are found through the runtime, which opens libcuda. */
#include "driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include <aicf/backend/cuda.h>

_Atomic(const driver *) driver_launching;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(const driver *) opened;
static _Atomic bool wanted, stopped;

/* `version`: of the CUDA that has the call first. */
static bool
find_since(int version, const char *symbol, void *slot)
{
    enum cudaDriverEntryPointQueryResult found;
    void *function = NULL;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion(
        symbol, &function, (unsigned)version, cudaEnableDefault, &found);
#else
    (void)version;
    cudaError_t error = cudaGetDriverEntryPoint(symbol, &function, cudaEnableDefault, &found);
#endif
    memcpy(slot, &function, sizeof function);
    return error == cudaSuccess && found == cudaDriverEntryPointSuccess && function;
}

static bool
find(const char *symbol, void *slot)
{
    return find_since(12000, symbol, slot);
}

static bool
find_all(driver *d)
{
    return find("cuDeviceGet", &d->get_device) &&
           find("cuDevicePrimaryCtxGetState", &d->get_state) &&
           find("cuDevicePrimaryCtxRetain", &d->retain) &&
           find("cuDevicePrimaryCtxRelease", &d->release) && find("cuCtxPushCurrent", &d->push) &&
           find("cuCtxPopCurrent", &d->pop) && find("cuCtxGetDevice", &d->current) &&
           find("cuCtxGetId", &d->id) && find("cuKernelGetFunction", &d->function) &&
           find("cuLaunchKernel", &d->launch) && find("cuLaunchKernelEx", &d->launch_with) &&
           find("cuGraphLaunch", &d->launch_graph);
}

static void
open_locked(void)
{
    static _Alignas(64) driver table;
    driver found;
    cudaError_t before = cudaPeekAtLastError();
    if (find_all(&found)) {
        if (!find("cuStreamBatchMemOp", &found.write)) {
            found.write = NULL;
        }
        if (!find_since(12040, "cuFuncGetParamInfo", &found.parameter)) {
            found.parameter = NULL;
        }
        table = found;
        atomic_store_explicit(&opened, &table, memory_order_release);
    } else if (before == cudaSuccess) {
        cudaGetLastError();
    }
}

const driver *
driver_open(void)
{
    const driver *d = atomic_load_explicit(&opened, memory_order_acquire);
    if (d) {
        return d;
    }
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&opened, memory_order_relaxed)) {
        open_locked();
    }
    pthread_mutex_unlock(&lock);
    return atomic_load_explicit(&opened, memory_order_acquire);
}

/* Which way is faster was measured: docs/measurements/launch.json. */
static void
read_environment(void)
{
    const char *word = getenv("AICF_LAUNCH");
    atomic_store(&wanted, !word || strcmp(word, "runtime") != 0);
}

void
driver_start(void)
{
    pthread_once(&once, read_environment);
    if (!atomic_load(&wanted) || atomic_load(&stopped) || driver_fast()) {
        return;
    }
    atomic_store_explicit(&driver_launching, driver_open(), memory_order_release);
}

void
driver_stop(void)
{
    atomic_store(&stopped, true);
    atomic_store(&driver_launching, NULL);
}

void
aicf_cuda_use_driver(bool on)
{
    pthread_once(&once, read_environment);
    atomic_store(&wanted, on);
    if (!on) {
        atomic_store(&driver_launching, NULL);
    }
}
