/* clock_gettime */
#define _POSIX_C_SOURCE 200809L
#include <aicf/backend/cpu.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *
usable(void)
{
    return NULL;
}

/* Aligned to a cache line, and so for any vector. */
static aicf_status
allocate(aicf_device device, aicf_stream stream, int64_t bytes, void **memory)
{
    (void)device;
    (void)stream;
    *memory = NULL;
    if (bytes < 0 || bytes > INT64_MAX - 63) {
        return (aicf_status){AICF_NO_MEMORY, 0, 0, 0, 0};
    }
    *memory = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64 + (bytes ? 0 : 64));
    return *memory ? aicf_ok() : (aicf_status){AICF_NO_MEMORY, 0, 0, 0, 0};
}

static aicf_status
release(aicf_device device, aicf_stream stream, void *memory)
{
    (void)device;
    (void)stream;
    free(memory);
    return aicf_ok();
}

static aicf_status
synchronize(aicf_device device, aicf_stream stream)
{
    (void)device;
    (void)stream;
    return aicf_ok();
}

static void
error_text(int32_t native, char *text, size_t size)
{
    snprintf(text, size, "error %d of a CPU kernel", native);
}

static aicf_status
copy(aicf_device device, aicf_stream stream, void *to, const void *from, int64_t bytes)
{
    (void)device;
    (void)stream;
    memmove(to, from, (size_t)bytes);
    return aicf_ok();
}

/* What is queued has run: an event is a time. */
struct aicf_event_s {
    struct timespec at;
};

static aicf_status
create_event(aicf_device device, aicf_event *event)
{
    (void)device;
    *event = calloc(1, sizeof **event);
    return *event ? aicf_ok() : (aicf_status){AICF_NO_MEMORY, 0, 0, 0, 0};
}

static aicf_status
record_event(aicf_device device, aicf_stream stream, aicf_event event)
{
    (void)device;
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return aicf_ok();
}

static aicf_status
elapsed(aicf_device device, aicf_event from, aicf_event to, double *seconds)
{
    (void)device;
    *seconds = (double)(to->at.tv_sec - from->at.tv_sec) +
               1e-9 * (double)(to->at.tv_nsec - from->at.tv_nsec);
    return aicf_ok();
}

static aicf_status
destroy_event(aicf_device device, aicf_event event)
{
    (void)device;
    free(event);
    return aicf_ok();
}

const aicf_backend aicf_backend_cpu = {
    .size = sizeof(aicf_backend),
    .version = AICF_BACKEND_VERSION,
    .name = "cpu",
    .host = true,
    .unusable = usable,
    .allocate = allocate,
    .release = release,
    .synchronize = synchronize,
    .error_text = error_text,
    .copy = copy,
    .create_event = create_event,
    .record_event = record_event,
    .elapsed = elapsed,
    .destroy_event = destroy_event,
};
