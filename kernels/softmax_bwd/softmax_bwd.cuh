// Gradients of softmax and log_softmax along one axis of dense tensors [L, N, R] (cuda), f32, f16
// and bf16, computed in f32, from the forward result. gx may be exactly gy or exactly fwd. Bound by
// bytes: where R is 1, gy and fwd are read once while a row fits into the registers of a cluster
// (aicf/cuda/rows.cuh), else twice (aicf/cuda/passes.cuh).
#ifndef AICF_KERNELS_SOFTMAX_BWD_CUH
#define AICF_KERNELS_SOFTMAX_BWD_CUH

#define AICF_HEADER(op) <aicf_ops/op.h>
#include AICF_HEADER(AICF_OP)

#include <aicf/cuda/passes.cuh>
#include <aicf/cuda/rows.cuh>
#include <aicf/cuda/soft.cuh>

namespace aicf::AICF_OP {

constexpr int kMostPacks = 4; // of each of the two rows

template <typename T> struct operands {
    const T *gy, *fwd;
    T *gx;
    rows::shape shape;
};

// What is summed along the axis, and the gradient by that sum.
struct rule_softmax_bwd {
    float sum;

    __device__ explicit rule_softmax_bwd(float total, float = 0.0f) : sum(total)
    {
    }

    __device__ static float term(float gy, float y)
    {
        return gy * y;
    }

    __device__ float operator()(float gy, float y) const
    {
        return y * (gy - sum);
    }
};

struct rule_log_softmax_bwd {
    float sum;

    __device__ explicit rule_log_softmax_bwd(float total, float = 0.0f) : sum(total)
    {
    }

    __device__ static float term(float gy, float)
    {
        return gy;
    }

    __device__ float operator()(float gy, float y) const
    {
        return gy - soft::exp(y) * sum;
    }
};

#define AICF_RULE_OF(op) rule_##op
#define AICF_RULE(op) AICF_RULE_OF(op)
using rule = AICF_RULE(AICF_OP);

template <int kPacks, int kRows, typename T, typename Team>
__device__ inline void
body(const operands<T> &p, Team &team)
{
    bool fwd_packed = rows::same_phase(p.gy, p.fwd);
    bool gx_packed = rows::same_phase(p.gy, static_cast<const T *>(p.gx));
    rows::held<T, kPacks> gy[kRows], y[kRows];
    typename Team::place at[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        int64_t row = team.row(r, kRows);
        at[r] = team.span_of(p.gy, p.shape, row);
        rows::load(gy[r], p.gy + row * p.shape.n, at[r]);
        rows::load(y[r], p.fwd + row * p.shape.n, at[r], fwd_packed);
    }

    float sum[kRows][1];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        sum[r][0] = 0.0f;
        auto take = [&](float a, float b) { sum[r][0] += rule::term(a, b); };
        rows::each(at[r], take, gy[r], y[r]);
    }
    team.reduce(sum, rows::add{});

#pragma unroll
    for (int r = 0; r < kRows; r++) {
        T *gx = p.gx + team.row(r, kRows) * p.shape.n;
        rows::forget(gy[r]);
        rows::forget(y[r]);
        rows::store(gx, at[r], gx_packed, rule(sum[r][0]), gy[r], y[r]);
    }
}

struct math {
    static constexpr int kIn = 2;
    using combine = rows::add;
    using map = rule;

    template <int kSize> __device__ static void take(float (&v)[2], const float (&x)[2][kSize])
    {
#pragma unroll
        for (int i = 0; i < kSize; i++) {
            v[0] += rule::term(x[0][i], x[1][i]);
        }
    }
};

template <typename T>
operands<device_t<T>>
operands_of(const T *gy, const T *fwd, T *gx, int64_t L, int64_t N)
{
    return {device(gy), device(fwd), device(gx), {L, static_cast<int>(N), 0}};
}

} // namespace aicf::AICF_OP

#define AICF_LAUNCHER_NAME(op, kernel, suffix) aicf_cuda_##op##_##kernel##_##suffix
#define AICF_LAUNCHER_OF(op, kernel, suffix) AICF_LAUNCHER_NAME(op, kernel, suffix)

#endif
