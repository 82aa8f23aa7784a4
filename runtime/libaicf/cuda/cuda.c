/* CUDA as a backend, over the runtime that libaicf carries. Nothing here is called before the first
   launch, and nothing synchronises but `synchronize`. */
#include <aicf/backend/cuda.h>
#include <aicf/call.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <cuda_runtime_api.h>

#include "attempt.h"
#include "cells.h"
#include "device.h"
#include "driver.h"
#include "error.h"
#include "failure.h"

/* Compute capabilities, ten times and with one added: 0 is one that was not asked for yet. */
static _Atomic int archs[MAX_DEVICES];

/* CUDA does not survive a fork. Whether it was used is noted at the first use, and a child then
   says so without a call. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool forked;

static void
note_fork(void)
{
    forked = true;
    driver_stop();
}

static void
watch_forks(void)
{
    pthread_atfork(NULL, NULL, note_fork);
}

bool
cuda_is_forked(void)
{
    return forked;
}

static cudaError_t
begin(void)
{
    pthread_once(&once, watch_forks);
    return forked ? cudaErrorInitializationError : cudaPeekAtLastError();
}

/* The same at the start of what may fail on its own account. */
cudaError_t
attempt_begin(void)
{
    cudaError_t before = begin();
    /* Without a driver or a device even asking what stands there answers so. */
    bool nothing = before == cudaErrorInsufficientDriver || before == cudaErrorNoDevice;
    failure_begin(&here, forked || nothing ? 0 : (int32_t)before);
    return before;
}

aicf_status
attempt_end(cudaError_t before, cudaError_t error)
{
    if (error == cudaSuccess) {
        return aicf_ok();
    }
    failure_note((int32_t)error);
    if (before == cudaSuccess) {
        cudaGetLastError();
    }
    return (aicf_status){AICF_BACKEND_ERROR, 0, 0, 0, (int32_t)error};
}

cudaError_t
attempt_enter(int32_t device, int32_t *previous)
{
    *previous = -1;
    return forked ? cudaErrorInitializationError : device_enter(device, previous);
}

static __attribute__((noinline, cold)) aicf_status
enter_by_runtime(aicf_device device, int32_t *previous)
{
    cudaError_t before = attempt_begin();
    aicf_status status = attempt_end(before, attempt_enter(device.index, previous));
    if (status.kind == AICF_OK) {
        driver_start();
        device_learn(device.index);
    }
    return status;
}

/* Where the device is current already nothing can fail, and nobody asks what stood there: a launch
   that fails does. What comes next is the caller's: the context may be another by then. */
static aicf_status
enter(aicf_device device, int32_t *previous)
{
    thread *t = thread_here();
    const driver *d = driver_fast();
    if (!d || !device_is_current(t, d, device.index)) {
        return enter_by_runtime(device, previous);
    }
    failure_begin(t, 0);
    t->context = 0;
    *previous = -1;
    return aicf_ok();
}

static __attribute__((noinline, cold)) aicf_status
launch_elsewhere(const aicf_call *call)
{
    int32_t previous;
    aicf_status status = enter_by_runtime(call->device, &previous);
    if (status.kind == AICF_OK) {
        status = call->launch(call);
        device_leave(previous);
    }
    return status;
}

/* One question and the launcher, where the device is current. */
static aicf_status
launch(const aicf_call *call)
{
    thread *t = thread_here();
    const driver *d = driver_fast();
    if (!d || !device_is_current(t, d, call->device.index)) {
        return launch_elsewhere(call);
    }
    failure_begin(t, 0);
    aicf_status status = call->launch(call);
    if (!t->series || status.kind) {
        t->context = 0;
    }
    return status;
}

static void
series(bool on)
{
    thread *t = thread_here();
    t->series = on;
    t->context = 0;
}

static const char *
unusable(void)
{
    static _Thread_local char text[400];
    int count = 0;
    cudaError_t before = begin();
    cudaError_t error = forked ? cudaErrorInitializationError : cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count == 0) {
        error = cudaErrorNoDevice;
    } else {
        attempt_end(before, error);
    }
    if (error == cudaSuccess) {
        return NULL;
    }
    cuda_error_text((int32_t)error, text, sizeof text);
    return text;
}

