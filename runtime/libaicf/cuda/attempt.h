/* One call of the backend's: how it begins, enters its device and ends. */
#ifndef AICF_CUDA_ATTEMPT_H
#define AICF_CUDA_ATTEMPT_H

#include <aicf/backend.h>

#include <cuda_runtime_api.h>

#include "device.h"

#pragma GCC visibility push(hidden)

/* Calls of ours that fail leave their error on the thread. It is taken off again, as it is
   reported, unless somebody else's stood there before; one that somebody left is never taken. */
cudaError_t attempt_begin(void);
aicf_status attempt_end(cudaError_t before, cudaError_t error);
/* *previous is for device_leave, also after a failure. */
cudaError_t attempt_enter(int32_t device, int32_t *previous);

/* The body of a call on a device that is entered for it: what it is made of, in the place of its
   error. */
#define ON_DEVICE(device, call)                                   \
    int32_t previous;                                             \
    cudaError_t before = attempt_begin();                         \
    cudaError_t error = attempt_enter((device).index, &previous); \
    if (error == cudaSuccess) {                                   \
        error = (call);                                           \
    }                                                             \
    aicf_status status = attempt_end(before, error);              \
    device_leave(previous);                                       \
    return status

static inline cudaStream_t
native(aicf_stream stream)
{
    return (cudaStream_t)(void *)stream;
}

/* work.c: the members of the backend that no launch needs. */
aicf_status
cuda_copy(aicf_device device, aicf_stream stream, void *to, const void *from, int64_t bytes);
aicf_status cuda_create_stream(aicf_device device, aicf_stream *stream);
aicf_status cuda_create_event(aicf_device device, aicf_event *event);
aicf_status cuda_record_event(aicf_device device, aicf_stream stream, aicf_event event);
aicf_status cuda_elapsed(aicf_device device, aicf_event from, aicf_event to, double *seconds);
aicf_status cuda_destroy_event(aicf_device device, aicf_event event);

/* write.c */
aicf_status
cuda_write(aicf_device device, aicf_stream stream, void *to, const void *from, int64_t bytes);

/* graph.c */
aicf_status cuda_begin_graph(aicf_device device, aicf_stream stream);
aicf_status cuda_end_graph(
    aicf_device device, aicf_stream stream, aicf_graph *graph, bool change, bool *changed,
    int64_t *nodes);
bool cuda_spoiled_graph(int32_t native);
aicf_status cuda_launch_graph(aicf_device device, aicf_stream stream, aicf_graph graph);
aicf_status cuda_destroy_graph(aicf_device device, aicf_graph graph);

/* order.c */
aicf_status cuda_graph_leaves(
    aicf_device device, aicf_stream stream, aicf_node *leaves, int64_t room, int64_t *count);
aicf_status cuda_graph_after(
    aicf_device device, aicf_stream stream, const aicf_node *after, int64_t count, bool early);
/* Whether what is launched next on a captured stream may not start early, though its kernel could.
   Requires here.late. */
bool order_is_late(cudaStream_t stream);
/* Around a launch that needs all its blocks on the device at once: two of a capture never run
   beside each other. The second after one that succeeded. */
cudaError_t order_begin_whole(cudaStream_t stream);
void order_end_whole(cudaStream_t stream);

#pragma GCC visibility pop

#endif
