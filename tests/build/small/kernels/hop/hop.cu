// hop on CUDA: out[i] = x[i].
#include <aicf_ops/hop.h>

#include <aicf/cuda/launch.cuh>

namespace aicf::hop {

__global__ void
step(const float *x, float *out, int64_t count)
{
    int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < count) {
        out[i] = x[i];
    }
}

} // namespace aicf::hop

aicf_status
small_cuda_hop_step_f32(const float *x, float *out, int64_t A, aicf_stream stream)
{
    return aicf::launch(aicf::hop::step, dim3(aicf::ceil_div(A, 256)), dim3(256), 0, stream, x, out, A);
}
