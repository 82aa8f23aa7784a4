// out = (x - zero) * scale (cuda): x in i8, u8 or i32, out in f32, f16 or bf16. The difference of
// an i32 is taken in 64 bits, then all is f32 and rounded once more to out. What is dense and who
// moves what is said in aicf/cuda/affine.cuh. Bound by bytes.
#include <aicf_ops/dequantize.h>

#include <aicf/cuda/affine.cuh>

namespace aicf::dequantize {

// A byte in the lower bits of this is that much more than 2^23, which an f32 has exactly.
constexpr uint32_t kBase = 0x4b000000;

// What all maps are to the host.
struct untyped {
    using in = void;
    using out = void;
};

template <typename Q, typename T> struct to_reals {
    using in = Q;
    using out = T;
    static constexpr bool kDear = false;

    struct grid_t {
        float scale;
        int32_t zero;
    };

    __device__ grid_t grid(float scale, int32_t zero) const
    {
        return {scale, zero};
    }

    __device__ static float difference(int32_t x, int32_t zero)
    {
        if constexpr (sizeof(Q) == 1) {
            return static_cast<float>(x) - static_cast<float>(zero);
        } else {
            return static_cast<float>(static_cast<int64_t>(x) - zero);
        }
    }

    // The byte at `place` of a word as an f32, without the slow conversion.
    __device__ static float byte_of(uint32_t word, int place)
    {
        constexpr bool kSigned = static_cast<Q>(-1) < 0;
        uint32_t biased = kSigned ? word ^ 0x80808080 : word;
        float x = __uint_as_float(__byte_perm(biased, kBase, 0x7440 + place));
        return x - (8388608.0f + (kSigned ? 128.0f : 0.0f));
    }

    template <int kBytes, int kLanes>
    __device__ affine::raw<sizeof(T) * kLanes>
    unit(const affine::raw<kBytes> &held, const grid_t (&grids)[kLanes]) const
    {
        float x[kLanes];
#pragma unroll
        for (int lane = 0; lane < kLanes; lane++) {
            if constexpr (sizeof(Q) == 1) {
                float byte = byte_of(held.word[lane / 4], lane % 4);
                x[lane] = byte - static_cast<float>(grids[lane].zero);
            } else {
                x[lane] = difference(static_cast<int32_t>(held.word[lane]), grids[lane].zero);
            }
            x[lane] *= grids[lane].scale;
        }
        affine::raw<sizeof(T) * kLanes> result;
        if constexpr (sizeof(T) * kLanes == kPackBytes) {
            words w = repack(x, T{});
#pragma unroll
            for (int i = 0; i < 4; i++) {
                result.word[i] = w.word[i];
            }
        } else {
            static_assert(sizeof(T) == 2 && kLanes == 4, "half a pack");
            float whole[8] = {x[0], x[1], x[2], x[3]};
            words w = repack(whole, T{});
            result.word[0] = w.word[0];
            result.word[1] = w.word[1];
        }
        return result;
    }

    __device__ T one(Q x, const grid_t &g) const
    {
        return of_f32<T>(difference(x, g.zero) * g.scale);
    }
};

AICF_AFFINE_KERNELS

static aicf_status
launch(
    const affine::kernels<untyped> &k, const void *x, const float *scale, const int32_t *zero,
    void *out, int64_t L, int64_t C, int64_t R, int64_t S, aicf_stream stream)
{
    int64_t n = L * C * R;
    if (n == 0) {
        return aicf_ok();
    }
    affine::operands<untyped> p = {
        x, out, 0, n, 0, 0, {}, affine::channels_of(scale, zero, L, C, R, S), {}};
    return affine::launch(k, p, stream);
}

} // namespace aicf::dequantize

#define LAUNCHER(Q, q, T, t)                                                               \
    aicf_status aicf_cuda_dequantize_vec_##q##_##t(                                        \
        const Q *x, const float *scale, const int32_t *zero, T *out, int64_t L, int64_t C, \
        int64_t R, int64_t S, int64_t, aicf_stream stream)                                 \
    {                                                                                      \
        using namespace aicf::dequantize;                                                  \
        auto kernels = kernels_of<untyped, to_reals<Q, aicf::device_t<T>>>();              \
        return launch(kernels, x, scale, zero, out, L, C, R, S, stream);                   \
    }

#define LAUNCHERS(Q, q)           \
    LAUNCHER(Q, q, float, f32)    \
    LAUNCHER(Q, q, aicf_f16, f16) \
    LAUNCHER(Q, q, aicf_bf16, bf16)

LAUNCHERS(int8_t, i8)
LAUNCHERS(uint8_t, u8)
LAUNCHERS(int32_t, i32)
