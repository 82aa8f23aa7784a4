// embedding_bwd (cuda): gw[v] = gy summed over the places where idx is v, in their order, in f32,
// rounded once; 0 where there is none. Dense f32, f16 and bf16. The places are sorted by v, so that
// no sum needs atomics and its bits are the same each time:
//   count, scatter   once for each 8 bits of v: what of each digit there is in each block's share,
//   and
//                    where it goes, in order. The first pass reads idx, where padding_idx and what
//                    lies outside of gw become V, and so end up behind all others.
//   rank             instead, of so few places that one block compares them all
//   bounds           where the places of each v begin; of few, whoever wants to know looks for it
//   pieces           sums of pieces of those v that have many places
//   rows             gw, from the places of a v or from its pieces
// Bound by bytes.
#include <aicf_ops/embedding_bwd.h>

#include <aicf/cuda/digits.cuh>
#include <aicf/cuda/lanes.cuh>
#include <aicf/cuda/launch.cuh>

namespace aicf::embedding_bwd {

constexpr int kBlock = 256;
constexpr int kWarp = 32, kWarps = kBlock / kWarp;
constexpr int kDigits = 256; // a digit has 8 bits
static_assert(kDigits == kBlock, "a thread a digit");
constexpr int kItems = 4; // keys that a thread moves at once
constexpr int kTile = kBlock * kItems;
// Blocks of a pass, at most; the row's workspace has room for the counts of so many. Each block
// adds up the counts of all.
constexpr int64_t kMostBlocks = 128;
// A piece has 64 places or more, and there are 512 pieces or fewer, as the row's workspace says.
constexpr int64_t kLeastPiece = 64, kMostPieces = 512;
constexpr int kFew = 1024; // places that one block ranks

// ---- sort ---------------------------------------------------------------------------------------

// Keys of the first pass are made of idx.
template <typename I> struct raw_keys {
    const I *idx;
    int64_t V, padding;

    __device__ uint32_t key(int64_t i) const
    {
        int64_t v = idx[i];
        return static_cast<uint32_t>(v >= 0 && v < V && v != padding ? v : V);
    }

    __device__ uint32_t place(int64_t i) const
    {
        return static_cast<uint32_t>(i);
    }
};

struct sorted_keys {
    const uint32_t *keys, *places;

    __device__ uint32_t key(int64_t i) const
    {
        return keys[i];
    }

