// Numbers: the device types behind the launchers' structs, their way to f32 and back, 16-byte
// packs, and division by a number known at launch.
#ifndef AICF_CUDA_NUMERIC_CUH
#define AICF_CUDA_NUMERIC_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include <aicf/cuda/ptx.cuh>
#include <aicf/tensor.h>

namespace aicf {

// ---- types --------------------------------------------------------------------------------------

// aicf_f16 and aicf_bf16 are plain bits, in C and CUDA alike; these are the same bits as numbers.
template <typename T> struct device_type {
    using type = T;
};
template <> struct device_type<aicf_f16> {
    using type = __half;
};
template <> struct device_type<aicf_bf16> {
    using type = __nv_bfloat16;
};
template <typename T> using device_t = typename device_type<T>::type;

template <typename T>
const device_t<T> *
device(const T *p)
{
    return reinterpret_cast<const device_t<T> *>(p);
}

template <typename T>
device_t<T> *
device(T *p)
{
    return reinterpret_cast<device_t<T> *>(p);
}

__device__ inline float
to_f32(float x)
{
    return x;
}

__device__ inline float
to_f32(__half x)
{
    return __half2float(x);
}

__device__ inline float
to_f32(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

// Rounds to nearest even.
template <typename T> __device__ inline T of_f32(float x);

template <>
__device__ inline float
of_f32<float>(float x)
{
    return x;
}

template <>
__device__ inline __half
of_f32<__half>(float x)
{
    return __float2half_rn(x);
}

template <>
__device__ inline __nv_bfloat16
of_f32<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

// What T is computed in: f32 for 16-bit floats, bool for aicf_bool, itself for the rest.
template <typename T> struct value {
    using type = T;
};
template <> struct value<__half> {
    using type = float;
};
template <> struct value<__nv_bfloat16> {
    using type = float;
};
template <> struct value<aicf_bool> {
    using type = bool;
};
template <typename T> using value_t = typename value<T>::type;

template <typename T>
__device__ inline value_t<T>
to_value(T x)
{
    if constexpr (std::is_same_v<value_t<T>, float>) {
        return to_f32(x);
    } else if constexpr (std::is_same_v<T, aicf_bool>) {
        return x.byte != 0;
    } else {
        return x;
    }
}

template <typename T>
__device__ inline T
of_value(value_t<T> x)
{
    if constexpr (std::is_same_v<value_t<T>, float>) {
        return of_f32<T>(x);
    } else if constexpr (std::is_same_v<T, aicf_bool>) {
        return {static_cast<uint8_t>(x)};
    } else {
        return x;
    }
}

// T by the size of its elements alone: an unsigned integer, and aicf_bool, of which any byte but 0
// is to be written as 1.
template <int kBytes> struct bits_of_size;
template <> struct bits_of_size<1> {
    using type = uint8_t;
};
template <> struct bits_of_size<2> {
    using type = uint16_t;
};
template <> struct bits_of_size<4> {
    using type = uint32_t;
};
template <> struct bits_of_size<8> {
    using type = uint64_t;
};
template <typename T> struct bits_of : bits_of_size<static_cast<int>(sizeof(T))> {};
template <> struct bits_of<aicf_bool> {
    using type = aicf_bool;
};
template <typename T> using bits_t = typename bits_of<T>::type;

// ---- packs --------------------------------------------------------------------------------------

constexpr int kPackBytes = 16; // the widest access of one thread

template <typename T> constexpr int kPackSize = kPackBytes / static_cast<int>(sizeof(T));

template <typename T, int kSize = kPackSize<T>> struct alignas(sizeof(T) * kSize) pack {
    T lane[kSize];
};

template <typename T, int kSize = kPackSize<T>>
__device__ inline pack<T, kSize>
load_pack(const T *p)
{
    return *reinterpret_cast<const pack<T, kSize> *>(p);
}

template <typename T, int kSize>
__device__ inline void
store_pack(T *p, const pack<T, kSize> &value)
{
    *reinterpret_cast<pack<T, kSize> *>(p) = value;
}

// 16 bytes as they lie in memory. Where loads run ahead of their use, a pack of 16-bit lanes is the
// wrong thing to hold: its lanes are taken apart, and so waited for, right behind each load.
struct alignas(kPackBytes) words {
    uint32_t word[4];
};

__device__ inline words
load_words(const void *p)
{
    return *static_cast<const words *>(p);
}

__device__ inline void
unpack(const words &w, float (&x)[4], float)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[i] = __uint_as_float(w.word[i]);
    }
}

