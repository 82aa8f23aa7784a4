/* Orders of what is captured other than that of its stream: the stream is told what the next piece
   follows. */
#include "attempt.h"
#include "device.h"
#include "thread.h"

/* In CUDA 12 the calls that know of edges have numbers. */
#if CUDART_VERSION < 13000
#define INFO cudaStreamGetCaptureInfo_v3
#define UPDATE cudaStreamUpdateCaptureDependencies_v2
#else
#define INFO cudaStreamGetCaptureInfo
#define UPDATE cudaStreamUpdateCaptureDependencies
#endif

/* What the next piece on the stream follows. *nodes is the runtime's, until the next call. */
static cudaError_t
ask(cudaStream_t stream, const cudaGraphNode_t **nodes, size_t *count)
{
    enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
    const cudaGraphEdgeData *edges; /* asked for, as else edges that are not plain are an error */
    *nodes = NULL;
    *count = 0;
    cudaError_t error = INFO(stream, &captured, NULL, NULL, nodes, &edges, count);
    return error                                            ? error
           : captured == cudaStreamCaptureStatusActive      ? cudaSuccess
           : captured == cudaStreamCaptureStatusInvalidated ? cudaErrorStreamCaptureInvalidated
                                                            : cudaErrorIllegalState;
}

static cudaError_t
find_leaves(cudaStream_t stream, aicf_node *leaves, int64_t room, int64_t *count)
{
    const cudaGraphNode_t *nodes;
    size_t found;
    cudaError_t error = ask(stream, &nodes, &found);
    for (size_t i = 0; i < found && i < (size_t)room && !error; i++) {
        leaves[i] = (aicf_node)(void *)nodes[i];
    }
    *count = (int64_t)found;
    return error;
}

aicf_status
cuda_graph_leaves(
    aicf_device device, aicf_stream stream, aicf_node *leaves, int64_t room, int64_t *count)
{
    int32_t previous;
    cudaError_t before = attempt_begin();
    cudaError_t error = attempt_enter(device.index, &previous);
    *count = 0;
    if (error == cudaSuccess) {
        error = find_leaves(native(stream), leaves, room, count);
    }
    aicf_status status = attempt_end(before, error);
    device_leave(previous);
    return status;
}

/* What the next piece on a stream follows, and is to see ended; while here.late. */
static _Thread_local struct {
    cudaStream_t stream;
    cudaGraphNode_t first;
    size_t count;
} late;

/* Edges are plain; a launch that may start early makes its own another. */
aicf_status
cuda_graph_after(
    aicf_device device, aicf_stream stream, const aicf_node *after, int64_t count, bool early)
{
    int32_t previous;
    cudaGraphNode_t *nodes = count ? (cudaGraphNode_t *)(void *)after : NULL;
    cudaError_t before = attempt_begin();
    cudaError_t error = attempt_enter(device.index, &previous);
    here.late = false;
    if (error == cudaSuccess) {
        error =
            UPDATE(native(stream), nodes, NULL, (size_t)count, cudaStreamSetCaptureDependencies);
    }
    if (error == cudaSuccess && count && !early) {
        late.stream = native(stream);
        late.first = nodes[0];
        late.count = (size_t)count;
        here.late = true;
    }
    aicf_status status = attempt_end(before, error);
    device_leave(previous);
    return status;
}

/* Until a piece came there, which alone the next then follows. */
bool
order_is_late(cudaStream_t stream)
{
    const cudaGraphNode_t *nodes;
    size_t count;
    if (stream != late.stream) {
        return false;
    }
    here.late = ask(stream, &nodes, &count) == cudaSuccess && count == late.count &&
                (count > 1 || nodes[0] == late.first);
    return here.late;
}
