// shift on CUDA: out[i] = x[i] + amount.
#include <aicf_ops/shift.h>

#include <aicf/cuda/launch.cuh>

#include "shift.h"

namespace aicf::shift {

__global__ void
vec(const float *x, float *out, float amount, int64_t count)
{
    int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < count) {
        out[i] = x[i] + amount;
    }
}

} // namespace aicf::shift

aicf_status
small_cuda_shift_vec_f32(const float *x, float *out, int64_t A, aicf_stream stream)
{
    return aicf::launch(
        aicf::shift::vec, dim3(aicf::ceil_div(A, 256)), dim3(256), 0, stream, x, out, shift_amount, A);
}
