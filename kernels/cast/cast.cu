// out = x in another dtype (cuda), of all but f64. Reals are rounded to nearest even, by way of f32
// (an i64 to f16 is rounded twice, as ATen does it). Reals to integers are cut towards 0, and
// become the end of the range where they are beyond it; NaN becomes 0: where ATen's is whatever the
// machine does. Integers to narrower ones lose their upper bits. To bool: whether it is not 0, so
// NaN is true.
//   vec: described in aicf/cuda/elementwise.cuh, one kernel a pair of dtypes
//   any: views, and vectors that have no common phase; one kernel, which asks for the dtypes at
//   each
//     element: 81 pairs would be most of the object code, for what is bound by scattered bytes
// x and out are apart (the row has no overlap). Bound by bytes.
#include <aicf_ops/cast.h>

#include <aicf/cuda/elementwise.cuh>

#include "dtypes.h"

namespace aicf::cast {

using elementwise::kBlock;
using elementwise::kUnroll;
using elementwise::strided_operands;

// Within [least, most], which f32 has exactly.
template <typename T>
__device__ inline T
cut(float x, float least, float most)
{
    float number = x == x ? x : 0.0f;
    return static_cast<T>(__float2int_rz(fminf(fmaxf(number, least), most)));
}

template <typename T>
__device__ inline T
whole_of(float x)
{
    if constexpr (sizeof(T) == 8) {
        return x == x ? __float2ll_rz(x) : 0; // which gives the ends of the range itself
    } else if constexpr (sizeof(T) == 4) {
        return __float2int_rz(x); // and 0 of NaN
    } else if constexpr (std::is_same_v<T, uint8_t>) {
        return cut<T>(x, 0.0f, 255.0f);
    } else {
        constexpr float kEnd = sizeof(T) == 1 ? 128.0f : 32768.0f;
        return cut<T>(x, -kEnd, kEnd - 1.0f);
    }
}

template <typename Out> struct to {
    template <typename V> __device__ value_t<Out> operator()(V x) const
    {
        if constexpr (std::is_same_v<Out, aicf_bool>) {
            return x != V{0};
        } else if constexpr (std::is_same_v<V, float> && !std::is_same_v<value_t<Out>, float>) {
            return whole_of<Out>(x);
        } else {
            return static_cast<value_t<Out>>(x);
        }
    }
};

template <typename F, typename Types>
__global__ void
__launch_bounds__(kBlock) vec(F f, elementwise::operands<1> p, int64_t packs, elementwise::edges e)
{
    elementwise::vec_body(f, Types{}, p, packs, e);
}

// ---- any ----------------------------------------------------------------------------------------

enum dtype { kF32, kF16, kBf16, kI8, kU8, kI16, kI32, kI64, kBool };

// An element on its way: reals as `real`, the rest as `whole`.
struct carried {
    float real;
    int64_t whole;
    bool is_real;
};

template <typename T>
__device__ inline carried
carry(const void *p, int64_t i)
{
    value_t<T> x = elementwise::load<T>(p, i);
    if constexpr (std::is_same_v<value_t<T>, float>) {
        return {x, 0, true};
    } else {
        return {0.0f, static_cast<int64_t>(x), false};
    }
}

template <typename T>
__device__ inline void
put(void *p, int64_t i, const carried &x)
{
    elementwise::store<T>(p, i, x.is_real ? to<T>{}(x.real) : to<T>{}(x.whole));
}

__device__ inline carried
carry_any(dtype from, const void *p, int64_t i)
{
    switch (from) {
    case kF32: return carry<float>(p, i);
    case kF16: return carry<__half>(p, i);
    case kBf16: return carry<__nv_bfloat16>(p, i);
    case kI8: return carry<int8_t>(p, i);
    case kU8: return carry<uint8_t>(p, i);
    case kI16: return carry<int16_t>(p, i);
    case kI32: return carry<int32_t>(p, i);
    case kI64: return carry<int64_t>(p, i);
    case kBool: return carry<aicf_bool>(p, i);
    }
    return {};
}

__device__ inline void
put_any(dtype to, void *p, int64_t i, const carried &x)
{
    switch (to) {
    case kF32: put<float>(p, i, x); break;
    case kF16: put<__half>(p, i, x); break;
    case kBf16: put<__nv_bfloat16>(p, i, x); break;
    case kI8: put<int8_t>(p, i, x); break;
    case kU8: put<uint8_t>(p, i, x); break;
    case kI16: put<int16_t>(p, i, x); break;
    case kI32: put<int32_t>(p, i, x); break;
    case kI64: put<int64_t>(p, i, x); break;
    case kBool: put<aicf_bool>(p, i, x); break;
    }
}

__global__ void
__launch_bounds__(kBlock) any(dtype from, dtype to, const __grid_constant__ strided_operands<1> p)
{
    uint32_t first = blockIdx.x * uint32_t{kBlock * kUnroll} + threadIdx.x;
    int64_t offset[kUnroll][2];
    carried x[kUnroll];

#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < p.n) {
            int64_t inner = elementwise::locate_row(p, first + u * kBlock, offset[u]);
            offset[u][0] += inner * p.strides[0][0];
            offset[u][1] += inner * p.strides[0][1];
            x[u] = carry_any(from, p.at[1], offset[u][1]);
        }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < p.n) {
            put_any(to, p.at[0], offset[u][0], x[u]);
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T> constexpr dtype dtype_of = kBool;
template <> constexpr dtype dtype_of<float> = kF32;
template <> constexpr dtype dtype_of<__half> = kF16;
template <> constexpr dtype dtype_of<__nv_bfloat16> = kBf16;
template <> constexpr dtype dtype_of<int8_t> = kI8;
template <> constexpr dtype dtype_of<uint8_t> = kU8;
template <> constexpr dtype dtype_of<int16_t> = kI16;
template <> constexpr dtype dtype_of<int32_t> = kI32;
template <> constexpr dtype dtype_of<int64_t> = kI64;

static constexpr int item_of[] = {4, 2, 2, 1, 1, 2, 4, 8, 1};

// The elements of a pack, and the packs of a thread, as elementwise::of has them.
static constexpr int
lanes_of(dtype from, dtype to)
{
    return kPackBytes / elementwise::largest(item_of[from], item_of[to]);
}

static constexpr int
packs_of(dtype from, dtype to)
{
    return elementwise::largest(1, kPackBytes / (lanes_of(from, to) * item_of[from]));
}

[[gnu::noinline]] static aicf_status
run_any(dtype from, dtype to, const aicf_view &x, const aicf_view &out, aicf_stream stream)
{
    if (numel(&out) == 0) {
        return aicf_ok();
    }
    const aicf_view views[] = {out, x};
    const int sizes[] = {item_of[to], item_of[from]};
    strided_operands<1> p;
    bool by_rows;
    int64_t n = elementwise::plan_views<1>(views, sizes, 1, &p, &by_rows);
    if (n > elementwise::kMost) {
        aicf_view low[2], high[2];
        elementwise::halve<1>(views, sizes, low, high);
        aicf_status status = run_any(from, to, low[1], low[0], stream);
        return status.kind ? status : run_any(from, to, high[1], high[0], stream);
    }
    unsigned blocks = static_cast<unsigned>(ceil_div(n, kBlock * kUnroll));
    return aicf::launch(any, blocks, kBlock, 0, stream, from, to, p);
}

// Kernels of all pairs take the same: host code is one for all of them.
using vec_kernel = void (*)(to<float>, elementwise::operands<1>, int64_t, elementwise::edges);

template <typename T, typename U>
vec_kernel
vec_of()
{
    using types = elementwise::of<U, T>;
    static_assert(types::kLanes == lanes_of(dtype_of<T>, dtype_of<U>), "one plan for all");
    static_assert(types::kPacks == packs_of(dtype_of<T>, dtype_of<U>), "one plan for all");
    return reinterpret_cast<vec_kernel>(vec<to<U>, types>);
}

[[gnu::noinline]] static aicf_status
run_vec(
    vec_kernel kernel, dtype from, dtype to, const void *x, void *out, int64_t n,
    aicf_stream stream)
{
    if (n == 0) {
        return aicf_ok();
    }
    const int sizes[] = {item_of[to], item_of[from]};
    elementwise::operands<1> p = elementwise::operands_of(out, x);
    elementwise::vec_plan plan =
        elementwise::plan_vec<1>(&p, sizes, lanes_of(from, to), packs_of(from, to), n);
    if (plan.packs < 0) {
        return run_any(from, to, {p.at[1], 1, {n}, {1}}, {p.at[0], 1, {n}, {1}}, stream);
    }
    return aicf::launch(kernel, plan.blocks, kBlock, 0, stream, {}, p, plan.packs, plan.e);
}

} // namespace aicf::cast

#define LAUNCHERS(T, s, U, u)                                                                   \
    aicf_status aicf_cuda_cast_vec_##s##_##u(const T *x, U *out, int64_t A, aicf_stream stream) \
    {                                                                                           \
        using namespace aicf;                                                                   \
        using From = device_t<T>;                                                               \
        using To = device_t<U>;                                                                 \
        return cast::run_vec(                                                                   \
            cast::vec_of<From, To>(), cast::dtype_of<From>, cast::dtype_of<To>, x, out, A,      \
            stream);                                                                            \
    }                                                                                           \
    aicf_status aicf_cuda_cast_strided_##s##_##u(                                               \
        const aicf_view *x, const aicf_view *out, int64_t, aicf_stream stream)                  \
    {                                                                                           \
        using namespace aicf;                                                                   \
        return cast::run_any(                                                                   \
            cast::dtype_of<device_t<T>>, cast::dtype_of<device_t<U>>, *x, *out, stream);        \
    }

#define FROM(T, s) AICF_CAST_TO(LAUNCHERS, T, s)

AICF_CAST_FROM(FROM)
