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
constexpr int kUnroll = 4;                  // chunks of a thread, of large tensors
constexpr int64_t kEnoughBlocks = 1056;     // fill the largest machines at 8 a multiprocessor
constexpr int64_t kWord = int64_t{1} << 31; // chunks of several rows of a tensor are fewer

// Tensor i has the blocks [first[i], first[i + 1]), and bytes [start[i], start[i + 1]) of a row.
template <int kTensors> struct operands {
    char *out;
    int64_t pitch;
    uint32_t rows;
    int count, item; // tensors; bytes of an element
    bool truth;
    bool joined; // chunks across two tensors are written at once
    bool around; // a row's last tensor stands before the next row's first
    uint32_t first[kTensors + 1];
    int64_t start[kTensors + 1];
    const char *x[kTensors];
};

// The rows of one tensor, and where they go.
struct source {
    const char *x;
    char *out;
    int64_t width, pitch;
    uint32_t rows;
    bool follows; // its rows' first chunks are those of the tensor before

    // Chunks of x are chunks of out.
    __host__ __device__ bool whole() const
    {
        uint64_t all = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(out) |
                       static_cast<uint64_t>(width) | static_cast<uint64_t>(rows > 1 ? pitch : 0);
        return all % kPackBytes == 0;
    }

    // Of a row; shifted, the most that it can have.
    __host__ __device__ int64_t chunks() const
    {
        int64_t across = whole() ? 0 : follows ? kPackBytes - 1 : 2 * (kPackBytes - 1);
        return (width + across) / kPackBytes;
    }
};

// The tensor behind one, of which a chunk may have the first bytes.
struct behind {
    const char *x; // NULL: there is none
    int64_t width;
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
struct chunk_place {
    uint32_t row, rows; // rows: those of a step
    int64_t k, rest, chunks;

