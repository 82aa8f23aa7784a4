/* The thread's current device: changed for a call, and put back. */
#ifndef AICF_CUDA_DEVICE_H
#define AICF_CUDA_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "driver.h"
#include "thread.h"

#pragma GCC visibility push(hidden)

enum { MAX_DEVICES = 64 };

/* The numbers of the contexts that devices were last entered in; 0: none yet. */
extern _Atomic uint64_t device_contexts[MAX_DEVICES];

/* True: the context of the thread, which is `t`, is of `device`, and t->context has its number.
   False: that is not known without the runtime. */
static inline bool
device_is_current(thread *t, const driver *d, int32_t device)
{
    unsigned long long id = t->context;
    if ((uint32_t)device >= MAX_DEVICES || (!id && d->id(NULL, &id) != CUDA_SUCCESS)) {
        return false;
    }
    bool is = id && atomic_load_explicit(&device_contexts[device], memory_order_relaxed) == id;
    t->context = is ? id : 0;
    return is;
}

/* `device` was entered: from now on device_is_current may know its context. */
void device_learn(int32_t device);

/* Makes `device` current. *previous is for device_leave, also after a failure. */
cudaError_t device_enter(int32_t device, int32_t *previous);
void device_leave(int32_t previous);

#pragma GCC visibility pop

#endif
