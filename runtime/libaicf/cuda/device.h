/* The thread's current device: changed for a call, and put back. */
#ifndef AICF_CUDA_DEVICE_H
#define AICF_CUDA_DEVICE_H

#include <stdint.h>

#include <cuda_runtime_api.h>

#pragma GCC visibility push(hidden)

/* Makes `device` current. *previous is for device_leave, also after a failure. */
cudaError_t device_enter(int32_t device, int32_t *previous);
void device_leave(int32_t previous);

#pragma GCC visibility pop

#endif
