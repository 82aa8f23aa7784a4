// What batch norms do with channels (cuda): sums over all but them, and a formula whose
// coefficients go by channel, computed in f32. x is N x C x R, or N x R x C where channels lie
// last, which for R = 1 is the same. Any addresses; bound by bytes.
//
//   planes   a block sums a part of one channel, by packs where planes allow it
//   last     a thread sums a pack of channels, or one, over every so-many-th row
//   settle   adds the parts of each channel up, in a fixed order, and makes its coefficients of
//            them: the same bits at every run
//   apply    maps all elements, in the opposite order: what the sums read last is in the L2 yet
//
// What is summed is said by a struct of `kFloats` floats, `take` and `combine`; here are the two
// that there are. An op's file makes kernels of the bodies in its own namespace.
#ifndef AICF_CUDA_CHANNELS_CUH
#define AICF_CUDA_CHANNELS_CUH

#include <aicf/cuda/rows.cuh>

namespace aicf::channels {

constexpr int kBlock = 256;
constexpr int kUnroll = 4; // loads of a thread on their way, of each tensor

// Parts of a channel: at least so many elements each, at most so many; the rows' workspace
// expressions say the same. Blocks: four a multiprocessor of the largest machines, twice.
constexpr int64_t kLeastPart = 256;
constexpr int64_t kMostParts = 512;
constexpr int64_t kEnoughBlocks = 1056;

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

// In the workspace: coefficients of each channel, its base, then `pairs`, two floats of each
// channel for each part: the last two of what is summed.
struct room {
    float4 *coefficients;
    float *base;
    float2 *pairs;
};

inline room
room_of(void *workspace, int64_t C)
{
    float *at = static_cast<float *>(workspace);
    return {reinterpret_cast<float4 *>(at), at + 4 * C, reinterpret_cast<float2 *>(at + 6 * C)};
}

struct extent {
    int64_t N, C, R;
    int64_t parts, share; // a part has `share` elements of a channel, the last one maybe fewer
    int64_t tiles;        // of channels, where they lie last
    int width;            // threads side by side along channels, where they lie last
    bool wide;            // 2^31 units or more: divided in 64 bits
    divider plane;        // units of a plane
};

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

// ---- the map ------------------------------------------------------------------------------------

// Where element i of a dense tensor stands: its channel, and its distance from the start of that.
struct positions {
    bool wide;
    int64_t R, C;
    divider by_r, by_c;

    __device__ void find(int64_t i, int64_t *channel, int64_t *r) const
    {
        if (wide) {
            *r = i % R;
            *channel = i / R % C;
        } else {
            uint32_t plane = divide(static_cast<uint32_t>(i), by_r);
            uint32_t outer = divide(plane, by_c);
            *r = static_cast<uint32_t>(i) - plane * by_r.divisor;
            *channel = plane - outer * by_c.divisor;
        }
    }
};

// out = map(coefficients of the channel, in ...). `coefficients(c)` gives them.
template <typename T, int kIn> struct mapped {
    const T *in[kIn];
    T *out;
    int64_t count, head; // the elements before the first 16-byte boundary of out
    positions where;
    int64_t rows, C; // of channels that lie last
    int width;
};

template <int kIn, int kSize>
__device__ inline void
lane_of(const float (&x)[kIn][kSize], int lane, float (&one)[kIn])
{
#pragma unroll
    for (int j = 0; j < kIn; j++) {
        one[j] = x[j][lane];
    }
}

template <typename Map, typename T, int kIn>
__device__ inline void
apply_at(const Map &map, const mapped<T, kIn> &p, int64_t i)
{
    int64_t channel, r;
    float x[kIn];
    p.where.find(i, &channel, &r);
#pragma unroll
    for (int j = 0; j < kIn; j++) {
        x[j] = to_f32(p.in[j][i]);
    }
    p.out[i] = of_f32<T>(map(map.coefficients(channel), x));
}

// Requires that all tensors have one phase. The last block does what is before and behind packs.
template <typename Map, typename T, int kIn>
__device__ inline void
apply_packs(const Map &map, const mapped<T, kIn> &p)
{
    constexpr int kSize = kPackSize<T>;
    int64_t packs = (p.count - p.head) / kSize;
    int64_t block = gridDim.x - 1 - blockIdx.x;
    int64_t i = block * kBlock + threadIdx.x;
    if (i < packs) {
        int64_t element = p.head + i * kSize, channel, r;
        words held[kIn];
        float x[kIn][kSize], one[kIn], y[kSize];
#pragma unroll
        for (int j = 0; j < kIn; j++) {
            held[j] = load_words(p.in[j] + element);
        }
        p.where.find(element, &channel, &r);
        ptx::wait_for_launch_before();
#pragma unroll
        for (int j = 0; j < kIn; j++) {
            unpack(held[j], x[j], T{});
        }
        float4 c = map.coefficients(channel);
        if (r + kSize <= p.where.R) {
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                lane_of(x, lane, one);
                y[lane] = map(c, one);
            }
        } else {
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                if (r == p.where.R) {
                    r = 0;
                    channel = channel + 1 == p.where.C ? 0 : channel + 1;
                    c = map.coefficients(channel);
                }
                lane_of(x, lane, one);
                y[lane] = map(c, one);
                r++;
            }
        }
        store_words(p.out + element, repack(y, T{}));
    }
    if (block == 0) {
        int64_t tail = p.head + packs * kSize + threadIdx.x;
        ptx::wait_for_launch_before();
        if (threadIdx.x < p.head) {
            apply_at(map, p, threadIdx.x);
        }
        if (tail < p.count) {
            apply_at(map, p, tail);
        }
    }
}

