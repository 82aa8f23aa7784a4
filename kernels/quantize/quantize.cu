// out = clamp(round(x * (1 / scale)) + zero) (cuda): x in f32, f16 or bf16, computed in f32; half
// to even, as torch's fake_quantize does it. NaN becomes zero, infinities the ends of the range; a
// zero outside of the range is the end that is next to it. What is dense and who moves what is said
// in aicf/cuda/affine.cuh. Bound by bytes.
#include <aicf_ops/quantize.h>

#include <aicf/cuda/affine.cuh>

namespace aicf::quantize {

// Adding this to a number within 2^22 rounds it to an integer, half to even, which then stands in
// the sum's lower bits.
constexpr float kRound = 12582912.0f;

// What all maps are to the host.
struct untyped {
    using in = void;
    using out = void;

    int32_t least, most; // of the bytes
};

template <typename T> struct to_bytes : untyped {
    using in = T;
    using out = uint8_t;                // the byte of an i8 or u8
    static constexpr bool kDear = true; // by a division

    struct grid_t {
        float inverse;   // of the scale
        float low, high; // what x * inverse is clamped to
        int32_t zero;
    };

    __device__ grid_t grid(float scale, int32_t zero) const
    {
        zero = min(max(zero, least), most);
        return {
            1.0f / scale, static_cast<float>(least - zero), static_cast<float>(most - zero), zero};
    }

    // The byte, in the lower bits.
    __device__ static uint32_t code(float x, const grid_t &g)
    {
        float y = x * g.inverse;
        y = isnan(y) ? 0.0f : fminf(fmaxf(y, g.low), g.high);
        return __float_as_uint(y + kRound) + static_cast<uint32_t>(g.zero);
    }

    template <int kBytes, int kLanes>
    __device__ affine::raw<kLanes>
    unit(const affine::raw<kBytes> &held, const grid_t (&grids)[kLanes]) const
    {
        static_assert(kBytes == kPackBytes && kLanes == kPackSize<T>, "a pack");
        words w = {held.word[0], held.word[1], held.word[2], held.word[3]};
        float x[kLanes];
        unpack(w, x, T{});
        affine::raw<kLanes> codes;
#pragma unroll
        for (int word = 0; word < kLanes / 4; word++) {
            uint32_t byte[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                byte[i] = code(x[4 * word + i], grids[4 * word + i]);
            }
            uint32_t low = __byte_perm(byte[0], byte[1], 0x0040);
            uint32_t high = __byte_perm(byte[2], byte[3], 0x0040);
            codes.word[word] = __byte_perm(low, high, 0x5410);
        }
        return codes;
    }

    __device__ uint8_t one(T x, const grid_t &g) const
    {
        return static_cast<uint8_t>(code(to_f32(x), g));
    }
};

AICF_AFFINE_KERNELS

static aicf_status
launch(
    const affine::kernels<untyped> &k, const void *x, const float *scale, const int32_t *zero,
    void *out, int64_t L, int64_t C, int64_t R, int64_t S, bool is_signed, aicf_stream stream)
{
    int64_t n = L * C * R;
    if (n == 0) {
        return aicf_ok();
    }
    untyped bytes = {is_signed ? -128 : 0, is_signed ? 127 : 255};
    affine::operands<untyped> p = {
        x, out, 0, n, 0, 0, {}, affine::channels_of(scale, zero, L, C, R, S), bytes};
    return affine::launch(k, p, stream);
}

} // namespace aicf::quantize

#define LAUNCHER(T, t, Q, q, is_signed)                                                    \
    aicf_status aicf_cuda_quantize_vec_##t##_##q(                                          \
        const T *x, const float *scale, const int32_t *zero, Q *out, int64_t L, int64_t C, \
        int64_t R, int64_t S, int64_t, aicf_stream stream)                                 \
    {                                                                                      \
        using namespace aicf::quantize;                                                    \
        auto kernels = kernels_of<untyped, to_bytes<aicf::device_t<T>>>();                 \
        return launch(kernels, x, scale, zero, out, L, C, R, S, is_signed, stream);        \
    }

LAUNCHER(float, f32, int8_t, i8, true)
LAUNCHER(float, f32, uint8_t, u8, false)
LAUNCHER(aicf_f16, f16, int8_t, i8, true)
LAUNCHER(aicf_f16, f16, uint8_t, u8, false)
LAUNCHER(aicf_bf16, bf16, int8_t, i8, true)
LAUNCHER(aicf_bf16, bf16, uint8_t, u8, false)
