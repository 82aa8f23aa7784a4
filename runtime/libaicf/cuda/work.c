/* What programs above the ops ask of CUDA: copies, streams, events. */
#include "attempt.h"

aicf_status
cuda_copy(aicf_device device, aicf_stream stream, void *to, const void *from, int64_t bytes)
{
    ON_DEVICE(device, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, native(stream)));
}

aicf_status
cuda_create_stream(aicf_device device, aicf_stream *stream)
{
    ON_DEVICE(
        device, cudaStreamCreateWithFlags((cudaStream_t *)(void *)stream, cudaStreamNonBlocking));
}

aicf_status
cuda_create_event(aicf_device device, aicf_event *event)
{
    ON_DEVICE(device, cudaEventCreate((cudaEvent_t *)(void *)event));
}

aicf_status
cuda_record_event(aicf_device device, aicf_stream stream, aicf_event event)
{
    ON_DEVICE(device, cudaEventRecord((cudaEvent_t)(void *)event, native(stream)));
}

static cudaError_t
elapsed(cudaEvent_t from, cudaEvent_t to, double *seconds)
{
    float milliseconds = 0;
    cudaError_t error = cudaEventSynchronize(from);
    error = error ? error : cudaEventSynchronize(to);
    error = error ? error : cudaEventElapsedTime(&milliseconds, from, to);
    *seconds = milliseconds * 1e-3;
    return error;
}

aicf_status
cuda_elapsed(aicf_device device, aicf_event from, aicf_event to, double *seconds)
{
    ON_DEVICE(device, elapsed((cudaEvent_t)(void *)from, (cudaEvent_t)(void *)to, seconds));
}

aicf_status
cuda_destroy_event(aicf_device device, aicf_event event)
{
    ON_DEVICE(device, cudaEventDestroy((cudaEvent_t)(void *)event));
}
