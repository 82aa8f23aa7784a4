// The sums of aicf/cuda/channels.cuh: planes, last, and settle, which adds their parts up. What is
// summed is said by a struct of `kFloats` floats, `take` and `combine`; here are the two that there
// are.
#ifndef AICF_CUDA_CHANNEL_SUMS_CUH
#define AICF_CUDA_CHANNEL_SUMS_CUH

#include <aicf/cuda/channels.cuh>

namespace aicf::channels {

// ---- what is summed -----------------------------------------------------------------------------

// Count, mean and sum of squared deviations of x - base; `base`, an element of the channel, keeps
// the digits of what is far from 0. Parts are joined as Chan, Golub and LeVeque do (1979).
struct moments {
    static constexpr int kIn = 1, kFloats = 3;

    __device__ static float identity(int)
    {
        return 0.0f;
    }

    __device__ void operator()(float (&a)[kFloats], const float (&b)[kFloats]) const
    {
        float count = a[0] + b[0];
        // Within 2 ulp, which moves the mean by as little of `apart`.
        float share = count > 0.0f ? __fdividef(b[0], count) : 0.0f, apart = b[1] - a[1];
        a[2] += b[2] + apart * apart * (a[0] * share);
        a[1] += apart * share;
        a[0] = count;
    }

    // Takes n elements.
    template <int n>
    __device__ static void take(float (&v)[kFloats], const float (&x)[kIn][n], float base)
    {
        float part[kFloats] = {n, 0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < n; i++) {
            part[1] += x[0][i] - base;
        }
        part[1] *= 1.0f / n;
#pragma unroll
        for (int i = 0; i < n; i++) {
            float d = (x[0][i] - base) - part[1];
            part[2] += d * d;
        }
        moments{}(v, part);
    }
};

// The sums of gy and of gy * (x - base), base the channel's mean.
struct products {
    static constexpr int kIn = 2, kFloats = 2;

    __device__ static float identity(int)
    {
        return 0.0f;
    }

    __device__ void operator()(float (&a)[kFloats], const float (&b)[kFloats]) const
    {
        a[0] += b[0];
        a[1] += b[1];
    }

