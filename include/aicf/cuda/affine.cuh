// Numbers and their 8-bit stand-ins, x = (q - zero) * scale, with one scale for all or one for each
// index of an axis: the frame of quantize and dequantize. All tensors dense: x and out [L, C, R],
// scale and zero one or C.
//
// An op's file defines its kernels with the bodies of here and a functor `Map`, of which
//   Map::in, Map::out            are the elements' types,
//   map.grid(scale, zero)        is what an element needs of its channel, a Map::grid_t,
//   Map::kDear                   whether grids cost more to make than to load,
//   map.unit(raw, grids)         maps what a thread moves at once, and
//   map.one(x, grid)             one element.
//   vec      16 bytes of the wider side at a time, and as many elements of the other; a head is
//            peeled where both sides then are aligned
//   same     the same of small tensors of one channel, with parameters of its own
//   columns  the same where every element of a row has a channel of its own and grids are dear: a
//            thread goes down some rows, so that it makes them once
//   runs     the same of large tensors where many neighbours have one channel: a block has part of
//            one such run, so that a thread makes one grid
//   scalar   element by element
// Bound by bytes.
#ifndef AICF_CUDA_AFFINE_CUH
#define AICF_CUDA_AFFINE_CUH

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::affine {

constexpr int kBlock = 256;
constexpr int kUnits = 4; // of a thread of large tensors: that many loads are on their way at once
constexpr int64_t kEnoughBlocks = 1056; // fill the largest machines at 8 a multiprocessor

// Scale and zero of element i are those of index i / R % C.
struct channels {
    const float *scale;
    const int32_t *zero; // NULL: 0
    int64_t C, R;
    bool one, narrow; // all elements have channel 0; indexes are below 2^31
    bool packs;       // R is 1, and four channels, of a multiple of 16, lie on 16-byte boundaries
    divider by_r, by_c;
};

struct position {
    int64_t c, r; // the channel, and the distance from where its run of R began
};

__device__ inline position
find(const channels &ch, int64_t i)
{
    if (ch.one) {
        return {0, 0};
    }
    if (ch.narrow) {
        uint32_t run = divide(static_cast<uint32_t>(i), ch.by_r);
        uint32_t outer = divide(run, ch.by_c);
        return {run - outer * ch.by_c.divisor, static_cast<uint32_t>(i) - run * ch.by_r.divisor};
    }
    int64_t run = i / ch.R;
    return {run % ch.C, i - run * ch.R};
}

template <typename Map>
__device__ inline typename Map::grid_t
grid_at(const Map &map, const channels &ch, int64_t c)
{
    return map.grid(ch.scale[c], ch.zero ? ch.zero[c] : 0);
}

// Elements moved at once: 16 bytes on the wider side.
template <typename Map>
constexpr int kSize = kPackBytes / static_cast<int>(
                                       sizeof(typename Map::in) > sizeof(typename Map::out)
                                           ? sizeof(typename Map::in)
                                           : sizeof(typename Map::out));

template <typename Map> using in_pack = pack<typename Map::in, kSize<Map>>;
template <typename Map> using out_pack = pack<typename Map::out, kSize<Map>>;

// Bytes as they lie in memory: a pack's lanes would be taken apart behind each load.
template <int kBytes> struct alignas(kBytes) raw {
    uint32_t word[kBytes / 4];
};

// By one instruction: see store_bytes.
template <int kBytes>
__device__ inline void
store_raw(void *to, const raw<kBytes> &x)
{
    words w = {};
#pragma unroll
    for (int i = 0; i < kBytes / 4; i++) {
        w.word[i] = x.word[i];
    }
    store_bytes<kBytes>(to, w);
}

template <typename Map> using in_raw = raw<kSize<Map> *static_cast<int>(sizeof(typename Map::in))>;
template <typename Map>
using out_raw = raw<kSize<Map> *static_cast<int>(sizeof(typename Map::out))>;

template <typename Map> struct operands {
    const typename Map::in *x;
    typename Map::out *out;
    int64_t head, n;
    int64_t bands, rows; // columns: blocks side by side in a row, rows that a block goes down
    divider parts;       // runs: blocks of one
    channels ch;
    Map map;
};

// All lanes by one grid.
template <typename Map>
__device__ inline out_raw<Map>
map_same(const operands<Map> &p, const in_raw<Map> &held, const typename Map::grid_t &grid)
{
    typename Map::grid_t grids[kSize<Map>];
#pragma unroll
    for (int lane = 0; lane < kSize<Map>; lane++) {
        grids[lane] = grid;
    }
    return p.map.unit(held, grids);
}

// The unit whose first element is number i; `common` is the grid of all where there is one.
template <typename Map>
__device__ inline out_raw<Map>
map_unit(
    const operands<Map> &p, const in_raw<Map> &held, int64_t i, const typename Map::grid_t &common)
{
    if (p.ch.one) {
        return map_same(p, held, common);
    }
    position at = find(p.ch, i);
    typename Map::grid_t grids[kSize<Map>];
    if (p.ch.packs && p.head == 0) {
#pragma unroll
        for (int lane = 0; lane < kSize<Map>; lane += 4) {
            words scale = load_words(p.ch.scale + at.c + lane);
            words zero = p.ch.zero ? load_words(p.ch.zero + at.c + lane) : words{};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int32_t z = static_cast<int32_t>(zero.word[i]);
                grids[lane + i] = p.map.grid(__uint_as_float(scale.word[i]), z);
            }
        }
        return p.map.unit(held, grids);
    }
    typename Map::grid_t grid = grid_at(p.map, p.ch, at.c);
    if (at.r + kSize<Map> <= p.ch.R) {
        return map_same(p, held, grid);
    }
#pragma unroll
    for (int lane = 0; lane < kSize<Map>; lane++) {
        if (at.r == p.ch.R) {
            at.r = 0;
            at.c = at.c + 1 == p.ch.C ? 0 : at.c + 1;
            grid = grid_at(p.map, p.ch, at.c);
        }
        grids[lane] = grid;
        at.r++;
    }
    return p.map.unit(held, grids);
}

