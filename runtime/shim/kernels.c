/* Kernels: their registration by nvcc's stubs, and their launches, which only check and record. */
#include "kernels.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "graphs.h"
#include "shim.h"

/* What nvcc's stubs call; no header of the toolkit that C can read has them. */
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(
    void **handle, const char *host, char *device, const char *name, int threads, void *tid,
    void *bid, void *block, void *grid, int *size);
void __cudaRegisterVar(
    void **handle, char *host, char *device, const char *name, int external, size_t bytes,
    int constant, int global);
char __cudaInitModule(void **handle);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *symbol);
cudaError_t __cudaLaunchKernel(
    cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);

enum { KERNELS = 8192, DEVICES = 16, NESTED = 8 };

typedef struct kernel {
    const void *host;
    const char *name;
    int shared[DEVICES]; /* what cudaFuncSetAttribute allows */
} kernel;

typedef struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    bool early; /* it may start before those that it follows have ended */
} configuration;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kernel kernels[KERNELS];
static int kernel_count;
static _Thread_local configuration pushed[NESTED];
static _Thread_local int depth;

/* A module that was unloaded may give its addresses to another: the newest registration counts. */
static kernel *
find(const void *host)
{
    kernel *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = kernel_count - 1; i >= 0 && !found; i--) {
        found = kernels[i].host == host ? &kernels[i] : NULL;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static const char *
name_of(const kernel *k)
{
    return k ? k->name : "unregistered";
}

/* ---- registration --------------------------------------------------------------------------- */

void **
__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    (void)binary;
    return &handle;
}

void
__cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void
__cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

char
__cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void
__cudaRegisterFunction(
    void **handle, const char *host, char *device, const char *name, int threads, void *tid,
    void *bid, void *block, void *grid, int *size)
{
    (void)handle, (void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid;
    (void)size;
    pthread_mutex_lock(&lock);
    if (kernel_count < KERNELS) {
        kernels[kernel_count++] = (kernel){.host = host, .name = name};
    }
    pthread_mutex_unlock(&lock);
}

void
__cudaRegisterVar(
    void **handle, char *host, char *device, const char *name, int external, size_t bytes,
    int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)bytes;
    (void)constant, (void)global;
}

/* ---- launches ------------------------------------------------------------------------------- */

unsigned
__cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    if (depth == NESTED) {
        return 1;
    }
    pushed[depth++] = (configuration){grid, block, shared, stream, false};
    return 0;
}

cudaError_t
__cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (depth == 0) {
        return cudaErrorMissingConfiguration;
    }
    configuration c = pushed[--depth];
    *grid = c.grid;
    *block = c.block;
    *shared = c.shared;
    *(cudaStream_t *)stream = c.stream;
    return cudaSuccess;
}

/* A kernel's handle is the address of its stub. */
cudaError_t
__cudaGetKernel(cudaKernel_t *handle, const void *symbol)
{
    *handle = (cudaKernel_t)(uintptr_t)symbol;
    return find(symbol) ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t
cudaGetKernel(cudaKernel_t *handle, const void *symbol)
{
    int error = shim_enter(__func__);
    error = error ? error : (int)__cudaGetKernel(handle, symbol);
    return (cudaError_t)shim_leave(error, __func__, "kernel=%s", name_of(find(symbol)));
}

/* A grid of nothing or too much is an invalid value, as seen with CUDA 13. */
static cudaError_t
check_sizes(dim3 grid, dim3 block)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (!threads || block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024) {
        return cudaErrorInvalidConfiguration;
    }
    bool fits =
        grid.x && grid.y && grid.z && grid.x <= INT32_MAX && grid.y <= 65535 && grid.z <= 65535;
    return fits ? cudaSuccess : cudaErrorInvalidValue;
}

