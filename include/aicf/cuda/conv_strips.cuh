// Depthwise convolutions (see conv.h) of 3 x 3 taps side by side that step by 1 or 2: a thread
// makes a strip of rows at one column, of one channel or of 8 bytes of channels that lie side by
// side, so that an element of the field is fetched once for its three taps of a column; accumulated
// in f32. All that a strip reads is asked for before any of it is used, then what the thread's next
// one reads, as far as the L2. Bound by bytes.
#ifndef AICF_CUDA_CONV_STRIPS_CUH
#define AICF_CUDA_CONV_STRIPS_CUH

#include <aicf/cuda/conv.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::AICF_OP {

using namespace conv;

constexpr int kStripThreads = 256;
constexpr int kStripBlocks = 2; // a multiprocessor: 128 registers a thread hold what it asks for
constexpr int kSide = 3, kNine = kSide * kSide;
constexpr int kStripPacks = 32; // packs of channels of a block, at most

// Channels of a thread where they lie side by side: 8 bytes.
template <typename T> constexpr int kBeside = 8 / static_cast<int>(sizeof(T));

// Of a strip. Sevens, as the sizes of networks are seven times powers of two; more where a row is
// few instructions beside what finds the strip.
template <int kLanes, int kStep> constexpr int kStripRows = (kLanes > 1 ? 7 : 14) / kStep;
template <int kLanes, int kStep>
constexpr int kStripReads = (kStripRows<kLanes, kStep> - 1) * kStep + kSide;

// A block walks a part of the places, which are columns of strips. Where threads have packs of
// channels, neighbours have those of one column, 2^packs_log of them, and `chunks` of blocks share
// a part; else neighbours have columns, and each output has places of its own.
struct strip_problem {
    const void *field, *factor, *bias; // bias may be NULL
    void *out;
    float *parts; // of sums over places: f32 [part][output][tap]
    divider chunks, columns, strips, outputs, by_m;
    uint32_t places, depth;  // depth: of a part
    int packs_log, channels; // channels: outputs of all groups
    int first[2], size[2], rows;
    int64_t field_strides[4], factor_strides[4], out_strides[4], factor_group;
};

// Bytes of a thread's channels at one place.
template <typename T, int kLanes> constexpr int kLaneBytes = kLanes * static_cast<int>(sizeof(T));

template <int kBytes>
__device__ inline words
load_inside(const void *p, bool inside)
{
    words w = {};
    if (inside) {
        w = load_bytes<kBytes>(p);
    }
    return w;
}

// What a strip reads of the field, and where it makes its outs.
template <typename T, int kLanes, int kStep> struct strip {
    static constexpr int kRows = kStripRows<kLanes, kStep>, kReads = kStripReads<kLanes, kStep>;
    words held[kReads][kSide];
    int row, column, image;

    __device__ void find(const strip_problem &p, uint32_t place)
    {
        column = static_cast<int>(take_digit(place, p.columns));
        row = static_cast<int>(take_digit(place, p.strips)) * kRows;
        image = static_cast<int>(place);
    }

    // `field`: of the channel.
    __device__ void load(const strip_problem &p, const T *field)
    {
        int y = p.first[0] + row * kStep, x = p.first[1] + column * kStep;
        const int64_t step = kLanes > 1 ? p.field_strides[3] : 1;
        const T *at = field + image * p.field_strides[0] + y * p.field_strides[2] + x * step;
        bool there[kSide];
#pragma unroll
        for (int t = 0; t < kSide; t++) {
            there[t] = static_cast<unsigned>(x + t) < static_cast<unsigned>(p.size[1]);
        }
#pragma unroll
        for (int i = 0; i < kReads; i++, at += p.field_strides[2]) {
            bool inside = static_cast<unsigned>(y + i) < static_cast<unsigned>(p.size[0]);
#pragma unroll
            for (int t = 0; t < kSide; t++) {
                held[i][t] = load_inside<kLaneBytes<T, kLanes>>(at + t * step, inside && there[t]);
            }
        }
    }

    // On its way to the L2: the strip's own column, as its neighbours are other threads'.
    __device__ void fetch_ahead(const strip_problem &p, const T *field) const
    {
        constexpr int kOwn = kSide / 2;
        int y = p.first[0] + row * kStep, x = p.first[1] + column * kStep + kOwn;
        const T *at = field + image * p.field_strides[0] + y * p.field_strides[2] +
                      (kLanes > 1 ? x * p.field_strides[3] : x);
        bool there = static_cast<unsigned>(x) < static_cast<unsigned>(p.size[1]);
#pragma unroll
        for (int i = 0; i < kReads; i++, at += p.field_strides[2]) {
            if (there && static_cast<unsigned>(y + i) < static_cast<unsigned>(p.size[0])) {
                ptx::prefetch_l2(at);
            }
        }
    }

    // Of the outs or, over places, of what lies like them.
    __device__ T *outs(const strip_problem &p, int output) const
    {
        return static_cast<T *>(p.out) + image * p.out_strides[0] + output * p.out_strides[1] +
               row * p.out_strides[2] + column * p.out_strides[3];
    }

    __device__ float value(int read, int tap, int lane) const
    {
        return lane_of<T>(held[read][tap], lane);
    }
};