template <typename Map, typename T, int kIn>
__device__ inline void
apply_elements(const Map &map, const mapped<T, kIn> &p)
{
    int64_t block = gridDim.x - 1 - blockIdx.x;
    int64_t first = block * (kBlock * kUnroll) + threadIdx.x;
    ptx::wait_for_launch_before();
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < p.count) {
            apply_at(map, p, first + u * kBlock);
        }
    }
}

// Channels last, in packs: each thread has the same channels of every so-many-th row.
template <typename Map, typename T, int kIn>
__device__ inline void
apply_last(const Map &map, const mapped<T, kIn> &p)
{
    constexpr int kSize = kPackSize<T>;
    int64_t tiles = (p.C / kSize + p.width - 1) / p.width;
    int64_t block = gridDim.x - 1 - blockIdx.x, blocks = gridDim.x / tiles;
    int64_t channel = (block % tiles * p.width + static_cast<int>(threadIdx.x) % p.width) * kSize;
    int height = kBlock / p.width;
    int64_t share = (p.rows + blocks - 1) / blocks, begin = block / tiles * share;
    int64_t end = begin + share < p.rows ? begin + share : p.rows;
    if (channel >= p.C) {
        return;
    }
    ptx::wait_for_launch_before();
    float4 c[kSize];
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        c[lane] = map.coefficients(channel + lane);
    }
    auto some = [&](int64_t row, auto number) {
        constexpr int kCount = decltype(number)::value;
        words held[kCount][kIn];
#pragma unroll
        for (int k = 0; k < kCount; k++) {
#pragma unroll
            for (int j = 0; j < kIn; j++) {
                held[k][j] = load_words(p.in[j] + (row + k * height) * p.C + channel);
            }
        }
#pragma unroll
        for (int k = 0; k < kCount; k++) {
            float x[kIn][kSize], one[kIn], y[kSize];
#pragma unroll
            for (int j = 0; j < kIn; j++) {
                unpack(held[k][j], x[j], T{});
            }
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                lane_of(x, lane, one);
                y[lane] = map(c[lane], one);
            }
            store_words(p.out + (row + k * height) * p.C + channel, repack(y, T{}));
        }
    };
    int64_t row = begin + static_cast<int>(threadIdx.x) / p.width;
    for (; row + 3 * height < end; row += 4 * height) {
        some(row, rows::constant<4>{});
    }
