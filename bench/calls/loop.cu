// The C loop of launches on a GPU, in the process of the calls that it is the floor of: the same
// add by <<<>>>, and by cuLaunchKernel with a handle that was looked up before.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdint.h>
#include <time.h>

__global__ void bench_add(const float *a, const float *b, float *out, int64_t n)
{
    int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < n) {
        out[i] = a[i] + b[i];
    }
}

static constexpr unsigned BLOCK = 256;

static int64_t now()
{
    timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return static_cast<int64_t>(at.tv_sec) * 1000000000 + at.tv_nsec;
}

// Nanoseconds of so many launches, each asked how it went; -1 if one failed.
extern "C" int64_t
bench_loop_runtime(const float *a, const float *b, float *out, int64_t n, void *stream, int64_t times)
{
    unsigned blocks = static_cast<unsigned>((n + BLOCK - 1) / BLOCK);
    int failed = 0;
    int64_t start = now();
    for (int64_t i = 0; i < times; i++) {
        bench_add<<<blocks, BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(a, b, out, n);
        failed |= cudaGetLastError();
    }
    int64_t end = now();
    return failed ? -1 : end - start;
}

extern "C" int64_t
bench_loop_driver(const float *a, const float *b, float *out, int64_t n, void *stream, int64_t times)
{
    using launch_fn = decltype(&cuLaunchKernel);
    static launch_fn launch;
    static cudaFunction_t function;
    if (!launch) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        launch = driver ? reinterpret_cast<launch_fn>(dlsym(driver, "cuLaunchKernel")) : nullptr;
        if (!launch || cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(bench_add))) {
            return -1;
        }
    }
    unsigned blocks = static_cast<unsigned>((n + BLOCK - 1) / BLOCK);
    void *arguments[] = {&a, &b, &out, &n};
    int failed = 0;
    int64_t start = now();
    for (int64_t i = 0; i < times; i++) {
        failed |= launch(
            reinterpret_cast<CUfunction>(function), blocks, 1, 1, BLOCK, 1, 1, 0,
            static_cast<CUstream>(stream), arguments, nullptr);
    }
    int64_t end = now();
    return failed ? -1 : end - start;
}
