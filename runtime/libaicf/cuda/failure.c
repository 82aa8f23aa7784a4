/* The last failure of each thread. Of a launch the configuration is kept. */
#include "failure.h"

#include <stdbool.h>
#include <stdio.h>

#include <cuda_runtime_api.h>

void
failure_note(int32_t error)
{
    failure *last = &here.failed;
    last->error = last->error ? last->error : error;
}

void
failure_note_launch(int32_t before, int32_t error, dim3 grid, dim3 block, size_t shared)
{
    failure *last = &here.failed;
    last->before = last->before ? last->before : before;
    last->error = error;
    last->launched = true;
    last->grid = grid;
    last->block = block;
    last->shared = shared;
}

static int
put_launch(const failure *last, char *text, size_t size)
{
    return snprintf(
        text, size,
        ". Launched with grid (%u, %u, %u), block (%u, %u, %u) and %zu bytes of dynamic shared "
        "memory",
        last->grid.x, last->grid.y, last->grid.z, last->block.x, last->block.y, last->block.z,
        last->shared);
}

void
failure_text(int32_t native, char *text, size_t size)
{
    const failure *last = &here.failed;
    int used = 0;
    text[0] = '\0';
    if (!last->error || last->error != native) {
        return;
    }
    if (last->launched) {
        used = put_launch(last, text, size);
    }
    if (last->before && used >= 0 && (size_t)used < size) {
        cudaError_t before = (cudaError_t)last->before;
        bool same = last->before == native;
        snprintf(
            text + used, size - (size_t)used,
            same ? ". It stood on this thread before the call: an earlier one did it"
                 : ". Before the call %s (%d) stood on this thread, left by an earlier one",
            cudaGetErrorName(before), last->before);
    }
}
