// Gradients of functions of one real (cuda), f32, f16 and bf16, computed in f32. The kernels and
// what they take are described in aicf/cuda/elementwise.cuh; gx may be exactly gy or exactly y.
// Bound by bytes.
#include <aicf/family.h>

#include AICF_OP_HEADER

#include <aicf/cuda/activation.cuh>
#include <aicf/cuda/elementwise.cuh>

namespace aicf::unary_bwd {

// A NaN y lets gy pass, as ATen's threshold_backward does.
template <typename T> struct relu_bwd {
    __device__ float operator()(float gy, float y) const
    {
        return y <= 0.0f ? 0.0f : gy;
    }
};

template <typename T> struct tanh_bwd {
    __device__ float operator()(float gy, float y) const
    {
        return gy * (1.0f - y * y);
    }
};

template <typename T> struct sigmoid_bwd {
    __device__ float operator()(float gy, float y) const
    {
        return gy * ((1.0f - y) * y);
    }
};

// 1 at +inf, 0 at -inf: beyond 1e4 the slope is 1 or 0, and an infinity times 0 would be NaN.
template <typename T> struct silu_bwd {
    __device__ float operator()(float gy, float y) const
    {
        y = ptx::min_nan(ptx::max_nan(y, -1e4f), 1e4f);
        float s = sigmoid_of<kQuick<T>>(y);
        return gy * (s * (1.0f + y * (1.0f - s)));
    }
};

template <typename T> struct leaky_relu_bwd {
    float slope;

    __device__ float operator()(float gy, float y) const
    {
        return y > 0.0f ? gy : slope * gy;
    }
};

// 1 at +inf, 0 at -inf.
template <typename T> struct gelu_bwd {
    __device__ float operator()(float gy, float y) const
    {
        return gy * gelu_slope_of<kQuick<T>>(y);
    }
};

template <typename T> struct gelu_bwd_by_tanh {
    __device__ float operator()(float gy, float y) const
    {
        return gy * gelu_tanh_slope_of<kQuick<T>>(y);
    }
};

template <typename T> struct elu_bwd {
    float alpha;

    __device__ float operator()(float gy, float y) const
    {
        return y > 0.0f ? gy : gy * alpha * exponential<kQuick<T>>(y);
    }
};

template <typename T> struct softplus_bwd {
    float beta, threshold;

    __device__ float operator()(float gy, float y) const
    {
        float z = beta * y;
        return z > threshold ? gy : gy * sigmoid_of<kQuick<T>>(z);
    }
};

template <typename T> using function = AICF_OP<T>;

} // namespace aicf::unary_bwd

namespace aicf::AICF_OP {

AICF_ELEMENTWISE_KERNELS

} // namespace aicf::AICF_OP

// The attributes as parameters of launchers, and as members of the function.
#define ATTRIBUTES_relu_bwd
#define ATTRIBUTES_tanh_bwd
#define ATTRIBUTES_sigmoid_bwd
#define ATTRIBUTES_silu_bwd
#define ATTRIBUTES_leaky_relu_bwd double slope,
#define ATTRIBUTES_gelu_bwd aicf_gelu_bwd_approx approx,
#define ATTRIBUTES_elu_bwd double alpha,
#define ATTRIBUTES_softplus_bwd double beta, double threshold,

#define MEMBERS_relu_bwd
#define MEMBERS_tanh_bwd
#define MEMBERS_sigmoid_bwd
#define MEMBERS_silu_bwd
#define MEMBERS_leaky_relu_bwd static_cast<float>(slope)
#define MEMBERS_gelu_bwd
#define MEMBERS_elu_bwd static_cast<float>(alpha)
#define MEMBERS_softplus_bwd static_cast<float>(beta), static_cast<float>(threshold)

// run(f) of the op's function.
#define HAS_APPROX_gelu_bwd 1
#if AICF_OP_CHOICE(HAS_APPROX_)
#define RUN(D, run)                                                                    \
    (approx == AICF_GELU_BWD_APPROX_TANH ? run(aicf::unary_bwd::gelu_bwd_by_tanh<D>{}) \
                                         : run(aicf::unary_bwd::gelu_bwd<D>{}))
#else
#define RUN(D, run) run(aicf::unary_bwd::function<D>{AICF_OP_CHOICE(MEMBERS_)})
#endif

#define LAUNCHERS(T, s)                                                                            \
    aicf_status AICF_OP_NAME(aicf_cuda_, _vec_##s)(                                                \
        const T *gy, const T *y, T *gx, int64_t A, AICF_OP_CHOICE(ATTRIBUTES_) aicf_stream stream) \
    {                                                                                              \
        using namespace aicf::AICF_OP;                                                             \
        using D = aicf::device_t<T>;                                                               \
        auto run = [&](auto f) {                                                                   \
            return run_vec(f, of<D, D, D>{}, operands_of(gx, gy, y), A, stream);                   \
        };                                                                                         \
        return RUN(D, run);                                                                        \
    }                                                                                              \
    aicf_status AICF_OP_NAME(aicf_cuda_, _strided_##s)(                                            \
        const aicf_view *gy, const aicf_view *y, const aicf_view *gx, int64_t,                     \
        AICF_OP_CHOICE(ATTRIBUTES_) aicf_stream stream)                                            \
    {                                                                                              \
        using namespace aicf::AICF_OP;                                                             \
        using D = aicf::device_t<T>;                                                               \
        auto run = [&](auto f) { return run_views(f, of<D, D, D>{}, {*gx, *gy, *y}, stream); };    \
        return RUN(D, run);                                                                        \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