template <typename Map>
__device__ inline void
map_one(const operands<Map> &p, int64_t i)
{
    p.out[i] = p.map.one(p.x[i], grid_at(p.map, p.ch, find(p.ch, i).c));
}

// Requires both sides aligned to a unit behind p.head elements. Block 0 does the head and the tail.
template <typename Map, int kCount>
__device__ inline void
vec_body(const operands<Map> &p)
{
    constexpr int kLanes = kSize<Map>;
    int64_t units = (p.n - p.head) / kLanes;
    int64_t first = blockIdx.x * int64_t{kBlock * kCount} + threadIdx.x;
    if constexpr (kCount == 1) {
        ptx::let_next_launch_begin();
        ptx::wait_for_launch_before();
    }

    in_raw<Map> held[kCount];
#pragma unroll
    for (int u = 0; u < kCount; u++) {
        int64_t unit = first + u * kBlock;
        if (unit < units) {
            held[u] = *reinterpret_cast<const in_raw<Map> *>(p.x + p.head + unit * kLanes);
        }
    }
    typename Map::grid_t common = {};
    if (p.ch.one) {
        common = grid_at(p.map, p.ch, 0);
    }
#pragma unroll
    for (int u = 0; u < kCount; u++) {
        int64_t unit = first + u * kBlock;
        if (unit < units) {
            int64_t i = p.head + unit * kLanes;
            store_raw(p.out + i, map_unit(p, held[u], i, common));
        }
    }

    if (blockIdx.x == 0) {
        int64_t tail = p.head + units * kLanes + threadIdx.x;
        if (threadIdx.x < p.head) {
            map_one(p, threadIdx.x);
        }
        if (tail < p.n) {
            map_one(p, tail);
        }
    }
}

