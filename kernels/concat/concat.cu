// out = xs side by side along one axis (cuda), any dtype: all dense. To bytes it is rows, [L, N *
// R] elements of each tensor, copied behind each other. A thread takes chunks of out of 16 bytes,
// on 16-byte boundaries:
//   whole: where a tensor's address, its rows and their places in out allow it, chunks of x are
//     those of out
//   shifted: else a chunk is put together from the two of x that it lies across; the first and last
//     one of a row are written in part, element by element
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
constexpr int64_t kWord = int64_t{1} << 31; // indexes below it are divided in 32 bits

// Tensor i has the blocks [first[i], first[i + 1]), and bytes [start[i], start[i + 1]) of a row.
template <int kTensors> struct operands {
    char *out;
    int64_t pitch, rows;
    int count, item; // tensors; bytes of an element
    bool truth;
    uint32_t first[kTensors + 1];
    int64_t start[kTensors + 1];
    const char *x[kTensors];
};

// The rows of one tensor, and where they go.
struct source {
    const char *x;
    char *out;
    int64_t width, pitch, rows;

    // Chunks of x are chunks of out.
    __host__ __device__ bool whole() const
    {
        uint64_t all = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(out) |
                       static_cast<uint64_t>(width) | static_cast<uint64_t>(rows > 1 ? pitch : 0);
        return all % kPackBytes == 0;
    }