__device__ inline void
unpack(const words &w, float (&x)[8], __half)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = __half22float2(*reinterpret_cast<const __half2 *>(&w.word[i]));
        x[2 * i] = pair.x;
        x[2 * i + 1] = pair.y;
    }
}

__device__ inline void
unpack(const words &w, float (&x)[8], __nv_bfloat16)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = __uint_as_float(w.word[i] << 16);
        x[2 * i + 1] = __uint_as_float(w.word[i] & 0xffff0000);
    }
}

__device__ inline words
repack(const float (&x)[4], float)
{
    words w;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        w.word[i] = __float_as_uint(x[i]);
    }
    return w;
}

__device__ inline words
repack(const float (&x)[8], __half)
{
    words w;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __half2 pair = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
        w.word[i] = *reinterpret_cast<const uint32_t *>(&pair);
    }
    return w;
}

__device__ inline words
repack(const float (&x)[8], __nv_bfloat16)
{
    words w;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
        w.word[i] = *reinterpret_cast<const uint32_t *>(&pair);
    }
    return w;
}

__device__ inline void
store_words(void *p, const words &w)
{
    *static_cast<words *>(p) = w;
}

// ---- lanes --------------------------------------------------------------------------------------

// Elements of any type in the first kBytes (1, 2, 4, 8 or 16) of words, for ops whose tensors
// differ in the size of their elements. The rest of the words is not touched.
template <int kBytes>
__device__ inline words
load_bytes(const void *p)
{
    words w = {};
    if constexpr (kBytes == 16) {
        w = load_words(p);
    } else if constexpr (kBytes == 8) {
        uint2 two = *static_cast<const uint2 *>(p);
        w.word[0] = two.x;
        w.word[1] = two.y;
    } else if constexpr (kBytes == 4) {
        w.word[0] = *static_cast<const uint32_t *>(p);
    } else if constexpr (kBytes == 2) {
        w.word[0] = *static_cast<const uint16_t *>(p);
    } else {
        static_assert(kBytes == 1, "a power of two up to a pack");
        w.word[0] = *static_cast<const uint8_t *>(p);
    }
    return w;
}

// To global memory, at once: where branches stand between what makes the words, compilers store
// each of a struct behind its own, at half the bandwidth.
template <int kBytes>
__device__ inline void
store_bytes(void *p, const words &w)
{
    if constexpr (kBytes == 16) {
        ptx::store_global(p, w.word);
    } else if constexpr (kBytes == 8) {
        *static_cast<uint2 *>(p) = make_uint2(w.word[0], w.word[1]);
    } else if constexpr (kBytes == 4) {
        *static_cast<uint32_t *>(p) = w.word[0];
    } else if constexpr (kBytes == 2) {
        *static_cast<uint16_t *>(p) = static_cast<uint16_t>(w.word[0]);
    } else {
        static_assert(kBytes == 1, "a power of two up to a pack");
        *static_cast<uint8_t *>(p) = static_cast<uint8_t>(w.word[0]);
    }
}

// The bits of lane i, a constant once loops are unrolled.
template <typename T>
__device__ inline auto
lane_bits(const words &w, int i)
{
    if constexpr (sizeof(T) == 8) {
        return static_cast<uint64_t>(w.word[2 * i + 1]) << 32 | w.word[2 * i];
    } else {
        constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
        constexpr int kBits = 8 * static_cast<int>(sizeof(T));
        return w.word[i / kPerWord] >> i % kPerWord * kBits;
    }
}

template <typename T>
__device__ inline value_t<T>
lane_of(const words &w, int i)
{
    if constexpr (std::is_same_v<T, float>) {
        return __uint_as_float(w.word[i]);
    } else if constexpr (std::is_same_v<T, __half>) {
        float2 pair = __half22float2(*reinterpret_cast<const __half2 *>(&w.word[i / 2]));
        return i % 2 ? pair.y : pair.x;
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        return __uint_as_float(i % 2 ? w.word[i / 2] & 0xffff0000 : w.word[i / 2] << 16);
    } else if constexpr (std::is_same_v<T, double>) {
        return __longlong_as_double(static_cast<long long>(lane_bits<T>(w, i)));
    } else if constexpr (std::is_same_v<T, aicf_bool>) {
        return (lane_bits<T>(w, i) & 0xff) != 0;
    } else {
        return static_cast<T>(lane_bits<T>(w, i));
    }
}

