/* Memory that a stream's commands can write to. Drivers refuse it in what comes from a pool, so
   there are cells of other memory, which streams order as they do a pool's: who takes one comes
   behind who gave it back. It is never freed: that would wait for the device. */
#include "cells.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "attempt.h"
#include "device.h"

enum { CELL = 256, CELLS = 256 };

typedef struct slab {
    struct slab *next;
    int32_t device;
    char *memory;
    bool taken[CELLS];
    cudaEvent_t freed[CELLS]; /* where it was given back last, NULL: it never was */
} slab;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(slab *) slabs; /* only grows, with the lock */

static slab *
slab_of(const void *memory)
{
    slab *s = atomic_load_explicit(&slabs, memory_order_acquire);
    uintptr_t at = (uintptr_t)memory;
    while (s && at - (uintptr_t)s->memory >= (uintptr_t)CELL * CELLS) {
        s = s->next;
    }
    return s;
}

bool
cells_have(const void *memory)
{
    return slab_of(memory) != NULL;
}

/* Requires the lock, and the device. Captures of other threads do not mind. */
static cudaError_t
slab_make(int32_t device, slab **made)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    slab *s = calloc(1, sizeof *s);
    *made = NULL;
    if (!s) {
        return cudaErrorMemoryAllocation;
    }
    cudaError_t error = cudaThreadExchangeStreamCaptureMode(&mode);
    if (error == cudaSuccess) {
        error = cudaMalloc((void **)&s->memory, (size_t)CELL * CELLS);
        cudaThreadExchangeStreamCaptureMode(&mode);
    }
    if (error != cudaSuccess) {
        free(s);
        return error;
    }
    s->device = device;
    s->next = atomic_load_explicit(&slabs, memory_order_relaxed);
    atomic_store_explicit(&slabs, s, memory_order_release);
    *made = s;
    return cudaSuccess;
}

static cudaError_t
cell_take(slab *s, int i, cudaStream_t stream, void **memory)
{
    cudaError_t error = s->freed[i] ? cudaStreamWaitEvent(stream, s->freed[i], 0) : cudaSuccess;
    s->taken[i] = error == cudaSuccess;
    *memory = s->taken[i] ? s->memory + (size_t)i * CELL : NULL;
    return error;
}

/* Requires the lock, and the device. */
static cudaError_t
take(int32_t device, cudaStream_t stream, void **memory)
{
    slab *s = atomic_load_explicit(&slabs, memory_order_relaxed);
    for (; s; s = s->next) {
        for (int i = 0; i < CELLS && s->device == device; i++) {
            if (!s->taken[i]) {
                return cell_take(s, i, stream, memory);
            }
        }
    }
    cudaError_t error = slab_make(device, &s);
    return error ? error : cell_take(s, 0, stream, memory);
}

static cudaError_t
take_locked(int32_t device, cudaStream_t stream, void **memory)
{
    pthread_mutex_lock(&lock);
    cudaError_t error = take(device, stream, memory);
    pthread_mutex_unlock(&lock);
    return error;
}

aicf_status
cuda_allocate_cell(aicf_device device, aicf_stream stream, int64_t bytes, void **memory)
{
    *memory = NULL;
    if (bytes <= 0 || bytes > CELL) {
        return (aicf_status){.kind = AICF_UNSUPPORTED};
    }
    ON_DEVICE(device, take_locked(device.index, native(stream), memory));
}

/* Requires the lock, and the device. One of which is not known when it is free stays taken; so does
   one that is given back while its stream is captured: an event there is the capture's, and what is
   made of it uses the cell whenever it runs. */
static cudaError_t
give(slab *s, const char *memory, cudaStream_t stream)
{
    size_t i = (size_t)(memory - s->memory) / CELL;
    enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
    cudaError_t error = cudaStreamIsCapturing(stream, &captured);
    if (error || captured != cudaStreamCaptureStatusNone) {
        return error;
    }
    if (!s->freed[i]) {
        error = cudaEventCreateWithFlags(&s->freed[i], cudaEventDisableTiming);
    }
    error = error ? error : cudaEventRecord(s->freed[i], stream);
    s->taken[i] = error != cudaSuccess;
    return error;
}

static cudaError_t
give_locked(const char *memory, cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    cudaError_t error = give(slab_of(memory), memory, stream);
    pthread_mutex_unlock(&lock);
    return error;
}

aicf_status
cells_release(aicf_device device, aicf_stream stream, void *memory)
{
    ON_DEVICE(device, give_locked(memory, native(stream)));
}
