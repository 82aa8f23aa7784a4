// hop on CUDA, for sm_90a alone: setmaxnreg assembles nowhere else: out[i] = x[i].
#include <aicf_ops/hop.h>

#include <aicf/cuda/launch.cuh>

namespace aicf::hop {

__global__ void
__launch_bounds__(128) leap(const float *x, float *out, int64_t count)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
    int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < count) {
        out[i] = x[i];
    }
}

} // namespace aicf::hop

aicf_status
small_cuda_hop_leap_f32(const float *x, float *out, int64_t A, aicf_stream stream)
{
    return aicf::launch(aicf::hop::leap, dim3(aicf::ceil_div(A, 128)), dim3(128), 0, stream, x, out, A);
}
