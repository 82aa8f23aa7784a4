#define _GNU_SOURCE
/* The calls of the CUDA runtime about devices, errors, memory, streams and events. */
#include "shim.h"

#include "graphs.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#define LEAVE(error, ...) ((cudaError_t)shim_leave((int)(error), __func__, __VA_ARGS__))
#define ENTER() ((cudaError_t)shim_enter(__func__))

/* Without a driver, or with one that is too old, nothing works. */
static cudaError_t
enter_driver(const char *call)
{
    shim_state now = shim_now();
    int error = shim_enter(call);
    return error                                       ? (cudaError_t)error
           : now.driver < CUDART_VERSION / 1000 * 1000 ? cudaErrorInsufficientDriver
           : now.devices == 0                          ? cudaErrorNoDevice
                                                       : cudaSuccess;
}

/* What a capture of a stream forbids, besides. */
static cudaError_t
enter_uncaptured(const char *call)
{
    cudaError_t error = enter_driver(call);
    return error                  ? error
           : shim_now().capturing ? cudaErrorStreamCaptureUnsupported
                                  : (cudaError_t)shim_forbidden();
}

static uintptr_t
new_handle(void)
{
    static _Atomic uintptr_t handles = 0x1000;
    return atomic_fetch_add(&handles, 16);
}

/* ---- devices and errors --------------------------------------------------------------------- */

cudaError_t
cudaGetDevice(int *device)
{
    cudaError_t error = enter_driver(__func__);
    *device = error ? *device : shim_device();
    return LEAVE(error, "%s", "");
}

cudaError_t
cudaSetDevice(int device)
{
    cudaError_t error = enter_driver(__func__);
    if (!error && (device < 0 || device >= shim_now().devices)) {
        error = cudaErrorInvalidDevice;
    }
    if (!error) {
        shim_make_current(device);
    }
    return LEAVE(error, "to=%d", device);
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    cudaError_t error = enter_driver(__func__);
    *count = error ? 0 : shim_now().devices;
    return LEAVE(error, "%s", "");
}

static int
attribute(enum cudaDeviceAttr attr)
{
    int arch = shim_now().arch;
    switch ((int)attr) {
    case cudaDevAttrComputeCapabilityMajor: return arch / 10;
    case cudaDevAttrComputeCapabilityMinor: return arch % 10;
    case cudaDevAttrMultiProcessorCount: return 132;
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrMaxSharedMemoryPerBlock: return 49152;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return 232448;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 233472;
    case cudaDevAttrMaxRegistersPerBlock: return 65536;
    case cudaDevAttrMaxGridDimX: return INT32_MAX;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrL2CacheSize: return 62914560;
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrUnifiedAddressing: return 1;
    default: return 0;
    }
}

cudaError_t
cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    cudaError_t error = enter_driver(__func__);
    if (!error && (device < 0 || device >= shim_now().devices)) {
        error = cudaErrorInvalidDevice;
    }
    *value = error ? 0 : attribute(attr);
    return LEAVE(error, "attribute=%d of=%d", (int)attr, device);
}

cudaError_t
cudaDriverGetVersion(int *version)
{
    cudaError_t error = ENTER();
    *version = shim_now().driver;
    return LEAVE(error, "%s", "");
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
    cudaError_t error = ENTER();
    *version = CUDART_VERSION;
    return LEAVE(error, "%s", "");
}

cudaError_t
cudaGetLastError(void)
{
    shim_enter(__func__);
    return (cudaError_t)shim_note(shim_last(true), __func__, "%s", "");
}

cudaError_t
cudaPeekAtLastError(void)
{
    shim_enter(__func__);
    return (cudaError_t)shim_note(shim_last(false), __func__, "%s", "");
}

cudaError_t
cudaDeviceSynchronize(void)
{
    cudaError_t error = enter_uncaptured(__func__);
    return LEAVE(error ? error : (cudaError_t)shim_forbidden_device(), "%s", "");
}

/* ---- memory --------------------------------------------------------------------------------- */

