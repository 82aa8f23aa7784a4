// Functions of one real (cuda), f32, f16 and bf16, computed in f32. The kernels and what they take
// are described in aicf/cuda/elementwise.cuh; out may be exactly x. NaN gives NaN in all. Bound by
// bytes.
#include <aicf/family.h>

#include AICF_OP_HEADER

#include <aicf/cuda/activation.cuh>
#include <aicf/cuda/elementwise.cuh>

namespace aicf::unary {

template <typename T> struct neg {
    __device__ float operator()(float x) const
    {
        return -x;
    }
};

template <typename T> struct exp {
    __device__ float operator()(float x) const
    {
        return expf(x);
    }
};

// -inf at 0, NaN below. Near 1 the quick one is off by 4e-7, which f16 does not see.
template <typename T> struct log {
    __device__ float operator()(float x) const
    {
        return kQuick<T> ? __logf(x) : logf(x);
    }
};

template <typename T> struct sqrt {
    __device__ float operator()(float x) const
    {
        return sqrtf(x);
    }
};

template <typename T> struct relu {
    // Written so that NaN, which no comparison holds for, passes.
    __device__ float operator()(float x) const
    {
        return x <= 0.0f ? 0.0f : x;
    }
};

template <typename T> struct tanh {
    __device__ float operator()(float x) const
    {
        return tanh_of<kQuick<T>>(x);
    }
};

template <typename T> struct sigmoid {
    __device__ float operator()(float x) const
    {
        return sigmoid_of<kQuick<T>>(x);
    }
};

// 0 at -inf: sigmoid is 0 long before, and -inf times 0 would be NaN.
template <typename T> struct silu {
    __device__ float operator()(float x) const
    {
        x = ptx::max_nan(x, -1e4f);
        return x * sigmoid_of<kQuick<T>>(x);
    }
};

template <typename T> struct leaky_relu {
    float slope;

    __device__ float operator()(float x) const
    {
        return x > 0.0f ? x : slope * x;
    }
};

// 0 at -inf.
template <typename T> struct gelu {
    __device__ float operator()(float x) const
    {
        return gelu_of<kQuick<T>>(x);
    }
};

template <typename T> struct gelu_by_tanh {
    __device__ float operator()(float x) const
    {
        return gelu_tanh_of<kQuick<T>>(x);
    }
};

template <typename T> struct elu {
    float alpha;

    __device__ float operator()(float x) const
    {
        float below = expm1_of<kQuick<T>>(ptx::min_nan(x, 0.0f)); // 0 above
        return ptx::max_nan(x, 0.0f) + alpha * below;
    }
};

template <typename T> struct softplus {
    float beta, inverse, threshold;

    __device__ float operator()(float x) const
    {
        float z = beta * x;
        float smooth = always(softplus_of<kQuick<T>>(z) * inverse);
        return z > threshold ? x : smooth;
    }
};

template <typename T> using function = AICF_OP<T>;

} // namespace aicf::unary

namespace aicf::AICF_OP {

AICF_ELEMENTWISE_KERNELS

} // namespace aicf::AICF_OP

// The attributes as parameters of launchers, and as members of the function.
#define ATTRIBUTES_neg
#define ATTRIBUTES_exp
#define ATTRIBUTES_log
#define ATTRIBUTES_sqrt
#define ATTRIBUTES_relu
#define ATTRIBUTES_tanh
#define ATTRIBUTES_sigmoid
#define ATTRIBUTES_silu
#define ATTRIBUTES_leaky_relu double slope,
#define ATTRIBUTES_gelu aicf_gelu_approx approx,
#define ATTRIBUTES_elu double alpha,
#define ATTRIBUTES_softplus double beta, double threshold,

#define MEMBERS_neg
#define MEMBERS_exp
#define MEMBERS_log
#define MEMBERS_sqrt
#define MEMBERS_relu
#define MEMBERS_tanh
#define MEMBERS_sigmoid
#define MEMBERS_silu
#define MEMBERS_leaky_relu static_cast<float>(slope)
#define MEMBERS_gelu
#define MEMBERS_elu static_cast<float>(alpha)
#define MEMBERS_softplus \
    static_cast<float>(beta), static_cast<float>(1 / beta), static_cast<float>(threshold)

// run(f) of the op's function.
#define HAS_APPROX_gelu 1
#if AICF_OP_CHOICE(HAS_APPROX_)
#define RUN(D, run)                                                        \
    (approx == AICF_GELU_APPROX_TANH ? run(aicf::unary::gelu_by_tanh<D>{}) \
                                     : run(aicf::unary::gelu<D>{}))
#else
#define RUN(D, run) run(aicf::unary::function<D>{AICF_OP_CHOICE(MEMBERS_)})
#endif

#define LAUNCHERS(T, s)                                                                            \
    aicf_status AICF_OP_NAME(aicf_cuda_, _vec_##s)(                                                \
        const T *x, T *out, int64_t A, AICF_OP_CHOICE(ATTRIBUTES_) aicf_stream stream)             \
    {                                                                                              \
        using namespace aicf::AICF_OP;                                                             \
        using D = aicf::device_t<T>;                                                               \
        auto run = [&](auto f) { return run_vec(f, of<D, D>{}, operands_of(out, x), A, stream); }; \
        return RUN(D, run);                                                                        \
    }                                                                                              \
    aicf_status AICF_OP_NAME(aicf_cuda_, _strided_##s)(                                            \
        const aicf_view *x, const aicf_view *out, int64_t,                                         \
        AICF_OP_CHOICE(ATTRIBUTES_) aicf_stream stream)                                            \
    {                                                                                              \
        using namespace aicf::AICF_OP;                                                             \
        using D = aicf::device_t<T>;                                                               \
        auto run = [&](auto f) { return run_views(f, of<D, D>{}, {*out, *x}, stream); };           \
        return RUN(D, run);                                                                        \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