    template <int n>
    __device__ static void take(float (&v)[kFloats], const float (&x)[kIn][n], float base)
    {
#pragma unroll
        for (int i = 0; i < n; i++) {
            v[0] += x[0][i];
            v[1] += x[0][i] * (x[1][i] - base);
        }
    }
};

// ---- operands -----------------------------------------------------------------------------------

template <typename T, int kIn> struct operands {
    const T *in[kIn];
    const float *base; // NULL: the channel's first element, which is stored to room.base
    channels::room room;
    extent e;
};

// ---- units --------------------------------------------------------------------------------------

// kCount units of each tensor, at kCount offsets, on their way at once.
template <typename T, int kSize, int kIn, int kCount> struct units {
    words held[kIn][kCount];

    __device__ void load(const T *const (&in)[kIn], const int64_t (&offset)[kCount])
    {
#pragma unroll
        for (int j = 0; j < kIn; j++) {
#pragma unroll
            for (int k = 0; k < kCount; k++) {
                held[j][k] = load_words(in[j] + offset[k]);
            }
        }
    }

    __device__ void unpack(int j, int k, float (&x)[kSize]) const
    {
        aicf::unpack(held[j][k], x, T{});
    }
};

template <typename T, int kIn, int kCount> struct units<T, 1, kIn, kCount> {
    T held[kIn][kCount];

    __device__ void load(const T *const (&in)[kIn], const int64_t (&offset)[kCount])
    {
#pragma unroll
        for (int j = 0; j < kIn; j++) {
#pragma unroll
            for (int k = 0; k < kCount; k++) {
                held[j][k] = in[j][offset[k]];
            }
        }
    }

    __device__ void unpack(int j, int k, float (&x)[1]) const
    {
        x[0] = to_f32(held[j][k]);
    }
};

// ---- sums ---------------------------------------------------------------------------------------

// A block sums part blockIdx.x / C of channel blockIdx.x % C.
template <typename Sum, int kSize, typename T>
__device__ inline void
planes_body(const operands<T, Sum::kIn> &p)
{
    const extent &e = p.e;
    ptx::let_next_launch_begin();
    int64_t channel = blockIdx.x % e.C, part = blockIdx.x / e.C;
    int64_t units_of_plane = e.R / kSize, count = e.N * units_of_plane;
    int64_t begin = part * (e.share / kSize), end = begin + e.share / kSize;
    end = end < count ? end : count;
    float base = p.base ? p.base[channel] : to_f32(p.in[0][channel * e.R]);

    auto offset_of = [&](int64_t i) {
        int64_t n = e.wide ? i / units_of_plane : divide(static_cast<uint32_t>(i), e.plane);
        return (n * e.C + channel) * e.R + (i - n * units_of_plane) * kSize;
    };
    float v[1][Sum::kFloats] = {};
    auto some = [&](int64_t i, auto number) {
        constexpr int kCount = decltype(number)::value;
        int64_t offset[kCount];
        units<T, kSize, Sum::kIn, kCount> held;
        float x[Sum::kIn][kCount * kSize];
#pragma unroll
        for (int k = 0; k < kCount; k++) {
            offset[k] = offset_of(i + k * kBlock);
        }
        held.load(p.in, offset);
#pragma unroll
        for (int j = 0; j < Sum::kIn; j++) {
#pragma unroll
            for (int k = 0; k < kCount; k++) {
                float y[kSize];
                held.unpack(j, k, y);
#pragma unroll
                for (int lane = 0; lane < kSize; lane++) {
                    x[j][k * kSize + lane] = y[lane];
                }
            }
        }
        Sum::take(v[0], x, base);
    };

    int64_t i = begin + threadIdx.x;
    for (; i + (kUnroll - 1) * kBlock < end; i += kUnroll * kBlock) {
        some(i, rows::constant<kUnroll>{});
    }
#pragma unroll 1
    for (; i < end; i += kBlock) {
        some(i, rows::constant<1>{});
    }

    rows::block_team team;
    team.reduce(v, Sum{});
    if (threadIdx.x == 0) {
        p.room.pairs[part * e.C + channel] = {v[0][Sum::kFloats - 2], v[0][Sum::kFloats - 1]};
        if (!p.base && part == 0) {
            p.room.base[channel] = base;
        }
    }
}

// A block sums part blockIdx.x / tiles, rows of e.share, of tile blockIdx.x % tiles.
template <typename Sum, int kSize, typename T>
__device__ inline void
last_body(const operands<T, Sum::kIn> &p)
{
    __shared__ float room[Sum::kFloats][kSize][kBlock];
    const extent &e = p.e;
    ptx::let_next_launch_begin();
    int width = e.width, height = kBlock / width;
    int column = static_cast<int>(threadIdx.x) % width,
        down = static_cast<int>(threadIdx.x) / width;
    int64_t channel = (blockIdx.x % e.tiles * width + column) * kSize, part = blockIdx.x / e.tiles;
    int64_t begin = part * e.share, end = begin + e.share, count = e.N * e.R;
    end = end < count ? end : count;
    bool mine = channel < e.C;

    float base[kSize] = {}, v[kSize][Sum::kFloats] = {};
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        if (mine) {
            base[lane] = p.base ? p.base[channel + lane] : to_f32(p.in[0][channel + lane]);
        }
    }
    auto some = [&](int64_t row, auto number) {
        constexpr int kCount = decltype(number)::value;
        int64_t offset[kCount];
        units<T, kSize, Sum::kIn, kCount> held;
        float y[Sum::kIn][kCount][kSize];
#pragma unroll
        for (int k = 0; k < kCount; k++) {
            offset[k] = (row + k * height) * e.C + channel;
        }
        held.load(p.in, offset);
#pragma unroll
        for (int j = 0; j < Sum::kIn; j++) {
#pragma unroll
            for (int k = 0; k < kCount; k++) {
                held.unpack(j, k, y[j][k]);
            }
        }
#pragma unroll
        for (int lane = 0; lane < kSize; lane++) {
            float x[Sum::kIn][kCount];
#pragma unroll
            for (int j = 0; j < Sum::kIn; j++) {
#pragma unroll
                for (int k = 0; k < kCount; k++) {
                    x[j][k] = y[j][k][lane];
                }
            }
            Sum::take(v[lane], x, base[lane]);
        }
    };
    int64_t row = mine ? begin + down : end;
    for (; row + (kUnroll - 1) * height < end; row += kUnroll * height) {
        some(row, rows::constant<kUnroll>{});
    }
#pragma unroll 1
    for (; row < end; row += height) {
        some(row, rows::constant<1>{});
    }

#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
#pragma unroll
        for (int i = 0; i < Sum::kFloats; i++) {
            room[i][lane][threadIdx.x] = v[lane][i];
        }
    }
    for (int half = height / 2; half > 0; half /= 2) {
        __syncthreads();
        if (down < half) {
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                float other[Sum::kFloats];
#pragma unroll
                for (int i = 0; i < Sum::kFloats; i++) {
                    other[i] = room[i][lane][threadIdx.x + half * width];
                }
                Sum{}(v[lane], other);
#pragma unroll
                for (int i = 0; i < Sum::kFloats; i++) {
                    room[i][lane][threadIdx.x] = v[lane][i];
                }
            }
        }
    }
    if (down == 0 && mine) {
#pragma unroll
        for (int lane = 0; lane < kSize; lane++) {
            p.room.pairs[part * e.C + channel + lane] = {
                v[lane][Sum::kFloats - 2], v[lane][Sum::kFloats - 1]};
            if (!p.base && part == 0) {
                p.room.base[channel + lane] = base[lane];
            }
        }
    }
}

