// Kernels for the tests of launches: what nvcc's stubs need must come from libaicf.
#include <cuda_runtime.h>

#include <aicf/call.h>

#include "kernel.h"

__global__ void
count_up(float *x, int64_t count)
{
    int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < count) {
        x[i] += static_cast<float>(i);
    }
}

static aicf_status
status_of(cudaError_t error)
{
    aicf_status status = aicf_ok();
    if (error != cudaSuccess) {
        status.kind = AICF_BACKEND_ERROR;
        status.native = static_cast<int32_t>(error);
    }
    return status;
}

aicf_status
test_count_up(float *x, int64_t count, int rows, aicf_stream stream)
{
    void *args[] = {&x, &count};
    cudaError_t error = cudaLaunchKernel(
        reinterpret_cast<const void *>(count_up),
        dim3(static_cast<unsigned>((count + 255) / 256), static_cast<unsigned>(rows)), dim3(256),
        args, 0, reinterpret_cast<cudaStream_t>(stream));
    if (error != cudaSuccess) {
        cudaGetLastError();
    }
    return status_of(error);
}

void
test_leave_error(void)
{
    count_up<<<dim3(0), dim3(1)>>>(nullptr, 0);
}

int
test_last_error(void)
{
    return static_cast<int>(cudaPeekAtLastError());
}

int
test_get_device(void)
{
    int device = -1;
    cudaGetDevice(&device);
    return device;
}

int
test_is_captured(aicf_stream stream)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(reinterpret_cast<cudaStream_t>(stream), &status);
    return status == cudaStreamCaptureStatusActive;
}

int
test_copy(void *to, const void *from, size_t bytes)
{
    return static_cast<int>(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}

int
test_graph(float *x, int64_t count, int times)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int error = cudaStreamCreate(&stream);
    error |= cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    error |= test_count_up(x, count, 1, reinterpret_cast<aicf_stream>(stream)).native;
    error |= cudaStreamEndCapture(stream, &graph);
    error |= cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < times; i++) {
        error |= cudaGraphLaunch(exec, stream);
    }
    error |= cudaStreamSynchronize(stream);
    return error;
}
