/* A table that is read without a lock. A slot's name is written once and never changes, so that a
   reader who sees it sees that name's handle or none. What finds no slot stays unknown. */
#include "handles.h"

#include <stdatomic.h>
#include <stdint.h>

/* 64 KiB, for some thousands of kernels. */
enum { SLOTS = 4096, REACH = 16 };

typedef struct slot {
    _Atomic(const void *) name;
    _Atomic(cudaKernel_t) handle;
} slot;

static slot slots[SLOTS];

static slot *
slot_at(const void *name, unsigned step)
{
    /* Multiplied by 2^64 over the golden ratio: the top bits of neighbours are far apart. */
    uint64_t mixed = (uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15);
    return &slots[((mixed >> 52) + step) % SLOTS];
}

cudaKernel_t
handle_find(const void *name)
{
    for (unsigned step = 0; step < REACH; step++) {
        slot *s = slot_at(name, step);
        const void *found = atomic_load_explicit(&s->name, memory_order_relaxed);
        if (found == name) {
            return atomic_load_explicit(&s->handle, memory_order_acquire);
        }
        if (!found) {
            return NULL;
        }
    }
    return NULL;
}

cudaKernel_t
handle_ask(const void *function)
{
    cudaKernel_t handle = NULL;
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = cudaGetKernel(&handle, function);
    if (error != cudaSuccess && before == cudaSuccess) {
        cudaGetLastError();
    }
    return error == cudaSuccess ? handle : NULL;
}

void
handle_learn(const void *name, cudaKernel_t handle)
{
    for (unsigned step = 0; handle && step < REACH; step++) {
        slot *s = slot_at(name, step);
        const void *free_slot = NULL;
        if (atomic_compare_exchange_strong(&s->name, &free_slot, name) || free_slot == name) {
            atomic_store_explicit(&s->handle, handle, memory_order_release);
            return;
        }
    }
}

void
handle_forget(void)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        atomic_store_explicit(&slots[i].handle, NULL, memory_order_relaxed);
    }
}
