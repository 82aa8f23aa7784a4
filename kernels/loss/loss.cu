// Losses (cuda): out = f(x, target) or the sum or mean of that, f32, f16 and bf16, computed and
// summed in f32; arrays of one order without gaps, at any addresses. Of nothing the sum is 0 and
// the mean NaN. Bound by bytes.
//
//   each       element by element (aicf/cuda/elementwise.cuh); out may be exactly x or target
//   two_stage  every block sums a share of the elements, one block the blocks' sums, in a fixed
//              order; of one block the second stage is left out. `workspace` holds the sums.
#include "formula.h"

#include OPS_HEADER(AICF_OP)

#include <aicf/cuda/block_reduce.cuh>
#include <aicf/cuda/elementwise.cuh>

#include "device.cuh"

namespace aicf::AICF_OP {

using loss::exp_of_exact;
using loss::exp_of_quick;
using loss::log1p_of_exact;
using loss::log1p_of_quick;

#define REAL float
#define S exact
#include FORMULA_HEADER(AICF_OP)
#undef S
#define S quick
#include FORMULA_HEADER(AICF_OP)
#undef S

// ---- one element --------------------------------------------------------------------------------

template <typename T> struct loss_of {
    float own;

    __device__ float operator()(float x, float target) const
    {
        return sizeof(T) == sizeof(float) ? formula_exact(x, target, own)
                                          : formula_quick(x, target, own);
    }
};

AICF_ELEMENTWISE_KERNELS

// ---- sums ---------------------------------------------------------------------------------------

constexpr int kBlock = 256;
constexpr int kUnroll = 2; // loads of each input on their way at once, so few that six blocks fit

// The row's workspace expression says the same two numbers: elements of a block, and blocks.
constexpr int64_t kLeastShare = 1024;
constexpr int64_t kMostSums = 2048;

// Units are packs from `head` on, or elements.
template <typename T> struct sum_operands {
    const T *x, *target;
    int64_t n, head, units, share;
    float *sums; // NULL: the only block writes out
    T *out;
    float factor;
};

// The loss over one unit: a pack of x and target, or an element.
template <typename T, int kSize>
__device__ inline float
unit_sum(const loss_of<T> &f, const words &x, const words &target)
{
    float sum = 0.0f;
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        sum += f(lane_of<T>(x, lane), lane_of<T>(target, lane));
    }
    return sum;
}

template <typename T>
__device__ inline float
element_loss(const loss_of<T> &f, const sum_operands<T> &p, int64_t i)
{
    return f(to_f32(p.x[i]), to_f32(p.target[i]));
}

template <typename T, int kSize>
__global__ void
__launch_bounds__(kBlock) shares(loss_of<T> f, const sum_operands<T> p)
{
    __shared__ float room[kBlock / kWarp];
    constexpr int kBytes = kSize * static_cast<int>(sizeof(T));
    int64_t begin = blockIdx.x * p.share;
    int64_t end = begin + p.share < p.units ? begin + p.share : p.units;
    const T *xs = p.x + p.head, *targets = p.target + p.head;

    float sum[kUnroll] = {};
#pragma unroll 1
    for (int64_t i = begin + threadIdx.x; i < end; i += kBlock * kUnroll) {
        words x[kUnroll], target[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            if (i + u * kBlock < end) {
                x[u] = load_bytes<kBytes>(xs + (i + u * kBlock) * kSize);
                target[u] = load_bytes<kBytes>(targets + (i + u * kBlock) * kSize);
            }
        }
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            if (i + u * kBlock < end) {
                sum[u] += unit_sum<T, kSize>(f, x[u], target[u]);
            }
        }
    }

    int64_t tail = p.head + p.units * kSize + threadIdx.x;
    if (kSize > 1 && blockIdx.x == 0) {
        sum[0] += threadIdx.x < p.head ? element_loss(f, p, threadIdx.x) : 0.0f;
        sum[1] += tail < p.n ? element_loss(f, p, tail) : 0.0f;
    }
    float all = block_reduce<kBlock>(sum[0] + sum[1], plus{}, room);
    if (threadIdx.x == 0 && p.sums) {
        p.sums[blockIdx.x] = all;
    } else if (threadIdx.x == 0) {
        *p.out = of_f32<T>(all * p.factor);
    }
}