// What a launch of one channel alone needs.
template <typename Map> struct same_operands {
    const typename Map::in *x;
    typename Map::out *out;
    const float *scale;
    const int32_t *zero; // NULL: 0
    int64_t head, n;
    Map map;
};

// As vec_body, one unit a thread; the launch may begin while the one before it ends.
template <typename Map>
__device__ inline void
same_body(const same_operands<Map> &p)
{
    constexpr int kLanes = kSize<Map>;
    ptx::let_next_launch_begin();
    int64_t units = (p.n - p.head) / kLanes, unit = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    const typename Map::in *from = p.x + p.head + unit * kLanes;
    in_raw<Map> held;
    ptx::wait_for_launch_before();
    if (unit < units) {
        held = *reinterpret_cast<const in_raw<Map> *>(from);
    }
    typename Map::grid_t grid = p.map.grid(*p.scale, p.zero ? *p.zero : 0);
    if (unit < units) {
        typename Map::grid_t grids[kLanes];
#pragma unroll
        for (int lane = 0; lane < kLanes; lane++) {
            grids[lane] = grid;
        }
        store_raw(p.out + p.head + unit * kLanes, p.map.unit(held, grids));
    }
    if (blockIdx.x == 0) {
        int64_t tail = p.head + units * kLanes + threadIdx.x;
        if (threadIdx.x < p.head) {
            p.out[threadIdx.x] = p.map.one(p.x[threadIdx.x], grid);
        }
        if (tail < p.n) {
            p.out[tail] = p.map.one(p.x[tail], grid);
        }
    }
}

// Requires R 1, rows of whole units and both sides aligned to them. A thread has the channels of
// its lanes, and p.rows rows.
template <typename Map>
__device__ inline void
columns_body(const operands<Map> &p)
{
    constexpr int kLanes = kSize<Map>;
    int64_t band = blockIdx.x / p.bands, c = (blockIdx.x - band * p.bands) * kBlock + threadIdx.x;
    c *= kLanes;
    if (c >= p.ch.C) {
        return;
    }
    typename Map::grid_t grids[kLanes];
#pragma unroll
    for (int lane = 0; lane < kLanes; lane++) {
        grids[lane] = grid_at(p.map, p.ch, c + lane);
    }
    int64_t end = (band + 1) * p.rows * p.ch.C < p.n ? (band + 1) * p.rows * p.ch.C : p.n;
    for (int64_t i = band * p.rows * p.ch.C + c; i < end; i += kUnits * p.ch.C) {
        in_raw<Map> held[kUnits];
#pragma unroll
        for (int u = 0; u < kUnits; u++) {
            if (i + u * p.ch.C < end) {
                held[u] = *reinterpret_cast<const in_raw<Map> *>(p.x + i + u * p.ch.C);
            }
        }
#pragma unroll
        for (int u = 0; u < kUnits; u++) {
            if (i + u * p.ch.C < end) {
                store_raw(p.out + i + u * p.ch.C, p.map.unit(held[u], grids));
            }
        }
    }
}

constexpr int kInRun = 2; // units of a thread there

// Requires runs of whole units, whose number is below 2^31, and both sides aligned to them.
template <typename Map>
__device__ inline void
runs_body(const operands<Map> &p)
{
    constexpr int kLanes = kSize<Map>;
    uint32_t run = divide(blockIdx.x, p.parts);
    int64_t first = (blockIdx.x - run * p.parts.divisor) * int64_t{kBlock * kInRun} + threadIdx.x;
    int64_t units = p.ch.R / kLanes, base = run * p.ch.R;
    in_raw<Map> held[kInRun];
#pragma unroll
    for (int u = 0; u < kInRun; u++) {
        if (first + u * kBlock < units) {
            const typename Map::in *from = p.x + base + (first + u * kBlock) * kLanes;
            held[u] = *reinterpret_cast<const in_raw<Map> *>(from);
        }
    }
    uint32_t outer = divide(run, p.ch.by_c);
    typename Map::grid_t grid = grid_at(p.map, p.ch, run - outer * p.ch.by_c.divisor);
#pragma unroll
    for (int u = 0; u < kInRun; u++) {
        if (first + u * kBlock < units) {
            typename Map::out *to = p.out + base + (first + u * kBlock) * kLanes;
            store_raw(to, map_same(p, held[u], grid));
        }
    }
}

