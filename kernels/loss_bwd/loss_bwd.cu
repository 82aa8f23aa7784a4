// Gradients of losses (cuda): gx = f(x, target) * gy, f32, f16 and bf16, computed in f32; arrays of
// one order without gaps, at any addresses. gx may be exactly gy, x or target. Bound by bytes.
//
//   each   reduction is none: gy is of x's shape
//   whole  gy is one number on the device, read by every thread; of a mean it is divided by the
//          number of elements
#include "../loss/formula.h"

#include OPS_HEADER(AICF_OP)

#include <aicf/cuda/elementwise.cuh>

#include "../loss/device.cuh"

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

template <typename T>
__device__ inline float
slope(float x, float target, float own)
{
    return sizeof(T) == sizeof(float) ? formula_exact(x, target, own)
                                      : formula_quick(x, target, own);
}

template <typename T> struct chain {
    float own;

    __device__ float operator()(float gy, float x, float target) const
    {
        return slope<T>(x, target, own) * gy;
    }
};

template <typename T> struct chain_of_one {
    float own;
    const T *gy;
    float factor;

    __device__ float operator()(float x, float target) const
    {
        return slope<T>(x, target, own) * (to_f32(*gy) * factor);
    }
};

AICF_ELEMENTWISE_KERNELS

} // namespace aicf::AICF_OP

#define LOSS_BWD(T, s)                                                                        \
    aicf_status LAUNCHER(cuda, AICF_OP, each, s)(                                             \
        const T *gy, const T *x, const T *target, T *gx, int64_t A, REDUCTION_TYPE(AICF_OP),  \
        OWN aicf_stream stream)                                                               \
    {                                                                                         \
        using namespace aicf::AICF_OP;                                                        \
        using D = aicf::device_t<T>;                                                          \
        return run_vec(                                                                       \
            chain<D>{static_cast<float>(OWN_VALUE)}, of<D, D, D, D>{},                        \
            operands_of(gx, gy, x, target), A, stream);                                       \
    }                                                                                         \
    aicf_status LAUNCHER(cuda, AICF_OP, whole, s)(                                            \
        const T *gy, const T *x, const T *target, T *gx, int64_t A,                           \
        REDUCTION_TYPE(AICF_OP) reduction, OWN aicf_stream stream)                            \
    {                                                                                         \
        using namespace aicf::AICF_OP;                                                        \
        using D = aicf::device_t<T>;                                                          \
        double factor = reduction == REDUCTION(MEAN) ? 1.0 / static_cast<double>(A) : 1.0;    \
        return run_vec(                                                                       \
            chain_of_one<D>{                                                                  \
                static_cast<float>(OWN_VALUE), aicf::device(gy), static_cast<float>(factor)}, \
            of<D, D, D>{}, operands_of(gx, x, target), A, stream);                            \
    }

LOSS_BWD(float, f32)
LOSS_BWD(aicf_f16, f16)
LOSS_BWD(aicf_bf16, bf16)
