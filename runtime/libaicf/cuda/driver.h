/* The calls of the driver that libaicf makes past the runtime: contexts, and launches. */
#ifndef AICF_CUDA_DRIVER_H
#define AICF_CUDA_DRIVER_H

#include <stdatomic.h>
#include <stdbool.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#pragma GCC visibility push(hidden)

/* What each launch asks stands first. */
typedef struct driver {
    /* Of the current context, where that is NULL. A number is never given twice. */
    CUresult (*id)(CUcontext context, unsigned long long *id);
    CUresult (*launch)(
        CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **args,
        void **extra);
    CUresult (*launch_with)(
        const CUlaunchConfig *config, CUfunction function, void **args, void **extra);
    CUresult (*function)(CUfunction *function, CUkernel kernel); /* in the current context */
    CUresult (*launch_graph)(CUgraphExec graph, CUstream stream);
    /* Where an argument of a kernel lies among all; these two NULL: the driver has no such call. */
    CUresult (*parameter)(CUfunction function, size_t index, size_t *offset, size_t *size);
    CUresult (*write)(
        CUstream stream, unsigned count, CUstreamBatchMemOpParams *values, unsigned flags);
    CUresult (*current)(CUdevice *device); /* of the context that is current; fails without one */
    CUresult (*get_device)(CUdevice *device, int ordinal);
    CUresult (*get_state)(CUdevice device, unsigned *flags, int *active);
    CUresult (*retain)(CUcontext *context, CUdevice device);
    CUresult (*release)(CUdevice device);
    CUresult (*push)(CUcontext context);
    CUresult (*pop)(CUcontext *context);
} driver;

/* NULL without a driver. Leaves no error behind and keeps none: it is asked anew at the next
   call. */
const driver *driver_open(void);

extern _Atomic(const driver *) driver_launching;

/* The same where calls go past the runtime: not before driver_start, not in a child of a process
   that had used CUDA, and never with AICF_LAUNCH=runtime. */
static inline const driver *
driver_fast(void)
{
    return atomic_load_explicit(&driver_launching, memory_order_acquire);
}

/* A launch that may start while the one before it on the stream still runs. */
CUresult launch_early(
    const driver *d, CUfunction function, dim3 grid, dim3 block, void **args, void **extra,
    size_t shared, cudaStream_t stream);

/* From the first call on that reaches CUDA. */
void driver_start(void);
/* For good, in a forked child. */
void driver_stop(void);

#pragma GCC visibility pop

#endif