static cudaError_t
take(void **memory, size_t bytes, cudaError_t error)
{
    *memory = NULL;
    if (!error) {
        shim_bind();
    }
    if (!error && bytes) {
        *memory = shim_allocate(bytes);
        error = *memory ? cudaSuccess : cudaErrorMemoryAllocation;
    }
    return error;
}

static cudaError_t
give(void *memory, cudaError_t error)
{
    return error || !memory || shim_free(memory) ? error : cudaErrorInvalidValue;
}

cudaError_t
cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream)
{
    cudaError_t error = take(memory, bytes, enter_driver(__func__));
    shim_pool(*memory);
    return LEAVE(error, "bytes=%zu stream=%p memory=%p", bytes, (void *)stream, *memory);
}

cudaError_t
cudaFreeAsync(void *memory, cudaStream_t stream)
{
    return LEAVE(
        give(memory, enter_driver(__func__)), "memory=%p stream=%p", memory, (void *)stream);
}

cudaError_t
cudaMalloc(void **memory, size_t bytes)
{
    cudaError_t error = take(memory, bytes, enter_uncaptured(__func__));
    return LEAVE(error, "bytes=%zu memory=%p", bytes, *memory);
}

cudaError_t
cudaFree(void *memory)
{
    return LEAVE(give(memory, enter_uncaptured(__func__)), "memory=%p", memory);
}

cudaError_t
cudaMallocHost(void **memory, size_t bytes)
{
    cudaError_t error = take(memory, bytes, enter_uncaptured(__func__));
    return LEAVE(error, "bytes=%zu memory=%p", bytes, *memory);
}

cudaError_t
cudaFreeHost(void *memory)
{
    return LEAVE(give(memory, enter_uncaptured(__func__)), "memory=%p", memory);
}

/* Whether the page of an address is there: the system's own answer. */
static bool
is_mapped(const void *memory)
{
    unsigned char resident;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return mincore((void *)((uintptr_t)memory / page * page), 1, &resident) == 0;
}

/* Claimed addresses are not touched: only what was allocated here is device memory, and where the
   caller does not say what is the host's, what is there is. */
static bool
is_there(const void *memory, size_t bytes, bool host, enum cudaMemcpyKind kind)
{
    bool asks = kind == cudaMemcpyDefault && bytes;
    return host || shim_owns(memory, bytes) ||
           (asks && is_mapped(memory) && is_mapped((const char *)memory + bytes - 1));
}

static void
copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    bool both = kind == cudaMemcpyHostToHost;
    bool in = is_there(from, bytes, both || kind == cudaMemcpyHostToDevice, kind);
    bool out = is_there(to, bytes, both || kind == cudaMemcpyDeviceToHost, kind);
    if (in && out && bytes) {
        memmove(to, from, bytes);
    }
}

#define COPY "to=%p from=%p bytes=%zu kind=%d"

static cudaError_t
keep_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    char details[200];
    snprintf(details, sizeof details, COPY, to, from, bytes, (int)kind);
    int error = shim_keep(stream, NULL, to, from, bytes, "cudaMemcpyAsync", details);
    return (cudaError_t)shim_leave(
        error, "capture:cudaMemcpyAsync", "%s stream=%p", details, (void *)stream);
}

cudaError_t
cudaMemcpyAsync(
    void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error = enter_driver(__func__);
    if (!error && shim_capturing(stream)) {
        return keep_copy(to, from, bytes, kind, stream);
    }
    if (!error) {
        copy(to, from, bytes, kind);
    }
    return LEAVE(error, COPY " stream=%p", to, from, bytes, (int)kind, (void *)stream);
}

cudaError_t
cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t error = enter_uncaptured(__func__);
    if (!error) {
        copy(to, from, bytes, kind);
    }
    return LEAVE(error, "to=%p from=%p bytes=%zu kind=%d", to, from, bytes, (int)kind);
}

