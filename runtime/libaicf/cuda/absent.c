/* The CUDA backend of a libaicf that was built without CUDA. */
#include <aicf/backend/cuda.h>

#include <stdio.h>

static const aicf_status failed = {AICF_BACKEND_ERROR, 0, 0, 0, 0};

static const char *
unusable(void)
{
    return "this build has no CUDA: rebuild with CUDA=1 where nvcc is installed";
}

static aicf_status
enter(aicf_device device, int32_t *previous)
{
    (void)device;
    *previous = -1;
    return failed;
}

static void
leave(int32_t previous)
{
    (void)previous;
}

static aicf_status
allocate(aicf_device device, aicf_stream stream, int64_t bytes, void **memory)
{
    (void)device;
    (void)stream;
    (void)bytes;
    *memory = NULL;
    return failed;
}

static aicf_status
release(aicf_device device, aicf_stream stream, void *memory)
{
    (void)device;
    (void)stream;
    (void)memory;
    return failed;
}

static aicf_status
wait(aicf_device device, aicf_stream stream, aicf_stream other)
{
    (void)device;
    (void)stream;
    (void)other;
    return failed;
}

static aicf_status
synchronize(aicf_device device, aicf_stream stream)
{
    (void)device;
    (void)stream;
    return failed;
}

static aicf_status
create_stream(aicf_device device, aicf_stream *stream)
{
    (void)device;
    *stream = NULL;
    return failed;
}

static aicf_status
create_event(aicf_device device, aicf_event *event)
{
    (void)device;
    *event = NULL;
    return failed;
}

static void
error_text(int32_t native, char *text, size_t size)
{
    (void)native;
    snprintf(text, size, "%s", unusable());
}

bool
aicf_cuda_is_lost(int32_t native)
{
    (void)native;
    return false;
}

void
aicf_cuda_use_driver(bool on)
{
    (void)on;
}

const aicf_repeats *const aicf_cuda_repeats;

const aicf_backend aicf_backend_cuda = {
    .size = sizeof(aicf_backend),
    .version = AICF_BACKEND_VERSION,
    .name = "cuda",
    .unusable = unusable,
    .enter = enter,
    .leave = leave,
    .allocate = allocate,
    .release = release,
    .wait = wait,
    .synchronize = synchronize,
    .error_text = error_text,
    .create_stream = create_stream,
    .create_event = create_event,
};