// The places of a thread: of the block's part, each `step`-th from `first` on.
struct strip_walk {
    uint32_t first, end, step;
    int output; // where threads have packs of channels

    template <int kLanes> __device__ static strip_walk of(const strip_problem &p)
    {
        uint32_t thread = threadIdx.x, part = blockIdx.x, packs = 1u << p.packs_log;
        uint32_t chunk = take_digit(part, p.chunks);
        strip_walk w;
        w.output = static_cast<int>((chunk << p.packs_log | (thread & (packs - 1))) * kLanes);
        w.step = kStripThreads >> p.packs_log;
        w.first = part * p.depth + (thread >> p.packs_log);
        w.end = min(p.places, (part + 1) * p.depth);
        w.end = w.output < p.channels ? w.end : 0;
        return w;
    }
};

// ---- over taps ----------------------------------------------------------------------------------

// The weights of a block's channels, as f32 by taps.
template <typename T, int kLanes> struct strip_weights {
    static constexpr int kPitch = kStripPacks * kLanes + 4; // turns the banks from tap to tap
    float of[kNine][kPitch];

    __device__ void load(const strip_problem &p, int first)
    {
        int count = kNine * (kLanes << p.packs_log);
        for (int i = static_cast<int>(threadIdx.x); i < count; i += kStripThreads) {
            int channel = i / kNine, tap = i % kNine;
            const T *at = static_cast<const T *>(p.factor) + (first + channel) * p.factor_group +
                          tap / kSide * p.factor_strides[2] + tap % kSide * p.factor_strides[3];
            of[tap][channel] = first + channel < p.channels ? to_f32(*at) : 0.0f;
        }
    }
};

template <typename T, int kLanes, int kStep>
__device__ inline void
make_strip(
    const strip_problem &p, const strip<T, kLanes, kStep> &x, const float (&w)[kNine][kLanes],
    const float (&bias)[kLanes], int output)
{
    constexpr int kRows = kStripRows<kLanes, kStep>;
    float sums[kRows][kLanes];
    T *out = x.outs(p, output);
#pragma unroll
    for (int i = 0; i < kStripReads<kLanes, kStep>; i++) { // rows of the field
#pragma unroll
        for (int r = 0; r < kRows; r++) {
            if (i < r * kStep || i >= r * kStep + kSide) {
                continue;
            }
            const int y = i - r * kStep;
#pragma unroll
            for (int t = 0; t < kSide; t++) {
#pragma unroll
                for (int c = 0; c < kLanes; c++) {
                    float before = y == 0 && t == 0 ? bias[c] : sums[r][c];
                    sums[r][c] = before + x.value(i, t, c) * w[y * kSide + t][c];
                }
            }
            if (y == kSide - 1) {
                if (x.row + r < p.rows) {
                    store_bytes<kLaneBytes<T, kLanes>>(out, words_of<T, kLanes>(sums[r]));
                }
                out += p.out_strides[2];
            }
        }
    }
}

