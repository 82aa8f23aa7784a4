// batch_norm (cuda): out = (x - mean) / sqrt(var + eps) * weight + bias with the statistics of this
// batch, x and out N x C x R dense or both channels last, f32, f16 and bf16, computed in f32. out
// may be exactly x; any addresses. Bound by bytes: x is read twice, the second time in the opposite
// order, so that what is in the L2 is not read again (aicf/cuda/channels.cuh).
#include <aicf_ops/batch_norm.h>

#include <aicf/cuda/channel_maps.cuh>
#include <aicf/cuda/channel_sums.cuh>

namespace aicf::batch_norm {

using channels::moments;

AICF_CHANNEL_SUMS(moments)

// (x - mean - shift) * factor + offset; `mean` is an f32, `shift` what it lacks.
struct normalise {
    const float4 *of; // mean, shift, factor, offset

    __device__ float4 coefficients(int64_t channel) const
    {
        return of[channel];
    }

    __device__ float operator()(const float4 &c, const float (&x)[1]) const
    {
        return fmaf(x[0] - c.x - c.y, c.z, c.w);
    }
};

AICF_CHANNEL_MAP(normalise, normalise, 1)

struct results {
    const float *weight, *bias; // may be NULL
    float *mean, *var;          // may be NULL
    float eps;
};

__global__ void
__launch_bounds__(channels::kAcross *channels::kDown)
    settle(channels::room room, const channels::extent e, results to)
{
    int64_t elements = e.N * e.R;
    auto floats = [&](int64_t part, int64_t channel, float(&v)[3]) {
        int64_t rest = elements - part * e.share;
        float2 pair = room.pairs[part * e.C + channel];
        v[0] = static_cast<float>(rest < e.share ? rest : e.share);
        v[1] = pair.x;
        v[2] = pair.y;
    };
    channels::settle_body<moments>(e, floats, [&](int64_t channel, const float(&v)[3]) {
        float base = room.base[channel], var = v[2] / static_cast<float>(elements);
        float mean = base + v[1], factor = 1.0f / sqrtf(var + to.eps);
        factor = to.weight ? factor * to.weight[channel] : factor;
        float offset = to.bias ? to.bias[channel] : 0.0f;
        room.coefficients[channel] = {mean, (base - mean) + v[1], factor, offset};
        if (to.mean) {
            to.mean[channel] = mean;
        }
        if (to.var) {
            to.var[channel] = var;
        }
    });
}

template <typename T>
aicf_status
launch(
    const T *x, T *out, const results &to, int64_t N, int64_t C, int64_t R, bool channels_last,
    void *workspace, aicf_stream stream)
{
    channels::operands<T, 1> p = {{x}, nullptr, channels::room_of(workspace, C), {N, C, R}};
    aicf_status status = channels::launch_sums(sums_of<T>(), p, channels_last, stream);
    if (status.kind) {
        return status;
    }
    unsigned blocks = static_cast<unsigned>(ceil_div(C, channels::kAcross));
    status = launch_waiting(
        settle, blocks, channels::kAcross * channels::kDown, 0, stream, p.room, p.e, to);
    if (status.kind) {
        return status;
    }
    channels::mapped<T, 1> q = {{x}, out};
    return channels::launch_map(
        normalise_of<T>(), normalise{p.room.coefficients}, q, p.e, channels_last, true, stream);
}

} // namespace aicf::batch_norm

#define LAUNCHER(id, channels_last, T, suffix)                                                     \
    aicf_status aicf_cuda_batch_norm_##id##_##suffix(                                              \
        const T *x, const float *weight, const float *bias, T *out, float *mean, float *var,       \
        int64_t N, int64_t C, int64_t R, double eps, void *workspace, aicf_stream stream)          \
    {                                                                                              \
        return aicf::batch_norm::launch(                                                           \
            aicf::device(x), aicf::device(out),                                                    \
            {weight, bias, mean, var, static_cast<float>(eps)}, N, C, R, channels_last, workspace, \
            stream);                                                                               \
    }

// Where there is one element a channel and sample, channels lie last too.
#define LAUNCHERS(T, suffix)               \
    LAUNCHER(two_stage, R == 1, T, suffix) \
    LAUNCHER(two_stage_nhwc, true, T, suffix)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
