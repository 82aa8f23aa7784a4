// What cross_entropy and its gradient share (cuda): how a target and the classes' weights count.
#ifndef AICF_KERNELS_CROSS_ENTROPY_CUH
#define AICF_KERNELS_CROSS_ENTROPY_CUH

#include <aicf/cuda/passes.cuh>
#include <aicf/cuda/soft.cuh>

namespace aicf::cross_entropy {

// Of the call, for one line of logits: N * R of them, each of C classes.
template <typename T> struct rules {
    const void *target;
    bool wide;       // targets are i64, else i32
    const T *weight; // NULL: all 1
    int64_t C;
    int64_t ignore_index;
    float smoothing;

    __device__ int64_t target_of(int64_t line) const
    {
        return wide ? static_cast<const int64_t *>(target)[line]
                    : static_cast<const int32_t *>(target)[line];
    }

    __device__ bool is_class(int64_t t) const
    {
        return t >= 0 && t < C;
    }

    // Of a class, or of the target of a line: 0 for one that is ignored, NaN for what is no class,
    // of which nothing is read.
    __device__ float weight_of(int64_t t) const
    {
        return weight ? to_f32(weight[t]) : 1.0f;
    }

    __device__ float weight_of_target(int64_t t) const
    {
        return t == ignore_index ? 0.0f : is_class(t) ? weight_of(t) : NAN;
    }
};

} // namespace aicf::cross_entropy

#endif
