// out = xs side by side along one axis (cuda), any dtype: all dense. To bytes it is rows, [L, N *
// R] elements of each tensor, copied behind each other. A thread takes chunks of out of 16 bytes,
// on 16-byte boundaries:
//   whole: where a tensor's address, its rows and their places in out allow it, chunks of x are
//     those of out
//   shifted: else a chunk is put together from the two of x that it lies across; one that lies
//     across two tensors from both, by the thread of the first. Where tensors are narrower than a
//     chunk, and at the ends of out and of a launch's tensors, it is written in part, element by
//     element
// Addresses and places of up to 1,024 tensors travel in the launch's parameters: one launch for all
// of them. A bool becomes 0 or 1. Bound by bytes.
#include <aicf_ops/concat.h>

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/shift.cuh>

namespace aicf::concat {

constexpr int kBlock = 256;
constexpr int kUnroll = 4; // chunks of a thread, of large tensors

// Of those, where a chunk is put together from up to four packs.
template <int kChunks> constexpr int kShifted = kChunks < 2 ? kChunks : 2;

constexpr int64_t kNarrow = 1024;             // bytes of a row: the chunks of two warps
constexpr int64_t kEnoughBlocks = 1056;       // fill the largest machines at 8 a multiprocessor
constexpr int64_t kWord = int64_t{1} << 31;   // a tensor's chunks are fewer
constexpr int64_t kWidest = int64_t{1} << 30; // bytes of a row of a tensor; a multiple of any chunk

// Tensor i has the blocks [first[i], first[i + 1]), and bytes [start[i], start[i + 1]) of a row.
template <int kTensors> struct operands {
    char *out;
    int64_t pitch;
    uint32_t rows;
    int count, item; // tensors; bytes of an element
    bool truth;
    bool joined;   // chunks across two tensors are written at once
    bool around;   // a row's last tensor stands before the next row's first
    float density; // tensors a block
    uint32_t first[kTensors + 1];
    int64_t start[kTensors + 1];
    const char *x[kTensors];
};

// The rows of one tensor.
struct source {
    const char *x;
    uint32_t width, rows;

    // Rows from the second on, to the last but one, have what is read beside them.
    __device__ bool inside(uint32_t row) const
    {
        return row - 1 < (rows > 2 && width >= 2 * kPackBytes ? rows - 2 : 0);
    }

    // Loads the two packs across which the 16 bytes at `from`, of row `row`, lie. False: they reach
    // beyond the tensor.
    __device__ bool load(two_packs *held, const char *from, uint32_t row) const
    {
        return inside(row) ? held->load_inside(from)
                           : held->load(from, x, x + static_cast<uint64_t>(rows) * width);
    }
};

// Where they go.
struct place {
    char *out;
    int64_t pitch;
    bool follows; // its rows' first chunks are those of the tensor before

    // Chunks of x are chunks of out.
    __host__ __device__ bool whole(const source &s) const
    {
        uint64_t all = reinterpret_cast<uintptr_t>(s.x) | reinterpret_cast<uintptr_t>(out) |
                       s.width | static_cast<uint64_t>(s.rows > 1 ? pitch : 0);
        return all % kPackBytes == 0;
    }

    // Of a row; shifted, the most that it can have.
    __host__ __device__ uint32_t chunks(const source &s) const
    {
        uint32_t across = whole(s) ? 0 : follows ? kPackBytes - 1 : 2 * (kPackBytes - 1);
        return (s.width + across) / kPackBytes;
    }
};

// The tensor behind one, of which a chunk may have the first bytes.
struct behind {
    source s;      // no x: there is none
    uint32_t down; // rows: 1 where it is the next row's first
};

// ---- chunks -------------------------------------------------------------------------------------

__device__ inline words
as_truth(words x)
{
#pragma unroll
    for (uint32_t &word : x.word) {
        word = __vsetne4(word, 0); // 1 in each byte that is not 0
    }
    return x;
}

// The chunks of a thread, kBlock apart: row and number in the row.
struct counter {
    uint32_t row, k, chunks;
    uint32_t rows, rest; // of a step

    __device__ counter(uint32_t of_row, uint32_t first)
    {
        chunks = of_row;
        row = first / chunks;
        k = first - row * chunks;
        rows = kBlock / chunks;
        rest = kBlock - rows * chunks;
    }

