/* A table that is read without a lock. A slot's name is written once and never changes, so that a
   reader who sees it sees that name's kernel or none. What finds no slot stays unknown. */
#include "handles.h"

#include <stdatomic.h>
#include <stdint.h>

/* 128 KiB, for some thousands of kernels. */
enum { SLOTS = 4096, REACH = 16 };

/* `function` is that of the first context that the kernel was launched in; `mark` is its address
   and the context's number in one, by exclusive or: two that were not written together never give
   the number of a context. */
struct handle {
    _Atomic(const void *) name;
    _Atomic(cudaKernel_t) kernel;
    _Atomic uintptr_t function;
    _Atomic uint64_t mark;
};

static handle slots[SLOTS];

static handle *
slot_at(const void *name, unsigned step)
{
    /* Multiplied by 2^64 over the golden ratio: the top bits of neighbours are far apart. */
    uint64_t mixed = (uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15);
    return &slots[((mixed >> 52) + step) % SLOTS];
}

handle *
handle_find(const void *name)
{
    for (unsigned step = 0; step < REACH; step++) {
        handle *h = slot_at(name, step);
        const void *found = atomic_load_explicit(&h->name, memory_order_relaxed);
        if (found == name) {
            return atomic_load_explicit(&h->kernel, memory_order_acquire) ? h : NULL;
        }
        if (!found) {
            return NULL;
        }
    }
    return NULL;
}

CUfunction
handle_in(const handle *h, uint64_t context)
{
    uintptr_t function = atomic_load_explicit(&h->function, memory_order_acquire);
    uint64_t mark = atomic_load_explicit(&h->mark, memory_order_acquire);
    if (context && function && (mark ^ function) == context) {
        return (CUfunction)function;
    }
    return (CUfunction)(void *)atomic_load_explicit(&h->kernel, memory_order_acquire);
}

void
handle_place(handle *h, const driver *d, uint64_t context)
{
    CUfunction function = NULL;
    cudaKernel_t kernel = atomic_load_explicit(&h->kernel, memory_order_acquire);
    if (context && kernel && !atomic_load_explicit(&h->function, memory_order_relaxed) &&
        d->function(&function, (CUkernel)(void *)kernel) == CUDA_SUCCESS && function) {
        atomic_store_explicit(&h->mark, (uintptr_t)function ^ context, memory_order_release);
        atomic_store_explicit(&h->function, (uintptr_t)function, memory_order_release);
    }
}

cudaKernel_t
handle_ask(const void *function)
{
    cudaKernel_t kernel = NULL;
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = cudaGetKernel(&kernel, function);
    if (error != cudaSuccess && before == cudaSuccess) {
        cudaGetLastError();
    }
    return error == cudaSuccess ? kernel : NULL;
}

void
handle_learn(const void *name, cudaKernel_t kernel)
{
    for (unsigned step = 0; kernel && step < REACH; step++) {
        handle *h = slot_at(name, step);
        const void *none = NULL;
        if (atomic_compare_exchange_strong(&h->name, &none, name) || none == name) {
            atomic_store_explicit(&h->kernel, kernel, memory_order_release);
            return;
        }
    }
}

void
handle_forget(void)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        atomic_store_explicit(&slots[i].kernel, NULL, memory_order_relaxed);
        atomic_store_explicit(&slots[i].function, 0, memory_order_relaxed);
    }
}