static cudaError_t
check(const kernel *k, configuration c)
{
    shim_state now = shim_now();
    int device = shim_device() < DEVICES ? shim_device() : 0;
    if (now.driver < CUDART_VERSION / 1000 * 1000) {
        return cudaErrorInsufficientDriver;
    }
    if (!k) {
        return cudaErrorInvalidDeviceFunction;
    }
    bool shared = c.shared <= 49152 || c.shared <= (size_t)k->shared[device];
    cudaError_t sizes = check_sizes(c.grid, c.block);
    return sizes ? sizes : shared ? cudaSuccess : cudaErrorInvalidValue;
}

#define LAUNCH "kernel=%s grid=%u,%u,%u block=%u,%u,%u smem=%zu stream=%p"
#define LAUNCH_VALUES(k, c)                                                                \
    name_of(k), (c).grid.x, (c).grid.y, (c).grid.z, (c).block.x, (c).block.y, (c).block.z, \
        (c).shared, (void *)(c).stream

/* A launch on a stream that is captured is recorded by another name: one of the graph will be as
   any launch. */
static int
keep(const char *call, const kernel *k, configuration c, bool driver)
{
    char kept[64], details[400];
    snprintf(details, sizeof details, LAUNCH "%s", LAUNCH_VALUES(k, c), c.early ? " early=1" : "");
    snprintf(kept, sizeof kept, "capture:%s", call);
    int error = c.early && shim_follows(c.stream) > 1
                    ? (int)cudaErrorNotSupported
                    : shim_keep(c.stream, k, NULL, NULL, 0, call, details);
    return driver ? shim_note(error, kept, "%s by=driver", details)
                  : shim_leave(error, kept, "%s", details);
}

static cudaError_t
launch(const char *call, const void *function, configuration c)
{
    kernel *k = find(function);
    int error = shim_enter(call);
    error = error ? error : (int)check(k, c);
    if (!error) {
        shim_bind();
    }
    if (!error && shim_capturing(c.stream)) {
        return (cudaError_t)keep(call, k, c, false);
    }
    return (cudaError_t)shim_leave(error, call, LAUNCH, LAUNCH_VALUES(k, c));
}

/* A kernel in one context: what the driver calls a function. There is one of each for ever. */
typedef struct place {
    struct place *next;
    const void *host;
    unsigned long long context;
} place;

static place *places;

CUresult
shim_function(CUfunction *function, CUkernel kernel)
{
    int error = shim_enter("cuKernelGetFunction");
    unsigned long long context = shim_context();
    pthread_mutex_lock(&lock);
    place *found = places;
    while (found && (found->host != (const void *)kernel || found->context != context)) {
        found = found->next;
    }
    if (!found && (found = malloc(sizeof *found))) {
        *found = (place){places, (const void *)kernel, context};
        places = found;
    }
    pthread_mutex_unlock(&lock);
    *function = error ? NULL : (CUfunction)(void *)found;
    return (CUresult)shim_note(error, "cuKernelGetFunction", "kernel=%s", name_of(find(kernel)));
}