    __device__ void step()
    {
        row += rows;
        k += rest;
        if (k >= chunks) {
            k -= chunks;
            row++;
        }
    }
};

template <int kChunks>
__device__ inline void
copy_whole(const source &s, const place &p, uint32_t first, bool truth)
{
    counter c(p.chunks(s), first);
    words held[kChunks];
    char *to[kChunks];
    bool there[kChunks];
#pragma unroll
    for (int u = 0; u < kChunks; u++, c.step()) {
        there[u] = c.row < s.rows;
        to[u] = p.out + c.row * p.pitch + int64_t{c.k} * kPackBytes;
        if (there[u]) {
            held[u] = load_words(s.x + (int64_t{first} + u * kBlock) * kPackBytes);
        }
    }
#pragma unroll
    for (int u = 0; u < kChunks; u++) {
        if (there[u]) {
            store_bytes<kPackBytes>(to[u], truth ? as_truth(held[u]) : held[u]);
        }
    }
}

// Elements in bytes [begin, end).
template <typename T>
__device__ inline void
copy_some(char *to, const char *from, int begin, int end, bool truth)
{
#pragma unroll 1
    for (int at = begin; at < end; at += static_cast<int>(sizeof(T))) {
        T x = *reinterpret_cast<const T *>(from + at);
        *reinterpret_cast<T *>(to + at) = truth ? static_cast<T>(x != 0) : x;
    }
}

__device__ inline void
copy_part(char *to, const char *from, int begin, int end, int item, bool truth)
{
    switch (item) {
    case 1: return copy_some<uint8_t>(to, from, begin, end, truth);
    case 2: return copy_some<uint16_t>(to, from, begin, end, truth);
    case 4: return copy_some<uint32_t>(to, from, begin, end, truth);
    default: return copy_some<uint64_t>(to, from, begin, end, truth);
    }
}

// Bytes below `n` of a, the others of b.
__device__ inline words
both(const words &a, const words &b, int n)
{
    words w;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t mask = ptx::low_bits(static_cast<uint32_t>(max(8 * n - 32 * i, 0)));
        w.word[i] = (a.word[i] & mask) | (b.word[i] & ~mask);
    }
    return w;
}

// What a thread holds of a chunk between its loads and its store. kAhead: what is of the tensor
// behind is loaded with the rest, for rows so narrow that every warp has such a chunk; else when it
// is stored, so that more threads fit.
template <bool kAhead> struct held_chunk {
    char *to;
    two_packs own, other; // its bytes from `end` on are those of `other`
    uint32_t row;         // of that tensor
    int end;              // 0: there is nothing to store

    // Writes the chunk at once if it is not whole, or near an end of what it is read from.
    __device__ void load(
        const source &s, const place &p, const behind &b, bool around, const counter &c, int item,
        bool truth)
    {
        char *start = p.out + c.row * p.pitch;
        int phase = static_cast<int>(reinterpret_cast<uintptr_t>(start) % kPackBytes);
        bool follows = p.follows || (around && c.row > 0);
        int at = static_cast<int>(c.k) * kPackBytes + (follows ? -phase & 15 : -phase);
        int left = static_cast<int>(s.width) - at;
        end = 0;
        if (c.row >= s.rows || left <= 0) {
            return;
        }
        to = start + at;
        end = min(left, kPackBytes);
        const char *from = s.x + static_cast<uint64_t>(c.row) * s.width + at;
        bool packs = at >= 0 && s.load(&own, from, c.row), more = false;
        row = c.row + b.down;
        if (left < kPackBytes) {
            more = b.s.x != nullptr && row < s.rows;
            packs = packs && more && b.s.inside(row);
            if (kAhead && packs) {
                other.load_inside(next(b));
            }
        }
        if (!packs) {
            copy_part(to, from, at < 0 ? -at : 0, end, item, truth);
            if (more) {
                copy_part(to, next(b), end, kPackBytes, item, truth);
            }
            end = 0;
        }
    }

    // Where the chunk's first byte would be in the tensor behind.
    __device__ const char *next(const behind &b) const
    {
        return b.s.x + static_cast<uint64_t>(row) * b.s.width - end;
    }

    __device__ void store(const behind &b, bool truth)
    {
        if (end > 0) {
            words w = own.value();
            if (end < kPackBytes) {
                if (!kAhead) {
                    other.load_inside(next(b));
                }
                w = both(w, other.value(), end);
            }
            store_bytes<kPackBytes>(to, truth ? as_truth(w) : w);
        }
    }
};