static int
ask_arch(int device)
{
    int major = 0, minor = 0;
    cudaError_t before = begin();
    if (forked) {
        return -1;
    }
    cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    }
    return attempt_end(before, error).kind ? -1 : 10 * major + minor;
}

static int
arch(aicf_device device)
{
    if (device.index < 0 || device.index >= MAX_DEVICES) {
        return ask_arch(device.index);
    }
    int known = atomic_load_explicit(&archs[device.index], memory_order_relaxed);
    if (known == 0) {
        known = ask_arch(device.index) + 1;
        atomic_store_explicit(&archs[device.index], known, memory_order_relaxed);
    }
    return known - 1;
}

static aicf_status
allocate(aicf_device device, aicf_stream stream, int64_t bytes, void **memory)
{
    *memory = NULL;
    if (bytes == 0) {
        return aicf_ok();
    }
    ON_DEVICE(
        device,
        bytes < 0 ? cudaErrorInvalidValue : cudaMallocAsync(memory, (size_t)bytes, native(stream)));
}

static aicf_status
release(aicf_device device, aicf_stream stream, void *memory)
{
    int32_t previous;
    if (!memory) {
        return aicf_ok();
    }
    if (cells_have(memory)) {
        return cells_release(device, stream, memory);
    }
    cudaError_t before = begin();
    cudaError_t error = attempt_enter(device.index, &previous);
    if (error == cudaSuccess) {
        error = cudaFreeAsync(memory, native(stream));
    }
    aicf_status status = attempt_end(before, error);
    device_leave(previous);
    return status;
}

/* An event that is destroyed at once: the wait that was queued keeps what it needs. */
static cudaError_t
wait_for_event(cudaStream_t stream, cudaStream_t other)
{
    cudaEvent_t event;
    cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error != cudaSuccess) {
        return error;
    }
    error = cudaEventRecord(event, other);
    if (error == cudaSuccess) {
        error = cudaStreamWaitEvent(stream, event, 0);
    }
    cudaError_t last = cudaEventDestroy(event);
    return error == cudaSuccess ? last : error;
}

static aicf_status
wait(aicf_device device, aicf_stream stream, aicf_stream other)
{
    if (stream == other) {
        return aicf_ok();
    }
    ON_DEVICE(device, wait_for_event(native(stream), native(other)));
}

static aicf_status
synchronize(aicf_device device, aicf_stream stream)
{
    ON_DEVICE(device, cudaStreamSynchronize(native(stream)));
}

/* What CUDA does not know is host memory that nobody registered, or none. */
static aicf_status
locate(const void *memory, aicf_device *device)
{
    struct cudaPointerAttributes found = {.type = cudaMemoryTypeUnregistered};
    cudaError_t before = attempt_begin();
    cudaError_t error =
        forked ? cudaErrorInitializationError : cudaPointerGetAttributes(&found, memory);
    aicf_status status = attempt_end(before, error);
    bool known = found.type != cudaMemoryTypeUnregistered;
    *device = known ? (aicf_device){2, found.device} : (aicf_device){1, 0};
    return status;
}

const aicf_backend aicf_backend_cuda = {
    .size = sizeof(aicf_backend),
    .version = AICF_BACKEND_VERSION,
    .name = "cuda",
    .unusable = unusable,
    .arch = arch,
    .enter = enter,
    .leave = device_leave,
    .allocate = allocate,
    .release = release,
    .wait = wait,
    .synchronize = synchronize,
    .error_text = cuda_error_text,
    .locate = locate,
    .launch = launch,
    .series = series,
    .copy = cuda_copy,
    .create_stream = cuda_create_stream,
    .create_event = cuda_create_event,
    .record_event = cuda_record_event,
    .elapsed = cuda_elapsed,
    .destroy_event = cuda_destroy_event,
    .begin_graph = cuda_begin_graph,
    .end_graph = cuda_end_graph,
    .spoiled_graph = cuda_spoiled_graph,
    .launch_graph = cuda_launch_graph,
    .destroy_graph = cuda_destroy_graph,
    .graph_leaves = cuda_graph_leaves,
    .graph_after = cuda_graph_after,
    .write = cuda_write,
    .allocate_written = cuda_allocate_cell,
};
