#include <aicf/backend/cpu.h>

#include <stdio.h>
#include <stdlib.h>

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
};
