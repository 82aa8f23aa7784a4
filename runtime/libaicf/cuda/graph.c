/* Graphs: a stream's capture, made executable. The capture is of this thread alone: what is
   forbidden meanwhile is forbidden to it and to no other, and a kernel whose code is still to be
   loaded loads it there. Launches that may start early become programmatic edges, and cooperative
   ones stay what they are, one behind the other: both are captured since CUDA 12.3. */
#include "attempt.h"
#include "device.h"
#include "driver.h"

static cudaGraphExec_t
native_graph(aicf_graph graph)
{
    return (cudaGraphExec_t)(void *)graph;
}

static cudaError_t
begin_capture(aicf_device device, cudaStream_t stream)
{
    driver_start();
    device_learn(device.index);
    return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}

aicf_status
cuda_begin_graph(aicf_device device, aicf_stream stream)
{
    ON_DEVICE(device, begin_capture(device, native(stream)));
}

/* An error that is no failure of ours: a refusal, or that of an earlier launch, which calls that
   destroy say as well and the next call says again. */
static void
forget(cudaError_t before, cudaError_t error)
{
    if (error != cudaSuccess && before == cudaSuccess) {
        cudaGetLastError();
    }
}

/* Whether `made` now launches what was captured. A refusal is no failure, and leaves no error. */
static bool
change_graph(cudaGraphExec_t made, cudaGraph_t captured)
{
    cudaError_t before = cudaPeekAtLastError();
    cudaGraphExecUpdateResultInfo told;
    cudaError_t error = cudaGraphExecUpdate(made, captured, &told);
    forget(before, error);
    return error == cudaSuccess;
}

static cudaError_t
make_graph(cudaGraph_t captured, aicf_graph *graph, bool change, bool *changed)
{
    cudaGraphExec_t made = NULL, stood = native_graph(*graph);
    *changed = stood && change && change_graph(stood, captured);
    if (*changed) {
        return cudaSuccess;
    }
    cudaError_t error = cudaGraphInstantiate(&made, captured, 0);
    if (error == cudaSuccess) {
        *graph = (aicf_graph)(void *)made;
        if (stood) {
            cudaError_t before = cudaPeekAtLastError();
            forget(before, cudaGraphExecDestroy(stood));
        }
    }
    return error;
}

static cudaError_t
end_capture(cudaStream_t stream, aicf_graph *graph, bool change, bool *changed, int64_t *nodes)
{
    cudaGraph_t captured = NULL;
    size_t count = 0;
    cudaError_t error = cudaStreamEndCapture(stream, &captured);
    if (error == cudaSuccess && graph) {
        error = cudaGraphGetNodes(captured, NULL, &count);
        error = error ? error : make_graph(captured, graph, change, changed);
        *nodes = (int64_t)count;
    }
    if (captured) { /* by now *graph is another, and that is no failure */
        cudaError_t before = cudaPeekAtLastError();
        forget(before, cudaGraphDestroy(captured));
    }
    return error;
}

/* What failed within the capture stays the failure that is told of. */
aicf_status
cuda_end_graph(
    aicf_device device, aicf_stream stream, aicf_graph *graph, bool change, bool *changed,
    int64_t *nodes)
{
    int32_t previous;
    cudaError_t before = graph ? attempt_begin() : cudaPeekAtLastError();
    cudaError_t error = attempt_enter(device.index, &previous);
    if (error == cudaSuccess) {
        error = end_capture(native(stream), graph, change, changed, nodes);
    }
    aicf_status status = attempt_end(before, error);
    device_leave(previous);
    return status;
}

/* Whoever waits for a device on which anything is captured is refused, and the capture ends. */
bool
cuda_spoiled_graph(int32_t native)
{
    return native == (int32_t)cudaErrorStreamCaptureInvalidated;
}

static cudaError_t
launch_first(aicf_device device, cudaStream_t stream, cudaGraphExec_t graph)
{
    driver_start();
    device_learn(device.index);
    return cudaGraphLaunch(graph, stream);
}

static __attribute__((noinline, cold)) aicf_status
launch_by_runtime(aicf_device device, aicf_stream stream, aicf_graph graph)
{
    ON_DEVICE(device, launch_first(device, native(stream), native_graph(graph)));
}

/* Straight to the driver where the device is current; what that refuses is the runtime's, as of
   kernels. */
aicf_status
cuda_launch_graph(aicf_device device, aicf_stream stream, aicf_graph graph)
{
    thread *t = thread_here();
    const driver *d = driver_fast();
    if (d && device_is_current(t, d, device.index)) {
        t->context = 0;
        if (d->launch_graph(native_graph(graph), native(stream)) == CUDA_SUCCESS) {
            return aicf_ok();
        }
    }
    return launch_by_runtime(device, stream, graph);
}

aicf_status
cuda_destroy_graph(aicf_device device, aicf_graph graph)
{
    ON_DEVICE(device, cudaGraphExecDestroy(native_graph(graph)));
}