template <int kChunks, bool kAhead>
__device__ inline void
copy_shifted(
    const source &s, const place &p, const behind &b, bool around, uint32_t first, int item,
    bool truth)
{
    counter c(p.chunks(s), first);
    held_chunk<kAhead> held[kChunks];
#pragma unroll
    for (int u = 0; u < kChunks; u++, c.step()) {
        held[u].load(s, p, b, around, c, item, truth);
    }
#pragma unroll
    for (int u = 0; u < kChunks; u++) {
        held[u].store(b, truth);
    }
}

// ---- kernel -------------------------------------------------------------------------------------

// The tensor whose blocks have this one.
template <int kTensors>
__device__ inline int
tensor_of(const operands<kTensors> &p, uint32_t block)
{
    int low = 0, high = p.count;
    if constexpr (kTensors <= 8) { // all at once: a search waits for each of its loads
#pragma unroll
        for (int i = 1; i < kTensors; i++) {
            low += i < p.count && p.first[i] <= block;
        }
        return low;
    }
    // Where it is if all have as many, which is most often so.
    int guess = min(static_cast<int>(static_cast<float>(block) * p.density), p.count - 1);
    if (p.first[guess] <= block && block < p.first[guess + 1]) {
        return guess;
    }
    while (high - low > 1) {
        int middle = (low + high) / 2;
        bool upper = p.first[middle] <= block;
        low = upper ? middle : low;
        high = upper ? high : middle;
    }
    return low;
}

template <int kTensors>
__host__ __device__ source
source_of(const operands<kTensors> &p, int i)
{
    return {p.x[i], static_cast<uint32_t>(p.start[i + 1] - p.start[i]), p.rows};
}

template <int kTensors>
__host__ __device__ place
place_of(const operands<kTensors> &p, int i)
{
    return {p.out + p.start[i], p.pitch, p.joined && i > 0};
}

template <int kTensors, int kChunks, bool kAhead>
__global__ void
__launch_bounds__(kBlock, kAhead ? 4 : 5) multi(const __grid_constant__ operands<kTensors> p)
{
    ptx::let_next_launch_begin();
    int i = tensor_of(p, blockIdx.x);
    source s = source_of(p, i);
    place to = place_of(p, i);
    uint32_t block = blockIdx.x - p.first[i];
    ptx::wait_for_launch_before();
    if (to.whole(s)) {
        copy_whole<kChunks>(s, to, block * (kBlock * kChunks) + threadIdx.x, p.truth);
        return;
    }
    uint32_t first = block * (kBlock * kShifted<kChunks>)+threadIdx.x;
    behind b = {};
    bool last = i + 1 == p.count;
    if (p.joined && (!last || p.around)) {
        b = {source_of(p, last ? 0 : i + 1), last};
    }
    copy_shifted<kShifted<kChunks>, kAhead>(
        s, to, b, p.joined && p.around && i == 0, first, p.item, p.truth);
}

// ---- launches -----------------------------------------------------------------------------------

// What of a call does not change from launch to launch.
struct joined {
    aicf_list xs;
    char *out;
    int64_t axis, unit; // unit: bytes of one index of the axis
    int64_t pitch;
    int64_t row, rows; // the first of the launch's, and their number
    int item;
    bool truth;
};

static int64_t
width_of(const joined &j, int64_t i)
{
    return j.xs.views[i].sizes[j.axis] * j.unit;
}

// How far a call's launches have come: tensor, bytes of its rows, bytes of out's.
struct progress {
    int64_t tensor, begin, start;
};

// Takes tensors off the list, as many as one launch has room for; empty ones take none, and wide
// ones several, which only those of one row can.
template <int kTensors>
void
take_tensors(const joined &j, progress *at, operands<kTensors> *p)
{
    p->start[0] = at->start;
    p->count = 0;
    p->joined = true;
    while (at->tensor < j.xs.count && p->count < kTensors) {
        int64_t width = width_of(j, at->tensor), left = width - at->begin;
        int64_t piece = left < kWidest ? left : kWidest;
        if (piece > 0) {
            const char *x = static_cast<const char *>(j.xs.views[at->tensor].data);
            p->x[p->count] = x + j.row * width + at->begin;
            p->start[++p->count] = at->start += piece;
            p->joined = p->joined && piece >= kPackBytes;
        }
        at->begin += piece;
        if (piece == left) {
            at->tensor++;
            at->begin = 0;
        }
    }
    p->around = p->start[p->count] - p->start[0] == j.pitch;
}