    __device__ uint32_t place(int64_t i) const
    {
        return places[i];
    }
};

// One pass: `n` keys, of which each block has `share`, whole tiles. counts[digit * blocks + block].
struct pass {
    uint32_t *counts, *keys, *places;
    int64_t n, share;
    int blocks, shift;
};

__device__ inline uint32_t
digit_of(uint32_t key, int shift)
{
    return key >> shift & (kDigits - 1);
}

template <typename Keys>
__global__ void
__launch_bounds__(kBlock) count(Keys from, pass p)
{
    __shared__ uint32_t found[kDigits];
    found[threadIdx.x] = 0;
    __syncthreads();
    int64_t begin = blockIdx.x * p.share;
    int64_t end = begin + p.share < p.n ? begin + p.share : p.n;
    for (int64_t i = begin + threadIdx.x; i < end; i += kBlock) {
        atomicAdd(&found[digit_of(from.key(i), p.shift)], 1u); // a count: any order does
    }
    __syncthreads();
    p.counts[threadIdx.x * p.blocks + blockIdx.x] = found[threadIdx.x];
}

// The sum of x over the threads before this one.
__device__ inline uint32_t
sum_before(uint32_t x)
{
    __shared__ uint32_t warps[kWarps];
    int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    uint32_t sum = x;
    for (int distance = 1; distance < kWarp; distance *= 2) {
        uint32_t other = __shfl_up_sync(0xffffffff, sum, distance);
        sum += lane >= distance ? other : 0;
    }
    if (lane == kWarp - 1) {
        warps[warp] = sum;
    }
    __syncthreads();
    for (int w = 0; w < warp; w++) {
        sum += warps[w];
    }
    return sum - x;
}

// Where this block's first key of digit `threadIdx.x` goes.
__device__ inline uint32_t
place_of_digit(const pass &p)
{
    const uint32_t *counts = p.counts + threadIdx.x * p.blocks;
    uint32_t before = 0, all = 0;
    for (int block = 0; block < p.blocks; block++) {
        uint32_t found = counts[block];
        before += block < static_cast<int>(blockIdx.x) ? found : 0;
        all += found;
    }
    return sum_before(all) + before;
}

// Tile by tile. In a tile a warp has kItems * kWarp keys side by side, which it ranks kWarp at a
// time among those of its own with the same digit; then a thread a digit ranks the warps.
template <typename Keys>
__global__ void
__launch_bounds__(kBlock) scatter(Keys from, pass p)
{
    __shared__ uint32_t next[kWarps][kDigits];
    int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    uint32_t place = place_of_digit(p);
    int64_t begin = blockIdx.x * p.share;
    int64_t end = begin + p.share < p.n ? begin + p.share : p.n;

    for (int64_t tile = begin; tile < end; tile += kTile) {
        for (int w = 0; w < kWarps; w++) {
            next[w][threadIdx.x] = 0;
        }
        __syncthreads();

        uint32_t key[kItems], rank[kItems];
#pragma unroll
        for (int k = 0; k < kItems; k++) {
            int64_t i = tile + (warp * kItems + k) * kWarp + lane;
            key[k] = i < end ? from.key(i) : 0;
            uint32_t digit = i < end ? digit_of(key[k], p.shift) : kDigits;
            uint32_t alike = __match_any_sync(0xffffffff, digit);
            uint32_t before = __popc(alike & ((1u << lane) - 1));
            rank[k] = (i < end ? next[warp][digit] : 0) + before;
            __syncwarp();
            if (i < end && before == 0) {
                next[warp][digit] += __popc(alike);
            }
            __syncwarp();
        }
        __syncthreads();

        for (int w = 0; w < kWarps; w++) {
            uint32_t found = next[w][threadIdx.x];
            next[w][threadIdx.x] = place;
            place += found;
        }
        __syncthreads();

#pragma unroll
        for (int k = 0; k < kItems; k++) {
            int64_t i = tile + (warp * kItems + k) * kWarp + lane;
            if (i < end) {
                uint32_t to = next[warp][digit_of(key[k], p.shift)] + rank[k];
                p.keys[to] = key[k];
                p.places[to] = from.place(i);
            }
        }
        __syncthreads();
    }
}

// One block. A key's place is the count of those below it, and of its like before it.
template <typename Keys>
__global__ void
__launch_bounds__(kFew) rank(Keys from, uint32_t *keys, uint32_t *places, int n)
{
    __shared__ uint32_t all[kFew];
    int i = static_cast<int>(threadIdx.x);
    if (i < n) {
        all[i] = from.key(i);
    }
    __syncthreads();
    if (i >= n) {
        return;
    }
    uint32_t key = all[i];
    int to = 0;
#pragma unroll 8
    for (int j = 0; j < n; j++) {
        to += all[j] < key || (all[j] == key && j < i);
    }
    keys[to] = key;
    places[to] = static_cast<uint32_t>(i);
}

// How many of the sorted keys are below v.
__device__ inline uint32_t
count_below(const uint32_t *keys, int64_t n, int64_t v)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        bool below = keys[middle] < v;
        low = below ? middle + 1 : low;
        high = below ? high : middle;
    }
    return static_cast<uint32_t>(low);
}

// begin[v] for v in [0, V].
__global__ void
__launch_bounds__(kBlock) bounds(const uint32_t *keys, uint32_t *begin, int64_t n, int64_t V)
{
    int64_t v = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (v <= V) {
        begin[v] = count_below(keys, n, v);
    }
}

// ---- sums ---------------------------------------------------------------------------------------

// Packs of a row that a thread sums: 16 floats of them, or 4 of packs of one. What tells it where
// its places are is then read once for all.
template <int kSize> constexpr int kPacks = kSize == 1 ? 4 : 16 / kSize;

template <typename T> struct operands {
    const T *gy;
    T *gw;
    const uint32_t *keys, *places;
    const uint32_t *begin; // NULL: of few places
    float *partial;        // of slot s: [s * D, (s + 1) * D)
    int64_t n, V, D, piece;
    digits strips; // threads a row: one has the packs strip, strip + strips, ...
    int64_t threads;
};

struct span {
    int64_t begin, end;
};

// The sorted places of v.
template <typename T>
__device__ inline span
places_of(const operands<T> &p, int64_t v)
{
    if (p.begin) {
        return {p.begin[v], p.begin[v + 1]};
    }
    return {count_below(p.keys, p.n, v), count_below(p.keys, p.n, v + 1)};
}

