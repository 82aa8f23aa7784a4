// Launching: how a launcher of a CUDA kernel hands over its arguments and answers for its own
// error.
#ifndef AICF_CUDA_LAUNCH_CUH
#define AICF_CUDA_LAUNCH_CUH

#include <cstring>

#include <cuda_runtime.h>

#include <aicf/call.h>

namespace aicf {

// gridDim.x reaches this; y and z stop at 65535 and are not used for anything that grows.
constexpr int64_t kMostBlocks = 2147483647;

// Of what is not negative. Without a sign a division by a constant costs no division.
constexpr int64_t
ceil_div(int64_t a, int64_t b)
{
    const uint64_t of = static_cast<uint64_t>(a), by = static_cast<uint64_t>(b);
    return static_cast<int64_t>(of / by + (of % by != 0));
}

inline aicf_status
status_of(cudaError_t error)
{
    aicf_status status = aicf_ok();
    if (error != cudaSuccess) {
        status.kind = AICF_BACKEND_ERROR;
        status.native = static_cast<int32_t>(error);
    }
    return status;
}

template <typename T> struct exactly {
    using type = T;
};

// Launches `kernel` and returns what the launch itself returned. The `<<<>>>` form drops that value
// and leaves only the thread's last error, which may be somebody else's. A refusal of ours is taken
// off the thread again once it is in the status, so that nobody after us reports it; an error that
// stood there before a launch of ours that worked stays where it is.
template <typename... P>
[[gnu::always_inline]] inline aicf_status
launch(
    void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, aicf_stream stream,
    typename exactly<P>::type... args)
{
    void *pointers[] = {const_cast<void *>(static_cast<const void *>(&args))...};
    cudaError_t error = cudaLaunchKernel(
        reinterpret_cast<const void *>(kernel), grid, block, pointers, shared,
        reinterpret_cast<cudaStream_t>(stream));
    if (error != cudaSuccess) {
        cudaGetLastError();
    }
    return status_of(error);
}

// The same by clusters of `size` neighbouring blocks, which divides `blocks`: for kernels of sm_90.
template <typename... P>
aicf_status
launch_cluster(
    void (*kernel)(P...), unsigned blocks, unsigned block, unsigned size, aicf_stream stream,
    typename exactly<P>::type... args)
{
    void *pointers[] = {const_cast<void *>(static_cast<const void *>(&args))...};
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = size;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(blocks);
    how.blockDim = dim3(block);
    how.stream = reinterpret_cast<cudaStream_t>(stream);
    how.attrs = &cluster;
    how.numAttrs = 1;
    cudaError_t error = cudaLaunchKernelExC(&how, reinterpret_cast<const void *>(kernel), pointers);
    if (error != cudaSuccess) {
        cudaGetLastError();
    }
    return status_of(error);
}

// Whether kernels that wait for the launch before them (ptx.cuh) may start while that one runs:
// where every device of the process is of 9.0 and the module has code for it, since code for
// earlier ones does not wait. Asked once: the answer does not change.
inline bool
launches_overlap()
{
    static int answer = -1;
    int known = __atomic_load_n(&answer, __ATOMIC_RELAXED), devices = 0;
    if (known < 0) {
        known = aicf_op_code && strstr(aicf_op_code, "_90") &&
                cudaGetDeviceCount(&devices) == cudaSuccess;
        for (int device = 0; device < devices; device++) {
            int major = 0, minor = 0;
            cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
            cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
            known = known && major == 9 && minor == 0;
        }
        __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
    }
    return known;
}

// As launch_waiting, of arguments by their addresses: once a module.
__attribute__((noinline)) inline aicf_status
launch_early(
    const void *kernel, unsigned blocks, unsigned block, size_t shared, aicf_stream stream,
    void **pointers)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(blocks);
    how.blockDim = dim3(block);
    how.dynamicSmemBytes = shared;
    how.stream = reinterpret_cast<cudaStream_t>(stream);
    how.attrs = &early;
    how.numAttrs = 1;
    cudaError_t error =
        launches_overlap()
            ? cudaLaunchKernelExC(&how, kernel, pointers)
            : cudaLaunchKernel(kernel, how.gridDim, how.blockDim, pointers, shared, how.stream);
    if (error != cudaSuccess) {
        cudaGetLastError();
    }
    return status_of(error);
}

// Launches `kernel`, which waits for the launch before it, so that its start is not waited for.
template <typename... P>
aicf_status
launch_waiting(
    void (*kernel)(P...), unsigned blocks, unsigned block, size_t shared, aicf_stream stream,
    typename exactly<P>::type... args)
{
    void *pointers[] = {const_cast<void *>(static_cast<const void *>(&args))...};
    return launch_early(
        reinterpret_cast<const void *>(kernel), blocks, block, shared, stream, pointers);
}

// Multiprocessors of the current device.
inline aicf_status
count_processors(int *processors)
{
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(processors, cudaDevAttrMultiProcessorCount, device);
    }
    return status_of(error);
}

// Lets `kernel` take `bytes` of dynamic shared memory: needed above 48 KiB, before each launch,
// since the attribute belongs to the current device. The value is one constant a kernel, so that
// two threads cannot lower it for each other. Legal while a stream is captured.
template <typename... P>
aicf_status
allow_shared(void (*kernel)(P...), int bytes)
{
    cudaError_t error = cudaFuncSetAttribute(
        reinterpret_cast<const void *>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) {
        cudaGetLastError();
    }
    return status_of(error);
}

} // namespace aicf

#endif
