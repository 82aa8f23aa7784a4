/* Kernels' handles, by what launches name: a host function, or the handle itself. */
#ifndef AICF_CUDA_HANDLES_H
#define AICF_CUDA_HANDLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "driver.h"

#pragma GCC visibility push(hidden)

/* In a table that is read without a lock: a slot's name is written once and never changes, so that
   a reader who sees it sees that name's kernel or none. `function` is that of the first context
   that the kernel was launched in; `mark` is its address and the context's number in one, by
   exclusive or: two that were not written together never give the number of a context. */
typedef struct handle {
    _Atomic(const void *) name;
    _Atomic(cudaKernel_t) kernel;
    _Atomic uintptr_t function;
    _Atomic uint64_t mark;
} handle;

/* 128 KiB, for some thousands of kernels: what finds no slot stays unknown. */
enum { SLOTS = 4096, SLOT_BITS = 12, REACH = 16 };

extern handle handle_slots[SLOTS];

static inline handle *
handle_slot(const void *name, unsigned step)
{
    /* Multiplied by 2^64 over the golden ratio: the top bits of neighbours are far apart. */
    uint64_t mixed = (uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15);
    return &handle_slots[((mixed >> (64 - SLOT_BITS)) + step) % SLOTS];
}

/* NULL: not known. Takes no lock. */
static inline handle *
handle_find(const void *name)
{
    for (unsigned step = 0; step < REACH; step++) {
        handle *h = handle_slot(name, step);
        const void *found = atomic_load_explicit(&h->name, memory_order_relaxed);
        if (found == name) {
            return h;
        }
        if (!found) {
            return NULL;
        }
    }
    return NULL;
}

/* What to launch in the current context, whose number is `context`, 0 where that is not known: the
   context's own function, which is the faster, or what is good in every context, or NULL. */
static inline CUfunction
handle_in(const handle *h, uint64_t context)
{
    uintptr_t function = atomic_load_explicit(&h->function, memory_order_acquire);
    uint64_t mark = atomic_load_explicit(&h->mark, memory_order_acquire);
    if (context && function && (mark ^ function) == context) {
        return (CUfunction)function;
    }
    return (CUfunction)(void *)atomic_load_explicit(&h->kernel, memory_order_acquire);
}

/* Whether the table has the kernel of that name. */
static inline bool
handle_known(const void *name)
{
    handle *h = handle_find(name);
    return h && atomic_load_explicit(&h->kernel, memory_order_acquire);
}

/* Whether handle_place has something to find out. */
static inline bool
handle_has_place(const handle *h)
{
    return atomic_load_explicit(&h->function, memory_order_relaxed) != 0;
}

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