template <typename T>
__device__ inline void
put_bits(words *w, int i, T x)
{
    if constexpr (sizeof(T) == 8) {
        w->word[2 * i] = static_cast<uint32_t>(static_cast<uint64_t>(x));
        w->word[2 * i + 1] = static_cast<uint32_t>(static_cast<uint64_t>(x) >> 32);
    } else {
        constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
        constexpr int kBits = 8 * static_cast<int>(sizeof(T));
        uint32_t bits = static_cast<std::make_unsigned_t<T>>(x);
        w->word[i / kPerWord] |= bits << i % kPerWord * kBits;
    }
}

// kLanes values rounded and put side by side; 16-bit floats in pairs, by one instruction.
template <typename T, int kLanes>
__device__ inline words
words_of(const value_t<T> (&x)[kLanes])
{
    constexpr bool kPairs = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;
    words w = {};
#pragma unroll
    for (int i = 0; i < kLanes; i += kPairs ? 2 : 1) {
        if constexpr (std::is_same_v<T, float>) {
            w.word[i] = __float_as_uint(x[i]);
        } else if constexpr (std::is_same_v<T, double>) {
            put_bits(&w, i, __double_as_longlong(x[i]));
        } else if constexpr (std::is_same_v<T, aicf_bool>) {
            put_bits(&w, i, static_cast<uint8_t>(x[i]));
        } else if constexpr (std::is_same_v<T, __half>) {
            __half2 pair = __floats2half2_rn(x[i], i + 1 < kLanes ? x[i + 1] : 0.0f);
            w.word[i / 2] = *reinterpret_cast<const uint32_t *>(&pair);
        } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
            __nv_bfloat162 pair = __floats2bfloat162_rn(x[i], i + 1 < kLanes ? x[i + 1] : 0.0f);
            w.word[i / 2] = *reinterpret_cast<const uint32_t *>(&pair);
        } else {
            put_bits(&w, i, x[i]);
        }
    }
    return w;
}

// The element at p in each of kLanes lanes.
template <typename T, int kLanes>
__device__ inline words
splat(const void *p)
{
    words one = load_bytes<static_cast<int>(sizeof(T))>(p), w = {};
#pragma unroll
    for (int i = 0; i < kLanes; i++) {
        if constexpr (sizeof(T) == 8) {
            w.word[2 * i] = one.word[0];
            w.word[2 * i + 1] = one.word[1];
        } else {
            constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
            constexpr int kBits = 8 * static_cast<int>(sizeof(T));
            w.word[i / kPerWord] |= one.word[0] << i % kPerWord * kBits;
        }
    }
    return w;
}

// How far an address is past a 16-byte boundary.
inline int64_t
phase_of(const void *p)
{
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % kPackBytes);
}

// Elements before the first 16-byte boundary, at most n.
template <typename T>
int64_t
head_of(const T *p, int64_t n)
{
    int64_t phase = phase_of(p);
    int64_t head = phase == 0 ? 0 : (kPackBytes - phase) / static_cast<int64_t>(sizeof(T));
    return head < n ? head : n;
}

// ---- division -----------------------------------------------------------------------------------

// n / divisor for 0 <= n < 2^31 and 1 <= divisor < 2^31 by a multiplication, an addition and a
// shift: with s the least shift for which 2^s >= divisor and m = floor(2^32 (2^s - divisor) /
// divisor) + 1, the quotient is (mulhi(n, m) + n) >> s (Granlund and Montgomery, 1994, for n below
// 2^31, where the sum cannot carry).
struct divider {
    uint32_t divisor, multiplier, shift;
};

// Called where it is used: else it depends on a source how often, and of what it is inlined into a
// module takes the copy of one of its sources.
[[gnu::noinline]] inline divider
divider_of(int64_t divisor)
{
    divider d = {static_cast<uint32_t>(divisor), 0, 0};
    while ((int64_t{1} << d.shift) < divisor) {
        d.shift++;
    }
    uint64_t excess = (uint64_t{1} << d.shift) - static_cast<uint64_t>(divisor);
    d.multiplier = static_cast<uint32_t>((excess << 32) / static_cast<uint64_t>(divisor) + 1);
    return d;
}

__device__ inline uint32_t
divide(uint32_t n, divider d)
{
    return (__umulhi(n, d.multiplier) + n) >> d.shift;
}

// ---- views --------------------------------------------------------------------------------------

inline int64_t
numel(const aicf_view *view)
{
    int64_t count = 1;
    for (int64_t dim = 0; dim < view->rank; dim++) {
        count *= view->sizes[dim];
    }
    return count;
}

} // namespace aicf

#endif