template <typename Map>
__device__ inline void
scalar_body(const operands<Map> &p)
{
    int64_t first = blockIdx.x * int64_t{kBlock * kUnits} + threadIdx.x;
#pragma unroll
    for (int u = 0; u < kUnits; u++) {
        if (first + u * kBlock < p.n) {
            map_one(p, first + u * kBlock);
        }
    }
}

inline channels
channels_of(const float *scale, const int32_t *zero, int64_t L, int64_t C, int64_t R, int64_t S)
{
    channels ch = {scale, zero, C, R, S == 1, L * C * R < int64_t{1} << 31, false, {}, {}};
    ch.packs = !ch.one && R == 1 && C % 16 == 0 && phase_of(scale) == 0 && phase_of(zero) == 0;
    if (!ch.one && ch.narrow) {
        ch.by_r = divider_of(R);
    }
    if (!ch.one && C < int64_t{1} << 31) {
        ch.by_c = divider_of(C);
    }
    return ch;
}

// ---- launches -----------------------------------------------------------------------------------

// Operands of an op's Maps are alike but for what their pointers are to, so host code is one for
// all of them: that of `Any`, a Map of which in and out are void.

// The kernels of an op for one Map, and bytes of its elements.
template <typename Any> struct kernels {
    void (*vec)(operands<Any>);     // kUnits a thread
    void (*vec_one)(operands<Any>); // one: it waits for the launch before it
    void (*same)(same_operands<Any>);
    void (*columns)(operands<Any>); // NULL: grids are not dear
    void (*runs)(operands<Any>);
    void (*scalar)(operands<Any>);
    int in, out, size; // size: kSize
};

// Elements before both sides are aligned to a unit; -1: they never are together.
template <typename Any>
int64_t
head_together(const kernels<Any> &k, const operands<Any> &p)
{
    uintptr_t x = reinterpret_cast<uintptr_t>(p.x), out = reinterpret_cast<uintptr_t>(p.out);
    for (int head = 0; head < k.size; head++, x += k.in, out += k.out) {
        if (x % (k.size * k.in) == 0 && out % (k.size * k.out) == 0) {
            return head < p.n ? head : p.n;
        }
    }
    return -1;
}

template <typename Any>
aicf_status
launch_columns(const kernels<Any> &k, operands<Any> p, aicf_stream stream)
{
    p.bands = ceil_div(p.ch.C / k.size, kBlock);
    int64_t rows = p.n / p.ch.C, groups = ceil_div(rows, kUnits);
    int64_t most = groups * p.bands / (2 * kEnoughBlocks); // that still fill the machine twice
    p.rows = kUnits * (most < 1 ? 1 : most > 8 ? 8 : most);
    int64_t blocks = p.bands * ceil_div(rows, p.rows);
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return aicf::launch(k.columns, static_cast<unsigned>(blocks), kBlock, 0, stream, p);
}

// Whether runs are taken; fills p.parts and the number of blocks.
template <typename Any>
bool
has_runs(const kernels<Any> &k, operands<Any> *p, int64_t *blocks)
{
    int64_t units = p->ch.R / k.size, runs = p->n / p->ch.R;
    int64_t parts = ceil_div(units, kBlock * kInRun);
    *blocks = runs * parts;
    if (p->ch.one || p->head != 0 || p->ch.R % k.size != 0 || units < kBlock ||
        *blocks < kEnoughBlocks * kUnits / kInRun || *blocks > kMostBlocks) {
        return false;
    }
    p->parts = divider_of(parts);
    return true;
}

