/* While a launcher runs whose launch shall be kept: what it has launched so far. */
#ifndef AICF_CUDA_REPEAT_H
#define AICF_CUDA_REPEAT_H

#include <aicf/repeat.h>

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "driver.h"
#include "handles.h"

#pragma GCC visibility push(hidden)

typedef struct learning {
    aicf_repeat *repeat; /* of the one launch, NULL: none yet */
    bool spoiled;        /* something else was done, or there were several */
} learning;

/* A launch worked that went to the driver, in the context of that number. */
void learning_launched(
    learning *l, const driver *d, const handle *h, uint64_t context, dim3 grid, dim3 block,
    void **args, size_t shared, bool early);

/* The launcher did what cannot be done again, or what it did may be other the next time. Called by
   the trampolines of such calls too (cudart.sh). */
void learning_spoil(void);

#pragma GCC visibility pop

#endif