// ---- sums of the parts --------------------------------------------------------------------------

constexpr int kAcross = 32, kDown = 8; // threads of a block along channels and along parts

// Calls finish(channel, sum) for each channel with the sum over its parts, in threads of one row.
// `floats`: of pair (part, channel).
template <typename Sum, typename Floats, typename Finish>
__device__ inline void
settle_body(const extent &e, Floats floats, Finish finish)
{
    __shared__ float room[Sum::kFloats][kDown][kAcross];
    int across = static_cast<int>(threadIdx.x) % kAcross;
    int down = static_cast<int>(threadIdx.x) / kAcross;
    int64_t channel = blockIdx.x * int64_t{kAcross} + across;

    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();
    float v[Sum::kFloats] = {};
    if (channel < e.C) {
#pragma unroll 4
        for (int64_t part = down; part < e.parts; part += kDown) {
            float other[Sum::kFloats];
            floats(part, channel, other);
            Sum{}(v, other);
        }
    }
#pragma unroll
    for (int i = 0; i < Sum::kFloats; i++) {
        room[i][down][across] = v[i];
    }
    __syncthreads();
    if (down == 0 && channel < e.C) {
        for (int from = 1; from < kDown; from++) {
            float other[Sum::kFloats];
#pragma unroll
            for (int i = 0; i < Sum::kFloats; i++) {
                other[i] = room[i][from][across];
            }
            Sum{}(v, other);
        }
        finish(channel, v);
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T, int kIn> struct sum_kernels {
    void (*planes)(operands<T, kIn>);
    void (*plane_packs)(operands<T, kIn>);
    void (*last)(operands<T, kIn>);
    void (*last_packs)(operands<T, kIn>);
};

// Splits a channel's elements into parts of at least kLeastPart, a multiple of `grain`, so that
// with `side` blocks side by side there are enough.
inline void
cut(extent *e, int64_t side, int64_t grain)
{
    int64_t count = e->N * e->R;
    int64_t most = least(ceil_div(count, kLeastPart), kMostParts);
    int64_t parts = least(ceil_div(kEnoughBlocks, side), most);
    e->share = ceil_div(ceil_div(count, parts), grain) * grain;
    e->parts = ceil_div(count, e->share);
}

// Completes the extent of sums by units of `size` elements, and returns how many blocks they take:
// once a module.
__attribute__((noinline)) inline int64_t
plan_sums(extent *e, int size, bool channels_last)
{
    if (channels_last) {
        e->width = width_for(ceil_div(e->C, size));
        e->tiles = ceil_div(ceil_div(e->C, size), e->width);
        cut(e, e->tiles, 1);
        return e->parts * e->tiles;
    }
    cut(e, e->C, size);
    e->wide = e->N * (e->R / size) >= int64_t{1} << 31;
    e->plane = e->wide ? divider{} : divider_of(e->R / size);
    return e->parts * e->C;
}

template <typename T, int kIn>
aicf_status
launch_sums(
    const sum_kernels<T, kIn> &k, operands<T, kIn> &p, bool channels_last, aicf_stream stream)
{
    constexpr int kSize = kPackSize<T>;
    bool packed = (channels_last ? p.e.C : p.e.R) % kSize == 0;
    for (int j = 0; j < kIn; j++) {
        packed = packed && phase_of(p.in[j]) == 0;
    }
    int64_t blocks = plan_sums(&p.e, packed ? kSize : 1, channels_last);
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    auto kernel = channels_last ? packed ? k.last_packs : k.last
                  : packed      ? k.plane_packs
                                : k.planes;
    return aicf::launch(kernel, static_cast<unsigned>(blocks), kBlock, 0, stream, p);
}

} // namespace aicf::channels

// The kernels of sums, in the op's own namespace, and the table of them for a dtype.
#define AICF_CHANNEL_SUMS(Sum)                                               \
    template <typename T, int kSize>                                         \
    __global__ void __launch_bounds__(channels::kBlock)                      \
        planes(const __grid_constant__ channels::operands<T, Sum::kIn> p)    \
    {                                                                        \
        channels::planes_body<Sum, kSize>(p);                                \
    }                                                                        \
    template <typename T, int kSize>                                         \
    __global__ void __launch_bounds__(channels::kBlock)                      \
        last(const __grid_constant__ channels::operands<T, Sum::kIn> p)      \
    {                                                                        \
        channels::last_body<Sum, kSize>(p);                                  \
    }                                                                        \
    template <typename T> channels::sum_kernels<T, Sum::kIn> sums_of()       \
    {                                                                        \
        constexpr int kSize = kPackSize<T>;                                  \
        return {planes<T, 1>, planes<T, kSize>, last<T, 1>, last<T, kSize>}; \
    }

#endif
