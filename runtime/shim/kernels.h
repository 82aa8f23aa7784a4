/* The driver's way to launch a kernel. */
#ifndef AICF_SHIM_KERNELS_H
#define AICF_SHIM_KERNELS_H

#include <cuda.h>

#pragma GCC visibility push(hidden)

/* cuLaunchKernel. */
CUresult shim_launch(
    CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
    unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **args,
    void **extra);

/* cuLaunchKernelEx, of launches that are like any but for when they may start. */
CUresult shim_launch_with(const CUlaunchConfig *c, CUfunction function, void **args, void **extra);

/* cuKernelGetFunction: the kernel's place in the current context. */
CUresult shim_function(CUfunction *function, CUkernel kernel);

/* cuFuncGetParamInfo. Nobody here knows what a kernel takes: it is said to be one byte. */
CUresult shim_parameter(CUfunction function, size_t index, size_t *offset, size_t *size);

#pragma GCC visibility pop

#endif
