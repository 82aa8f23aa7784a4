// Part of row_norm.cuh: what a call is about, and what a row's sums make of its elements.
#ifndef AICF_KERNELS_ROW_NORM_TERMS_CUH
#define AICF_KERNELS_ROW_NORM_TERMS_CUH

#define AICF_HEADER(op) <aicf_ops/op.h>
#include AICF_HEADER(AICF_OP)

#include <cfloat>

#include <aicf/cuda/rows.cuh>

namespace aicf::AICF_OP {

enum { layer_norm_centred = 1, rms_norm_centred = 0 };
#define AICF_CENTRED_OF(op) op##_centred
#define AICF_CENTRED(op) AICF_CENTRED_OF(op)
constexpr bool kCentred = AICF_CENTRED(AICF_OP);

constexpr float kSmall = 0x1p-96f; // squares of what was scaled by it are finite, sums of them too

template <typename T> struct operands {
    const T *x, *weight, *bias; // weight and bias may be NULL
    T *out;
    float *mean, *rstd; // may be NULL
    float eps;
    float share; // 1 / N
    rows::shape shape;
};

// What rounding the mean in units of the standard deviation may be off by, as a number of them: far
// below what 16 bits have.
constexpr float kFewDeviations = 8.0f;

// Elements that `near` is the mean of, and the square of how many standard deviations it may be
// off.
template <typename T> constexpr int kLooks = sizeof(T) == 2 ? 4 : 16;
template <typename T> constexpr float kFar = sizeof(T) == 2 ? 4.0f : 1.0f;

// Element x becomes (x * scale - near - shift) * factor; near + shift is the mean.
struct terms {
    float scale = 1.0f, near = 0.0f, shift = 0.0f, factor = 0.0f;
    bool overflowed, far;

    __device__ float deviation(float x) const
    {
        return fmaf(x, scale, -near);
    }

    // Whether x * factor - (near + shift) * factor is as good for a T: one operation for two.
    template <typename T> __device__ bool is_near_zero() const
    {
        return kCentred && sizeof(T) == 2 && scale == 1.0f &&
               fabsf((near + shift) * factor) <= kFewDeviations;
    }

    // Of the sums of the deviations and of their squares.
    template <typename T> __device__ void settle(const float (&sum)[2], float share, float eps)
    {
        shift = kCentred ? sum[0] * share : 0.0f;
        float square = sum[1] * share; // NaN of no elements
        float var = fmaxf(square - shift * shift, 0.0f);
        if (scale == 1.0f) {
            factor = rsqrtf(var + eps);
        } else {
            // eps is nothing beside such a variance, but where it is 0.
            factor = var > 0.0f ? rsqrtf(var) : 1.0f / (sqrtf(eps) * kSmall);
        }
        if (isnan(square) || (kCentred && isinf(square))) { // which fmaxf dropped
            factor = NAN;
        }
        overflowed = !(sum[1] <= FLT_MAX);
        far = kCentred && shift * shift > kFar<T> * var;
    }

    // Whether the row is to be taken again; `moved`: it was, for being far.
    __device__ bool again(bool &moved)
    {
        if (overflowed && scale == 1.0f) {
            scale = kSmall;
            near *= kSmall;
            return true;
        }
        if (far && !moved) {
            moved = true;
            near += shift;
            return true;
        }
        return false;
    }

    template <typename T> __device__ void save(const operands<T> &p, int64_t row) const
    {
        if (p.mean) {
            p.mean[row] = (near + shift) / scale;
        }
        if (p.rstd) {
            p.rstd[row] = factor * scale;
        }
    }
};

// One of some elements from all over a row of N, by the thread.
template <typename T>
__device__ inline T
look(const T *row, int64_t N)
{
    return row[threadIdx.x % kLooks<T> * N / kLooks<T>];
}

// Their mean, the same in all threads of a team: it does not overflow, and is exact where they are
// equal. Teams have at least 16 lanes of a warp.
template <typename T, int kRows>
__device__ inline void
begin_near(float (&x)[kRows][1], terms (&t)[kRows])
{
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        x[r][0] *= 1.0f / kLooks<T>;
    }
    rows::reduce_lanes(x, kLooks<T>, rows::add{});
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        t[r].near = x[r][0];
    }
}

} // namespace aicf::AICF_OP

#endif
