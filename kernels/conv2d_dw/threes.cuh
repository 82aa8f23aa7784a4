// The weight gradient in f32 by multiply-adds where windows are of 3 x 3 and lie at every element.
// One group, columns side by side; the rest is igemm's (see conv_fma.cuh).
//
// A block makes all taps of some channels and outputs from rows of gy and of the field with their
// halo, which it copies ahead. A thread has one channel and four outputs: it goes along a row in
// pairs of columns, of which it reads each element of the field once for three taps. Sets of
// threads share the rows of a block, and splits the images; sums of both are added in order. Bound
// by multiply-adds.
#ifndef AICF_CONV2D_DW_THREES_CUH
#define AICF_CONV2D_DW_THREES_CUH

#include "../conv2d/threes_of.cuh"

namespace aicf::AICF_OP::threes {

constexpr int kPair = 2;
constexpr int kOutputs = 4; // of a thread
constexpr int kMostThreads = 512;
constexpr int kMostChannels = 16, kMostGroups = 8; // of a block
constexpr int kSlots = 2;                          // units in shared memory

struct plan : geometry {
    const float *field, *dense;
    float *out, *parts; // parts: [split][m][channel and tap]; NULL: the sums go to the out
    int dense_image, dense_m, dense_row;
    int out_m, out_channel, out_y, out_x;
    // A block: its tile, rows of a unit, sets of threads that share those.
    int groups, tile_channels, tile_rows, sets;
    int m_tiles, channel_tiles, row_tiles;
    int units, depth;                           // a unit: tile_rows rows of an image; of a split
    int pitch, plane, dense_pitch, dense_plane; // floats in shared memory
    int slot, entries;
    divider by_width, by_dense; // elements of a line: of the field, of gy
};

// An element of a plane: from the unit's first row on there, in a slot here.
struct alignas(16) entry {
    int from, to, y; // y: of the unit; kNowhere: a zero
};

// `count` lines of `width` elements, of which columns [first, first + width) of `size` are there.
__device__ inline void
find_entries(
    entry *entries, int lines, const divider &width, int first, int size, int row, int pitch)
{
    const int count = lines * static_cast<int>(width.divisor);
    for (int e = static_cast<int>(threadIdx.x); e < count; e += static_cast<int>(blockDim.x)) {
        uint32_t line = static_cast<uint32_t>(e);
        int x = static_cast<int>(take_digit(line, width)), y = static_cast<int>(line);
        bool there = static_cast<unsigned>(first + x) < static_cast<unsigned>(size);
        entries[e] = {y * row + first + x, y * pitch + x, there ? y : kNowhere};
    }
}

// A thread's copies of a unit of one tensor: rows from `y` on of `size`, of `planes` planes of
// which `left` exist, `step` apart there and `next` in the slot.
__device__ inline void
copy_planes(
    float *slot, const entry *entries, int count, const float *from, int y, int size, int row,
    int planes, int left, int step, int next)
{
    for (int e = static_cast<int>(threadIdx.x); e < count; e += static_cast<int>(blockDim.x)) {
        const entry s = entries[e];
        const bool there = static_cast<unsigned>(y + s.y) < static_cast<unsigned>(size);
        const int exist = there ? left : 0;
        const float *source = from + (there ? y * row + s.from : 0);
        float *to = slot + s.to;
#pragma unroll 4
        for (int i = 0; i < planes; i++, to += next) {
            copy_word(*to, i < exist ? source : from, i < exist);
            source += step;
        }
    }
}

// Everything that is asked for has arrived.
__device__ inline void
wait_for_all_copies()
{
#if __CUDA_ARCH__ >= 800
    ptx::copy_async_wait<0>();
#endif
}

// Adds a row's products: x begins at the first window's first element, g at the first place.
__device__ inline void
multiply_row(
    float (&sums)[kOutputs][kTaps], const float *x, int pitch, const float *g, int plane, int pairs)
{
    pack<float, kPair> before[kSide];
#pragma unroll
    for (int y = 0; y < kSide; y++) {
        before[y] = load_pack<float, kPair>(x + y * pitch);
    }
#pragma unroll 2
    for (int pair = 0; pair < pairs; pair++) {
        x += kPair;
        pack<float, kPair> element[kSide], out[kOutputs];
#pragma unroll
        for (int n = 0; n < kOutputs; n++) {
            out[n] = load_pack<float, kPair>(g + n * plane);
        }
        g += kPair;
#pragma unroll
        for (int y = 0; y < kSide; y++) {
            element[y] = load_pack<float, kPair>(x + y * pitch);
            const float row[kPair + kHalo] = {
                before[y].lane[0], before[y].lane[1], element[y].lane[0], element[y].lane[1]};
#pragma unroll
            for (int tap = 0; tap < kSide; tap++) {
#pragma unroll
                for (int n = 0; n < kOutputs; n++) {
                    sums[n][y * kSide + tap] += out[n].lane[0] * row[tap];
                    sums[n][y * kSide + tap] += out[n].lane[1] * row[tap + 1];
                }
            }
            before[y] = element[y];
        }
    }
}

// The sums of all sets, [set][m][channel and tap], to the parts or the out.
__device__ inline void
store_tile(const plan &p, const float *sums, int split, int first_m, int first_channel)
{
    const int width = p.tile_channels * kTaps, tile = p.groups * kOutputs * width;
    for (int e = static_cast<int>(threadIdx.x); e < tile; e += static_cast<int>(blockDim.x)) {
        int m = e / width, own = e - m * width, channel = own / kTaps;
        int tap = own - channel * kTaps, y = tap / kSide;
        float sum = sums[e];
        for (int set = 1; set < p.sets; set++) {
            sum += sums[set * tile + e];
        }
        m += first_m;
        channel += first_channel;
        if (m >= p.m || channel >= p.channels) {
            continue;
        }
        if (p.parts) {
            p.parts[(split * p.m + m) * (p.channels * kTaps) + channel * kTaps + tap] = sum;
        } else {
            p.out
                [m * p.out_m + channel * p.out_channel + y * p.out_y +
                 (tap - y * kSide) * p.out_x] = sum;
        }
    }
}

__global__ void
__launch_bounds__(kMostThreads, 1) threes(const __grid_constant__ plan p)
{
    extern __shared__ __align__(kPackBytes) float room[];
    entry *entries = reinterpret_cast<entry *>(room + p.entries);
    int tile = static_cast<int>(blockIdx.x), split = tile / (p.m_tiles * p.channel_tiles);
    tile -= split * (p.m_tiles * p.channel_tiles);
    const int m_tile = tile / p.channel_tiles;
    const int first_m = m_tile * p.groups * kOutputs;
    const int first_channel = (tile - m_tile * p.channel_tiles) * p.tile_channels;
    const int pairs = (p.columns + kPair - 1) / kPair;
    const int lines = p.tile_rows + kHalo, width = pairs * kPair + kHalo;
    const int fields = lines * width, denses = p.tile_rows * pairs * kPair;
    find_entries(entries, lines, p.by_width, p.first_x, p.size_x, p.field_row, p.pitch);
    find_entries(
        entries + fields, p.tile_rows, p.by_dense, 0, p.columns, p.dense_row, p.dense_pitch);
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before(); // nothing above reads or writes what another launch may

    const int dense_at = p.tile_channels * p.plane;
    const float *field = p.field + first_channel * p.field_channel;
    const float *dense = p.dense + first_m * p.dense_m;
    const int begin = split * p.depth, after = begin + p.depth;
    const int end = after < p.units ? after : p.units;
    auto ask = [&](int unit) {
        if (unit < end) {
            const int image = unit / p.row_tiles;
            const int row = (unit - image * p.row_tiles) * p.tile_rows;
            float *slot = room + (unit - begin) % kSlots * p.slot;
            copy_planes(
                slot, entries, fields, field + image * p.field_image, p.first_y + row, p.size_y,
                p.field_row, p.tile_channels, p.channels - first_channel, p.field_channel, p.plane);
            copy_planes(
                slot + dense_at, entries + fields, denses, dense + image * p.dense_image, row,
                p.rows, p.dense_row, p.groups * kOutputs, p.m - first_m, p.dense_m, p.dense_plane);
        }
        close_copies();
    };
    ask(begin);

    const int of_set = p.groups * p.tile_channels;
    const int set = static_cast<int>(threadIdx.x) / of_set;
    const int own = static_cast<int>(threadIdx.x) - set * of_set;
    const int group = own / p.tile_channels, channel = own - group * p.tile_channels;
    float sums[kOutputs][kTaps] = {};
    for (int unit = begin; unit < end; unit++) {
        wait_for_all_copies();
        __syncthreads(); // the unit is there, and nobody reads the slot of the next one
        ask(unit + 1);
        const float *slot = room + (unit - begin) % kSlots * p.slot;
        const float *x = slot + channel * p.plane;
        const float *g = slot + dense_at + group * kOutputs * p.dense_plane;
        for (int row = set < p.sets ? set : p.tile_rows; row < p.tile_rows; row += p.sets) {
            multiply_row(
                sums, x + row * p.pitch, p.pitch, g + row * p.dense_pitch, p.dense_plane, pairs);
        }
    }
    __syncthreads(); // the slots hold the sums now
    if (set < p.sets) {
        const int each = p.tile_channels * kTaps;
        float *mine = room + (set * p.groups + group) * kOutputs * each + channel * kTaps;
#pragma unroll
        for (int n = 0; n < kOutputs; n++) {
#pragma unroll
            for (int tap = 0; tap < kTaps; tap++) {
                mine[n * each + tap] = sums[n][tap];
            }
        }
    }
    __syncthreads();
    store_tile(p, room, split, first_m, first_channel);
}

// ---- launching ----------------------------------------------------------------------------------

// What this kernel is for.
inline bool
takes(const aicf_conv &c)
{
    constexpr int64_t kMostColumns = 128, kMore = 64; // more: that a tile is beyond an end, at most
    return c.groups == 1 && c.y.taps == kSide && c.x.taps == kSide && c.y.tap_step == 1 &&
           c.x.tap_step == 1 && c.y.step == 1 && c.x.step == 1 && c.field_strides[3] == 1 &&
           c.field_strides[1] != 1 && c.out_strides[3] == 1 && c.images > 0 && c.channels > 0 &&
           c.m > 0 && c.y.places > 0 && c.x.places > kPair && c.x.places <= kMostColumns &&
           is_small(
               c.field_strides, c.images, c.channels + kMore, c.y.size + kMore, c.x.size + kMore) &&
           is_small(c.factor_strides, c.m, c.channels, kSide, kSide) &&
           is_small(c.out_strides, c.images, c.m + kMore, c.y.places + kMore, c.x.places + kMore) &&
           c.m * c.channels <= int64_t{1} << 20;
}

inline plan
plan_of(const aicf_conv &c)
{
    plan p = {};
    static_cast<geometry &>(p) = geometry_of(c);
    p.field = reinterpret_cast<const float *>(c.field);
    p.dense = reinterpret_cast<const float *>(c.out);
    p.out = reinterpret_cast<float *>(c.factor);
    p.dense_image = static_cast<int>(c.out_strides[0]);
    p.dense_m = static_cast<int>(c.out_strides[1]);
    p.dense_row = static_cast<int>(c.out_strides[2]);
    p.out_m = static_cast<int>(c.factor_strides[0]);
    p.out_channel = static_cast<int>(c.factor_strides[1]);
    p.out_y = static_cast<int>(c.factor_strides[2]);
    p.out_x = static_cast<int>(c.factor_strides[3]);
    return p;
}

// Places a unit of p's tile in shared memory. Planes of 2 more than a multiple of 4 floats keep the
// pairs of neighbouring channels in different banks.
inline void
place_unit(plan &p)
{
    const int pairs = div_up(p.columns, kPair);
    p.pitch = pairs * kPair + kHalo;
    p.plane = (p.tile_rows + kHalo) * p.pitch;
    p.plane += p.plane % 4 == 0 ? 2 : 0;
    p.dense_pitch = pairs * kPair;
    p.by_width = divider_of(p.pitch);
    p.by_dense = divider_of(p.dense_pitch);
    p.dense_plane = p.tile_rows * p.dense_pitch;
    p.slot = p.tile_channels * p.plane + p.groups * kOutputs * p.dense_plane;
    p.slot += p.slot % 4 == 0 ? 0 : 2;
}

// As many rows as fit into a slot, and threads that share them.
inline void
shape_unit(plan &p)
{
    constexpr int kMostFloats = 10 * 1024; // of a slot
    p.tile_rows = p.rows;
    place_unit(p);
    for (int tiles = 2; p.slot > kMostFloats && p.tile_rows > 1; tiles++) {
        p.tile_rows = div_up(p.rows, tiles);
        place_unit(p);
    }
    const int most = kMostThreads / (p.groups * p.tile_channels);
    p.sets = div_up(p.tile_rows, div_up(p.tile_rows, most < p.tile_rows ? most : p.tile_rows));
    p.m_tiles = div_up(p.m, p.groups * kOutputs);
    p.channel_tiles = div_up(p.channels, p.tile_channels);
    p.row_tiles = div_up(p.rows, p.tile_rows);
    p.units = p.images * p.row_tiles;
}

// The bytes of shared memory of a block.
inline int
bytes_of(plan &p)
{
    const int sums = p.sets * p.groups * kOutputs * p.tile_channels * kTaps;
    const int pairs = div_up(p.columns, kPair), width = pairs * kPair;
    p.entries = div_up(kSlots * p.slot > sums ? kSlots * p.slot : sums, 4) * 4;
    return 4 * p.entries + static_cast<int>(sizeof(entry)) *
                               ((p.tile_rows + kHalo) * (width + kHalo) + p.tile_rows * width);
}

// Shapes p's blocks, where at most `most` splits may be: as large a tile as leaves no
// multiprocessor idle. Returns the splits.
inline int
shape_blocks(plan &p, int processors, int64_t most, int &bytes)
{
    constexpr int kLeastChannels = 4, kSharedAtOnce = 200 * 1024;
    const int of_outputs = div_up(p.m, kOutputs);
    p.groups = div_up(of_outputs, div_up(of_outputs, kMostGroups));
    p.tile_channels = div_up(p.channels, div_up(p.channels, kMostChannels));
    for (;;) {
        shape_unit(p);
        const int64_t splits = most < p.units ? most : p.units;
        if (splits * p.m_tiles * p.channel_tiles * 4 >= processors * 3) {
            break;
        }
        if (p.groups > 1) {
            p.groups = div_up(p.groups, 2);
        } else if (p.tile_channels > kLeastChannels) {
            p.tile_channels = div_up(p.tile_channels, 2);
        } else {
            break;
        }
    }
    bytes = bytes_of(p);
    const int threads = p.groups * p.tile_channels * p.sets;
    const int by_threads = kMostThreads / threads, by_bytes = kSharedAtOnce / bytes;
    int at_once = by_threads < by_bytes ? by_threads : by_bytes;
    at_once = (at_once > 1 ? at_once : 1) * processors;
    int64_t splits = at_once / (p.m_tiles * p.channel_tiles);
    splits = splits < most ? splits : most;
    splits = splits < p.units ? splits : p.units;
    p.depth = static_cast<int>(ceil_div(p.units, splits > 1 ? splits : 1));
    return div_up(p.units, p.depth);
}

// Launches it if this is for it: else `done` is left false. The workspace has room for `most`
// splits.
inline aicf_status
launch(const aicf_conv &c, int64_t most, void *workspace, bool &done, aicf_stream stream)
{
    int processors = 0, limit = 0, bytes = 0;
    if (!takes(c)) {
        return aicf_ok();
    }
    aicf_status status = count_processors(&processors);
    status = status.kind ? status : shared_limit(&limit);
    if (status.kind) {
        return status;
    }
    plan p = plan_of(c);
    const int splits = shape_blocks(p, processors, most, bytes);
    const int64_t blocks = int64_t{splits} * p.m_tiles * p.channel_tiles;
    const int threads = threads_of(p.groups * p.tile_channels * p.sets, blocks, processors);
    if (bytes > kMostShared || limit < kMostShared || threads > kMostThreads) {
        return aicf_ok();
    }
    done = true;
    p.parts = splits > 1 ? static_cast<float *>(workspace) : nullptr;
    status = allow_shared(threes, kMostShared);
    if (!status.kind) {
        status = launch_waiting(
            threes, static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
            static_cast<size_t>(bytes), stream, p);
    }
    if (status.kind || splits == 1) {
        return status;
    }
    problem<float> sums = problem_of<float>(c, true);
    sums.parts = p.parts;
    sums.splits = splits;
    return splits > 64 ? launch_sum_parts(sums, stream) : launch_sum_parts_early(sums, stream);
}

} // namespace aicf::AICF_OP::threes

#endif
