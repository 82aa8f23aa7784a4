// softmax and log_softmax along one axis of a dense tensor [L, N, R] (cuda), f32, f16 and bf16,
// computed in f32. The largest element is subtracted first; a row of -inf alone, or with NaN or
// +inf in it, is NaN. out may be exactly x. Bound by bytes: where R is 1, x is read once while a
// row fits into the registers of a cluster (aicf/cuda/rows.cuh), else twice (aicf/cuda/passes.cuh).
#ifndef AICF_KERNELS_SOFTMAX_CUH
#define AICF_KERNELS_SOFTMAX_CUH

#define AICF_HEADER(op) <aicf_ops/op.h>
#include AICF_HEADER(AICF_OP)

#include <aicf/cuda/passes.cuh>
#include <aicf/cuda/rows.cuh>
#include <aicf/cuda/soft.cuh>

namespace aicf::AICF_OP {

template <typename T> struct operands {
    const T *x;
    T *out;
    rows::shape shape;
};

// out of x, where the row's largest is `top` and `sum` its sum as soft.cuh has it.
struct map_softmax {
    soft::scale power;
    float factor;

    // In the body: the host compiler reads what initialises members.
    __device__ map_softmax(float top, float sum) : power(top)
    {
        factor = __fdividef(1.0f, sum);
    }

    __device__ float operator()(float x) const
    {
        return power(x) * factor;
    }
};

struct map_log_softmax {
    float top, log_sum;

    __device__ map_log_softmax(float largest, float sum)
        : top(largest), log_sum(soft::log_sum(largest, sum))
    {
    }

    __device__ float operator()(float x) const
    {
        return (x - top) - log_sum;
    }
};

#define AICF_MAP_OF(op) map_##op
#define AICF_MAP(op) AICF_MAP_OF(op)
using map = AICF_MAP(AICF_OP);

constexpr int kMostPacks = 8;

// Of rows that are held.
template <int kPacks, int kRows, typename T, typename Team>
__device__ inline void
rest(
    const operands<T> &p, Team &team, rows::held<T, kPacks> (&x)[kRows],
    const typename Team::place (&at)[kRows])
{
    float top[kRows][1];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        top[r][0] = rows::largest(at[r], x[r]);
    }
    team.lanes(top, soft::largest{});

    // Exponents are of the warp's largest: so one exchange between the warps is enough.
    float sum[kRows][1];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        soft::scale power(soft::base_of(top[r][0]));
        sum[r][0] = 0.0f;
        rows::forget(x[r]);
        rows::each(at[r], [&](float v) { sum[r][0] += power(v); }, x[r]);
    }
    team.lanes(sum, rows::add{});

    float both[kRows][2];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        both[r][0] = top[r][0];
        both[r][1] = sum[r][0];
    }
    team.across(both, soft::total{});

    bool packed = rows::same_phase(p.x, p.out);
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        T *out = p.out + team.row(r, kRows) * p.shape.n;
        rows::forget(x[r]);
        rows::store(out, at[r], packed, map(both[r][0], both[r][1]), x[r]);
    }
}

template <int kPacks, int kRows, typename T, typename Team>
__device__ inline void
body(const operands<T> &p, Team &team)
{
    rows::held<T, kPacks> x[kRows];
    typename Team::place at[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        int64_t row = team.row(r, kRows);
        at[r] = team.span_of(p.x, p.shape, row);
        rows::load(x[r], p.x + row * p.shape.n, at[r]);
    }
    rest(p, team, x, at);
}

struct math {
    static constexpr int kIn = 1;
    using combine = soft::total;
    using map = AICF_OP::map;

    // Rescales the sum once for all of x.
    template <int kSize> __device__ static void take(float (&v)[2], const float (&x)[1][kSize])
    {
        soft::take(v, x[0]);
    }
};

template <typename T>
operands<device_t<T>>
operands_of(const T *x, T *out, int64_t L, int64_t N)
{
    return {device(x), device(out), {L, static_cast<int>(N), 0}};
}

} // namespace aicf::AICF_OP

#define AICF_LAUNCHER_NAME(op, kernel, suffix) aicf_cuda_##op##_##kernel##_##suffix
#define AICF_LAUNCHER_OF(op, kernel, suffix) AICF_LAUNCHER_NAME(op, kernel, suffix)

#endif
