/* The last failure of each thread. Launches of modules come through here on their way to the CUDA
   runtime: one that works costs a compare; of one that fails the configuration is kept. */
#include "failure.h"

#include <stdbool.h>
#include <stdio.h>

#include <cuda_runtime_api.h>

static _Thread_local struct {
    int32_t before;
    int32_t error; /* 0: nothing failed */
    bool launched;
    dim3 grid, block;
    size_t shared;
} last;

void
failure_begin(int32_t before)
{
    last.before = before;
    last.error = 0;
    last.launched = false;
}

void
failure_note(int32_t error)
{
    last.error = last.error ? last.error : error;
}

static __attribute__((noinline)) void
note_launch(cudaError_t error, dim3 grid, dim3 block, size_t shared)
{
    last.error = (int32_t)error;
    last.launched = true;
    last.grid = grid;
    last.block = block;
    last.shared = shared;
}

static int
put_launch(char *text, size_t size)
{
    return snprintf(
        text, size,
        ". Launched with grid (%u, %u, %u), block (%u, %u, %u) and %zu bytes of dynamic shared "
        "memory",
        last.grid.x, last.grid.y, last.grid.z, last.block.x, last.block.y, last.block.z,
        last.shared);
}

void
failure_text(int32_t native, char *text, size_t size)
{
    int used = 0;
    text[0] = '\0';
    if (!last.error || last.error != native) {
        return;
    }
    if (last.launched) {
        used = put_launch(text, size);
    }
    if (last.before && used >= 0 && (size_t)used < size) {
        cudaError_t before = (cudaError_t)last.before;
        bool same = last.before == native;
        snprintf(
            text + used, size - (size_t)used,
            same ? ". It stood on this thread before the call: an earlier one did it"
                 : ". Before the call %s (%d) stood on this thread, left by an earlier one",
            cudaGetErrorName(before), last.before);
    }
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* native_* jumps to the runtime's own; where a toolkit does not have the call nobody calls noted_*
   either. */
#define NOTED(name, ...)                                                                \
    cudaError_t noted_##name(__VA_ARGS__) __attribute__((visibility("hidden")));        \
    cudaError_t native_##name(__VA_ARGS__) __attribute__((weak, visibility("hidden"))); \
    cudaError_t noted_##name(__VA_ARGS__)

#define RETURN_NOTED(error, grid, block, shared)      \
    cudaError_t error_ = error;                       \
    if (__builtin_expect(error_ != cudaSuccess, 0)) { \
        note_launch(error_, grid, block, shared);     \
    }                                                 \
    return error_

NOTED(
    __cudaLaunchKernel, cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
    cudaStream_t stream)
{
    RETURN_NOTED(
        native___cudaLaunchKernel(kernel, grid, block, args, shared, stream), grid, block, shared);
}

NOTED(
    __cudaLaunchKernel_ptsz, cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
    cudaStream_t stream)
{
    RETURN_NOTED(
        native___cudaLaunchKernel_ptsz(kernel, grid, block, args, shared, stream), grid, block,
        shared);
}

NOTED(
    cudaLaunchKernel, const void *function, dim3 grid, dim3 block, void **args, size_t shared,
    cudaStream_t stream)
{
    RETURN_NOTED(
        native_cudaLaunchKernel(function, grid, block, args, shared, stream), grid, block, shared);
}

NOTED(
    cudaLaunchCooperativeKernel, const void *function, dim3 grid, dim3 block, void **args,
    size_t shared, cudaStream_t stream)
{
    RETURN_NOTED(
        native_cudaLaunchCooperativeKernel(function, grid, block, args, shared, stream), grid,
        block, shared);
}

NOTED(cudaLaunchKernelExC, const cudaLaunchConfig_t *config, const void *function, void **args)
{
    RETURN_NOTED(
        native_cudaLaunchKernelExC(config, function, args), config->gridDim, config->blockDim,
        config->dynamicSmemBytes);
}
