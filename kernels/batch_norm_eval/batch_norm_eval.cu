// batch_norm_eval (cuda): out = (x - mean) / sqrt(var + eps) * weight + bias with given statistics,
// x and out N x C x R dense or both channels last, f32, f16 and bf16, computed in f32. out may be
// exactly x; any addresses. The map is that of aicf/cuda/channels.cuh. Bound by bytes.
#include <aicf_ops/batch_norm_eval.h>

#include <aicf/cuda/channel_maps.cuh>

namespace aicf::batch_norm_eval {

struct normalise {
    const float *mean, *var, *weight, *bias; // weight and bias may be NULL
    float eps;

    __device__ float4 coefficients(int64_t channel) const
    {
        float rstd = rsqrtf(var[channel] + eps);
        return {
            mean[channel], 0.0f, weight ? rstd * weight[channel] : rstd,
            bias ? bias[channel] : 0.0f};
    }

    __device__ float operator()(const float4 &c, const float (&x)[1]) const
    {
        return fmaf(x[0] - c.x, c.z, c.w);
    }
};

AICF_CHANNEL_MAP(normalise, normalise, 1)

template <typename T>
aicf_status
launch(
    const T *x, T *out, const normalise &map, int64_t N, int64_t C, int64_t R, bool channels_last,
    aicf_stream stream)
{
    channels::mapped<T, 1> p = {{x}, out};
    return channels::launch_map(normalise_of<T>(), map, p, {N, C, R}, channels_last, false, stream);
}

} // namespace aicf::batch_norm_eval

#define LAUNCHER(id, channels_last, T, suffix)                                                   \
    aicf_status aicf_cuda_batch_norm_eval_##id##_##suffix(                                       \
        const T *x, const float *mean, const float *var, const float *weight, const float *bias, \
        T *out, int64_t N, int64_t C, int64_t R, double eps, aicf_stream stream)                 \
    {                                                                                            \
        return aicf::batch_norm_eval::launch(                                                    \
            aicf::device(x), aicf::device(out),                                                  \
            {mean, var, weight, bias, static_cast<float>(eps)}, N, C, R, channels_last, stream); \
    }

// Where there is one element a channel and sample, channels lie last too.
#define LAUNCHERS(T, suffix)         \
    LAUNCHER(vec, R == 1, T, suffix) \
    LAUNCHER(vec_nhwc, true, T, suffix)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