    __device__ chunk_place(const source &s, int64_t first)
    {
        chunks = s.chunks();
        uint32_t divisor = static_cast<uint32_t>(chunks < kWord ? chunks : kWord);
        row = s.rows > 1 ? static_cast<uint32_t>(first) / divisor : 0;
        k = first - row * chunks;
        rows = kBlock / divisor;
        rest = kBlock - rows * divisor;
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
copy_whole(const source &s, int64_t first, bool truth)
{
    chunk_place place(s, first);
    words held[kChunks];
    char *to[kChunks];
    bool there[kChunks];
#pragma unroll
    for (int u = 0; u < kChunks; u++, place.step()) {
        there[u] = place.row < s.rows && place.k < place.chunks;
        to[u] = s.out + place.row * s.pitch + place.k * kPackBytes;
        if (there[u]) {
            held[u] = load_words(s.x + (first + u * kBlock) * kPackBytes);
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
        int bits = 8 * n - 32 * i;
        uint32_t mask = bits >= 32 ? 0xffffffff : bits > 0 ? (1U << bits) - 1 : 0;
        w.word[i] = (a.word[i] & mask) | (b.word[i] & ~mask);
    }
    return w;
}

// What a thread holds of a chunk between its loads and its store.
struct held_chunk {
    char *to;
    two_packs own, other; // its bytes from `end` on are those of `other`
    int end;              // 0: there is nothing to store

    // Writes the chunk at once if it is not whole, or near an end of what it is read from.
    __device__ void load(
        const source &s, const behind &b, bool around, const chunk_place &place, int item,
        bool truth)
    {
        uint32_t row = place.row;
        char *start = s.out + row * s.pitch;
        int phase = static_cast<int>(reinterpret_cast<uintptr_t>(start) % kPackBytes);
        bool follows = s.follows || (around && row > 0);
        int64_t at = place.k * kPackBytes + (follows && phase ? kPackBytes - phase : -phase);
        end = 0;
        if (row >= s.rows || at >= s.width) {
            return;
        }
        to = start + at;
        const char *from = s.x + row * s.width + at;
        bool packs = own.load(from, s.x, s.x + s.rows * s.width) && at >= 0;
        end = kPackBytes;
        if (s.width - at < kPackBytes) {
            end = static_cast<int>(s.width - at);
            bool more = b.x != nullptr && row + b.down < s.rows;
            const char *next = b.x + (row + b.down) * b.width - end;
            packs = packs && more && other.load(next, b.x, b.x + s.rows * b.width);
            if (!packs && more) {
                copy_part(to, next, end, kPackBytes, item, truth);
            }
        }
        if (!packs) {
            copy_part(to, from, at < 0 ? static_cast<int>(-at) : 0, end, item, truth);
            end = 0;
        }
    }

    __device__ void store(bool truth) const
    {
        if (end > 0) {
            words w = own.value();
            w = end < kPackBytes ? both(w, other.value(), end) : w;
            store_bytes<kPackBytes>(to, truth ? as_truth(w) : w);
        }
    }
};

template <int kChunks>
__device__ inline void
copy_shifted(const source &s, const behind &b, bool around, int64_t first, int item, bool truth)
{
    constexpr int kAtOnce = kChunks < 2 ? kChunks : 2;
    chunk_place place(s, first);
#pragma unroll 1
    for (int done = 0; done < kChunks; done += kAtOnce) {
        held_chunk held[kAtOnce];
#pragma unroll
        for (int u = 0; u < kAtOnce; u++, place.step()) {
            held[u].load(s, b, around, place, item, truth);
        }
#pragma unroll
        for (int u = 0; u < kAtOnce; u++) {
            held[u].store(truth);
        }
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
    } else {
        while (high - low > 1) {
            int middle = (low + high) / 2;
            bool upper = p.first[middle] <= block;
            low = upper ? middle : low;
            high = upper ? high : middle;
        }
    }
    return low;
}

template <int kTensors, int kChunks>
__global__ void
__launch_bounds__(kBlock, 3) multi(const __grid_constant__ operands<kTensors> p)
{
    ptx::let_next_launch_begin();
    int i = tensor_of(p, blockIdx.x);
    source s = {p.x[i], p.out + p.start[i], p.start[i + 1] - p.start[i], p.pitch,
                p.rows, p.joined && i > 0};
    int64_t first = (blockIdx.x - p.first[i]) * int64_t{kBlock * kChunks} + threadIdx.x;
    ptx::wait_for_launch_before();
    if (s.whole()) {
        copy_whole<kChunks>(s, first, p.truth);
        return;
    }
    behind b = {};
    bool last = i + 1 == p.count;
    if (p.joined && (!last || p.around)) {
        int next = last ? 0 : i + 1;
        b = {p.x[next], p.start[next + 1] - p.start[next], last};
    }
    copy_shifted<kChunks>(s, b, p.joined && p.around && i == 0, first, p.item, p.truth);
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

// Takes tensors off the list from *from on, as many as one launch has room for; empty ones take
// none. *start is where the first of them begins in a row.
template <int kTensors, int kChunks>
aicf_status
launch_some(const joined &j, int64_t *from, int64_t *start, aicf_stream stream)
{
    static_assert(sizeof(operands<kTensors>) < 32 * 1024 - 4, "what a launch's parameters hold");
    operands<kTensors> p;
    p.out = j.out + j.row * j.pitch;
    p.pitch = j.pitch;
    p.rows = static_cast<uint32_t>(j.rows);
    p.item = j.item;
    p.truth = j.truth;
    p.joined = true;
    p.start[0] = *start;
    p.count = 0;
    for (; *from < j.xs.count && p.count < kTensors; ++*from) {
        int64_t width = width_of(j, *from);
        if (width > 0) {
            const char *x = static_cast<const char *>(j.xs.views[*from].data);
            p.x[p.count] = x + j.row * width;
            *start += width;
            p.start[++p.count] = *start;
            p.joined = p.joined && width >= kPackBytes;
        }
    }
    p.around = p.start[p.count] - p.start[0] == p.pitch;
    int64_t blocks = 0;
    for (int i = 0; i < p.count; i++) {
        source s = {p.x[i], p.out + p.start[i], p.start[i + 1] - p.start[i], p.pitch,
                    p.rows, p.joined && i > 0};
        p.first[i] = static_cast<uint32_t>(blocks);
        blocks += ceil_div(p.rows * s.chunks(), kBlock * kChunks);
    }
    p.first[p.count] = static_cast<uint32_t>(blocks);
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    if (blocks == 0) {
        return aicf_ok();
    }
    return launch_waiting(
        multi<kTensors, kChunks>, static_cast<unsigned>(blocks), kBlock, 0, stream, p);
}

template <int kTensors>
aicf_status
launch_all(const joined &j, aicf_stream stream)
{
    bool large = j.rows * j.pitch >= kEnoughBlocks * kBlock * kUnroll * kPackBytes;
    int64_t start = 0;
    for (int64_t from = 0; from < j.xs.count;) {
        aicf_status status = large ? launch_some<kTensors, kUnroll>(j, &from, &start, stream)
                                   : launch_some<kTensors, 1>(j, &from, &start, stream);
        if (status.kind) {
            return status;
        }
    }
    return aicf_ok();
}

// Parameters cost by their bytes: the least that hold the list. Rows are halved until their chunks
// are counted in 32 bits.
static aicf_status
launch_rows(const joined &j, aicf_stream stream)
{
    int64_t widest = 0;
    for (int64_t i = 0; i < j.xs.count; i++) {
        widest = width_of(j, i) > widest ? width_of(j, i) : widest;
    }
    if (j.rows > 1 && widest / kPackBytes + 2 > (kWord - 1) / j.rows) {
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