cudaError_t
cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    cudaError_t error = enter_driver(__func__);
    if (!error && bytes && shim_owns(memory, bytes)) {
        memset(memory, value, bytes);
    }
    return LEAVE(
        error, "memory=%p value=%d bytes=%zu stream=%p", memory, value, bytes, (void *)stream);
}

/* Memory that was allocated here is on the device that it was allocated on. Other addresses are on
   the device that the four bits above 32 count from 1, as tests may say; where these or those above
   say something else, unknown. */
cudaError_t
cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    cudaError_t error = enter_driver(__func__);
    uintptr_t said = (uintptr_t)memory >> 32;
    memset(attributes, 0, sizeof *attributes);
    int device = error ? -1 : shim_device_of(memory);
    if (!error && device < 0 && said > 0 && said < 16) {
        device = (int)said - 1;
    }
    if (device >= 0) {
        attributes->type = cudaMemoryTypeDevice;
        attributes->device = device;
        attributes->devicePointer = (void *)(uintptr_t)memory;
    }
    return LEAVE(error, "memory=%p", memory);
}

cudaError_t
cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    cudaError_t error = enter_driver(__func__);
    *total = (size_t)1 << 37;
    *free_bytes = *total;
    return LEAVE(error, "%s", "");
}

/* ---- streams and events --------------------------------------------------------------------- */

static cudaError_t
make_stream(cudaStream_t *stream, cudaError_t error)
{
    *stream = error ? NULL : (cudaStream_t)new_handle();
    return error;
}

cudaError_t
cudaStreamCreate(cudaStream_t *stream)
{
    cudaError_t error = make_stream(stream, enter_driver(__func__));
    return LEAVE(error, "stream=%p", (void *)*stream);
}

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    cudaError_t error = make_stream(stream, enter_driver(__func__));
    return LEAVE(error, "stream=%p flags=%u", (void *)*stream, flags);
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
    return LEAVE(enter_driver(__func__), "stream=%p", (void *)stream);
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    return LEAVE(enter_uncaptured(__func__), "stream=%p", (void *)stream);
}

cudaError_t
cudaStreamQuery(cudaStream_t stream)
{
    return LEAVE(enter_uncaptured(__func__), "stream=%p", (void *)stream);
}

cudaError_t
cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    cudaError_t error = enter_driver(__func__);
    *status = shim_now().capturing || shim_capturing(stream) ? cudaStreamCaptureStatusActive
                                                             : cudaStreamCaptureStatusNone;
    return LEAVE(error, "stream=%p", (void *)stream);
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return LEAVE(
        enter_driver(__func__), "stream=%p event=%p flags=%u", (void *)stream, (void *)event,
        flags);
}

cudaError_t
cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    static _Thread_local enum cudaStreamCaptureMode kept = cudaStreamCaptureModeGlobal;
    cudaError_t error = enter_driver(__func__);
    enum cudaStreamCaptureMode before = kept;
    kept = *mode;
    *mode = before;
    return LEAVE(error, "mode=%d", (int)kept);
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    cudaError_t error = enter_driver(__func__);
    *event = error ? NULL : (cudaEvent_t)new_handle();
    return LEAVE(error, "event=%p flags=%u", (void *)*event, flags);
}

cudaError_t
cudaEventCreate(cudaEvent_t *event)
{
    cudaError_t error = enter_driver(__func__);
    *event = error ? NULL : (cudaEvent_t)new_handle();
    return LEAVE(error, "event=%p", (void *)*event);
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
    return LEAVE(enter_driver(__func__), "event=%p", (void *)event);
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return LEAVE(enter_driver(__func__), "event=%p stream=%p", (void *)event, (void *)stream);
}

cudaError_t
cudaEventQuery(cudaEvent_t event)
{
    return LEAVE(enter_uncaptured(__func__), "event=%p", (void *)event);
}

cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
    return LEAVE(enter_uncaptured(__func__), "event=%p", (void *)event);
}

cudaError_t
cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    cudaError_t error = enter_driver(__func__);
    *milliseconds = 1;
    return LEAVE(error, "from=%p to=%p", (void *)from, (void *)to);
}
