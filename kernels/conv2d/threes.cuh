// Convolutions over taps in f32 by multiply-adds where windows are of 3 x 3 and lie at every
// element: conv2d and, with the taps in reverse, its input gradient. One group, columns side by
// side; the rest is igemm's (see conv_fma.cuh).
//
// A block makes some rows of some outputs from slabs of a few channels: the field's rows with their
// halo, and the factor. Nothing is gathered: a thread makes strips of 7 columns of 4 or 8 outputs,
// whose nine elements of a row serve three taps. Where blocks would be too few, threads of a block
// share its channels out, in sets, whose sums are added in order. Bound by multiply-adds.
#ifndef AICF_CONV2D_THREES_CUH
#define AICF_CONV2D_THREES_CUH

#include "threes_of.cuh"

namespace aicf::AICF_OP::threes {

constexpr int kStrip = 7;      // columns that a thread makes; layers halve down to sevens
constexpr int kMostSets = 16;  // of a block
constexpr int kMostGroups = 8; // of outputs of a thread, of a block
constexpr int kBanks = 32;
constexpr int kAbsent = INT32_MIN;

struct plan {
    const float *field, *factor, *bias; // bias may be NULL
    float *out;
    int field_image, field_channel, field_row;
    int factor_m, factor_channel, factor_y, factor_x;
    int out_image, out_m, out_row;
    int images, channels, m, rows, columns; // rows and columns of places
    int first_y, first_x, size_y, size_x;
    // A block: groups of outputs over rows of images in strips, and how the channels are shared.
    int groups, tile_images, tile_rows, strips, sets;
    int m_tiles, row_tiles, depth;    // depth: channels of a slab, a multiple of sets
    int pitch, plane, m_pitch, stage; // floats in shared memory: of a row, a channel, a tap, a slab
    int entries;                      // where they begin there
    divider by_width, by_lines;       // of a channel of a slab
    divider by_places, by_rows;       // of the tile's places: of a row, rows of an image
};

// What of a channel lies where: an element of the field or of the factor, from the first channel's
// on, and its place in a slab.
struct entry {
    int from, to; // from: kAbsent: a zero
};

// Which tile a block makes, and of which strip of it a thread makes some of the channels.
struct corner {
    int image, row, m;

