/* Orders of what is captured other than that of its stream: the stream is told what the next piece
   follows. */
#include "attempt.h"
#include "device.h"
#include "edges.h"
#include "thread.h"

/* What the next piece on a stream follows, in a capture of that number. */
typedef struct place {
    unsigned long long capture;
    const cudaGraphNode_t *nodes; /* the runtime's, until the next call */
    size_t count;
} place;

static cudaError_t
ask(cudaStream_t stream, place *p)
{
    enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
    const cudaGraphEdgeData *edges; /* asked for, as else edges that are not plain are an error */
    *p = (place){0, NULL, 0};
    cudaError_t error =
        CAPTURE_INFO(stream, &captured, &p->capture, NULL, &p->nodes, &edges, &p->count);
    return error                                            ? error
           : captured == cudaStreamCaptureStatusActive      ? cudaSuccess
           : captured == cudaStreamCaptureStatusInvalidated ? cudaErrorStreamCaptureInvalidated
                                                            : cudaErrorIllegalState;
}

static cudaError_t
find_leaves(cudaStream_t stream, aicf_node *leaves, int64_t room, int64_t *count)
{
    place p;
    cudaError_t error = ask(stream, &p);
    for (size_t i = 0; i < p.count && i < (size_t)room && !error; i++) {
        leaves[i] = (aicf_node)(void *)p.nodes[i];
    }
    *count = (int64_t)p.count;
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

static bool
is_among(cudaGraphNode_t node, const cudaGraphNode_t *nodes, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        found |= nodes[i] == node;
    }
    return found;
}

/* The thread's last captured launch that needs all its blocks on the device at once. */
static _Thread_local struct {
    unsigned long long capture; /* 0: there was none */
    cudaStream_t stream;
    cudaGraphNode_t node;
    bool branches; /* since then the stream was told to follow others */
} whole;

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
    if (native(stream) == whole.stream) {
        whole.branches = !is_among(whole.node, nodes, (size_t)count);
    }
    if (error == cudaSuccess) {
        error = CAPTURE_UPDATE(
            native(stream), nodes, NULL, (size_t)count, cudaStreamSetCaptureDependencies);
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
    place p;
    if (stream != late.stream) {
        return false;
    }
    here.late = ask(stream, &p) == cudaSuccess && p.count == late.count &&
                (p.count > 1 || p.nodes[0] == late.first);
    return here.late;
}

/* ---- launches that need all their blocks on the device at once --------------------------------
 */

/* Two that each hold a part of the device would wait for each other for ever: so one follows the
   other, however the capture branches. On one stream that nobody told otherwise it does already. */
cudaError_t
order_begin_whole(cudaStream_t stream)
{
    place p;
    if (!whole.capture || (stream == whole.stream && !whole.branches)) {
        return cudaSuccess;
    }
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = ask(stream, &p);
    if (error) { /* nothing is captured there; what else is wrong, the launch will say */
        if (before == cudaSuccess) {
            cudaGetLastError();
        }
        return cudaSuccess;
    }
    if (p.capture != whole.capture || is_among(whole.node, p.nodes, p.count)) {
        return cudaSuccess;
    }
    return CAPTURE_UPDATE(stream, &whole.node, NULL, 1, cudaStreamAddCaptureDependencies);
}

void
order_end_whole(cudaStream_t stream)
{
    place p;
    cudaError_t before = cudaPeekAtLastError();
    cudaError_t error = ask(stream, &p);
    if (error == cudaSuccess && p.count == 1) {
        whole.capture = p.capture;
        whole.stream = stream;
        whole.node = p.nodes[0];
        whole.branches = false;
    } else if (error && before == cudaSuccess) {
        cudaGetLastError();
    }
}
