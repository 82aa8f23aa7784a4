// batch_norm_bwd (cuda): gy, x and gx N x C x R dense or all channels last, f32, f16 and bf16,
// computed in f32. With rstd = (var + eps)**-0.5, h = (x - mean) * rstd and means over all elements
// of a channel,
//
//     gx = weight * rstd * (gy - mean of gy - h * mean of gy * h), of given statistics
//          weight * rstd * gy
//     gw = sum of gy * h, gb = sum of gy
//
// Only what is wanted is computed. gx may be exactly gy; any addresses. Bound by bytes: gy and x
// are read twice, the second time in the opposite order (aicf/cuda/channels.cuh).
#include <aicf_ops/batch_norm_bwd.h>

#include <aicf/cuda/channel_maps.cuh>
#include <aicf/cuda/channel_sums.cuh>

namespace aicf::batch_norm_bwd {

using channels::products;

AICF_CHANNEL_SUMS(products)

// (gy - first - (x - mean) * second) * factor
struct gradient {
    const float4 *of; // mean, first, second, factor

    __device__ float4 coefficients(int64_t channel) const
    {
        return of[channel];
    }

    __device__ float operator()(const float4 &c, const float (&x)[2]) const
    {
        return (x[0] - c.y - (x[1] - c.x) * c.z) * c.w;
    }
};

AICF_CHANNEL_MAP(gradient, gradient, 2)

struct statistics {
    const float *mean, *var, *weight; // weight may be NULL
    float eps;

    __device__ float rstd(int64_t channel) const
    {
        return rsqrtf(var[channel] + eps);
    }

    __device__ float factor(int64_t channel) const
    {
        return weight ? rstd(channel) * weight[channel] : rstd(channel);
    }
};

// Of given statistics: x has no part in it, infinite or not.
struct scaled {
    statistics given;

    __device__ float4 coefficients(int64_t channel) const
    {
        return {given.factor(channel), 0.0f, 0.0f, 0.0f};
    }

    __device__ float operator()(const float4 &c, const float (&x)[1]) const
    {
        return x[0] * c.x;
    }
};

AICF_CHANNEL_MAP(scaled, scaled, 1)

__global__ void
__launch_bounds__(channels::kAcross *channels::kDown)
    settle(channels::room room, const channels::extent e, statistics given, float *gw, float *gb)
{
    auto floats = [&](int64_t part, int64_t channel, float(&v)[2]) {
        float2 pair = room.pairs[part * e.C + channel];
        v[0] = pair.x;
        v[1] = pair.y;
    };
    channels::settle_body<products>(e, floats, [&](int64_t channel, const float(&v)[2]) {
        float rstd = given.rstd(channel), share = 1.0f / static_cast<float>(e.N * e.R);
        room.coefficients[channel] = {
            given.mean[channel], v[0] * share, v[1] * rstd * rstd * share, given.factor(channel)};
        if (gw) {
            gw[channel] = v[1] * rstd;
        }
        if (gb) {
            gb[channel] = v[0];
        }
    });
}

template <typename T> struct tensors {
    const T *gy, *x;
    T *gx;          // may be NULL
    float *gw, *gb; // may be NULL
};

template <typename T>
aicf_status
launch(
    const tensors<T> &t, const statistics &given, channels::extent e, bool training,
    bool channels_last, void *workspace, aicf_stream stream)
{
    channels::operands<T, 2> p = {{t.gy, t.x}, given.mean, channels::room_of(workspace, e.C), e};
    aicf_status status = aicf_ok();
    if (t.gw || t.gb || training) {
        if (e.N * e.R > 0) { // else there are no parts, and the sums are 0
            status = channels::launch_sums(sums_of<T>(), p, channels_last, stream);
        }
        if (status.kind) {
            return status;
        }
        unsigned blocks = static_cast<unsigned>(ceil_div(e.C, channels::kAcross));
        status = launch_waiting(
            settle, blocks, channels::kAcross * channels::kDown, 0, stream, p.room, p.e, given,
            t.gw, t.gb);
    }
    if (status.kind || !t.gx || e.N * e.R == 0) {
        return status;
    }
    if (training) {
        channels::mapped<T, 2> q = {{t.gy, t.x}, t.gx};
        return channels::launch_map(
            gradient_of<T>(), gradient{p.room.coefficients}, q, e, channels_last, true, stream);
    }
    channels::mapped<T, 1> q = {{t.gy}, t.gx};
    return channels::launch_map(scaled_of<T>(), scaled{given}, q, e, channels_last, false, stream);
}

} // namespace aicf::batch_norm_bwd

#define LAUNCHER(id, channels_last, T, suffix)                                                    \
    aicf_status aicf_cuda_batch_norm_bwd_##id##_##suffix(                                         \
        const T *gy, const T *x, const float *mean, const float *var, const float *weight, T *gx, \
        float *gw, float *gb, int64_t N, int64_t C, int64_t R, double eps, bool training,         \
        void *workspace, aicf_stream stream)                                                      \
    {                                                                                             \
        aicf::batch_norm_bwd::tensors<aicf::device_t<T>> t = {                                    \
            aicf::device(gy), aicf::device(x), aicf::device(gx), gw, gb};                         \
        return aicf::batch_norm_bwd::launch(                                                      \
            t, {mean, var, weight, static_cast<float>(eps)}, {N, C, R}, training, channels_last,  \
            workspace, stream);                                                                   \
    }

// Where there is one element a channel and sample, channels lie last too.
#define LAUNCHERS(T, suffix)               \
    LAUNCHER(two_stage, R == 1, T, suffix) \
    LAUNCHER(two_stage_nhwc, true, T, suffix)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
