/* Launches of modules, on their way to CUDA. One that works goes straight to the driver, for which
   the kernel's handle is kept. All else is the runtime's: a kernel's first launch, which may load
   its code; a thread's first, which may start a context; whatever the driver refused, so that the
   error is the runtime's, in its words and left where it leaves one. Of a launch that the runtime
   refuses as well, the configuration is kept. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "device.h"
#include "driver.h"
#include "failure.h"
#include "handles.h"

/* False: nothing was launched. The driver's streams are the runtime's. */
static inline bool
launch_fast(
    const driver *d, handle *h, dim3 grid, dim3 block, void **args, size_t shared,
    cudaStream_t stream)
{
    uint64_t context = device_context();
    CUfunction function = handle_in(h, context);
    if (!function || shared > UINT_MAX ||
        d->launch(
            function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream,
            args, NULL) != CUDA_SUCCESS) {
        return false;
    }
    handle_place(h, d, context);
    return true;
}

/* `before` is what stood on the thread. */
static cudaError_t
end(cudaError_t before, cudaError_t error, dim3 grid, dim3 block, size_t shared)
{
    if (__builtin_expect(error != cudaSuccess, 0)) {
        failure_note_launch((int32_t)before, (int32_t)error, grid, block, shared);
    }
    return error;
}

/* native_* jumps to the runtime's own; where a toolkit does not have the call nobody calls noted_*
   either. */
#define NOTED(type, name, ...)                                                   \
    type noted_##name(__VA_ARGS__) __attribute__((visibility("hidden")));        \
    type native_##name(__VA_ARGS__) __attribute__((weak, visibility("hidden"))); \
    type noted_##name(__VA_ARGS__)

/* ---- launches -------------------------------------------------------------------------------- */

NOTED(
    cudaError_t, cudaLaunchKernel, const void *function, dim3 grid, dim3 block, void **args,
    size_t shared, cudaStream_t stream)
{
    const driver *d = driver_fast();
    handle *h = d ? handle_find(function) : NULL;
    if (h && launch_fast(d, h, grid, block, args, shared, stream)) {
        return cudaSuccess;
    }
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = native_cudaLaunchKernel(function, grid, block, args, shared, stream);
    if (d && !h && error == cudaSuccess) {
        handle_learn(function, handle_ask(function));
    }
    return end(before, error, grid, block, shared);
}

/* What nvcc makes of <<<>>>: the stub has asked for the handle. */
NOTED(
    cudaError_t, __cudaLaunchKernel, cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
    size_t shared, cudaStream_t stream)
{
    const driver *d = driver_fast();
    handle *h = d ? handle_find(kernel) : NULL;
    if (h && launch_fast(d, h, grid, block, args, shared, stream)) {
        return cudaSuccess;
    }
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = native___cudaLaunchKernel(kernel, grid, block, args, shared, stream);
    if (d && !h && error == cudaSuccess) {
        handle_learn(kernel, kernel);
    }
    return end(before, error, grid, block, shared);
}

/* Here stream 0 is the thread's own, and the driver's entry for that is another. */
NOTED(
    cudaError_t, __cudaLaunchKernel_ptsz, cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
    size_t shared, cudaStream_t stream)
{
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = native___cudaLaunchKernel_ptsz(kernel, grid, block, args, shared, stream);
    return end(before, error, grid, block, shared);
}

NOTED(
    cudaError_t, cudaLaunchCooperativeKernel, const void *function, dim3 grid, dim3 block,
    void **args, size_t shared, cudaStream_t stream)
{
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error =
        native_cudaLaunchCooperativeKernel(function, grid, block, args, shared, stream);
    return end(before, error, grid, block, shared);
}

/* Clusters and the like. */
NOTED(
    cudaError_t, cudaLaunchKernelExC, const cudaLaunchConfig_t *config, const void *function,
    void **args)
{
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = native_cudaLaunchKernelExC(config, function, args);
    return end(before, error, config->gridDim, config->blockDim, config->dynamicSmemBytes);
}

/* ---- what <<<>>> says before the stub is called ---------------------------------------------- */

enum { NESTED = 8 };

/* Configurations that were pushed and not popped: several where an argument of a launch launches.
   What is too many goes to the runtime and comes back from there first. */
static _Thread_local struct {
    struct {
        dim3 grid, block;
        size_t shared;
        cudaStream_t stream;
    } pushed[NESTED];
    unsigned count, beyond;
} pending;

NOTED(
    unsigned, __cudaPushCallConfiguration, dim3 grid, dim3 block, size_t shared,
    cudaStream_t stream)
{
    if (pending.count == NESTED) {
        unsigned refused = native___cudaPushCallConfiguration(grid, block, shared, stream);
        pending.beyond += refused == 0;
        return refused;
    }
    unsigned i = pending.count++;
    pending.pushed[i].grid = grid;
    pending.pushed[i].block = block;
    pending.pushed[i].shared = shared;
    pending.pushed[i].stream = stream;
    return 0;
}

NOTED(
    cudaError_t, __cudaPopCallConfiguration, dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (pending.beyond || !pending.count) {
        pending.beyond -= pending.beyond > 0;
        return native___cudaPopCallConfiguration(grid, block, shared, stream);
    }
    unsigned i = --pending.count;
    *grid = pending.pushed[i].grid;
    *block = pending.pushed[i].block;
    *shared = pending.pushed[i].shared;
    *(cudaStream_t *)stream = pending.pushed[i].stream;
    return cudaSuccess;
}

/* ---- the end of a module --------------------------------------------------------------------- */

NOTED(void, __cudaUnregisterFatBinary, void **binary)
{
    handle_forget();
    native___cudaUnregisterFatBinary(binary);
}
