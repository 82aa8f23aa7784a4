// The map of aicf/cuda/channels.cuh: a formula whose coefficients go by channel.
#ifndef AICF_CUDA_CHANNEL_MAPS_CUH
#define AICF_CUDA_CHANNEL_MAPS_CUH

#include <aicf/cuda/channels.cuh>

namespace aicf::channels {

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

template <typename Map, typename T, int kIn> struct map_kernels {
    void (*packs)(Map, mapped<T, kIn>);
    void (*elements)(Map, mapped<T, kIn>);
    void (*last)(Map, mapped<T, kIn>);
};

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
