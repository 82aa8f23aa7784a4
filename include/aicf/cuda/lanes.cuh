// A few neighbouring elements as they lie in memory, on their way to floats and back: packs of any
// power of two bytes up to 16, where aicf/cuda/numeric.cuh has those of 16.
#ifndef AICF_CUDA_LANES_CUH
#define AICF_CUDA_LANES_CUH

#include <aicf/cuda/numeric.cuh>

namespace aicf {

__device__ inline void
unpack_word(uint32_t word, float *x, float)
{
    x[0] = __uint_as_float(word);
}

__device__ inline void
unpack_word(uint32_t word, float *x, __half)
{
    float2 pair = __half22float2(*reinterpret_cast<const __half2 *>(&word));
    x[0] = pair.x;
    x[1] = pair.y;
}

__device__ inline void
unpack_word(uint32_t word, float *x, __nv_bfloat16)
{
    x[0] = __uint_as_float(word << 16);
    x[1] = __uint_as_float(word & 0xffff0000);
}

__device__ inline uint32_t
pack_word(const float *x, float)
{
    return __float_as_uint(x[0]);
}

__device__ inline uint32_t
pack_word(const float *x, __half)
{
    __half2 pair = __floats2half2_rn(x[0], x[1]);
    return *reinterpret_cast<const uint32_t *>(&pair);
}

__device__ inline uint32_t
pack_word(const float *x, __nv_bfloat16)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(x[0], x[1]);
    return *reinterpret_cast<const uint32_t *>(&pair);
}

// -inf in each lane of a word.
__device__ constexpr uint32_t
lowest_word(float)
{
    return 0xff800000;
}

__device__ constexpr uint32_t
lowest_word(__half)
{
    return 0xfc00fc00;
}

__device__ constexpr uint32_t
lowest_word(__nv_bfloat16)
{
    return 0xff80ff80;
}

// kSize neighbours of at least 4 bytes in all: words, so that nothing is taken apart, and so waited
// for, before it is used.
template <typename T, int kSize> struct lanes {
    static constexpr int kBytes = static_cast<int>(sizeof(T)) * kSize;
    static constexpr int kWords = kBytes / 4, kPer = 4 / static_cast<int>(sizeof(T));
    static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "one access");

    struct alignas(kBytes) words {
        uint32_t word[kWords];
    };
    words held;

    __device__ void fill(uint32_t word)
    {
#pragma unroll
        for (int i = 0; i < kWords; i++) {
            held.word[i] = word;
        }
    }

    __device__ void load(const T *p)
    {
        held = *reinterpret_cast<const words *>(p);
    }

    __device__ void unpack(float (&x)[kSize]) const
    {
#pragma unroll
        for (int i = 0; i < kWords; i++) {
            unpack_word(held.word[i], x + i * kPer, T{});
        }
    }
};

template <> struct lanes<__half, 1> {
    uint16_t held;

    __device__ void fill(uint32_t word)
    {
        held = static_cast<uint16_t>(word);
    }

    __device__ void load(const __half *p)
    {
        held = *reinterpret_cast<const uint16_t *>(p);
    }

    __device__ void unpack(float (&x)[1]) const
    {
        x[0] = __half2float(__ushort_as_half(held));
    }
};

template <> struct lanes<__nv_bfloat16, 1> {
    uint16_t held;

    __device__ void fill(uint32_t word)
    {
        held = static_cast<uint16_t>(word);
    }

    __device__ void load(const __nv_bfloat16 *p)
    {
        held = *reinterpret_cast<const uint16_t *>(p);
    }

    __device__ void unpack(float (&x)[1]) const
    {
        x[0] = __uint_as_float(uint32_t{held} << 16);
    }
};

template <typename T, int kSize>
__device__ inline void
store_lanes(T *p, const float (&x)[kSize])
{
    using held = lanes<T, kSize>;
    typename held::words out;
#pragma unroll
    for (int i = 0; i < held::kWords; i++) {
        out.word[i] = pack_word(x + i * held::kPer, T{});
    }
    *reinterpret_cast<typename held::words *>(p) = out;
}

template <typename T>
__device__ inline void
store_lanes(T *p, const float (&x)[1])
{
    *p = of_f32<T>(x[0]);
}

} // namespace aicf

#endif
