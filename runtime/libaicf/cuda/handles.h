/* Kernels' handles, by what launches name: a host function, or the handle itself. */
#ifndef AICF_CUDA_HANDLES_H
#define AICF_CUDA_HANDLES_H

#include <stdint.h>

#include <cuda_runtime_api.h>

#include "driver.h"

#pragma GCC visibility push(hidden)

typedef struct handle handle;

/* NULL: not known. Takes no lock. */
handle *handle_find(const void *name);

/* What to launch in the current context, whose number is `context`, 0 where that is not known: the
   context's own function, which is the faster, or what is good in every context, or NULL. */
CUfunction handle_in(const handle *h, uint64_t context);

/* After a launch in that context: its own function may be known from now on. */
void handle_place(handle *h, const driver *d, uint64_t context);

/* From the runtime, NULL where it knows of none. Leaves no error behind. */
cudaKernel_t handle_ask(const void *function);

/* Of a kernel that was launched before. */
void handle_learn(const void *name, cudaKernel_t kernel);

/* All: a module is being unloaded, and its addresses may come again. */
void handle_forget(void);

#pragma GCC visibility pop

#endif