template <typename T>
__global__ void
__launch_bounds__(kBlock) total(const float *sums, int count, float factor, T *out)
{
    __shared__ float room[kBlock / kWarp];
    float sum = 0.0f;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlock) {
        sum += sums[i];
    }
    sum = block_reduce<kBlock>(sum, plus{}, room);
    if (threadIdx.x == 0) {
        *out = of_f32<T>(sum * factor);
    }
}

// ---- launches -----------------------------------------------------------------------------------

// Units of `size` elements: a block's share is a whole number of loads of all its threads.
template <typename T>
aicf_status
launch_shares(
    void (*kernel)(loss_of<T>, sum_operands<T>), loss_of<T> f, sum_operands<T> p, int size,
    aicf_stream stream)
{
    p.units = (p.n - p.head) / size;
    int64_t most = ceil_div(p.n, kLeastShare);
    most = most < kMostSums ? most : kMostSums;
    p.share = most > 0 ? ceil_div(ceil_div(p.units, most), kBlock) * kBlock : kBlock;
    int64_t blocks = p.units > 0 ? ceil_div(p.units, p.share) : 1;
    float *sums = p.sums;
    p.sums = blocks > 1 ? sums : nullptr;
    aicf_status status =
        aicf::launch(kernel, static_cast<unsigned>(blocks), kBlock, 0, stream, f, p);
    if (status.kind || blocks == 1) {
        return status;
    }
    return aicf::launch(
        total<T>, 1, kBlock, 0, stream, sums, static_cast<int>(blocks), p.factor, p.out);
}

template <typename T>
aicf_status
launch_sum(
    const T *x, const T *target, T *out, int64_t n, bool mean, float own, void *workspace,
    aicf_stream stream)
{
    sum_operands<T> p = {x, target, n, 0, 0, 0, static_cast<float *>(workspace), out, 1.0f};
    p.factor = mean ? static_cast<float>(1.0 / static_cast<double>(n)) : 1.0f;
    if (phase_of(x) != phase_of(target)) {
        return launch_shares<T>(shares<T, 1>, {own}, p, 1, stream);
    }
    p.head = head_of(x, n);
    return launch_shares<T>(shares<T, kPackSize<T>>, {own}, p, kPackSize<T>, stream);
}

} // namespace aicf::AICF_OP

#define LOSS(T, s)                                                                                 \
    aicf_status LAUNCHER(cuda, AICF_OP, each, s)(                                                  \
        const T *x, const T *target, T *out, int64_t A, REDUCTION_TYPE(AICF_OP),                   \
        OWN aicf_stream stream)                                                                    \
    {                                                                                              \
        using namespace aicf::AICF_OP;                                                             \
        using D = aicf::device_t<T>;                                                               \
        return run_vec(                                                                            \
            loss_of<D>{static_cast<float>(OWN_VALUE)}, of<D, D, D>{}, operands_of(out, x, target), \
            A, stream);                                                                            \
    }                                                                                              \
    aicf_status LAUNCHER(cuda, AICF_OP, two_stage, s)(                                             \
        const T *x, const T *target, T *out, int64_t A, REDUCTION_TYPE(AICF_OP) reduction,         \
        OWN void *workspace, aicf_stream stream)                                                   \
    {                                                                                              \
        return aicf::AICF_OP::launch_sum(                                                          \
            aicf::device(x), aicf::device(target), aicf::device(out), A,                           \
            reduction == REDUCTION(MEAN), static_cast<float>(OWN_VALUE), workspace, stream);       \
    }

LOSS(float, f32)
LOSS(aicf_f16, f16)
LOSS(aicf_bf16, bf16)
