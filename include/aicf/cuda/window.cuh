// What the kernels of 2-D pooling share: windows, an axis at a time; indexes taken apart; a few
// neighbouring elements as they lie in memory. Window o of an axis holds the elements
// [o * stride - pad, o * stride - pad + window), of which [0, size) are there; every window holds
// one that is.
#ifndef AICF_CUDA_WINDOW_CUH
#define AICF_CUDA_WINDOW_CUH

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::window {

constexpr int kBlock = 256;
constexpr int kWarp = 32;
constexpr int64_t kNarrow = (int64_t{1} << 31) - 1; // what 32-bit indexes count to

// ---- axes ---------------------------------------------------------------------------------------

template <typename Index> struct axis {
    Index size, outs, window, stride, pad;
};

template <typename Index>
__device__ inline Index
least(Index a, Index b)
{
    return a < b ? a : b;
}

template <typename Index>
__device__ inline Index
most(Index a, Index b)
{
    return a > b ? a : b;
}

// What window o counts for in a mean.
template <typename Index>
__device__ inline Index
count_of(const axis<Index> &a, Index o, bool include_pad)
{
    Index begin = o * a.stride - a.pad;
    Index end = least<Index>(begin + a.window, a.size + a.pad);
    return include_pad ? end - begin : least(end, a.size) - most<Index>(begin, 0);
}

// A pooling of images of so many channels.
struct problem {
    int64_t images, channels;
    axis<int64_t> y, x; // rows and columns
    bool include_pad;
};

inline problem
problem_of(
    int64_t images, int64_t channels, const int64_t (&sizes)[2], const int64_t (&outs)[2],
    const int64_t *window, const int64_t *stride, const int64_t *pad, bool include_pad)
{
    problem p = {images, channels, {}, {}, include_pad};
    p.y = {sizes[0], outs[0], window[0], stride[0], pad[0]};
    p.x = {sizes[1], outs[1], window[1], stride[1], pad[1]};
    return p;
}

inline axis<int>
narrow(const axis<int64_t> &a)
{
    return {
        static_cast<int>(a.size), static_cast<int>(a.outs), static_cast<int>(a.window),
        static_cast<int>(a.stride), static_cast<int>(a.pad)};
}

// Windows of 2 or 3 at every second element, padded so that the first of each pair of elements is
// the last but one of its window: window o then holds elements 2 * o - (window - 2) to 2 * o + 1.
inline bool
in_pairs(const axis<int64_t> &a)
{
    return (a.window == 2 || a.window == 3) && a.stride == 2 && a.pad == a.window - 2;
}

inline bool
in_pairs(const problem &p)
{
    return in_pairs(p.y) && in_pairs(p.x) && p.y.window == p.x.window &&
           p.y.size + 4 <= kNarrow / p.x.size; // also of rows that are loaded for none
}

// The furthest window beyond o that holds element 2 * o + place.
template <int kWindow>
__device__ constexpr int
beyond(int place)
{
    return (place + kWindow - 2) / 2;
}

// ---- indexes ------------------------------------------------------------------------------------

// Takes the last digit off an index. Where all indexes are below 2^31 by a divider.
struct digits {
    int64_t size;
    divider by;
    bool narrow;

    __device__ int64_t quotient(int64_t i) const
    {
        return narrow ? divide(static_cast<uint32_t>(i), by) : i / size;
    }

    __device__ int64_t take(int64_t &i) const
    {
        int64_t next = quotient(i), digit = i - next * size;
        i = next;
        return digit;
    }
};

// For indexes below n.
inline digits
digits_of(int64_t size, int64_t n)
{
    digits d = {size, {}, n <= kNarrow && size <= kNarrow};
    if (d.narrow) {
        d.by = divider_of(size);
    }
    return d;
}

__device__ inline uint32_t
take_digit(uint32_t &i, const divider &by)
{
    uint32_t next = divide(i, by), digit = i - next * by.divisor;
    i = next;
    return digit;
}

// Calls launch(first, count) for parts of [0, count) of `each` threads apiece, fewer than 2^31 a
// part. Requires each < 2^31.
template <typename Launch>
aicf_status
in_parts(int64_t count, int64_t each, Launch launch)
{
    int64_t most = kNarrow / each;
    for (int64_t first = 0; first < count; first += most) {
        int64_t part = count - first < most ? count - first : most;
        aicf_status status = launch(first, part);
        if (status.kind) {
            return status;
        }
    }
    return aicf_ok();
}

inline unsigned
blocks_of(int64_t threads)
{
    return static_cast<unsigned>(ceil_div(threads, kBlock));
}

// ---- lanes --------------------------------------------------------------------------------------

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

// kSize indices, in accesses of 16 bytes where they are that long.
template <int kSize>
__device__ inline void
store_indices(int64_t *p, const int64_t (&at)[kSize])
{
    constexpr int kEach = kSize < 2 ? 1 : 2;
#pragma unroll
    for (int i = 0; i < kSize; i += kEach) {
        pack<int64_t, kEach> out;
#pragma unroll
        for (int j = 0; j < kEach; j++) {
            out.lane[j] = at[i + j];
        }
        store_pack(p + i, out);
    }
}

template <int kSize>
__device__ inline void
load_indices(const int64_t *p, int64_t (&at)[kSize])
{
    constexpr int kEach = kSize < 2 ? 1 : 2;
#pragma unroll
    for (int i = 0; i < kSize; i += kEach) {
        pack<int64_t, kEach> in = load_pack<int64_t, kEach>(p + i);
#pragma unroll
        for (int j = 0; j < kEach; j++) {
            at[i + j] = in.lane[j];
        }
    }
}

inline bool
aligned(const void *p, int64_t bytes)
{
    return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) == 0;
}

} // namespace aicf::window

#endif