// Requires n above 0 before channels_of.
template <typename Any>
aicf_status
launch(const kernels<Any> &k, operands<Any> p, aicf_stream stream)
{
    p.head = head_together(k, p);
    if (p.head < 0) {
        unsigned blocks = static_cast<unsigned>(ceil_div(p.n, kBlock * kUnits));
        return aicf::launch(k.scalar, blocks, kBlock, 0, stream, p);
    }
    if (k.columns && !p.ch.one && p.ch.R == 1 && p.head == 0 && p.ch.C % k.size == 0) {
        return launch_columns(k, p, stream);
    }
    int64_t most;
    if (has_runs(k, &p, &most)) {
        return aicf::launch(k.runs, static_cast<unsigned>(most), kBlock, 0, stream, p);
    }
    int64_t units = p.n / k.size + 1;
    bool large = units >= kEnoughBlocks * kBlock * kUnits;
    unsigned blocks =
        static_cast<unsigned>(ceil_div(units, int64_t{kBlock} * (large ? kUnits : 1)));
    if (!large && p.ch.one) {
        same_operands<Any> same = {p.x, p.out, p.ch.scale, p.ch.zero, p.head, p.n, p.map};
        return launch_waiting(k.same, blocks, kBlock, 0, stream, same);
    }
    return large ? aicf::launch(k.vec, blocks, kBlock, 0, stream, p)
                 : launch_waiting(k.vec_one, blocks, kBlock, 0, stream, p);
}

} // namespace aicf::affine

// The kernels of an op, in the op's own namespace, and the table of them for a Map.
#define AICF_AFFINE_KERNELS                                                        \
    template <typename Map, int kCount>                                            \
    __global__ void __launch_bounds__(affine::kBlock)                              \
        vec(const __grid_constant__ affine::operands<Map> p)                       \
    {                                                                              \
        affine::vec_body<Map, kCount>(p);                                          \
    }                                                                              \
    template <typename Map>                                                        \
    __global__ void __launch_bounds__(affine::kBlock)                              \
        same(const __grid_constant__ affine::same_operands<Map> p)                 \
    {                                                                              \
        affine::same_body(p);                                                      \
    }                                                                              \
    template <typename Map>                                                        \
    __global__ void __launch_bounds__(affine::kBlock)                              \
        columns(const __grid_constant__ affine::operands<Map> p)                   \
    {                                                                              \
        affine::columns_body(p);                                                   \
    }                                                                              \
    template <typename Map>                                                        \
    __global__ void __launch_bounds__(affine::kBlock)                              \
        runs(const __grid_constant__ affine::operands<Map> p)                      \
    {                                                                              \
        affine::runs_body(p);                                                      \
    }                                                                              \
    template <typename Map>                                                        \
    __global__ void __launch_bounds__(affine::kBlock)                              \
        scalar(const __grid_constant__ affine::operands<Map> p)                    \
    {                                                                              \
        affine::scalar_body(p);                                                    \
    }                                                                              \
    template <typename Any, typename Map> affine::kernels<Any> kernels_of()        \
    {                                                                              \
        using operands = affine::operands<Any>;                                    \
        using same_operands = affine::same_operands<Any>;                          \
        static_assert(sizeof(operands) == sizeof(affine::operands<Map>), "alike"); \
        using kernel = void (*)(operands);                                         \
        affine::kernels<Any> k = {};                                               \
        k.vec = reinterpret_cast<kernel>(vec<Map, affine::kUnits>);                \
        k.vec_one = reinterpret_cast<kernel>(vec<Map, 1>);                         \
        k.same = reinterpret_cast<void (*)(same_operands)>(same<Map>);             \
        k.runs = reinterpret_cast<kernel>(runs<Map>);                              \
        k.scalar = reinterpret_cast<kernel>(scalar<Map>);                          \
        if constexpr (Map::kDear) {                                                \
            k.columns = reinterpret_cast<kernel>(columns<Map>);                    \
        }                                                                          \
        k.in = sizeof(typename Map::in);                                           \
        k.out = sizeof(typename Map::out);                                         \
        k.size = affine::kSize<Map>;                                               \
        return k;                                                                  \
    }

#endif
