/* The thread's current device: changed for a call, and put back. */
#ifndef AICF_CUDA_DEVICE_H
#define AICF_CUDA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#pragma GCC visibility push(hidden)

/* True: the thread's context is of `device`, and nothing needs to be put back. False: that is not
   known without the runtime. */
bool device_is_current(int32_t device);
/* `device` was entered: from now on device_is_current may know its context. */
void device_learn(int32_t device);
/* The number of the context that device_is_current found, until device_leave; else 0. */
uint64_t device_context(void);

/* Makes `device` current. *previous is for device_leave, also after a failure. */
cudaError_t device_enter(int32_t device, int32_t *previous);
void device_leave(int32_t previous);

#pragma GCC visibility pop

#endif
