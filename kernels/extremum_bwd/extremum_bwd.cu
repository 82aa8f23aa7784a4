// gx = gy / n where x equals fwd, else 0 (cuda), with n the elements of the same out that equal
// fwd: the gradient of max and min over axes. x a view of any strides, gy, fwd and gx dense; f32,
// f16 and bf16, computed in f32. As torch's: where fwd is NaN nothing equals it, and all of it is
// NaN.
//   ties: counts n, a reduction (aicf/cuda/reduce.cuh), and writes gy / n to the workspace, f32
//   spread: an element or 16 bytes of gx a thread
// `workspace` holds f32 [outs], then the reduction's own. Bound by bytes, x read twice.
#include <aicf_ops/extremum_bwd.h>

#include <aicf/cuda/reduce.cuh>

namespace aicf::extremum_bwd {

constexpr int kBlock = 256;

// beside: fwd, gy.
template <typename T> struct ties_of : reduce::plain<int64_t> {
    using element = T;
    using result = float;
    struct context {
        float fwd;
    };

    static __device__ context context_of(const reduce::beside &b, int64_t o)
    {
        return {to_f32(static_cast<const T *>(b.first)[o])};
    }

    static __device__ value identity()
    {
        return 0;
    }

    static __device__ value of(float x, int64_t, context c)
    {
        return x == c.fwd;
    }

    static __device__ value combine(value a, value b)
    {
        return a + b;
    }

    static __device__ float finish(value n, int64_t, const reduce::beside &b, int64_t o)
    {
        return to_f32(static_cast<const T *>(b.second)[o]) / static_cast<float>(n);
    }
};

AICF_REDUCE_KERNELS(ties_of)

// Units of gx, in its order; `of_x` and `of_outs` say where one's elements lie in x, and where
// their outs.
template <typename T> struct operands {
    const T *x, *fwd;
    const float *share;
    T *gx;
    int64_t units;
    reduce::walk of_x, of_outs;
    int64_t step; // from an element's out to that of the next one in a unit: 0 or 1
};

template <typename T, int kSize>
__global__ void
__launch_bounds__(kBlock) spread(const __grid_constant__ operands<T> p)
{
    int64_t i = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (i >= p.units) {
        return;
    }
    const T *x = p.x + reduce::offset_of(p.of_x, i);
    int64_t o = reduce::offset_of(p.of_outs, i);
    reduce::unit<T, kSize> held;
    held.load(x);

    float y[kSize];
    float fwd = to_f32(p.fwd[o]), share = p.share[o];
    held.unpack(y);
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        if (lane > 0 && p.step) {
            fwd = to_f32(p.fwd[o + lane]);
            share = p.share[o + lane];
        }
        y[lane] = share * (y[lane] == fwd ? 1.0f : 0.0f);
    }
    if constexpr (kSize == 1) {
        p.gx[i] = of_f32<T>(y[0]);
    } else {
        store_words(p.gx + i * kSize, repack(y, T{}));
    }
}

template <typename T, int kSize>
aicf_status
launch_spread(operands<T> p, const reduce::joint &d, int64_t n, aicf_stream stream)
{
    p.units = n / kSize;
    p.of_x = reduce::walk_of(d.x, kSize);
    p.of_outs = reduce::walk_of(d.outs, kSize);
    p.step = d.outs.rank == 0 ? 0 : d.outs.strides[0];
    return aicf::launch(
        spread<T, kSize>, static_cast<unsigned>(ceil_div(p.units, kBlock)), kBlock, 0, stream, p);
}

template <typename T>
aicf_status
launch(
    const T *gy, const aicf_view &x, const T *fwd, T *gx, const aicf_ints *axes, void *workspace,
    aicf_stream stream)
{
    uint32_t bits = 0;
    int64_t n = numel(&x), outs = 1;
    for (int64_t i = 0; i < axes->count; i++) {
        bits |= uint32_t{1} << axes->values[i];
    }
    for (int64_t dim = 0; dim < x.rank; dim++) {
        outs *= bits >> dim & 1 ? 1 : x.sizes[dim];
    }
    if (n == 0) {
        return aicf_ok();
    }

    float *share = static_cast<float *>(workspace);
    int64_t room = ceil_div(outs, 4) * 4; // the reduction's values start on a 16-byte boundary
    aicf_status status =
        reduce::launch(kernels_of<T>(), x, bits, share, {fwd, gy}, share + room, stream);
    if (status.kind) {
        return status;
    }
    operands<T> p = {static_cast<const T *>(x.data), fwd, share, gx, 0, {}, {}, 0};
    reduce::joint d = reduce::joint_of(x, bits);
    if (phase_of(gx) == 0 && reduce::packs(x.data, d.x, {}, kPackSize<T>)) {
        return launch_spread<T, kPackSize<T>>(p, d, n, stream);
    }
    return launch_spread<T, 1>(p, d, n, stream);
}

} // namespace aicf::extremum_bwd

#define LAUNCHER(T, suffix)                                                                      \
    aicf_status aicf_cuda_extremum_bwd_two_pass_##suffix(                                        \
        const T *gy, const aicf_view *x, const T *fwd, T *gx, int64_t, const aicf_ints *axes,    \
        bool, void *workspace, aicf_stream stream)                                               \
    {                                                                                            \
        return aicf::extremum_bwd::launch(                                                       \
            aicf::device(gy), *x, aicf::device(fwd), aicf::device(gx), axes, workspace, stream); \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