#pragma unroll 1
    for (; row < end; row += height) {
        some(row, rows::constant<1>{});
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T, int kIn> struct sum_kernels {
    void (*planes)(operands<T, kIn>);
    void (*plane_packs)(operands<T, kIn>);
    void (*last)(operands<T, kIn>);
    void (*last_packs)(operands<T, kIn>);
};

template <typename Map, typename T, int kIn> struct map_kernels {
    void (*packs)(Map, mapped<T, kIn>);
    void (*elements)(Map, mapped<T, kIn>);
    void (*last)(Map, mapped<T, kIn>);
};

inline int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

inline int
width_for(int64_t units)
{
    int width = 1;
    while (width < units && width < rows::kWarp) {
        width *= 2;
    }
    return width;
}

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

template <typename T, int kIn>
aicf_status
launch_sums(
    const sum_kernels<T, kIn> &k, operands<T, kIn> &p, bool channels_last, aicf_stream stream)
{
    constexpr int kSize = kPackSize<T>;
    extent &e = p.e;
    bool packed = (channels_last ? e.C : e.R) % kSize == 0;
    for (int j = 0; j < kIn; j++) {
        packed = packed && phase_of(p.in[j]) == 0;
    }
    int size = packed ? kSize : 1;
    int64_t blocks;
    if (channels_last) {
        e.width = width_for(ceil_div(e.C, size));
        e.tiles = ceil_div(ceil_div(e.C, size), e.width);
        cut(&e, e.tiles, 1);
        blocks = e.parts * e.tiles;
    } else {
        cut(&e, e.C, size);
        e.wide = e.N * (e.R / size) >= int64_t{1} << 31;
        e.plane = e.wide ? divider{} : divider_of(e.R / size);
        blocks = e.parts * e.C;
    }
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    auto kernel = channels_last ? packed ? k.last_packs : k.last
                  : packed      ? k.plane_packs
                                : k.planes;
    return aicf::launch(kernel, static_cast<unsigned>(blocks), kBlock, 0, stream, p);
}

// The launch before this one may be of sums or of their settling, and still run.
template <typename Map, typename T, int kIn>
aicf_status
launch_map(
    const map_kernels<Map, T, kIn> &k, const Map &map, mapped<T, kIn> p, const extent &e,
    bool channels_last, bool waiting, aicf_stream stream)
{
    auto run = [&](void (*kernel)(Map, mapped<T, kIn>), int64_t blocks) {
        unsigned number = static_cast<unsigned>(blocks);
        return waiting ? launch_waiting(kernel, number, kBlock, 0, stream, map, p)
                       : aicf::launch(kernel, number, kBlock, 0, stream, map, p);
    };
    constexpr int kSize = kPackSize<T>;
    bool together = true, packed = channels_last && e.C % kSize == 0 && phase_of(p.out) == 0;
    for (int j = 0; j < kIn; j++) {
        together = together && phase_of(p.in[j]) == phase_of(p.out);
    }
    p.count = e.N * e.C * e.R;
    if (packed && together) {
        p.rows = e.N * e.R;
        p.C = e.C;
        p.width = width_for(e.C / kSize);
        int64_t tiles = ceil_div(e.C / kSize, p.width);
        int64_t rows = ceil_div(p.rows, 4 * (kBlock / p.width)); // blocks that have four packs
        int64_t blocks = least(ceil_div(4 * kEnoughBlocks, tiles), rows) * tiles;
        return run(k.last, blocks);
    }
    p.where = {p.count >= int64_t{1} << 31, channels_last ? 1 : e.R, e.C, {}, {}};
    if (!p.where.wide) {
        p.where.by_r = divider_of(p.where.R);
        p.where.by_c = divider_of(p.where.C);
    }
    p.head = head_of(p.out, p.count);
    int64_t blocks =
        together ? ceil_div(p.count / kSize + 1, kBlock) : ceil_div(p.count, kBlock * kUnroll);
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return run(together ? k.packs : k.elements, blocks);
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

// The kernels of a map of `inputs` tensors.
#define AICF_CHANNEL_MAP(Map, name, inputs)                                                   \
    template <typename T>                                                                     \
    __global__ void __launch_bounds__(channels::kBlock)                                       \
        name##_packs(const Map map, const __grid_constant__ channels::mapped<T, inputs> p)    \
    {                                                                                         \
        channels::apply_packs(map, p);                                                        \
    }                                                                                         \
    template <typename T>                                                                     \
    __global__ void __launch_bounds__(channels::kBlock)                                       \
        name##_elements(const Map map, const __grid_constant__ channels::mapped<T, inputs> p) \
    {                                                                                         \
        channels::apply_elements(map, p);                                                     \
    }                                                                                         \
    template <typename T>                                                                     \
    __global__ void __launch_bounds__(channels::kBlock)                                       \
        name##_last(const Map map, const __grid_constant__ channels::mapped<T, inputs> p)     \
    {                                                                                         \
        channels::apply_last(map, p);                                                         \
    }                                                                                         \
    template <typename T> channels::map_kernels<Map, T, inputs> name##_of()                   \
    {                                                                                         \
        return {name##_packs<T>, name##_elements<T>, name##_last<T>};                         \
    }

#endif