template <typename T, int kSize> struct strip {
    int64_t row, first, step; // elements of its first pack, to the next
    float sum[kPacks<kSize>][kSize];

    __device__ strip(const operands<T> &p, int64_t thread) : row(thread)
    {
        first = p.strips.take(row) * kSize;
        step = p.strips.size * kSize;
#pragma unroll
        for (int k = 0; k < kPacks<kSize>; k++) {
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                sum[k][lane] = 0.0f;
            }
        }
    }

    // Adds gy at the sorted places [i, end), two at once.
    __device__ void add_places(const operands<T> &p, int64_t i, int64_t end)
    {
        constexpr int kUnroll = 2;
        for (; i < end; i += kUnroll) {
            lanes<T, kSize> held[kUnroll][kPacks<kSize>];
#pragma unroll
            for (int u = 0; u < kUnroll; u++) {
                const T *gy = p.gy;
                if (i + u < end) {
                    gy += p.places[i + u] * p.D;
                }
#pragma unroll
                for (int k = 0; k < kPacks<kSize>; k++) {
                    held[u][k].fill(0);
                    if (i + u < end && first + k * step < p.D) {
                        held[u][k].load(gy + first + k * step);
                    }
                }
            }
#pragma unroll
            for (int u = 0; u < kUnroll; u++) {
#pragma unroll
                for (int k = 0; k < kPacks<kSize>; k++) {
                    float x[kSize];
                    held[u][k].unpack(x);
#pragma unroll
                    for (int lane = 0; lane < kSize; lane++) {
                        sum[k][lane] += x[lane];
                    }
                }
            }
        }
    }

    __device__ void add_partial(const operands<T> &p, int64_t slot)
    {
#pragma unroll
        for (int k = 0; k < kPacks<kSize>; k++) {
            if (first + k * step < p.D) {
#pragma unroll
                for (int lane = 0; lane < kSize; lane++) {
                    sum[k][lane] += p.partial[slot * p.D + first + k * step + lane];
                }
            }
        }
    }
};

// The sorted places are cut into pieces of `piece`. Slot 2 * t has what piece t holds of the v at
// its first place, slot 2 * t + 1 of the one at its last place if that began in it: of those alone
// that have more than `piece` places.
template <typename T, int kSize>
__global__ void
__launch_bounds__(kBlock) pieces(const __grid_constant__ operands<T> p)
{
    int64_t thread = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (thread >= p.threads) {
        return;
    }
    strip<T, kSize> s(p, thread);
    int64_t first = s.row / 2 * p.piece;
    int64_t end = first + p.piece < p.n ? first + p.piece : p.n;
    uint32_t v = p.keys[s.row % 2 == 0 ? first : end - 1];
    if (v >= p.V) {
        return;
    }
    span of_v = places_of(p, v);
    if (of_v.end - of_v.begin <= p.piece || (s.row % 2 == 1 && of_v.begin <= first)) {
        return;
    }
    s.add_places(p, of_v.begin > first ? of_v.begin : first, of_v.end < end ? of_v.end : end);
#pragma unroll
    for (int k = 0; k < kPacks<kSize>; k++) {
        if (s.first + k * s.step < p.D) {
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                p.partial[s.row * p.D + s.first + k * s.step + lane] = s.sum[k][lane];
            }
        }
    }
}