// Packs of channels.
template <int kLanes, int kStep, typename T>
__global__ void
__launch_bounds__(kStripThreads, kStripBlocks)
    strips_of_packs(const __grid_constant__ strip_problem p)
{
    __shared__ __align__(kPackBytes) strip_weights<T, kLanes> weights;
    strip_walk walk = strip_walk::of<kLanes>(p);
    int lane = static_cast<int>(threadIdx.x) & ((1 << p.packs_log) - 1);
    weights.load(p, walk.output - lane * kLanes);
    __syncthreads();
    float w[kNine][kLanes], bias[kLanes] = {};
#pragma unroll
    for (int tap = 0; tap < kNine; tap++) {
#pragma unroll
        for (int c = 0; c < kLanes; c++) {
            w[tap][c] = weights.of[tap][lane * kLanes + c];
        }
    }
    if (p.bias && walk.output < p.channels) {
#pragma unroll
        for (int c = 0; c < kLanes; c++) {
            bias[c] = to_f32(static_cast<const T *>(p.bias)[walk.output + c]);
        }
    }
    const T *field = static_cast<const T *>(p.field) + walk.output;
#pragma unroll 1
    for (uint32_t place = walk.first; place < walk.end; place += walk.step) {
        strip<T, kLanes, kStep> x;
        x.find(p, place);
        x.load(p, field);
        if (place + walk.step < walk.end) {
            strip<T, kLanes, kStep> next;
            next.find(p, place + walk.step);
            next.fetch_ahead(p, field);
        }
        make_strip(p, x, w, bias, walk.output);
    }
}

// An output a place.
template <int kStep, typename T>
__global__ void
__launch_bounds__(kStripThreads, kStripBlocks)
    strips_of_columns(const __grid_constant__ strip_problem p)
{
    uint32_t i = blockIdx.x * kStripThreads + threadIdx.x;
    if (i >= p.places) {
        return;
    }
    strip<T, 1, kStep> x;
    x.find(p, i);
    uint32_t image = static_cast<uint32_t>(x.image);
    int output = static_cast<int>(take_digit(image, p.outputs));
    x.image = static_cast<int>(image);
    int group = static_cast<int>(divide(static_cast<uint32_t>(output), p.by_m));
    x.load(p, static_cast<const T *>(p.field) + group * p.field_strides[1]);
    const T *factor = static_cast<const T *>(p.factor) + group * p.factor_group +
                      (output - group * static_cast<int>(p.by_m.divisor)) * p.factor_strides[0];
    const T *biases = static_cast<const T *>(p.bias);
    float w[kNine][1], bias[1] = {biases ? to_f32(biases[output]) : 0.0f};
#pragma unroll
    for (int tap = 0; tap < kNine; tap++) {
        w[tap][0] =
            to_f32(factor[tap / kSide * p.factor_strides[2] + tap % kSide * p.factor_strides[3]]);
    }
    make_strip(p, x, w, bias, output);
}

// ---- launching ----------------------------------------------------------------------------------

// The same taps from the other end, so that they step forwards through the field.
inline void
forwards(aicf_conv_axis &a, char *&factor, int64_t &stride, int64_t item)
{
    if (a.taps > 1 && a.tap_step < 0) {
        a.first += (a.taps - 1) * a.tap_step;
        a.tap_step = -a.tap_step;
        factor += (a.taps - 1) * stride * item;
        stride = -stride;
    }
}

inline aicf_conv
forwards(aicf_conv c)
{
    forwards(c.y, c.factor, c.factor_strides[2], c.item);
    forwards(c.x, c.factor, c.factor_strides[3], c.item);
    return c;
}

inline bool
is_strip(const aicf_conv_axis &a, int64_t step)
{
    return a.taps == kSide && a.tap_step == 1 && (a.step == step || a.places <= 1);
}

// The step of both axes; 0: strips are not for this one. Requires forwards(c).
inline int
strip_step(const aicf_conv &c)
{
    for (int step = 1; step <= 2; step++) {
        if (c.channels == 1 && is_strip(c.y, step) && is_strip(c.x, step)) {
            return step;
        }
    }
    return 0;
}

// Whether threads take channels that lie side by side, in both tensors, on 8 bytes.
inline bool
lies_beside(const aicf_conv &c)
{
    const int64_t lanes = 8 / c.item;
    bool whole = c.m == 1 && c.groups % lanes == 0 && c.field_strides[1] == 1 &&
                 c.out_strides[1] == 1 && reinterpret_cast<uintptr_t>(c.field) % 8 == 0 &&
                 reinterpret_cast<uintptr_t>(c.out) % 8 == 0;
    for (int d = 0; d < 4; d++) {
        whole =
            whole && (d == 1 || (c.field_strides[d] % lanes == 0 && c.out_strides[d] % lanes == 0));
    }
    return whole;
}

