// out = xs side by side along one axis (cuda), any dtype: all dense. To bytes it is rows, [L, N *
// R] elements of each tensor, copied behind each other. A thread takes chunks of out of 16 bytes,
// on 16-byte boundaries:
//   whole: where a tensor's address, its rows and their places in out allow it, chunks of x are
//     those of out
//   shifted: else a chunk is put together from the two of x that it lies across; one that lies
//     across two tensors from both, by the thread of the first. Where tensors are narrower than a
//     chunk, and at the ends of out and of a launch's tensors, it is written in part, element by
//     element
// Of many narrow tensors all have their turn with some rows before the next rows: out is written
// along its rows then, not in pieces far apart.
// Addresses and places of up to 1,024 tensors travel in the launch's parameters: one launch for all
// of them. A bool becomes 0 or 1. Bound by bytes.
#include <aicf_ops/concat.h>

#include <aicf/cuda/launch.cuh>

#include "chunks.cuh"

namespace aicf::concat {

constexpr int kUnroll = 4; // chunks of a thread, of large tensors

// Of those, where a chunk is put together from up to four packs.
template <int kChunks> constexpr int kShifted = kChunks < 2 ? kChunks : 2;

constexpr int64_t kNarrow = 1024; // bytes of a row: the chunks of two warps
constexpr int kFew = 8;           // tensors, which are near each other whatever the order
constexpr int kBandBlocks = 8;    // of a tensor in a band, so that few threads of them are idle
constexpr int64_t kEnoughBlocks = 1056;       // fill the largest machines at 8 a multiprocessor
constexpr int64_t kWord = int64_t{1} << 31;   // a tensor's chunks are fewer
constexpr int64_t kWidest = int64_t{1} << 30; // bytes of a row of a tensor; a multiple of any chunk

// Tensor i has, of each band of rows, the blocks [first[i], first[i + 1]), and bytes [start[i],
// start[i + 1]) of a row.
template <int kTensors> struct operands {
    char *out;
    int64_t pitch;
    uint32_t rows, band_rows; // all; of a band
    divider band;             // blocks of one
    int count, item;          // tensors; bytes of an element
    bool truth;
    bool joined;   // chunks across two tensors are written at once
    bool around;   // a row's last tensor stands before the next row's first
    float density; // tensors a block of a band
    uint32_t first[kTensors + 1];
    int64_t start[kTensors + 1];
    const char *x[kTensors];
};

// ---- kernel -------------------------------------------------------------------------------------

// The tensor whose blocks have this one.
template <int kTensors>
__device__ inline int
tensor_of(const operands<kTensors> &p, uint32_t block)
{
    int low = 0, high = p.count;
    if constexpr (kTensors <= kFew) { // all at once: a search waits for each of its loads
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
    uint32_t band = divide(blockIdx.x, p.band), block = blockIdx.x - band * p.band.divisor;
    int i = tensor_of(p, block);
    source s = source_of(p, i);
    place to = place_of(p, i);
    bool whole = to.whole(s);
    int each = kBlock * (whole ? kChunks : kShifted<kChunks>);
    uint32_t begin = band * p.band_rows, end = begin + min(p.band_rows, p.rows - begin);
    counter c(to.chunks(s), begin, end, (block - p.first[i]) * each + threadIdx.x);
    ptx::wait_for_launch_before();
    if (whole) {
        copy_whole<kChunks>(s, to, c, p.truth);
        return;
    }
    behind b = {};
    bool last = i + 1 == p.count;
    if (p.joined && (!last || p.around)) {
        b = {source_of(p, last ? 0 : i + 1), last};
    }
    bool around = p.joined && p.around && i == 0;
    copy_shifted<kShifted<kChunks>, kAhead>(s, to, b, around, c, p.item, p.truth);
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

// Gives the tensors their blocks, and returns how many there are.
template <int kChunks, int kTensors>
int64_t
blocks_of(operands<kTensors> *p, bool banded)
{
    uint32_t widest = 1;
    for (int i = 0; i < p->count; i++) {
        uint32_t chunks = place_of(*p, i).chunks(source_of(*p, i));
        widest = chunks > widest ? chunks : widest;
    }
    uint32_t fit = kBandBlocks * kBlock * kShifted<kChunks> / widest;
    p->band_rows = !banded || fit > p->rows ? p->rows : fit > 0 ? fit : 1;
    int64_t blocks = 0, bands = ceil_div(p->rows, p->band_rows);
    for (int i = 0; i < p->count; i++) {
        p->first[i] = static_cast<uint32_t>(blocks);
        place to = place_of(*p, i);
        source s = source_of(*p, i);
        int each = to.whole(s) ? kChunks : kShifted<kChunks>;
        blocks += ceil_div(int64_t{p->band_rows} * to.chunks(s), kBlock * each);
    }
    p->first[p->count] = static_cast<uint32_t>(blocks);
    p->density = static_cast<float>(p->count) / static_cast<float>(blocks);
    p->band = divider_of(blocks <= kMostBlocks ? blocks : 1);
    return blocks * bands;
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
    if (p.count == 0) {
        return aicf_ok();
    }
    bool narrow = kChunks == 1 || (p.start[p.count] - p.start[0]) / p.count < kNarrow;
    bool banded = narrow && p.count > kFew;
    int64_t blocks = blocks_of<kChunks>(&p, banded);
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
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
    return j.xs.count <= kFew  ? launch_all<kFew>(j, stream)
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
