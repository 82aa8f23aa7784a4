// Convolutions over taps in f32 by multiply-adds where windows are of 3 x 3 and lie at every
// element: conv2d and, with the taps in reverse, its input gradient. One group, columns side by
// side; the rest is igemm's (see conv_fma.cuh).
//
// A block makes some rows of some outputs from slabs of a few channels: the field's rows with their
// halo, and the factor. Nothing is gathered: a thread makes strips of 7 columns, of 4 outputs in
// two rows or of 4 or 8 in one, whose nine elements of a row serve three taps. Where blocks would
// be too few, threads of a block share its channels out, in sets, whose sums are added in order.
// Bound by reads of shared memory: two rows read a quarter less than one of twice the outputs.
#ifndef AICF_CONV2D_THREES_KERNEL_CUH
#define AICF_CONV2D_THREES_KERNEL_CUH

#include "threes_of.cuh"

namespace aicf::AICF_OP::threes {

constexpr int kStrip = 7;      // columns that a thread makes; layers halve down to sevens
constexpr int kMostSets = 16;  // of a block
constexpr int kMostGroups = 8; // of outputs of a thread, of a block
constexpr int kBanks = 32;
constexpr int kAbsent = INT32_MIN;

struct plan : geometry {
    const float *field, *factor, *bias; // bias may be NULL
    float *out;
    int factor_m, factor_channel, factor_y, factor_x;
    int out_image, out_m, out_row;
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
template <int kN, int kRows>
__device__ inline void
multiply_channel(
    float (&sums)[kN][kRows][kStrip], const float *x, int pitch, const float *w, int m_pitch)
{
#pragma unroll
    for (int line = 0; line < kRows + kHalo; line++) {
        float element[kStrip + kHalo];
#pragma unroll
        for (int i = 0; i < kStrip + kHalo; i++) {
            element[i] = x[line * pitch + i];
        }
#pragma unroll
        for (int row = 0; row < kRows; row++) {
            const int y = line - row;
            if (y < 0 || y >= kSide) {
                continue;
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
                            sums[n + lane][row][i] += weight.lane[lane] * element[i + tap];
                        }
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

template <int kN, int kRows>
__global__ void
__launch_bounds__(kThreads, 2) threes(const __grid_constant__ plan p)
{
    extern __shared__ __align__(kPackBytes) float room[];
    entry *entries = reinterpret_cast<entry *>(room + p.entries);
    const corner at(p, kN);
    const int fields = p.tile_images * (p.tile_rows + kHalo) * (p.columns + kHalo);
    find_entries<kN>(p, at, entries, fields);
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before(); // nothing above reads or writes what another launch may

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
    const int rows = p.tile_rows / kRows, strips = p.tile_images * rows * p.strips;
    const int of_set = strips * p.groups, set = static_cast<int>(threadIdx.x) / of_set;
    const int own = static_cast<int>(threadIdx.x) - set * of_set;
    const int group = own / strips, strip = own - group * strips;
    const int line = strip / p.strips, image = line / rows;
    const int column = (strip - line * p.strips) * kStrip;
    const int each = p.depth / p.sets; // channels of a slab, of a set
    const int x_at = set * each * p.plane + (line * kRows + image * kHalo) * p.pitch + column;
    const int w_at = p.depth * p.plane + set * each * kTaps * p.m_pitch + group * kN;

    float sums[kN][kRows][kStrip] = {};
    int now = 0;
    for (int s = 0; s < slabs; s++) {
        wait_for_copies();
        __syncthreads(); // slab s is there, and nobody reads the stage that is asked for next
        ask();
        if (set < p.sets) {
            const float *x = room + now * p.stage + x_at, *w = room + now * p.stage + w_at;
            for (int c = 0; c < each; c++, x += p.plane, w += kTaps * p.m_pitch) {
                multiply_channel(sums, x, p.pitch, w, p.m_pitch);
            }
        }
        now = now + 1 == kStages ? 0 : now + 1;
    }
    __syncthreads(); // the stages hold the sums now
    const int of_row = p.strips * kStrip, places = strips * kRows * kStrip;
    if (set < p.sets) {
        float *mine =
            room + (set * p.groups + group) * kN * places + line * kRows * of_row + column;
#pragma unroll
        for (int n = 0; n < kN; n++) {
#pragma unroll
            for (int row = 0; row < kRows; row++) {
#pragma unroll
                for (int i = 0; i < kStrip; i++) {
                    mine[n * places + row * of_row + i] = sums[n][row][i];
                }
            }
        }
    }
    __syncthreads();
    store_tile<kN>(p, at, room, places);
}

} // namespace aicf::AICF_OP::threes

#endif