template <int kTensors, int kChunks>
aicf_status
launch_some(const joined &j, progress *at, aicf_stream stream)
{
    static_assert(sizeof(operands<kTensors>) < 32 * 1024 - 4, "what a launch's parameters hold");
    operands<kTensors> p;
    p.out = j.out + j.row * j.pitch;
    p.pitch = j.pitch;
    p.rows = static_cast<uint32_t>(j.rows);
    p.item = j.item;
    p.truth = j.truth;
    take_tensors(j, at, &p);
    int64_t blocks = 0;
    for (int i = 0; i < p.count; i++) {
        p.first[i] = static_cast<uint32_t>(blocks);
        place to = place_of(p, i);
        source s = source_of(p, i);
        int each = to.whole(s) ? kChunks : kShifted<kChunks>;
        blocks += ceil_div(j.rows * to.chunks(s), kBlock * each);
    }
    p.first[p.count] = static_cast<uint32_t>(blocks);
    p.density = static_cast<float>(p.count) / static_cast<float>(blocks);
    if (blocks == 0) {
        return aicf_ok();
    }
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    bool narrow = kChunks == 1 || (p.start[p.count] - p.start[0]) / p.count < kNarrow;
    return launch_waiting(
        narrow ? multi<kTensors, kChunks, true> : multi < kTensors, kChunks, kChunks == 1 >,
        static_cast<unsigned>(blocks), kBlock, 0, stream, p);
}

template <int kTensors>
aicf_status
launch_all(const joined &j, aicf_stream stream)
{
    bool large = j.rows * j.pitch >= kEnoughBlocks * kBlock * kUnroll * kPackBytes;
    progress at = {};
    while (at.tensor < j.xs.count) {
        aicf_status status = large ? launch_some<kTensors, kUnroll>(j, &at, stream)
                                   : launch_some<kTensors, 1>(j, &at, stream);
        if (status.kind) {
            return status;
        }
    }
    return aicf_ok();
}

// Parameters cost by their bytes: the least that hold the list. Rows are halved until what a tensor
// has of them is counted in 32 bits.
static aicf_status
launch_rows(const joined &j, aicf_stream stream)
{
    int64_t widest = 0;
    for (int64_t i = 0; i < j.xs.count; i++) {
        widest = width_of(j, i) > widest ? width_of(j, i) : widest;
    }
    int64_t chunks = widest / kPackBytes + 2;
    if (j.rows > 1 && (widest > kWidest || chunks > (kWord - 1) / j.rows)) {
        joined low = j, high = j;
        low.rows = j.rows / 2;
        high.row += low.rows;
        high.rows -= low.rows;
        aicf_status status = launch_rows(low, stream);
        return status.kind ? status : launch_rows(high, stream);
    }
    return j.xs.count <= 8     ? launch_all<8>(j, stream)
           : j.xs.count <= 128 ? launch_all<128>(j, stream)
                               : launch_all<1024>(j, stream);
}

static aicf_status
launch(joined j, aicf_stream stream)
{
    for (int64_t i = 0; i < j.xs.count; i++) {
        j.pitch += width_of(j, i);
    }
    return j.rows * j.pitch == 0 ? aicf_ok() : launch_rows(j, stream);
}

} // namespace aicf::concat

#define LAUNCHER_OF(T, suffix, truth)                                                             \
    aicf_status aicf_cuda_concat_multi_##suffix(                                                  \
        aicf_list xs, T *out, int64_t L, int64_t R, int64_t axis, aicf_stream stream)             \
    {                                                                                             \
        constexpr int kItem = sizeof(T);                                                          \
        char *bytes = reinterpret_cast<char *>(out);                                              \
        return aicf::concat::launch({xs, bytes, axis, R * kItem, 0, 0, L, kItem, truth}, stream); \
    }
#define LAUNCHER(T, suffix) LAUNCHER_OF(T, suffix, false)

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
LAUNCHER(double, f64)
LAUNCHER(int8_t, i8)
LAUNCHER(uint8_t, u8)
LAUNCHER(int16_t, i16)
LAUNCHER(int32_t, i32)
LAUNCHER(int64_t, i64)
LAUNCHER_OF(aicf_bool, bool, true)