// How a convolution of so many channels a thread is made.
struct strip_way {
    int step;     // of both axes; 0: strips are not for this one
    bool packs;   // of channels, kBeside of them
    int64_t rows; // of a strip
};

// Requires forwards(c).
inline strip_way
strip_way_of(const aicf_conv &c)
{
    strip_way w = {strip_step(c), lies_beside(c), 0};
    w.rows = (w.packs ? 7 : 14) / (w.step == 2 ? 2 : 1);
    int64_t places = c.images * c.x.places * ceil_div(c.y.places, w.rows);
    bool narrow = places <= kNarrow / (c.m * c.groups + kStripThreads) && c.groups * c.m <= kNarrow;
    if (!narrow || (!w.packs && c.field_strides[3] != 1)) {
        w.step = 0;
    }
    return w;
}

inline strip_problem
strip_problem_of(const aicf_conv &c, const strip_way &way)
{
    strip_problem p = {};
    p.field = c.field;
    p.factor = c.factor;
    p.bias = c.bias;
    p.out = c.out;
    p.channels = static_cast<int>(c.m * c.groups);
    p.factor_group = c.factor_group;
    for (int d = 0; d < 4; d++) {
        p.field_strides[d] = c.field_strides[d];
        p.factor_strides[d] = c.factor_strides[d];
        p.out_strides[d] = c.out_strides[d];
    }
    p.first[0] = static_cast<int>(c.y.first);
    p.first[1] = static_cast<int>(c.x.first);
    p.size[0] = static_cast<int>(c.y.size);
    p.size[1] = static_cast<int>(c.x.size);
    p.rows = static_cast<int>(c.y.places);
    const int lanes = way.packs ? static_cast<int>(8 / c.item) : 1;
    while (way.packs && 1 << p.packs_log < kStripPacks && lanes << p.packs_log < p.channels) {
        p.packs_log++;
    }
    int64_t strips = ceil_div(c.y.places, way.rows);
    p.places = static_cast<uint32_t>(c.images * strips * c.x.places);
    p.chunks = divider_of(ceil_div(p.channels, lanes << p.packs_log));
    p.columns = divider_of(c.x.places);
    p.strips = divider_of(strips);
    p.outputs = divider_of(p.channels);
    p.by_m = divider_of(c.m);
    return p;
}

// Parts of the places, at most `most`, so that all of a device's blocks run at once.
inline aicf_status
split_strips(strip_problem &p, int64_t most, int64_t &parts)
{
    int processors = 0;
    aicf_status status = count_processors(&processors);
    int64_t room = processors * kStripBlocks / static_cast<int64_t>(p.chunks.divisor);
    int64_t step = kStripThreads >> p.packs_log;
    room = room < most ? room : most;
    room = room > 1 ? room : 1;
    p.depth = static_cast<uint32_t>(ceil_div(ceil_div(p.places, room), step) * step);
    parts = ceil_div(p.places, p.depth);
    return status;
}

template <typename T>
aicf_status
launch_strips_of_packs(const aicf_conv &c, const strip_way &way, aicf_stream stream)
{
    strip_problem p = strip_problem_of(c, way);
    int64_t parts = 0;
    aicf_status status = split_strips(p, kNarrow, parts);
    if (status.kind) {
        return status;
    }
    auto kernel =
        way.step == 1 ? strips_of_packs<kBeside<T>, 1, T> : strips_of_packs<kBeside<T>, 2, T>;
    return aicf::launch(
        kernel, static_cast<unsigned>(parts * p.chunks.divisor), kStripThreads, 0, stream, p);
}

template <typename T>
aicf_status
launch_strips_of_columns(const aicf_conv &c, const strip_way &way, aicf_stream stream)
{
    strip_problem p = strip_problem_of(c, way);
    p.places *= static_cast<uint32_t>(p.channels);
    auto kernel = way.step == 1 ? strips_of_columns<1, T> : strips_of_columns<2, T>;
    return aicf::launch(
        kernel, static_cast<unsigned>(ceil_div(p.places, kStripThreads)), kStripThreads, 0, stream,
        p);
}

} // namespace aicf::AICF_OP

#endif
