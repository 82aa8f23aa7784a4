// Launches for tests/gpu/test_launches.py, over the CUDA runtime in libaicf as a module makes them.
// Each function gives the error that the launch itself returned; last() what it left behind.
#include <cstring>

#include <cuda.h>
#include <cuda_runtime.h>

namespace {

__global__ void
add_one(float *x, int n)
{
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        x[i] += 1;
    }
}

__global__ void
add_two(float *x, int n)
{
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        x[i] += 2;
    }
}

__global__ void
reverse(float *x, int n)
{
    extern __shared__ float kept[];
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
        kept[n - 1 - i] = x[i];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
        x[i] = kept[i];
    }
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) int

static int
call(
    const void *kernel, unsigned blocks, unsigned threads, size_t shared, void **args, void *stream)
{
    return cudaLaunchKernel(
        kernel, dim3(blocks), dim3(threads), args, shared, static_cast<cudaStream_t>(stream));
}

EXPORT
last(void)
{
    return cudaGetLastError();
}

// By the call, of any size.
EXPORT
one_by_call(float *x, int n, unsigned blocks, unsigned threads, size_t shared, void *stream)
{
    void *args[] = {&x, &n};
    return call(reinterpret_cast<const void *>(add_one), blocks, threads, shared, args, stream);
}

// By <<<>>>, which returns nothing.
EXPORT
one_by_chevrons(float *x, int n, unsigned blocks, unsigned threads, size_t shared, void *stream)
{
    add_one<<<blocks, threads, shared, static_cast<cudaStream_t>(stream)>>>(x, n);
    return 0;
}

static int
one_more(float *x, int n, void *stream)
{
    add_one<<<1, 256, 0, static_cast<cudaStream_t>(stream)>>>(x, n);
    return n;
}

// A launch among the arguments of a launch.
EXPORT
nested(float *x, int n, void *stream)
{
    add_one<<<1, 256, 0, static_cast<cudaStream_t>(stream)>>>(x, one_more(x, n, stream));
    return 0;
}

EXPORT
reversed(float *x, int n, int allowed, void *stream)
{
    const void *kernel = reinterpret_cast<const void *>(reverse);
    void *args[] = {&x, &n};
    if (allowed) {
        int error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, allowed);
        if (error) {
            return error;
        }
    }
    return call(kernel, 1, 256, n * sizeof(float), args, stream);
}

EXPORT
cooperative(float *x, int n, void *stream)
{
    void *args[] = {&x, &n};
    return cudaLaunchCooperativeKernel(
        reinterpret_cast<const void *>(add_one), dim3(1), dim3(256), args, 0,
        static_cast<cudaStream_t>(stream));
}

EXPORT
clustered(float *x, int n, void *stream)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(2);
    config.blockDim = dim3(256);
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = &attribute;
    config.numAttrs = 1;
    void *args[] = {&x, &n};
    return cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(add_one), args);
}

// Past libaicf's own way: add_two by the driver, which never saw it before.
EXPORT
two_by_driver(float *x, int n, void *stream)
{
    CUresult (*launch)(
        CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
        void **, void **);
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    cudaKernel_t kernel;
    void *args[] = {&x, &n};
    int error = cudaGetDriverEntryPointByVersion(
        "cuLaunchKernel", &found, 12000, cudaEnableDefault, &result);
    error = error ? error : cudaGetKernel(&kernel, reinterpret_cast<const void *>(add_two));
    std::memcpy(&launch, &found, sizeof found);
    return error ? error
                 : launch(
                       reinterpret_cast<CUfunction>(reinterpret_cast<void *>(kernel)), 1, 1, 1, 256,
                       1, 1, 0, static_cast<CUstream>(stream), args, nullptr);
}
