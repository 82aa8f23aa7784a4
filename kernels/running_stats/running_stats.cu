// running_stats (cuda): running_mean and running_var, f32 and in place, a step of `momentum`
// towards mean and towards the unbiased variance, var * count / (count - 1); momentum is a host
// number or the f32 at a device address.
#include <aicf_ops/running_stats.h>

#include <aicf/cuda/launch.cuh>

namespace aicf::running_stats {

constexpr int kBlock = 256;

struct momentum {
    const float *device; // NULL: `host`
    float host;
};

__global__ void
__launch_bounds__(kBlock) plain(
    float *mean, float *var, const float *m, const float *v, int64_t C, float unbiased,
    momentum step)
{
    int64_t c = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    float share = step.device ? *step.device : step.host;
    if (c < C) {
        mean[c] = (1.0f - share) * mean[c] + share * m[c];
        var[c] = (1.0f - share) * var[c] + share * (v[c] * unbiased);
    }
}

} // namespace aicf::running_stats

aicf_status
aicf_cuda_running_stats_plain_f32(
    float *running_mean, float *running_var, const float *mean, const float *var, int64_t C,
    int64_t count, const aicf_scalar *momentum, aicf_stream stream)
{
    using namespace aicf::running_stats;
    struct momentum step = {
        static_cast<const float *>(momentum->data), static_cast<float>(momentum->host.real)};
    float unbiased = static_cast<float>(static_cast<double>(count) / (count - 1));
    if (C == 0) {
        return aicf_ok();
    }
    unsigned blocks = static_cast<unsigned>(aicf::ceil_div(C, kBlock));
    return aicf::launch(
        plain, blocks, kBlock, 0, stream, running_mean, running_var, mean, var, C, unbiased, step);
}
