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

#include "attempt.h"
#include "device.h"
#include "driver.h"
#include "failure.h"
#include "handles.h"
#include "repeat.h"

__attribute__((noinline)) CUresult
launch_early(
    const driver *d, CUfunction function, dim3 grid, dim3 block, void **args, void **extra,
    size_t shared, cudaStream_t stream)
{
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    early.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config = {
        .gridDimX = grid.x,
        .gridDimY = grid.y,
        .gridDimZ = grid.z,
        .blockDimX = block.x,
        .blockDimY = block.y,
        .blockDimZ = block.z,
        .sharedMemBytes = (unsigned)shared,
        .hStream = stream,
        .attrs = &early,
        .numAttrs = 1};
    return d->launch_with(&config, function, args, extra);
}

/* False: nothing was launched. The driver's streams are the runtime's. Outside of a launch of ours
   the context is asked for here. */
static inline __attribute__((always_inline)) bool
launch_fast(
    const void *name, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream,
    bool early)
{
    const driver *d = driver_fast();
    handle *h = d ? handle_find(name) : NULL;
    if (!h) {
        return false;
    }
    thread *t = thread_here();
    unsigned long long context = t->context;
    if (!context && d->id(NULL, &context) != CUDA_SUCCESS) {
        context = 0;
    }
    CUfunction function = handle_in(h, context);
    if (!function || shared > UINT_MAX) {
        return false;
    }
    CUresult result = early ? launch_early(d, function, grid, block, args, NULL, shared, stream)
                            : d->launch(
                                  function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                  (unsigned)shared, stream, args, NULL);
    if (result != CUDA_SUCCESS) {
        return false;
    }
    if (__builtin_expect(!handle_has_place(h), 0)) {
        handle_place(h, d, context);
    }
    if (__builtin_expect(t->learning != NULL, 0)) {
        learning_launched(t->learning, d, h, context, grid, block, args, shared, early);
    }
    return true;
}

/* Of launches that were the runtime's. `before` is what stood on the thread. */
static cudaError_t
end(cudaError_t before, cudaError_t error, dim3 grid, dim3 block, size_t shared)
{
    learning_spoil();
    if (__builtin_expect(error != cudaSuccess, 0)) {
        failure_note_launch((int32_t)before, (int32_t)error, grid, block, shared);
    }
    return error;
}

/* native_* jumps to the runtime's own; where a toolkit does not have the call nobody calls noted_*
   either. */
#define DECLARE(type, name, ...)                                          \
    type noted_##name(__VA_ARGS__) __attribute__((visibility("hidden"))); \
    type native_##name(__VA_ARGS__) __attribute__((weak, visibility("hidden")))

#define NOTED(type, name, ...)        \
    DECLARE(type, name, __VA_ARGS__); \
    type noted_##name(__VA_ARGS__)

/* ---- launches -------------------------------------------------------------------------------- */

/* `name` is what the launch names: a host function, for which the handle is asked, or a handle. */
static cudaError_t
learn(cudaError_t launched, const void *name, cudaKernel_t kernel)
{
    if (launched == cudaSuccess && driver_fast() && !handle_known(name)) {
        handle_learn(name, kernel ? kernel : handle_ask(name));
    }
    return launched;
}

#define LAUNCH_PARAMETERS dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream

DECLARE(cudaError_t, cudaLaunchKernel, const void *, LAUNCH_PARAMETERS);
DECLARE(cudaError_t, __cudaLaunchKernel, cudaKernel_t, LAUNCH_PARAMETERS);

static __attribute__((noinline, cold)) cudaError_t
launch_function(const void *function, LAUNCH_PARAMETERS)
{
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = native_cudaLaunchKernel(function, grid, block, args, shared, stream);
    return end(before, learn(error, function, NULL), grid, block, shared);
}

static __attribute__((noinline, cold)) cudaError_t
launch_kernel(cudaKernel_t kernel, LAUNCH_PARAMETERS)
{
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = native___cudaLaunchKernel(kernel, grid, block, args, shared, stream);
    return end(before, learn(error, kernel, kernel), grid, block, shared);
}

cudaError_t
noted_cudaLaunchKernel(const void *function, LAUNCH_PARAMETERS)
{
    return launch_fast(function, grid, block, args, shared, stream, false)
               ? cudaSuccess
               : launch_function(function, grid, block, args, shared, stream);
}

/* What nvcc makes of <<<>>>: the stub has asked for the handle. */
cudaError_t
noted___cudaLaunchKernel(cudaKernel_t kernel, LAUNCH_PARAMETERS)
{
    return launch_fast(kernel, grid, block, args, shared, stream, false)
               ? cudaSuccess
               : launch_kernel(kernel, grid, block, args, shared, stream);
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
    cudaError_t error = order_begin_whole(stream);
    if (error == cudaSuccess) {
        error = native_cudaLaunchCooperativeKernel(function, grid, block, args, shared, stream);
    }
    if (error == cudaSuccess) {
        order_end_whole(stream);
    }
    return end(before, error, grid, block, shared);
}

static bool
is_early(const cudaLaunchConfig_t *config)
{
    const cudaLaunchAttribute *one = config->attrs;
    return config->numAttrs == 1 && one->id == cudaLaunchAttributeProgrammaticStreamSerialization &&
           one->val.programmaticStreamSerializationAllowed;
}

static bool
is_whole(const cudaLaunchConfig_t *config)
{
    bool whole = false;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute *one = &config->attrs[i];
        whole |= one->id == cudaLaunchAttributeCooperative && one->val.cooperative;
    }
    return whole;
}

DECLARE(cudaError_t, cudaLaunchKernelExC, const cudaLaunchConfig_t *, const void *, void **);

/* By the runtime; what it says is still to be noted. */
static cudaError_t
launch_config(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    bool whole = is_whole(config);
    cudaError_t error = whole ? order_begin_whole(config->stream) : cudaSuccess;
    if (error == cudaSuccess) {
        error = native_cudaLaunchKernelExC(config, function, args);
    }
    if (error == cudaSuccess && whole) {
        order_end_whole(config->stream);
    }
    return error;
}

enum { ATTRIBUTES = 16 };

/* Not early, whatever the attributes say: it follows several, and the last to end may be any. */
static __attribute__((noinline, cold)) cudaError_t
launch_late(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    cudaLaunchAttribute kept[ATTRIBUTES];
    cudaLaunchConfig_t late = *config;
    late.attrs = kept;
    late.numAttrs = 0;
    for (unsigned i = 0; i < config->numAttrs && late.numAttrs < ATTRIBUTES; i++) {
        if (config->attrs[i].id != cudaLaunchAttributeProgrammaticStreamSerialization) {
            kept[late.numAttrs++] = config->attrs[i];
        }
    }
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = launch_config(&late, function, args);
    return end(before, error, late.gridDim, late.blockDim, late.dynamicSmemBytes);
}

/* Clusters and the like, and launches that may start early: the driver has those too. */
cudaError_t
noted_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    if (__builtin_expect(here.late, 0) && order_is_late(config->stream)) {
        return launch_late(config, function, args);
    }
    const bool early = is_early(config);
    if (early && launch_fast(
                     function, config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                     config->stream, true)) {
        return cudaSuccess;
    }
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = launch_config(config, function, args);
    error = early ? learn(error, function, NULL) : error;
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
