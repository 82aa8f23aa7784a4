// gx = gy where y > 0, else 0 (cuda), f32, f16 and bf16; a NaN y lets gy pass, as ATen's
// threshold_backward does. The two kernels and what they take are described in
// aicf/cuda/elementwise.cuh; gx may be exactly gy or exactly y. Bound by bytes.
#include <aicf_ops/relu_bwd.h>

#include <aicf/cuda/elementwise.cuh>

namespace aicf::relu_bwd {

struct gate {
    __device__ float operator()(float gy, float y) const
    {
        return y <= 0.0f ? 0.0f : gy;
    }
};

AICF_ELEMENTWISE_KERNELS

} // namespace aicf::relu_bwd

#define LAUNCHERS(T, suffix)                                                                       \
    aicf_status aicf_cuda_relu_bwd_vec_##suffix(                                                   \
        const T *gy, const T *y, T *gx, int64_t A, aicf_stream stream)                             \
    {                                                                                              \
        using namespace aicf::relu_bwd;                                                            \
        using D = aicf::device_t<T>;                                                               \
        return run_vec(gate{}, of<D, D, D>{}, operands_of(gx, gy, y), A, stream);                  \
    }                                                                                              \
    aicf_status aicf_cuda_relu_bwd_strided_##suffix(                                               \
        const aicf_view *gy, const aicf_view *y, const aicf_view *gx, int64_t, aicf_stream stream) \
    {                                                                                              \
        using namespace aicf::relu_bwd;                                                            \
        using D = aicf::device_t<T>;                                                               \
        return run_views(gate{}, of<D, D, D>{}, {*gx, *gy, *y}, stream);                           \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
