// Launches convolutions over taps in f32 where windows are of 3 x 3 and lie at every element (see
// threes_kernel.cuh): which those are, and how blocks share one out.
#ifndef AICF_CONV2D_THREES_CUH
#define AICF_CONV2D_THREES_CUH

#include "threes_kernel.cuh"

namespace aicf::AICF_OP::threes {

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

// The least pitch of at least `least` at which strips of a warp, which are of `high` rows, are in
// different banks.
inline int
pitch_of(int least, int strips, int high)
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
            const int by = i * high * pitch % kBanks;
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
    int outputs, high; // outputs and rows of a thread: 8 and 1, 4 and 1 or 4 and 2
    int groups, images, rows, strips, sets;

    int threads() const
    {
        return groups * images * (rows / high) * strips * sets;
    }

    int64_t blocks(const aicf_conv &c) const
    {
        return ceil_div(c.m, groups * outputs) * ceil_div(c.y.places, rows) *
               ceil_div(c.images, images);
    }
};

constexpr int kEven = 128; // threads, for each of a multiprocessor's schedulers as many

// What the fullest multiprocessor does of blocks of a shape: products, and copies of a channel.
inline int64_t
cost_of(const shape &s, const aicf_conv &c, int processors)
{
    constexpr int64_t kOfThread = 560, kOfWord = 4; // instructions
    const int threads = s.high > 1 ? div_up(s.threads(), kEven) * kEven : s.threads();
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
        const int row_tiles = div_up(places, beside / s.groups * s.high);
        for (int more = 0; more <= kMoreRowTiles && row_tiles + more <= places; more++) {
            s.rows = div_up(div_up(places, row_tiles + more), s.high) * s.high;
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
    constexpr int kLeastThreads = 128, kHigh = 15; // of so many rows a last odd one is little
    const int m = static_cast<int>(c.m), places = static_cast<int>(c.y.places);
    const int most_sets = static_cast<int>(aicf_conv_least(c.channels, kMostSets));
    const int strips = static_cast<int>(ceil_div(c.x.places, kStrip));
    shape s = {4, 2, 0, 1, 0, strips, 1};
    if (places % 2 == 0 || places >= kHigh) {
        s = even_shape(s, c, processors);
    }
    if (s.groups == 0 || s.blocks(c) * 2 < processors * 3) {
        s = even_shape({m % 8 == 0 || m >= 28 ? 8 : 4, 1, 0, 1, 0, strips, 1}, c, processors);
    }
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
    if (s.rows >= places) { // whole images: of small ones some
        while (s.threads() * 2 <= kThreads && s.images * 2 <= c.images) {
            s.images *= 2;
            if (s.blocks(c) < processors) {
                s.images /= 2;
                break;
            }
        }
    }
    while (s.threads() * 2 <= kThreads && s.sets * 2 <= most_sets) {
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
    static_cast<geometry &>(p) = geometry_of(c);
    p.field = reinterpret_cast<const float *>(c.field);
    p.factor = reinterpret_cast<const float *>(c.factor);
    p.bias = static_cast<const float *>(c.bias);
    p.out = reinterpret_cast<float *>(c.out);
    p.factor_m = static_cast<int>(c.factor_strides[0]);
    p.factor_channel = static_cast<int>(c.factor_strides[1]);
    p.factor_y = static_cast<int>(c.factor_strides[2]);
    p.factor_x = static_cast<int>(c.factor_strides[3]);
    p.out_image = static_cast<int>(c.out_strides[0]);
    p.out_m = static_cast<int>(c.out_strides[1]);
    p.out_row = static_cast<int>(c.out_strides[2]);
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
    p.pitch = pitch_of(s.strips * kStrip + kHalo, s.strips, s.high);
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
    const int threads = threads_of(s.threads(), blocks, processors);
    if (bytes > kMostShared || most < kMostShared || blocks > kMostBlocks) {
        return aicf_ok();
    }
    done = true;
    auto kernel = s.high == 2 ? threes<4, 2> : s.outputs == 8 ? threes<8, 1> : threes<4, 1>;
    status = allow_shared(kernel, kMostShared);
    return status.kind ? status
                       : launch_waiting(
                             kernel, static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
                             static_cast<size_t>(bytes), stream, p);
}

} // namespace aicf::AICF_OP::threes

#endif