    // Of a row; shifted, the most that it can lie across.
    __host__ __device__ int64_t chunks() const
    {
        return whole() ? width / kPackBytes : (width + 2 * (kPackBytes - 1)) / kPackBytes;
    }
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

// The elements of a chunk that lie in its bytes [begin, end).
template <typename T>
__device__ inline void
store_some(char *out, const words &chunk, int begin, int end)
{
    constexpr int kSize = sizeof(T);
#pragma unroll
    for (int at = 0; at < kPackBytes; at += kSize) {
        uint64_t value = chunk.word[at / 4] >> (8 * (at % 4));
        if constexpr (kSize == 8) {
            value |= uint64_t{chunk.word[at / 4 + 1]} << 32;
        }
        if (at >= begin && at < end) {
            *reinterpret_cast<T *>(out + at) = static_cast<T>(value);
        }
    }
}

__device__ inline void
store_part(char *out, const words &chunk, int begin, int end, int item)
{
    switch (item) {
    case 1: return store_some<uint8_t>(out, chunk, begin, end);
    case 2: return store_some<uint16_t>(out, chunk, begin, end);
    case 4: return store_some<uint32_t>(out, chunk, begin, end);
    default: return store_some<uint64_t>(out, chunk, begin, end);
    }
}

// What a thread holds of a chunk between its loads and its store.
struct held_chunk {
    char *out; // NULL: nothing
    int begin, end;
    two_packs x;
};

// Near an end of x, which no load may reach beyond: byte by byte into the chunk.
__device__ inline void
gather(held_chunk &h, const char *from)
{
    h.x = {};
    for (int at = h.begin; at < h.end; at++) {
        uint32_t byte = static_cast<uint8_t>(from[at]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            h.x.first.word[i] |= at / 4 == i ? byte << (8 * (at % 4)) : 0;
        }
    }
}

// Chunk k of a row.
__device__ inline held_chunk
load_shifted(const source &s, int64_t row, int64_t k)
{
    char *to = s.out + row * s.pitch;
    int64_t phase = reinterpret_cast<uintptr_t>(to) % kPackBytes;
    int64_t at = k * kPackBytes - phase; // where the chunk begins in the row
    held_chunk h = {};
    if (at >= s.width) {
        return h;
    }
    h.out = to + at;
    h.begin = at < 0 ? static_cast<int>(-at) : 0;
    h.end = s.width - at < kPackBytes ? static_cast<int>(s.width - at) : kPackBytes;

    const char *from = s.x + row * s.width + at;
    if (!h.x.load(from, s.x, s.x + s.rows * s.width)) {
        gather(h, from);
    }
    return h;
}

__device__ inline held_chunk
load_whole(const source &s, int64_t row, int64_t k)
{
    held_chunk h = {s.out + row * s.pitch + k * kPackBytes, 0, kPackBytes, {}};
    h.x.first = load_words(s.x + row * s.width + k * kPackBytes);
    return h;
}

// Chunks from `first` on, kBlock apart.
template <bool kWhole, int kChunks>
__device__ inline void
copy_chunks(const source &s, int64_t first, int item, bool truth)
{
    int64_t chunks = s.chunks(), n = chunks * s.rows;
    held_chunk held[kChunks];
#pragma unroll
    for (int u = 0; u < kChunks; u++) {
        int64_t i = first + u * kBlock, row = 0;
        if (s.rows > 1) {
            row = n < kWord ? static_cast<uint32_t>(i) / static_cast<uint32_t>(chunks) : i / chunks;
        }
        held[u].out = nullptr;
        if (i < n) {
            int64_t k = i - row * chunks;
            held[u] = kWhole ? load_whole(s, row, k) : load_shifted(s, row, k);
        }
    }
#pragma unroll
    for (int u = 0; u < kChunks; u++) {
        const held_chunk &h = held[u];
        if (h.out == nullptr) {
            continue;
        }
        words chunk = kWhole ? h.x.first : h.x.value();
        chunk = truth ? as_truth(chunk) : chunk;
        if (kWhole || h.end - h.begin == kPackBytes) {
            store_words(h.out, chunk);
        } else {
            store_part(h.out, chunk, h.begin, h.end, item);
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
__launch_bounds__(kBlock) multi(const __grid_constant__ operands<kTensors> p)
{
    int i = tensor_of(p, blockIdx.x);
    source s = {p.x[i], p.out + p.start[i], p.start[i + 1] - p.start[i], p.pitch, p.rows};
    int64_t first = (blockIdx.x - p.first[i]) * int64_t{kBlock * kChunks} + threadIdx.x;
    if (s.whole()) {
        copy_chunks<true, kChunks>(s, first, p.item, p.truth);
    } else {
        copy_chunks<false, kChunks>(s, first, p.item, p.truth);
    }
}

// ---- launches -----------------------------------------------------------------------------------

// What of a call does not change from launch to launch.
struct joined {
    aicf_list xs;
    char *out;
    int64_t axis, unit; // unit: bytes of one index of the axis
    int64_t pitch, rows;
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
    int64_t blocks = 0;
    p.out = j.out;
    p.pitch = j.pitch;
    p.rows = j.rows;
    p.item = j.item;
    p.truth = j.truth;
    p.count = 0;
    for (; *from < j.xs.count && p.count < kTensors; ++*from) {
        source s = {
            static_cast<const char *>(j.xs.views[*from].data), j.out + *start, width_of(j, *from),
            j.pitch, j.rows};
        int64_t own = ceil_div(s.rows * s.chunks(), kBlock * kChunks);
        if (s.width == 0) {
            continue;
        }
        if (blocks + own > kMostBlocks) {
            break;
        }
        p.x[p.count] = s.x;
        p.start[p.count] = *start;
        p.first[p.count] = static_cast<uint32_t>(blocks);
        blocks += own;
        *start += s.width;
        p.start[++p.count] = *start;
    }
    p.first[p.count] = static_cast<uint32_t>(blocks);
    if (blocks == 0) {
        return *from < j.xs.count ? status_of(cudaErrorInvalidConfiguration) : aicf_ok();
    }
    return aicf::launch(
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

// Parameters cost by their bytes: the least that hold the list.
static aicf_status
launch(joined j, aicf_stream stream)
{
    for (int64_t i = 0; i < j.xs.count; i++) {
        j.pitch += width_of(j, i);
    }
    if (j.rows * j.pitch == 0) {
        return aicf_ok();
    }
    return j.xs.count <= 8     ? launch_all<8>(j, stream)
           : j.xs.count <= 128 ? launch_all<128>(j, stream)
                               : launch_all<1024>(j, stream);
}

} // namespace aicf::concat

#define LAUNCHER_OF(T, suffix, truth)                                                          \
    aicf_status aicf_cuda_concat_multi_##suffix(                                               \
        aicf_list xs, T *out, int64_t L, int64_t R, int64_t axis, aicf_stream stream)          \
    {                                                                                          \
        constexpr int kItem = sizeof(T);                                                       \
        char *bytes = reinterpret_cast<char *>(out);                                           \
        return aicf::concat::launch({xs, bytes, axis, R * kItem, 0, L, kItem, truth}, stream); \
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