CUresult
shim_parameter(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    (void)function;
    *offset = 0;
    *size = index == 0;
    return index == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A function of another context is what the driver would crash on. */
static const void *
host_of(CUfunction function, const char **by)
{
    unsigned long long context = shim_context();
    const void *host = (const void *)function;
    *by = "handle";
    pthread_mutex_lock(&lock);
    for (const place *p = places; p; p = p->next) {
        if ((const void *)p == (const void *)function) {
            host = p->host;
            *by = "function";
            if (p->context != context) {
                fprintf(stderr, "shim: a function of context %llu in %llu\n", p->context, context);
                abort();
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return host;
}

/* The driver's. */
static CUresult
launch_driver(CUfunction function, configuration c)
{
    const char *by;
    kernel *k = find(host_of(function, &by));
    int error = shim_enter("cuLaunchKernel");
    error = error                            ? error
            : !shim_bound()                  ? (int)CUDA_ERROR_INVALID_CONTEXT
            : shim_waits("cudaLaunchKernel") ? (int)CUDA_ERROR_UNKNOWN
                                             : (int)check(k, c);
    if (!error && shim_capturing(c.stream)) {
        return (CUresult)keep("cudaLaunchKernel", k, c, true);
    }
    return (CUresult)shim_note(
        error, error ? "cuLaunchKernel" : "cudaLaunchKernel", LAUNCH " by=driver as=%s",
        LAUNCH_VALUES(k, c), by);
}

CUresult
shim_launch(
    CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
    unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **args, void **extra)
{
    (void)args, (void)extra;
    return launch_driver(
        function, (configuration){{grid_x, grid_y, grid_z},
                                  {block_x, block_y, block_z},
                                  shared,
                                  (cudaStream_t)stream,
                                  false});
}

CUresult
shim_launch_with(const CUlaunchConfig *c, CUfunction function, void **args, void **extra)
{
    (void)args, (void)extra;
    return launch_driver(
        function, (configuration){{c->gridDimX, c->gridDimY, c->gridDimZ},
                                  {c->blockDimX, c->blockDimY, c->blockDimZ},
                                  c->sharedMemBytes,
                                  (cudaStream_t)c->hStream,
                                  true});
}

cudaError_t
__cudaLaunchKernel(
    cudaKernel_t handle, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    (void)args;
    return launch("cudaLaunchKernel", handle, (configuration){grid, block, shared, stream, false});
}

cudaError_t
cudaLaunchKernel(
    const void *function, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    (void)args;
    return launch(__func__, function, (configuration){grid, block, shared, stream, false});
}

cudaError_t
cudaLaunchCooperativeKernel(
    const void *function, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    (void)args;
    return launch(__func__, function, (configuration){grid, block, shared, stream, false});
}

cudaError_t
cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    (void)args;
    bool plain = true, early = false; /* but for when it may start, it is a launch like any */
    for (unsigned i = 0; i < config->numAttrs; i++) {
        bool is = config->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization;
        early |= is;
        plain &= is;
    }
    return launch(
        plain ? "cudaLaunchKernel" : __func__, function,
        (configuration){config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream,
                        early});
}

/* ---- attributes ----------------------------------------------------------------------------- */

cudaError_t
cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    kernel *k = find(function);
    int error = shim_enter(__func__);
    error = !error && !k ? (int)cudaErrorInvalidDeviceFunction : error;
    if (!error && attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        error = value > 232448 ? (int)cudaErrorInvalidValue : 0;
        if (!error && shim_device() < DEVICES) {
            k->shared[shim_device()] = value;
        }
    }
    return (cudaError_t)shim_leave(
        error, __func__, "kernel=%s attribute=%d value=%d", name_of(k), (int)attribute, value);
}

cudaError_t
cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    kernel *k = find(function);
    int error = shim_enter(__func__);
    error = !error && !k ? (int)cudaErrorInvalidDeviceFunction : error;
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->binaryVersion = shim_now().arch;
    return (cudaError_t)shim_leave(error, __func__, "kernel=%s", name_of(k));
}

static cudaError_t
occupancy(const char *call, int *blocks, const void *function, int threads, size_t shared)
{
    kernel *k = find(function);
    int error = shim_enter(call);
    error = !error && !k ? (int)cudaErrorInvalidDeviceFunction : error;
    *blocks = threads > 0 ? 2048 / threads : 0;
    return (cudaError_t)shim_leave(
        error, call, "kernel=%s threads=%d smem=%zu", name_of(k), threads, shared);
}

cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, const void *function, int threads, size_t shared)
{
    return occupancy(__func__, blocks, function, threads, shared);
}

cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *function, int threads, size_t shared, unsigned flags)
{
    (void)flags;
    return occupancy(__func__, blocks, function, threads, shared);
}

/* As many as a GPU of 132 processors runs at once of clusters of eight. */
cudaError_t
cudaOccupancyMaxActiveClusters(int *clusters, const void *function, const cudaLaunchConfig_t *how)
{
    kernel *k = find(function);
    int error = shim_enter(__func__);
    error = !error && !k ? (int)cudaErrorInvalidDeviceFunction : error;
    *clusters = 16;
    return (cudaError_t)shim_leave(
        error, __func__, "kernel=%s smem=%zu", name_of(k), how->dynamicSmemBytes);
}
