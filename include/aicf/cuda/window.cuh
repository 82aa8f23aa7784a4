// What the kernels of 2-D pooling share. Window o of an axis holds the elements [o * stride - pad,
// o * stride - pad + window), of which [0, size) are there; every window holds one that is.
#ifndef AICF_CUDA_WINDOW_CUH
#define AICF_CUDA_WINDOW_CUH

#include <aicf/cuda/digits.cuh>
#include <aicf/cuda/lanes.cuh>
#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::window {

constexpr int kBlock = 256;
constexpr int kWarp = 32;

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

// x / count, to be rounded to T, in fewer steps than a division: a quotient by the reciprocal,
// which is all that 16 bits show. For f32 its remainder, which is exact, by the reciprocal again,
// so that what that is off by does not count; of infinities the remainder is NaN and the quotient
// right.
struct share {
    float count, reciprocal;

    __device__ explicit share(float n)
    {
        count = n;
        reciprocal = ptx::reciprocal_approx(n);
    }

    template <typename T> __device__ float of(float x) const
    {
        float quotient = x * reciprocal;
        if constexpr (sizeof(T) < sizeof(float)) {
            return quotient;
        }
        float rest = fmaf(-quotient, count, x);
        return rest == rest ? fmaf(rest, reciprocal, quotient) : quotient;
    }
};

template <typename Index>
__device__ inline share
share_of(const axis<Index> &y, Index row, const axis<Index> &x, Index column, bool include_pad)
{
    return share(
        static_cast<float>(count_of(y, row, include_pad)) *
        static_cast<float>(count_of(x, column, include_pad)));
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

// Whether 32 bits count the elements of an image, of `channels` where those lie side by side, also
// of some rows beyond its end, and the places of its windows.
inline bool
is_narrow(const problem &p, int64_t channels)
{
    constexpr int64_t kMost = 1 << 28; // of places: their sums stay below 2^31
    return p.y.size <= kMost && p.x.size <= kMost && p.y.window <= kMost && p.x.window <= kMost &&
           p.y.size + 8 <= kNarrow / (p.x.size + 1) / channels;
}

// A stride beyond the end of the axis is of one window, at which no product has it.
template <typename Index>
axis<Index>
axis_of(const axis<int64_t> &a)
{
    return {
        static_cast<Index>(a.size), static_cast<Index>(a.outs), static_cast<Index>(a.window),
        static_cast<Index>(a.outs > 1 ? a.stride : a.size + a.pad), static_cast<Index>(a.pad)};
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
    return in_pairs(p.y) && in_pairs(p.x) && p.y.window == p.x.window;
}

// The furthest window beyond o that holds element 2 * o + place.
template <int kWindow>
__device__ constexpr int
beyond(int place)
{
    return (place + kWindow - 2) / 2;
}

// ---- launches -----------------------------------------------------------------------------------

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

// ---- indices ------------------------------------------------------------------------------------

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
