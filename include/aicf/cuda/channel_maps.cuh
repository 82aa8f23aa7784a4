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

// The map's launch, as far as it does not know the dtype: once a module.
struct map_plan {
    enum { kPacks, kElements, kLast } way;
    int64_t blocks, count, head;
    positions where;
    int64_t rows;
    int width;
};

// `phases`: of out and of each input; `item`: bytes of an element.
__attribute__((noinline)) inline map_plan
plan_map(const int64_t *phases, int inputs, int64_t item, const extent &e, bool channels_last)
{
    map_plan m = {};
    int64_t size = kPackBytes / item;
    bool together = true;
    for (int j = 1; j <= inputs; j++) {
        together = together && phases[j] == phases[0];
    }
    m.count = e.N * e.C * e.R;
    if (channels_last && e.C % size == 0 && phases[0] == 0 && together) {
        m.way = map_plan::kLast;
        m.rows = e.N * e.R;
        m.width = width_for(e.C / size);
        int64_t tiles = ceil_div(e.C / size, m.width);
        int64_t rows = ceil_div(m.rows, 4 * (kBlock / m.width)); // blocks that have four packs
        m.blocks = least(ceil_div(4 * kEnoughBlocks, tiles), rows) * tiles;
        return m;
    }
    m.way = together ? map_plan::kPacks : map_plan::kElements;
    m.where = {m.count >= int64_t{1} << 31, channels_last ? 1 : e.R, e.C, {}, {}};
    if (!m.where.wide) {
        m.where.by_r = divider_of(m.where.R);
        m.where.by_c = divider_of(m.where.C);
    }
    m.head = least(phases[0] == 0 ? 0 : (kPackBytes - phases[0]) / item, m.count);
    m.blocks =
        together ? ceil_div(m.count / size + 1, kBlock) : ceil_div(m.count, kBlock * kUnroll);
    return m;
}

// The launch before this one may be of sums or of their settling, and still run.
template <typename Map, typename T, int kIn>
aicf_status
launch_map(
    const map_kernels<Map, T, kIn> &k, const Map &map, mapped<T, kIn> p, const extent &e,
    bool channels_last, bool waiting, aicf_stream stream)
{
    int64_t phases[kIn + 1] = {phase_of(p.out)};
    for (int j = 0; j < kIn; j++) {
        phases[j + 1] = phase_of(p.in[j]);
    }
    map_plan m = plan_map(phases, kIn, sizeof(T), e, channels_last);
    if (m.blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    p.count = m.count;
    p.head = m.head;
    p.where = m.where;
    p.rows = m.rows;
    p.C = e.C;
    p.width = m.width;
    auto kernel = m.way == map_plan::kLast    ? k.last
                  : m.way == map_plan::kPacks ? k.packs
                                              : k.elements;
    unsigned blocks = static_cast<unsigned>(m.blocks);
    return waiting ? launch_waiting(kernel, blocks, kBlock, 0, stream, map, p)
                   : aicf::launch(kernel, blocks, kBlock, 0, stream, map, p);
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