    __device__ explicit corner(const plan &p, int groups_of)
    {
        int tile = static_cast<int>(blockIdx.x), rest = tile / p.m_tiles;
        m = (tile - rest * p.m_tiles) * p.groups * groups_of;
        image = rest / p.row_tiles;
        row = (rest - image * p.row_tiles) * p.tile_rows;
        image *= p.tile_images;
    }
};

// A thread's entries: it alone reads them. The field's `fields` first, the factor's then.
template <int kN>
__device__ inline void
find_entries(const plan &p, const corner &at, entry *entries, int fields)
{
    for (int e = static_cast<int>(threadIdx.x); e < fields; e += static_cast<int>(blockDim.x)) {
        uint32_t line = static_cast<uint32_t>(e);
        int x = static_cast<int>(take_digit(line, p.by_width)), at_line = static_cast<int>(line);
        int y = static_cast<int>(take_digit(line, p.by_lines)), image = static_cast<int>(line);
        int in_y = p.first_y + at.row + y, in_x = p.first_x + x;
        bool there = at.image + image < p.images &&
                     static_cast<unsigned>(in_y) < static_cast<unsigned>(p.size_y) &&
                     static_cast<unsigned>(in_x) < static_cast<unsigned>(p.size_x);
        int from = (at.image + image) * p.field_image + in_y * p.field_row + in_x;
        entries[e] = {there ? from : kAbsent, at_line * p.pitch + x};
    }
    const int factors = kTaps * p.groups * kN;
    for (int e = static_cast<int>(threadIdx.x); e < factors; e += static_cast<int>(blockDim.x)) {
        int m = e / kTaps, tap = e - m * kTaps, y = tap / kSide, x = tap - y * kSide;
        int from = (at.m + m) * p.factor_m + y * p.factor_y + x * p.factor_x;
        entries[fields + e] = {
            at.m + m < p.m ? from : kAbsent, p.depth * p.plane + tap * p.m_pitch + m};
    }
}

// A thread's copies of a slab of which `left` channels exist: entries [0, count) of one tensor,
// `step` apart there from channel to channel, `next` apart in the slab.
__device__ inline void
copy_slab(
    const plan &p, float *slab, const entry *entries, int count, const float *from, int step,
    int next, int left)
{
    for (int e = static_cast<int>(threadIdx.x); e < count; e += static_cast<int>(blockDim.x)) {
        const entry s = entries[e];
        const float *source = from + (s.from == kAbsent ? 0 : s.from);
        const int exist = s.from == kAbsent ? 0 : left;
        float *to = slab + s.to;
#pragma unroll 4
        for (int c = 0; c < p.depth; c++, to += next) {
            copy_word(*to, c < exist ? source : from, c < exist);
            source += step;
        }
    }
}

// Adds one channel's products: `x` is the first of a strip's elements, `w` of the weights.
template <int kN>
__device__ inline void
multiply_channel(float (&sums)[kN][kStrip], const float *x, int pitch, const float *w, int m_pitch)
{
#pragma unroll
    for (int y = 0; y < kSide; y++) {
        float element[kStrip + kHalo];
#pragma unroll
        for (int i = 0; i < kStrip + kHalo; i++) {
            element[i] = x[y * pitch + i];
        }
#pragma unroll
        for (int tap = 0; tap < kSide; tap++) {
#pragma unroll
            for (int n = 0; n < kN; n += kQuad) {
                pack<float, kQuad> weight =
                    load_pack<float, kQuad>(w + (y * kSide + tap) * m_pitch + n);
#pragma unroll
                for (int lane = 0; lane < kQuad; lane++) {
#pragma unroll
                    for (int i = 0; i < kStrip; i++) {
                        sums[n + lane][i] += weight.lane[lane] * element[i + tap];
                    }
                }
            }
        }
    }
}

// The sums of all sets, [set][m][place of the tile], to the out.
template <int kN>
__device__ inline void
store_tile(const plan &p, const corner &at, const float *sums, int places)
{
    const int threads = static_cast<int>(blockDim.x), width = places < threads ? places : threads;
    const int first = static_cast<int>(threadIdx.x) / width, step = threads / width;
    const int tile_m = p.groups * kN;
    if (first >= step) {
        return;
    }
    for (int place = static_cast<int>(threadIdx.x) - first * width; place < places;
         place += width) {
        uint32_t line = static_cast<uint32_t>(place);
        int column = static_cast<int>(take_digit(line, p.by_places));
        int row = at.row + static_cast<int>(take_digit(line, p.by_rows));
        int image = at.image + static_cast<int>(line);
        if (column >= p.columns || row >= p.rows || image >= p.images) {
            continue;
        }
        float *out = p.out + image * p.out_image + row * p.out_row + column;
        for (int m = first; m < tile_m && at.m + m < p.m; m += step) {
            float sum = sums[m * places + place];
            for (int set = 1; set < p.sets; set++) {
                sum += sums[(set * tile_m + m) * places + place];
            }
            out[(at.m + m) * p.out_m] = sum + (p.bias ? p.bias[at.m + m] : 0.0f);
        }
    }
}

template <int kN>
__global__ void
__launch_bounds__(kThreads, 2) threes(const __grid_constant__ plan p)
{
    extern __shared__ __align__(kPackBytes) float room[];
    entry *entries = reinterpret_cast<entry *>(room + p.entries);
    const corner at(p, kN);
    const int fields = p.tile_images * (p.tile_rows + kHalo) * (p.columns + kHalo);
    find_entries<kN>(p, at, entries, fields);

    const int slabs = (p.channels + p.depth - 1) / p.depth;
    int asked = 0, to = 0; // to: the stage of the next one that is asked for
    auto ask = [&] {
        if (asked < slabs) {
            const int channel = asked * p.depth, left = p.channels - channel;
            float *slab = room + to * p.stage;
            copy_slab(
                p, slab, entries, fields, p.field + channel * p.field_channel, p.field_channel,
                p.plane, left);
            copy_slab(
                p, slab, entries + fields, kTaps * p.groups * kN,
                p.factor + channel * p.factor_channel, p.factor_channel, kTaps * p.m_pitch, left);
        }
        close_copies();
        asked++;
        to = to + 1 == kStages ? 0 : to + 1;
    };
    ask();
    ask();

    // A thread's strip; those of no set only copy.
    const int strips = p.tile_images * p.tile_rows * p.strips, of_set = strips * p.groups;
    const int set = static_cast<int>(threadIdx.x) / of_set;
    const int own = static_cast<int>(threadIdx.x) - set * of_set;
    const int group = own / strips, strip = own - group * strips;
    const int line = strip / p.strips, image = line / p.tile_rows;
    const int each = p.depth / p.sets; // channels of a slab, of a set
    const int x_at = set * each * p.plane + (line + image * kHalo) * p.pitch +
                     (strip - line * p.strips) * kStrip;
    const int w_at = p.depth * p.plane + set * each * kTaps * p.m_pitch + group * kN;

    float sums[kN][kStrip] = {};
    int now = 0;
    for (int s = 0; s < slabs; s++) {
        wait_for_copies();
        __syncthreads(); // slab s is there, and nobody reads the stage that is asked for next
        ask();
        if (set < p.sets) {
            const float *x = room + now * p.stage + x_at, *w = room + now * p.stage + w_at;
            for (int c = 0; c < each; c++, x += p.plane, w += kTaps * p.m_pitch) {
                multiply_channel<kN>(sums, x, p.pitch, w, p.m_pitch);
            }
        }
        now = now + 1 == kStages ? 0 : now + 1;
    }
    __syncthreads(); // the stages hold the sums now
    const int places = strips * kStrip;
    if (set < p.sets) {
        float *mine = room + (set * p.groups + group) * kN * places + strip * kStrip;
#pragma unroll
        for (int n = 0; n < kN; n++) {
#pragma unroll
            for (int i = 0; i < kStrip; i++) {
                mine[n * places + i] = sums[n][i];
            }
        }
    }
    __syncthreads();
    store_tile<kN>(p, at, room, places);
}

// ---- launching ----------------------------------------------------------------------------------

// A convolution whose taps step forwards through the field.
inline aicf_conv
forwards(aicf_conv c)
{
    aicf_conv_axis *axes[2] = {&c.y, &c.x};
    for (int i = 0; i < 2; i++) {
        if (axes[i]->tap_step < 0) {
            axes[i]->first += (axes[i]->taps - 1) * axes[i]->tap_step;
            axes[i]->tap_step = -axes[i]->tap_step;
            c.factor += (axes[i]->taps - 1) * c.factor_strides[2 + i] * c.item;
            c.factor_strides[2 + i] = -c.factor_strides[2 + i];
        }
    }
    return c;
}

// Of a convolution that steps forwards: what these kernels are for. Strips that are mostly beyond a
// row's end are not.
inline bool
takes(const aicf_conv &c)
{
    const int64_t strips = ceil_div(c.x.places, kStrip);
    return c.groups == 1 && c.y.taps == kSide && c.x.taps == kSide && c.y.tap_step == 1 &&
           c.x.tap_step == 1 && (c.y.step == 1 || c.y.places == 1) && c.x.step == 1 &&
           c.field_strides[3] == 1 && c.out_strides[3] == 1 && c.images > 0 && c.channels > 0 &&
           c.m > 0 && c.y.places > 0 && c.x.places * 4 >= strips * kStrip * 3 && strips <= 64 &&
           is_small(c.field_strides, c.images, c.channels, c.y.size + kSide, c.x.size + kSide) &&
           is_small(c.factor_strides, c.m + kThreads, c.channels, kSide, kSide) &&
           is_small(c.out_strides, c.images, c.m, c.y.places, c.x.places);
}

// The least pitch of at least `least` at which strips of a warp are in different banks.
inline int
pitch_of(int least, int strips)
{
    const int rows = kBanks / strips;
    uint32_t row = 0;
    for (int strip = 0; strip < strips && strip < kBanks; strip++) {
        row |= uint32_t{1} << strip * kStrip % kBanks;
    }
    for (int pitch = least; pitch < least + kBanks; pitch++) {
        uint32_t taken = row;
        bool apart = true;
        for (int i = 1; i < rows && apart; i++) {
            const int by = i * pitch % kBanks;
            const uint32_t next = by ? row << by | row >> (kBanks - by) : row;
            apart = !(taken & next);
            taken |= next;
        }
        if (apart) {
            return pitch;
        }
    }
    return least;
}

struct shape {
    int outputs; // of a thread: 8 or 4
    int groups, images, rows, strips, sets;

