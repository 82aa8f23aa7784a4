// out = xs side by side along one axis (cuda), any dtype: all dense. To bytes it is rows, [L, N *
// R] elements of each tensor, copied behind each other.
//   whole: where a tensor's address, its rows and their places in out allow it, a thread copies
//     chunks of 16 bytes
//   gather: of large ones else, whose rows of out are long, a thread puts together chunks of out;
//     chunks of several tensors are copied element by element
//   elements: the others by warps that copy parts of rows element by element. Parts begin at
//     sectors of out, so that none but those of two tensors is written twice
// Addresses and places of up to 1,024 tensors travel in the launch's parameters: one launch for all
// of them. A bool becomes 0 or 1. Bound by bytes.
#include <aicf_ops/concat.h>

#include <aicf/cuda/launch.cuh>

#include "gather.cuh"
#include "rows.cuh"

namespace aicf::concat {

constexpr int kUnroll = 4; // chunks of a thread, of large tensors

constexpr int64_t kTurn = 2560; // bytes of a warp, about, of large tensors

constexpr int64_t kSmall = 1 << 20;           // bytes that fill no machine
constexpr int64_t kEnoughBlocks = 8;          // of a multiprocessor
constexpr int64_t kWord = int64_t{1} << 31;   // a tensor's chunks are fewer
constexpr int64_t kWidest = int64_t{1} << 30; // bytes of a row of a tensor; a multiple of any chunk

// Tensor i has the blocks [first[i], first[i + 1]), and bytes [start[i], start[i + 1]) of a row.
template <int kTensors> struct operands {
    char *out;
    int64_t pitch;
    uint32_t rows;
    int count, item; // tensors; bytes of an element
    int turns;       // of a warp, through parts of rows
    bool truth;
    float density; // tensors a block
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
    return {p.out + p.start[i], p.pitch};
}

template <int kTensors, int kChunks, int kLines>
__global__ void
__launch_bounds__(kBlock, kLines > 8 ? 5 : 4) multi(const __grid_constant__ operands<kTensors> p)
{
    constexpr int kLess = kLines < 8 ? kLines : 8; // of elements of 1 and 8 bytes: registers
    ptx::let_next_launch_begin();
    int i = tensor_of(p, blockIdx.x);
    source s = source_of(p, i);
    place to = place_of(p, i);
    uint32_t block = blockIdx.x - p.first[i];
    bool whole = to.whole(s);
    if (kLines > 8 && threadIdx.x == 0 && !whole) { // wide rows of 2 or 4 bytes an element
        ask<kChunks, kLines>(s, block, p.turns, p.item);
    }
    ptx::wait_for_launch_before();
    if (whole) {
        copy_whole<kChunks>(s, to, block, p.truth);
        return;
    }
    switch (p.item) {
    case 1: return copy_elements<uint8_t, kChunks, kLess>(s, to, block, p.turns, p.truth);
    case 2: return copy_elements<uint16_t, kChunks, kLines>(s, to, block, p.turns);
    case 4: return copy_elements<uint32_t, kChunks, kLines>(s, to, block, p.turns);
    default: return copy_elements<uint64_t, kChunks, kLess>(s, to, block, p.turns);
    }
}

template <int kTensors>
__global__ void
__launch_bounds__(kBlock, 6) gather(const __grid_constant__ gathered<kTensors> p)
{
    __shared__ uint32_t start[kTensors + 1];
    __shared__ const char *x[kTensors];
    ptx::let_next_launch_begin();
    band<kTensors> b = band_of(p, start, x);
    ptx::wait_for_launch_before();
    switch (p.item) {
    case 1: return gather_band<uint8_t>(b, p.density, p.truth);
    case 2: return gather_band<uint16_t>(b, p.density, p.truth);
    case 4: return gather_band<uint32_t>(b, p.density, p.truth);
    default: return gather_band<uint64_t>(b, p.density, p.truth);
    }
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
    while (at->tensor < j.xs.count && p->count < kTensors) {
        int64_t width = width_of(j, at->tensor), left = width - at->begin;
        int64_t piece = left < kWidest ? left : kWidest;
        if (piece > 0) {
            const char *x = static_cast<const char *>(j.xs.views[at->tensor].data);
            p->x[p->count] = x + j.row * width + at->begin;
            p->start[++p->count] = at->start += piece;
        }
        at->begin += piece;
        if (piece == left) {
            at->tensor++;
            at->begin = 0;
        }
    }
}

// Gives the tensors their blocks, and returns how many there are.
template <int kChunks, int kLines, int kTensors>
int64_t
blocks_of(operands<kTensors> *p)
{
    int parts = parts_at_once<kChunks, kLines>(p->item);
    int64_t width = (p->start[p->count] - p->start[0]) / p->count + 1;
    int64_t most = kLines * kWarp * p->item, bytes = parts * (width < most ? width : most);
    int64_t turns = (kTurn + bytes / 2) / bytes;
    p->turns = kChunks == 1 || turns < 1 ? 1 : static_cast<int>(turns);
    int64_t blocks = 0;
    for (int i = 0; i < p->count; i++) {
        p->first[i] = static_cast<uint32_t>(blocks);
        source s = source_of(*p, i);
        blocks +=
            place_of(*p, i).whole(s)
                ? ceil_div(int64_t{p->rows} * (s.width / kPackBytes), kBlock * kChunks)
                : ceil_div(
                      int64_t{p->rows} * parts_of<kLines>(s, p->item), kWarps * parts * p->turns);
    }
    p->first[p->count] = static_cast<uint32_t>(blocks);
    p->density = static_cast<float>(p->count) / static_cast<float>(blocks);
    return blocks;
}

template <int kTensors, int kChunks, int kLines>
aicf_status
launch_lines(operands<kTensors> *p, aicf_stream stream)
{
    int64_t blocks = blocks_of<kChunks, kLines>(p);
    return blocks > kMostBlocks ? status_of(cudaErrorInvalidConfiguration)
                                : launch_waiting(
                                      multi<kTensors, kChunks, kLines>,
                                      static_cast<unsigned>(blocks), kBlock, 0, stream, *p);
}

// Whether chunks of out are to be put together: where most are none of x, and rows fill blocks.
template <int kTensors>
bool
gathers(const operands<kTensors> &p)
{
    int64_t width = p.start[p.count] - p.start[0];
    bool whole = true;
    for (int i = 0; i < p.count; i++) {
        whole = whole && place_of(p, i).whole(source_of(p, i));
    }
    return !whole && width >= kBlock * kGathered * kPackBytes && width < kWidest;
}

template <int kTensors>
aicf_status
launch_gather(const operands<kTensors> &p, aicf_stream stream)
{
    static_assert(sizeof(gathered<kTensors>) < 32 * 1024 - 4, "what a launch's parameters hold");
    gathered<kTensors> g;
    int64_t width = p.start[p.count] - p.start[0];
    int64_t chunks = ceil_div(width + kPackBytes - 1, kPackBytes);
    int64_t blocks = ceil_div(chunks, kBlock * kGathered);
    if (blocks > kMostBlocks / p.rows) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    g.out = p.out + p.start[0];
    g.pitch = p.pitch;
    g.rows = p.rows;
    g.count = p.count;
    g.item = p.item;
    g.truth = p.truth;
    g.density = static_cast<float>(p.count) / static_cast<float>(width);
    g.share = static_cast<uint32_t>(ceil_div(ceil_div(chunks, blocks), 2) * 2); // whole sectors
    g.blocks = divider_of(blocks);
    for (int i = 0; i < p.count; i++) {
        g.start[i] = static_cast<uint32_t>(p.start[i] - p.start[0]);
        g.x[i] = p.x[i];
    }
    g.start[p.count] = static_cast<uint32_t>(width);
    return launch_waiting(
        gather<kTensors>, static_cast<unsigned>(blocks * p.rows), kBlock, 0, stream, g);
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
    if (kChunks > 1 && gathers(p)) {
        return launch_gather(p, stream);
    }
    bool most = kChunks > 1 && (j.item == 2 || j.item == 4);
    int64_t line = kWarp * j.item, width = (p.start[p.count] - p.start[0]) / p.count;
    return width <= 4 * line - kSector      ? launch_lines<kTensors, kChunks, 4>(&p, stream)
           : !most || width < 2 * 16 * line ? launch_lines<kTensors, kChunks, 8>(&p, stream)
                                            : launch_lines<kTensors, kUnroll, 16>(&p, stream);
}

// Whether blocks of several chunks a thread fill the current device.
static bool
is_large(const joined &j)
{
    int64_t bytes = j.rows * j.pitch;
    int processors = 0;
    return bytes >= kSmall && !count_processors(&processors).kind &&
           bytes >= processors * kEnoughBlocks * kBlock * kUnroll * kPackBytes;
}

template <int kTensors>
aicf_status
launch_all(const joined &j, aicf_stream stream)
{
    bool large = is_large(j);
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
