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

AICF_ELEMENTWISE_KERNELS(gate, 2)

} // namespace aicf::relu_bwd

#define LAUNCHERS(T, suffix)                                                                       \
    aicf_status aicf_cuda_relu_bwd_vec_##suffix(                                                   \
        const T *gy, const T *y, T *gx, int64_t A, aicf_stream stream)                             \
    {                                                                                              \
        using D = aicf::device_t<T>;                                                               \
        aicf::elementwise::operands<D, 2> p = {                                                    \
            {aicf::device(gy), aicf::device(y)}, aicf::device(gx)};                                \
        return aicf::elementwise::launch_vec(                                                      \
            aicf::relu_bwd::vec<D>, aicf::relu_bwd::scalar<D>, aicf::relu_bwd::gate{}, p, A,       \
            stream);                                                                               \
    }                                                                                              \
    aicf_status aicf_cuda_relu_bwd_strided_##suffix(                                               \
        const aicf_view *gy, const aicf_view *y, const aicf_view *gx, int64_t, aicf_stream stream) \
    {                                                                                              \
        return aicf::elementwise::launch_strided(                                                  \
            aicf::relu_bwd::strided<aicf::device_t<T>>, aicf::relu_bwd::gate{}, {*gx, *gy, *y},    \
            stream);                                                                               \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
