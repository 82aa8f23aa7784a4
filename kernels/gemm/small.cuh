// What the kernels of small products share (see gemm.cuh for the operands): one matrix, places of
// 32 bits, sums of several lanes. Small products are bound by the latency of loads and by the
// instructions around them, so all is in a few parameters and there is no division.
#ifndef AICF_GEMM_SMALL_CUH
#define AICF_GEMM_SMALL_CUH

#include "gemm.cuh"

#include <aicf/cuda/ptx.cuh>

namespace aicf::gemm {

constexpr int kLanes = 32;

// Element (m, k) of a lies at m * a_m + k * a_k, and so on; c and out have unit stride along n.
template <typename T> struct small_problem {
    const T *a, *b, *bias, *c; // bias and c may be NULL
    T *out;
    int M, N, K;
    int a_m, a_k, b_k, b_n, c_m, out_m;
    float alpha, beta;
    int act;
};

inline bool
fits_32_bits(int64_t x)
{
    return x > -kMostBlocks && x < kMostBlocks;
}

template <typename T>
bool
is_small(const problem<T> &p)
{
    return p.batches == 1 && p.K > 0 && p.M > 0 && p.N > 0 && fits_32_bits(p.M) &&
           fits_32_bits(p.N) && fits_32_bits(p.K) && fits_32_bits(p.a_pitch) &&
           fits_32_bits(p.b_pitch) && fits_32_bits(p.c_pitch) && fits_32_bits(p.out_pitch);
}

template <typename T>
small_problem<T>
small_of(const problem<T> &p)
{
    int a_pitch = static_cast<int>(p.a_pitch), b_pitch = static_cast<int>(p.b_pitch);
    small_problem<T> s = {p.a, p.b, p.bias, p.c, p.out};
    s.M = static_cast<int>(p.M);
    s.N = static_cast<int>(p.N);
    s.K = static_cast<int>(p.K);
    s.a_m = p.a_along_k ? a_pitch : 1;
    s.a_k = p.a_along_k ? 1 : a_pitch;
    s.b_k = p.b_along_k ? 1 : b_pitch;
    s.b_n = p.b_along_k ? b_pitch : 1;
    s.c_m = static_cast<int>(p.c_pitch);
    s.out_m = static_cast<int>(p.out_pitch);
    s.alpha = p.alpha;
    s.beta = p.beta;
    s.act = p.act;
    return s;
}

// As far as places go: a product of two of them may need more bits.
template <typename T>
__device__ inline T *
at(T *p, int i, int step)
{
    return p + static_cast<int64_t>(i) * step;
}

// ---- sums of lanes ------------------------------------------------------------------------------

// Which of kCount sums a lane has after `fold`: those from `first` on and below `end`, at most
// kHeld.
template <int kCount, int kLeast> struct folded {
    static constexpr int held()
    {
        int count = kCount;
        for (int distance = kLanes / 2; distance >= kLeast; distance /= 2) {
            count = (count + 1) / 2;
        }
        return count;
    }
    static constexpr int same_bits()
    {
        int count = kCount, bits = 0;
        for (int distance = kLanes / 2; distance >= kLeast; distance /= 2) {
            bits |= count > 1 ? 0 : distance;
            count = (count + 1) / 2;
        }
        return bits;
    }
    static constexpr int kHeld = held();
    // Once a lane has one sum, others have the same: it is the first one's.
    static constexpr int kOthers = same_bits();
    int first, end;

    __device__ folded() : first(0), end(kCount)
    {
        int count = kCount;
#pragma unroll
        for (int distance = kLanes / 2; distance >= kLeast; distance /= 2) {
            if (count > 1) {
                int half = (count + 1) / 2;
                if (threadIdx.x & distance) {
                    first += half;
                } else {
                    end = min(end, first + half);
                }
                count = half;
            }
        }
        end = threadIdx.x & kOthers ? first : end;
    }
};

// Adds the sums of all lanes whose numbers differ in the bits from kLeast on. At each step a lane
// hands on one half of its sums and adds to the other: as many shuffles as there are sums, not five
// times as many. All lanes of the warp take part.
template <int kLeast, int kCount = 0, int kDistance = kLanes / 2, int kSize>
__device__ inline void
fold(float (&sum)[kSize])
{
    if constexpr (kDistance >= kLeast) {
        constexpr int kNow = kCount ? kCount : kSize, kHalf = (kNow + 1) / 2;
        bool upper = threadIdx.x & kDistance;
#pragma unroll
        for (int i = 0; i < kHalf; i++) {
            float low = sum[i], high = low;
            if constexpr (kNow > 1) {
                high = kHalf + i < kNow ? sum[kHalf + i < kNow ? kHalf + i : i] : 0.0f;
            }
            float came = __shfl_xor_sync(0xffffffff, upper ? low : high, kDistance);
            sum[i] = (upper ? high : low) + came;
        }
        fold<kLeast, kHalf, kDistance / 2>(sum);
    }
}

// ---- the way out --------------------------------------------------------------------------------

// What is added to an element of the out, asked for before its sum is there.
struct addend {
    float c, bias;
};

template <typename T>
__device__ inline addend
addend_at(const small_problem<T> &p, int m, int n)
{
    addend x = {0.0f, 0.0f};
    if (p.c) {
        x.c = to_f32(at(p.c, m, p.c_m)[n]);
    }
    if (p.bias) {
        x.bias = to_f32(p.bias[n]);
    }
    return x;
}

template <typename T>
__device__ inline float
finish_small(const small_problem<T> &p, float sum, const addend &more)
{
    float x = p.alpha * sum;
    if (p.c) {
        x += p.beta * more.c;
    }
    if (p.bias) {
        x += more.bias;
    }
    return activate(x, p.act);
}

} // namespace aicf::gemm

#endif
