/* Kernels' handles, by what launches name: a host function, or the handle itself. */
#ifndef AICF_CUDA_HANDLES_H
#define AICF_CUDA_HANDLES_H

#include <stddef.h>

#include <cuda_runtime_api.h>

#pragma GCC visibility push(hidden)

/* NULL: not known. Takes no lock. */
cudaKernel_t handle_find(const void *name);

/* From the runtime, NULL where it knows of none. Leaves no error behind. */
cudaKernel_t handle_ask(const void *function);

/* Of a kernel that was launched before. */
void handle_learn(const void *name, cudaKernel_t handle);

/* All: a module is being unloaded, and its addresses may come again. */
void handle_forget(void);

#pragma GCC visibility pop

#endif