    int64_t blocks(const aicf_conv &c) const
    {
        return ceil_div(c.m, groups * outputs) * ceil_div(c.y.places, rows) *
               ceil_div(c.images, images);
    }
};

// What the fullest multiprocessor does of blocks of a shape: products, and copies of a channel.
inline int64_t
cost_of(const shape &s, const aicf_conv &c, int processors)
{
    constexpr int64_t kOfThread = 560, kOfWord = 4; // instructions
    const int threads = s.groups * s.rows * s.strips;
    const int words = (s.rows + kHalo) * (s.strips * kStrip + kHalo) + kTaps * s.groups * s.outputs;
    return ceil_div(s.blocks(c), processors) * (threads * kOfThread + words * kOfWord);
}

// Groups and rows of up to 256 threads that share a large convolution out most evenly.
inline shape
even_shape(shape s, const aicf_conv &c, int processors)
{
    constexpr int kMoreRowTiles = 2;
    const int of_outputs = div_up(static_cast<int>(c.m), s.outputs);
    const int places = static_cast<int>(c.y.places), beside = kThreads / s.strips;
    const int most = of_outputs < kMostGroups ? of_outputs : kMostGroups;
    shape best = s;
    int64_t cost = INT64_MAX;
    for (int groups = most; groups * 2 >= most; groups--) {
        s.groups = div_up(of_outputs, div_up(of_outputs, groups));
        s.groups = s.groups < beside ? s.groups : beside;
        const int row_tiles = div_up(places, beside / s.groups);
        for (int more = 0; more <= kMoreRowTiles && row_tiles + more <= places; more++) {
            s.rows = div_up(places, row_tiles + more);
            const int64_t its = cost_of(s, c, processors);
            best = its < cost ? s : best;
            cost = its < cost ? its : cost;
        }
    }
    return best;
}

// Blocks of up to 256 threads: first as much of an image as they can make; while that leaves
// multiprocessors idle, fewer outputs, then fewer rows, and more threads that share the channels.
inline shape
shape_of(const aicf_conv &c, int processors)
{
    constexpr int kLeastThreads = 128;
    const int m = static_cast<int>(c.m), places = static_cast<int>(c.y.places);
    const int most_sets = static_cast<int>(aicf_conv_least(c.channels, kMostSets));
    shape s = {m % 8 == 0 || m >= 28 ? 8 : 4, 0, 1, 0, 0, 1};
    s.strips = static_cast<int>(ceil_div(c.x.places, kStrip));
    s = even_shape(s, c, processors);
    while (s.blocks(c) * 2 < processors * 3) {
        if (s.groups > 1) {
            s.groups = div_up(s.groups, 2);
        } else if (s.outputs == 8) {
            s.outputs = 4;
        } else if (s.rows > 1 && div_up(s.rows, 2) * s.strips * most_sets >= kLeastThreads) {
            s.rows = div_up(s.rows, 2);
        } else {
            break;
        }
    }
    if (s.rows == places) { // whole images: of small ones some
        while (s.groups * s.images * 2 * s.rows * s.strips <= kThreads &&
               s.images * 2 <= c.images) {
            s.images *= 2;
            if (s.blocks(c) < processors) {
                s.images /= 2;
                break;
            }
        }
    }
    const int threads = s.groups * s.images * s.rows * s.strips;
    while (threads * s.sets * 2 <= kThreads && s.sets * 2 <= most_sets) {
        s.sets *= 2;
    }
    return s;
}

// The bytes of shared memory that a block needs.
inline int
place_slabs(plan &p, int outputs)
{
    const int tile_m = p.groups * outputs;
    const int fields = p.tile_images * (p.tile_rows + kHalo) * (p.columns + kHalo);
    p.stage = p.depth * (p.plane + kTaps * p.m_pitch);
    const int slabs = div_up(p.channels, p.depth), stages = slabs < kStages ? slabs : kStages;
    const int sums = p.sets * tile_m * p.tile_images * p.tile_rows * p.strips * kStrip;
    p.entries = stages * p.stage > sums ? stages * p.stage : sums;
    p.entries += p.entries % 2;
    return 4 * p.entries + static_cast<int>(sizeof(entry)) * (fields + kTaps * tile_m);
}

inline plan
plan_of(const aicf_conv &c)
{
    plan p = {};
    p.field = reinterpret_cast<const float *>(c.field);
    p.factor = reinterpret_cast<const float *>(c.factor);
    p.bias = static_cast<const float *>(c.bias);
    p.out = reinterpret_cast<float *>(c.out);
    p.field_image = static_cast<int>(c.field_strides[0]);
    p.field_channel = static_cast<int>(c.field_strides[1]);
    p.field_row = static_cast<int>(c.field_strides[2]);
    p.factor_m = static_cast<int>(c.factor_strides[0]);
    p.factor_channel = static_cast<int>(c.factor_strides[1]);
    p.factor_y = static_cast<int>(c.factor_strides[2]);
    p.factor_x = static_cast<int>(c.factor_strides[3]);
    p.out_image = static_cast<int>(c.out_strides[0]);
    p.out_m = static_cast<int>(c.out_strides[1]);
    p.out_row = static_cast<int>(c.out_strides[2]);
    p.images = static_cast<int>(c.images);
    p.channels = static_cast<int>(c.channels);
    p.m = static_cast<int>(c.m);
    p.rows = static_cast<int>(c.y.places);
    p.columns = static_cast<int>(c.x.places);
    p.first_y = static_cast<int>(c.y.first);
    p.first_x = static_cast<int>(c.x.first);
    p.size_y = static_cast<int>(c.y.size);
    p.size_x = static_cast<int>(c.x.size);
    return p;
}

// Shapes p's blocks; the bytes of shared memory that they need.
inline int
shape_blocks(plan &p, const shape &s)
{
    constexpr int kLeastDepth = 4;
    const int each = div_up(p.channels, s.sets), lines = s.images * (s.rows + kHalo);
    p.groups = s.groups;
    p.tile_images = s.images;
    p.tile_rows = s.rows;
    p.strips = s.strips;
    p.sets = s.sets;
    p.m_tiles = div_up(p.m, s.groups * s.outputs);
    p.row_tiles = div_up(p.rows, s.rows);
    p.pitch = pitch_of(s.strips * kStrip + kHalo, s.strips);
    p.plane = (lines * p.pitch + kQuad - 1) / kQuad * kQuad;
    p.m_pitch = s.groups * s.outputs + kPad;
    p.by_width = divider_of(p.columns + kHalo);
    p.by_lines = divider_of(s.rows + kHalo);
    p.by_places = divider_of(s.strips * kStrip);
    p.by_rows = divider_of(s.rows);
    const int share = 2 * s.sets > kLeastDepth ? 2 : kLeastDepth / s.sets; // channels of a set
    p.depth = s.sets * (share < each ? share : each);
    int bytes = place_slabs(p, s.outputs);
    while (bytes > kMostShared && p.depth > s.sets) {
        p.depth -= s.sets;
        bytes = place_slabs(p, s.outputs);
    }
    return bytes;
}

// Launches it if this is for it: else `done` is left false.
inline aicf_status
launch(const aicf_conv &given, bool &done, aicf_stream stream)
{
    const aicf_conv c = forwards(given);
    int processors = 0, most = 0;
    if (!takes(c)) {
        return aicf_ok();
    }
    aicf_status status = count_processors(&processors);
    status = status.kind ? status : shared_limit(&most);
    if (status.kind) {
        return status;
    }
    const shape s = shape_of(c, processors);
    plan p = plan_of(c);
    const int64_t blocks = s.blocks(c);
    const int bytes = shape_blocks(p, s);
    const int threads =
        threads_of(s.images * s.rows * s.strips * s.groups * s.sets, blocks, processors);
    if (bytes > kMostShared || most < kMostShared || blocks > kMostBlocks) {
        return aicf_ok();
    }
    done = true;
    auto kernel = s.outputs == 8 ? threes<8> : threes<4>;
    status = allow_shared(kernel, kMostShared);
    return status.kind ? status
                       : aicf::launch(
                             kernel, static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
                             static_cast<size_t>(bytes), stream, p);
}

} // namespace aicf::AICF_OP::threes

#endif