template <typename T, int kSize>
__global__ void
__launch_bounds__(kBlock) rows(const __grid_constant__ operands<T> p)
{
    int64_t thread = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (thread >= p.threads) {
        return;
    }
    strip<T, kSize> s(p, thread);
    span of_row = places_of(p, s.row);
    if (of_row.end - of_row.begin <= p.piece) {
        s.add_places(p, of_row.begin, of_row.end);
    } else {
        int64_t first = of_row.begin / p.piece, last = (of_row.end - 1) / p.piece;
        s.add_partial(p, 2 * first + (of_row.begin % p.piece != 0));
#pragma unroll 4
        for (int64_t t = first + 1; t <= last; t++) {
            s.add_partial(p, 2 * t);
        }
    }
#pragma unroll
    for (int k = 0; k < kPacks<kSize>; k++) {
        if (s.first + k * s.step < p.D) {
            store_lanes(p.gw + s.row * p.D + s.first + k * s.step, s.sum[k]);
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

// The row's workspace, in this order.
struct room {
    uint32_t *keys[2], *places[2]; // n each
    uint32_t *counts;              // kDigits * kMostBlocks
    float *partial;                // D * slots
    uint32_t *begin;               // V + 1

    room(void *workspace, int64_t n, int64_t D, int64_t slots)
    {
        uint32_t *at = static_cast<uint32_t *>(workspace);
        keys[0] = at;
        keys[1] = at + n;
        places[0] = at + 2 * n;
        places[1] = at + 3 * n;
        counts = at + 4 * n;
        partial = reinterpret_cast<float *>(counts + kDigits * kMostBlocks);
        begin = reinterpret_cast<uint32_t *>(partial + D * slots);
    }
};

template <typename Keys>
aicf_status
launch_pass(Keys from, const pass &p, aicf_stream stream)
{
    unsigned blocks = static_cast<unsigned>(p.blocks);
    aicf_status status = aicf::launch(count<Keys>, blocks, kBlock, 0, stream, from, p);
    return status.kind ? status : aicf::launch(scatter<Keys>, blocks, kBlock, 0, stream, from, p);
}

// Leaves the sorted keys and places in keys[which] and places[which].
template <typename I>
aicf_status
sort(raw_keys<I> from, const room &r, int64_t n, int *which, aicf_stream stream)
{
    int64_t tiles = ceil_div(n, kTile), blocks = tiles < kMostBlocks ? tiles : kMostBlocks;
    int64_t share = ceil_div(tiles, blocks) * kTile;
    pass p = {r.counts, nullptr, nullptr, n, share, static_cast<int>(ceil_div(n, share)), 0};
    *which = 1;
    do {
        sorted_keys last = {r.keys[*which], r.places[*which]};
        *which = 1 - *which;
        p.keys = r.keys[*which];
        p.places = r.places[*which];
        aicf_status status =
            p.shift == 0 ? launch_pass(from, p, stream) : launch_pass(last, p, stream);
        if (status.kind) {
            return status;
        }
        p.shift += 8;
    } while (from.V >> p.shift != 0);
    return aicf_ok();
}

template <typename T, int kSize>
aicf_status
launch_sums(operands<T> p, int64_t slots, aicf_stream stream)
{
    int64_t strips = ceil_div(p.D / kSize, kPacks<kSize>);
    p.strips = digits_of(strips, (slots > p.V ? slots : p.V) * strips);
    if (slots > 0) {
        p.threads = slots * strips;
        aicf_status status = aicf::launch(
            pieces<T, kSize>, static_cast<unsigned>(ceil_div(p.threads, kBlock)), kBlock, 0, stream,
            p);
        if (status.kind) {
            return status;
        }
    }
    p.threads = p.V * strips;
    return aicf::launch(
        rows<T, kSize>, static_cast<unsigned>(ceil_div(p.threads, kBlock)), kBlock, 0, stream, p);
}

template <typename T, typename I>
aicf_status
launch(
    const T *gy, const I *idx, T *gw, int64_t n, int64_t D, int64_t V, int64_t padding,
    void *workspace, aicf_stream stream)
{
    int64_t most = ceil_div(n, kLeastPiece) < kMostPieces ? ceil_div(n, kLeastPiece) : kMostPieces;
    int64_t piece = n == 0 ? 1 : ceil_div(n, most), slots = n == 0 ? 0 : 2 * ceil_div(n, piece);
    room r(workspace, n, D, 2 * most);
    raw_keys<I> from = {idx, V, padding};
    int which = 0;
    aicf_status status = aicf_ok();
    if (n > kFew) {
        status = sort(from, r, n, &which, stream);
    } else if (n > 0) {
        status = aicf::launch(
            rank<raw_keys<I>>, 1, kFew, 0, stream, from, r.keys[0], r.places[0],
            static_cast<int>(n));
    }
    if (!status.kind && n > kFew) {
        status = aicf::launch(
            bounds, static_cast<unsigned>(ceil_div(V + 1, kBlock)), kBlock, 0, stream,
            r.keys[which], r.begin, n, V);
    }
    if (status.kind) {
        return status;
    }
    operands<T> p = {gy,
                     gw,
                     r.keys[which],
                     r.places[which],
                     n > kFew ? r.begin : nullptr,
                     r.partial,
                     n,
                     V,
                     D,
                     piece,
                     {},
                     0};
    slots = piece < n ? slots : 0; // none has more places than all
    bool whole = D % kPackSize<T> == 0 && phase_of(gy) == 0 && phase_of(gw) == 0;
    return whole ? launch_sums<T, kPackSize<T>>(p, slots, stream)
                 : launch_sums<T, 1>(p, slots, stream);
}

} // namespace aicf::embedding_bwd

#define LAUNCHER(T, s, I, i)                                                                    \
    aicf_status aicf_cuda_embedding_bwd_sorted_##s##_##i(                                       \
        const T *gy, const I *idx, T *gw, int64_t A, int64_t D, int64_t V, int64_t padding_idx, \
        void *workspace, aicf_stream stream)                                                    \
    {                                                                                           \
        return aicf::embedding_bwd::launch(                                                     \
            aicf::device(gy), idx, aicf::device(gw), A, D, V, padding_idx, workspace, stream);  \
    }

#define LAUNCHERS(T, s)          \
    LAUNCHER(T, s, int64_t, i64) \
    LAUNCHER(T, s, int32_t, i32)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
