// add on CUDA: out[i] = a[i] + b[i]. out may be a or b.
#include <aicf_ops/add.h>

#include <aicf/cuda/launch.cuh>

namespace aicf::add {

__global__ void
vec(const float *a, const float *b, float *out, int64_t count)
{
    int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < count) {
        out[i] = a[i] + b[i];
    }
}

} // namespace aicf::add

aicf_status
small_cuda_add_vec_f32(const float *a, const float *b, float *out, int64_t A, aicf_stream stream)
{
    return aicf::launch(aicf::add::vec, dim3(aicf::ceil_div(A, 256)), dim3(256), 0, stream, a, b, out, A);
}
