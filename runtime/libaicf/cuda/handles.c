#include "handles.h"

_Alignas(64) handle handle_slots[SLOTS];

void
handle_place(handle *h, const driver *d, uint64_t context)
{
    CUfunction function = NULL;
    cudaKernel_t kernel = atomic_load_explicit(&h->kernel, memory_order_acquire);
    if (context && kernel && !handle_has_place(h) &&
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
        handle *h = handle_slot(name, step);
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
        atomic_store_explicit(&handle_slots[i].kernel, NULL, memory_order_relaxed);
        atomic_store_explicit(&handle_slots[i].function, 0, memory_order_relaxed);
    }
}
