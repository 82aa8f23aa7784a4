// Planted faults: a sanitizer that does not report them is not looking. `planted write` writes an
// element past the end of an allocation; `planted race` reads what another warp writes to shared
// memory, with no barrier between; `planted read` reads what nobody wrote. Their namespace is
// within the one that sanitize.py asks for.
#include <cstdio>
#include <cstring>

#include <cuda_runtime_api.h>

namespace aicf::planted {

constexpr int kThreads = 256;

__global__ void write_past_the_end(float *out, int n)
{
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i <= n) {
        out[i] = 1.0f;
    }
}

__global__ void race(float *out)
{
    __shared__ float shared[kThreads];
    shared[threadIdx.x] = static_cast<float>(threadIdx.x);
    out[threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
}

__global__ void add_to_what_is_there(float *out, int n)
{
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        out[i] += 1.0f;
    }
}

} // namespace aicf::planted

int main(int count, char **words)
{
    constexpr int n = 1000;
    float *out = nullptr;
    if (count != 2 || cudaMalloc(reinterpret_cast<void **>(&out), n * sizeof(float))) {
        std::fprintf(stderr, "usage: planted write|race|read, on a GPU\n");
        return 1;
    }
    if (std::strcmp(words[1], "write") == 0) {
        aicf::planted::write_past_the_end<<<4, aicf::planted::kThreads>>>(out, n);
    } else if (std::strcmp(words[1], "read") == 0) {
        aicf::planted::add_to_what_is_there<<<4, aicf::planted::kThreads>>>(out, n);
    } else {
        aicf::planted::race<<<1, aicf::planted::kThreads>>>(out);
    }
    cudaError_t error = cudaDeviceSynchronize();
    std::printf("%s\n", cudaGetErrorName(error));
    cudaFree(out);
    return 0;
}
