// max_pool2d and avg_pool2d (cuda), f32, f16 and bf16, computed in f32 and rounded once.
//   planes   dense NCHW. `pairs`: windows of 2 or 3 at every second element, rows of whole packs: a
//            thread loads a pack of each of some rows, and takes what its windows need beside it
//            from the lane to the left; `element`, any other: a thread an out.
//   nhwc     channels last: a thread makes a pack of channels, of one out or, of windows of 2 or 3
//   at
//            every second row, of the outs of neighbouring rows, which share what is loaded.
// Of a largest element NaN wins. Its index is that of the first of equals, of the last NaN:
// elements are met row by row. Bound by bytes.
#define HEADER_OF(op) <aicf_ops/op.h>
#define HEADER(op) HEADER_OF(op)
#include HEADER(AICF_OP)

#include <type_traits>

#include <aicf/cuda/ptx.cuh>
#include <aicf/cuda/window.cuh>

#define LARGEST_max_pool2d 1
#define LARGEST_avg_pool2d 0
#define LARGEST_OF(op) LARGEST_##op
#define LARGEST_IN(op) LARGEST_OF(op)
#define LARGEST LARGEST_IN(AICF_OP)

namespace aicf::AICF_OP {

using namespace window;

// Rows of outs that a thread makes where windows are in pairs: at 2, five rows are loaded for two
// that overlap, of which a lone thread for each would load six.
constexpr int kBands = 2;
// Outs of channels last, below which a thread each is faster than a thread a pack: there are then
// no more blocks than multiprocessors.
constexpr int64_t kFew = 1 << 18;
// Blocks that a multiprocessor shall hold at least. Said, since else ptxas aims at twice as many,
// and to that end waits for the first rows before it loads the last.
constexpr int kResident = 4;

// ---- what becomes of a window -------------------------------------------------------------------

// `start(at)`: of no element yet; `at` is the index of the first one there is. `only`: of one.
// `take`: one element more. `merge`: the elements of `other`, all of which come later. `padding`:
// words whose lanes change nothing.
struct largest {
    using state = float;
    static constexpr bool kIndices = false, kMean = false;

    template <typename T> __device__ static uint32_t padding()
    {
        return lowest_word(T{});
    }

    __device__ static state start(int64_t)
    {
        return -INFINITY;
    }

    template <typename Index> __device__ static state only(float x, Index)
    {
        return x;
    }

    template <typename Index> __device__ static void take(state &s, float x, Index)
    {
        s = ptx::max_nan(s, x);
    }

    __device__ static void merge(state &s, state other)
    {
        s = ptx::max_nan(s, other);
    }

    __device__ static float value(state s)
    {
        return s;
    }
};

template <typename Index> struct largest_at {
    struct state {
        float value;
        Index at;
    };
    static constexpr bool kIndices = true, kMean = false;

    template <typename T> __device__ static uint32_t padding()
    {
        return lowest_word(T{});
    }

    __device__ static state start(Index at)
    {
        return {-INFINITY, at};
    }

    __device__ static state only(float x, Index at)
    {
        return {x, at};
    }

    __device__ static void take(state &s, float x, Index at)
    {
        bool wins = x > s.value || x != x;
        s.value = wins ? x : s.value;
        s.at = wins ? at : s.at;
    }

    __device__ static void merge(state &s, state other)
    {
        take(s, other.value, other.at);
    }

    __device__ static float value(state s)
    {
        return s.value;
    }
};

struct total {
    using state = float;
    static constexpr bool kIndices = false, kMean = true;

    template <typename T> __device__ static uint32_t padding()
    {
        return 0;
    }

    __device__ static state start(int64_t)
    {
        return 0.0f;
    }

    template <typename Index> __device__ static state only(float x, Index)
    {
        return x;
    }

    template <typename Index> __device__ static void take(state &s, float x, Index)
    {
        s += x;
    }

    __device__ static void merge(state &s, state other)
    {
        s += other;
    }

    __device__ static float value(state s)
    {
        return s;
    }
};

// A sum becomes a mean.
template <typename Reduce>
__device__ inline void
finish(typename Reduce::state &s, const share &count)
{
    if constexpr (Reduce::kMean) {
        s = count.of(s);
    }
}

// Stores kSize outs, and their indices.
template <typename Reduce, typename T, int kSize>
__device__ inline void
store_outs(T *out, int64_t *indices, const typename Reduce::state (&s)[kSize])
{
    float value[kSize];
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        value[i] = Reduce::value(s[i]);
    }
    store_lanes(out, value);
    if constexpr (Reduce::kIndices) {
        int64_t at[kSize];
#pragma unroll
        for (int i = 0; i < kSize; i++) {
            at[i] = s[i].at;
        }
        store_indices(indices, at);
    }
}

// ---- planes, in pairs ---------------------------------------------------------------------------

template <typename T> struct plane_operands {
    const T *x;
    T *out;
    int64_t *indices;
    axis<int> y, z; // rows and columns
    bool include_pad;
    divider packs, bands; // of a row, of a plane
    uint32_t threads;
};

// One row of a pack: what each of its outs makes of its two or three elements. `left` is the
// element before the pack, whose index is at - 1.
template <typename Reduce, int kWindow, int kSize>
__device__ inline void
reduce_row(const float (&x)[kSize], float left, int at, typename Reduce::state (&line)[kSize / 2])
{
#pragma unroll
    for (int o = 0; o < kSize / 2; o++) {
        if constexpr (kWindow == 3) {
            line[o] = Reduce::only(o == 0 ? left : x[o == 0 ? 0 : 2 * o - 1], at + 2 * o - 1);
            Reduce::take(line[o], x[2 * o], at + 2 * o);
        } else {
            line[o] = Reduce::only(x[2 * o], at + 2 * o);
        }
        Reduce::take(line[o], x[2 * o + 1], at + 2 * o + 1);
    }
}

template <typename Reduce, typename T, int kWindow, int kSize>
__global__ void
__launch_bounds__(kBlock, kResident) pairs(const __grid_constant__ plane_operands<T> p)
{
    constexpr int kPad = kWindow - 2, kOuts = kSize / 2, kRows = 2 * kBands + kPad;
    uint32_t thread = blockIdx.x * uint32_t{kBlock} + threadIdx.x;
    bool mine = thread < p.threads;
    uint32_t plane = mine ? thread : p.threads - 1; // those without outs take part in the shuffles
    int pack = static_cast<int>(take_digit(plane, p.packs));
    int band = static_cast<int>(take_digit(plane, p.bands)) * kBands;
    int width = p.z.size, row = 2 * band - kPad, lane = threadIdx.x % kWarp;
    const T *x = p.x + int64_t{plane} * p.y.size * width + pack * kSize;

    lanes<T, kSize> held[kRows];
    lanes<T, 1> beside[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        bool inside = row + r >= 0 && row + r < p.y.size;
        held[r].fill(Reduce::template padding<T>());
        beside[r].fill(Reduce::template padding<T>());
        if (inside) {
            held[r].load(x + (row + r) * width);
        }
        if (kPad == 1 && lane == 0 && pack > 0 && inside) {
            beside[r].load(x + (row + r) * width - 1);
        }
    }

    typename Reduce::state line[kRows][kOuts];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        float values[kSize], left[1];
        held[r].unpack(values);
        beside[r].unpack(left);
        if (kPad == 1) {
            float neighbour = __shfl_up_sync(0xffffffff, values[kSize - 1], 1);
            left[0] = lane > 0 && pack > 0 ? neighbour : left[0];
        }
        reduce_row<Reduce, kWindow>(values, left[0], (row + r) * width + pack * kSize, line[r]);
    }

    int64_t to = (int64_t{plane} * p.y.outs + band) * p.z.outs + pack * kOuts;
#pragma unroll
    for (int b = 0; b < kBands; b++) {
        typename Reduce::state s[kOuts];
        int first = most(2 * (band + b) - kPad, 0) * width;
#pragma unroll
        for (int o = 0; o < kOuts; o++) {
            s[o] = Reduce::start(first + most(pack * kSize + 2 * o - kPad, 0));
#pragma unroll
            for (int r = 0; r < kWindow; r++) {
                Reduce::merge(s[o], line[2 * b + r][o]);
            }
            finish<Reduce>(s[o], share_of(p.y, band + b, p.z, pack * kOuts + o, p.include_pad));
        }
        if (mine && band + b < p.y.outs) {
            store_outs<Reduce>(p.out + to + b * p.z.outs, p.indices + to + b * p.z.outs, s);
        }
    }
}

// ---- planes, any window -------------------------------------------------------------------------

template <typename T, typename Index> struct any_operands {
    const T *x;
    T *out;
    int64_t *indices;
    axis<Index> y, z;
    bool include_pad;
    digits packs, columns, rows; // packs: of channels, in nhwc
    int64_t threads;
};

template <typename Index> struct span {
    Index begin, end;
};

// The elements of window o.
template <typename Index>
__device__ inline span<Index>
elements_of(const axis<Index> &a, Index o)
{
    Index begin = o * a.stride - a.pad;
    return {most<Index>(begin, 0), least<Index>(begin + a.window, a.size)};
}

// Takes the elements [w.begin, w.end) of kRows rows from `row` on, which end at h.end, kColumns of
// each on their way at once: packs of kSize, `pitch` apart.
template <typename Reduce, int kRows, int kColumns, int kSize, typename T, typename Index>
__device__ inline void
take_rows(
    typename Reduce::state (&s)[kSize], const T *x, Index pitch, const axis<Index> &z, Index row,
    span<Index> h, span<Index> w)
{
    for (Index column = w.begin; column < w.end; column += kColumns) {
        lanes<T, kSize> held[kRows][kColumns];
#pragma unroll
        for (int r = 0; r < kRows; r++) {
#pragma unroll
            for (int c = 0; c < kColumns; c++) {
                held[r][c].fill(Reduce::template padding<T>());
                if (row + r < h.end && column + c < w.end) {
                    held[r][c].load(x + ((row + r) * z.size + column + c) * pitch);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < kRows; r++) {
#pragma unroll
            for (int c = 0; c < kColumns; c++) {
                float values[kSize];
                held[r][c].unpack(values);
#pragma unroll
                for (int i = 0; i < kSize; i++) {
                    Reduce::take(s[i], values[i], (row + r) * z.size + column + c);
                }
            }
        }
    }
}

// Windows of up to kWindow squared at once; of 0, any, four elements of a row at once.
template <typename Reduce, typename T, typename Index, int kWindow>
__global__ void
__launch_bounds__(kBlock, kResident) element(const __grid_constant__ any_operands<T, Index> p)
{
    constexpr int kRows = kWindow > 0 ? kWindow : 1, kColumns = kWindow > 0 ? kWindow : 4;
    int64_t thread = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (thread >= p.threads) {
        return;
    }
    int64_t plane = thread;
    Index q = static_cast<Index>(p.columns.take(plane));
    Index o = static_cast<Index>(p.rows.take(plane));
    span<Index> h = elements_of(p.y, o), w = elements_of(p.z, q);
    const T *x = p.x + plane * p.y.size * p.z.size;

    typename Reduce::state s[1] = {Reduce::start(h.begin * p.z.size + w.begin)};
    for (Index row = h.begin; row < h.end; row += kRows) {
        take_rows<Reduce, kRows, kColumns>(s, x, Index{1}, p.z, row, h, w);
    }
    finish<Reduce>(s[0], share_of(p.y, o, p.z, q, p.include_pad));
    store_outs<Reduce>(p.out + thread, p.indices + thread, s);
}

// ---- channels last ------------------------------------------------------------------------------

template <typename T> struct pixel_operands {
    const T *x;
    T *out;
    int64_t *indices;
    axis<int> y, z;
    bool include_pad;
    divider packs, columns, bands;
    uint32_t threads;
};

// Windows of kWindow at every second row and column.
template <typename Reduce, typename T, int kWindow, int kSize>
__global__ void
__launch_bounds__(kBlock, kResident - 1) pixels(const __grid_constant__ pixel_operands<T> p)
{
    constexpr int kRows = 2 * kBands + kWindow - 2;
    uint32_t image = blockIdx.x * uint32_t{kBlock} + threadIdx.x;
    if (image >= p.threads) {
        return;
    }
    int channels = static_cast<int>(p.packs.divisor) * kSize;
    int pack = static_cast<int>(take_digit(image, p.packs)) * kSize;
    int q = static_cast<int>(take_digit(image, p.columns));
    int band = static_cast<int>(take_digit(image, p.bands)) * kBands;
    int row = 2 * band - p.y.pad, column = 2 * q - p.z.pad;
    const T *x = p.x + int64_t{image} * p.y.size * p.z.size * channels + pack;

    lanes<T, kSize> held[kRows][kWindow];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
#pragma unroll
        for (int c = 0; c < kWindow; c++) {
            int h = row + r, w = column + c;
            held[r][c].fill(Reduce::template padding<T>());
            if (h >= 0 && h < p.y.size && w >= 0 && w < p.z.size) {
                held[r][c].load(x + (h * p.z.size + w) * channels);
            }
        }
    }

    typename Reduce::state s[kBands][kSize];
#pragma unroll
    for (int b = 0; b < kBands; b++) {
#pragma unroll
        for (int i = 0; i < kSize; i++) {
            s[b][i] = Reduce::start(most(row + 2 * b, 0) * p.z.size + most(column, 0));
        }
    }
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        typename Reduce::state line[kSize];
#pragma unroll
        for (int c = 0; c < kWindow; c++) {
            float values[kSize];
            held[r][c].unpack(values);
#pragma unroll
            for (int i = 0; i < kSize; i++) {
                int at = (row + r) * p.z.size + column + c;
                if (c == 0) {
                    line[i] = Reduce::only(values[i], at);
                } else {
                    Reduce::take(line[i], values[i], at);
                }
            }
        }
#pragma unroll
        for (int b = 0; b < kBands; b++) {
            if (r >= 2 * b && r < 2 * b + kWindow) {
#pragma unroll
                for (int i = 0; i < kSize; i++) {
                    Reduce::merge(s[b][i], line[i]);
                }
            }
        }
    }

    int64_t to = ((int64_t{image} * p.y.outs + band) * p.z.outs + q) * channels + pack;
#pragma unroll
    for (int b = 0; b < kBands; b++) {
        int64_t at = to + int64_t{b} * p.z.outs * channels;
        share count = share_of(p.y, band + b, p.z, q, p.include_pad);
#pragma unroll
        for (int i = 0; i < kSize; i++) {
            finish<Reduce>(s[b][i], count);
        }
        if (band + b < p.y.outs) {
            store_outs<Reduce>(p.out + at, p.indices + at, s[b]);
        }
    }
}

template <typename Reduce, typename T, int kSize>
__global__ void
__launch_bounds__(kBlock, kResident - 1)
    any_pixels(const __grid_constant__ any_operands<T, int64_t> p)
{
    int64_t image = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (image >= p.threads) {
        return;
    }
    int64_t channels = p.packs.size * kSize, to = image * kSize;
    int64_t pack = p.packs.take(image) * kSize;
    int64_t q = p.columns.take(image), o = p.rows.take(image);
    span<int64_t> h = elements_of(p.y, o), w = elements_of(p.z, q);
    const T *x = p.x + image * p.y.size * p.z.size * channels + pack;

    typename Reduce::state s[kSize];
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        s[i] = Reduce::start(h.begin * p.z.size + w.begin);
    }
    for (int64_t row = h.begin; row < h.end; row++) {
        take_rows<Reduce, 1, 4>(s, x, channels, p.z, row, h, w);
    }
    share count = share_of(p.y, o, p.z, q, p.include_pad);
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        finish<Reduce>(s[i], count);
    }
    store_outs<Reduce>(p.out + to, p.indices + to, s);
}

// ---- launches -----------------------------------------------------------------------------------

// How windows are reduced, and how many elements a thread loads at once: two indices of a row are
// one access, and four are two.
template <typename T, bool kIndices> struct kinds {
#if LARGEST
    using narrow = std::conditional_t<kIndices, largest_at<int>, largest>;
    using wide = std::conditional_t<kIndices, largest_at<int64_t>, largest>;
#else
    using narrow = total;
    using wide = total;
#endif
    static constexpr int kSize = kIndices ? 4 : kPackSize<T>;
};

template <typename T> struct tensors {
    const T *x;
    T *out;
    int64_t *indices; // NULL: not asked for

    // x and out where accesses of so many elements are aligned.
    bool aligned_for(int of_x, int of_out) const
    {
        int64_t size = static_cast<int64_t>(sizeof(T));
        return aligned(x, size * of_x) && aligned(out, size * of_out) && aligned(indices, 16);
    }

    tensors from(int64_t x_elements, int64_t outs) const
    {
        return {x + x_elements, out + outs, indices ? indices + outs : nullptr};
    }
};

template <typename T, bool kIndices, int kWindow>
aicf_status
launch_pairs(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    constexpr int kSize = kinds<T, kIndices>::kSize;
    int64_t packs = p.x.size / kSize, bands = ceil_div(p.y.outs, kBands);
    return in_parts(p.images * p.channels, packs * bands, [&](int64_t first, int64_t count) {
        tensors<T> part = t.from(first * p.y.size * p.x.size, first * p.y.outs * p.x.outs);
        int64_t threads = count * packs * bands;
        plane_operands<T> o = {
            part.x,
            part.out,
            part.indices,
            axis_of<int>(p.y),
            axis_of<int>(p.x),
            p.include_pad,
            divider_of(packs),
            divider_of(bands),
            static_cast<uint32_t>(threads)};
        return launch(
            pairs<typename kinds<T, kIndices>::narrow, T, kWindow, kSize>, blocks_of(threads),
            kBlock, 0, stream, o);
    });
}

template <typename Reduce, typename T, typename Index, int kWindow>
aicf_status
launch_elements(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t threads = p.images * p.channels * p.y.outs * p.x.outs;
    any_operands<T, Index> o = {
        t.x,
        t.out,
        t.indices,
        axis_of<Index>(p.y),
        axis_of<Index>(p.x),
        p.include_pad,
        {},
        digits_of(p.x.outs, threads),
        digits_of(p.y.outs, threads),
        threads};
    return launch(element<Reduce, T, Index, kWindow>, blocks_of(threads), kBlock, 0, stream, o);
}

template <typename T, bool kIndices>
aicf_status
launch_planes(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    constexpr int kSize = kinds<T, kIndices>::kSize;
    if (in_pairs(p) && is_narrow(p, 1) && p.x.size % kSize == 0 && p.x.outs == p.x.size / 2 &&
        t.aligned_for(kSize, kSize / 2)) {
        return p.x.window == 2 ? launch_pairs<T, kIndices, 2>(p, t, stream)
                               : launch_pairs<T, kIndices, 3>(p, t, stream);
    }
    bool narrow = is_narrow(p, 1);
    if (narrow && p.y.window <= 3 && p.x.window <= 3) {
        return launch_elements<typename kinds<T, kIndices>::narrow, T, int, 3>(p, t, stream);
    }
    return narrow ? launch_elements<typename kinds<T, kIndices>::narrow, T, int, 0>(p, t, stream)
                  : launch_elements<typename kinds<T, kIndices>::wide, T, int64_t, 0>(p, t, stream);
}

template <typename T, bool kIndices, int kWindow>
aicf_status
launch_pixels(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    constexpr int kSize = kinds<T, kIndices>::kSize;
    int64_t packs = p.channels / kSize, bands = ceil_div(p.y.outs, kBands);
    return in_parts(p.images, packs * p.x.outs * bands, [&](int64_t first, int64_t count) {
        tensors<T> part = t.from(
            first * p.channels * p.y.size * p.x.size, first * p.channels * p.y.outs * p.x.outs);
        int64_t threads = count * packs * p.x.outs * bands;
        pixel_operands<T> o = {
            part.x,
            part.out,
            part.indices,
            axis_of<int>(p.y),
            axis_of<int>(p.x),
            p.include_pad,
            divider_of(packs),
            divider_of(p.x.outs),
            divider_of(bands),
            static_cast<uint32_t>(threads)};
        return launch(
            pixels<typename kinds<T, kIndices>::narrow, T, kWindow, kSize>, blocks_of(threads),
            kBlock, 0, stream, o);
    });
}

template <typename T, bool kIndices, int kSize>
aicf_status
launch_any_pixels(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t packs = p.channels / kSize;
    int64_t threads = p.images * p.y.outs * p.x.outs * packs;
    any_operands<T, int64_t> o = {
        t.x,
        t.out,
        t.indices,
        p.y,
        p.x,
        p.include_pad,
        digits_of(packs, threads),
        digits_of(p.x.outs, threads),
        digits_of(p.y.outs, threads),
        threads};
    return launch(
        any_pixels<typename kinds<T, kIndices>::wide, T, kSize>, blocks_of(threads), kBlock, 0,
        stream, o);
}

template <typename T, bool kIndices>
aicf_status
launch_nhwc(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    constexpr int kSize = kinds<T, kIndices>::kSize;
    if (p.channels % kSize != 0 || !t.aligned_for(kSize, kSize)) {
        return launch_any_pixels<T, kIndices, 1>(p, t, stream);
    }
    bool pairs =
        p.y.window == p.x.window && p.y.stride == 2 && p.x.stride == 2 && is_narrow(p, p.channels);
    if (pairs && p.x.window == 2) {
        return launch_pixels<T, kIndices, 2>(p, t, stream);
    }
    if (pairs && p.x.window == 3) {
        return launch_pixels<T, kIndices, 3>(p, t, stream);
    }
    return p.images * p.y.outs * p.x.outs * p.channels < kFew
               ? launch_any_pixels<T, kIndices, 1>(p, t, stream)
               : launch_any_pixels<T, kIndices, kSize>(p, t, stream);
}

} // namespace aicf::AICF_OP

#define LAUNCHER_OF(op, kernel, s) aicf_cuda_##op##_##kernel##_##s
#define LAUNCHER(op, kernel, s) LAUNCHER_OF(op, kernel, s)

#if LARGEST
#define LAUNCH(T, s, kernel)                                                                       \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                      \
        const T *x, T *out, int64_t *indices, int64_t N, int64_t C, int64_t H, int64_t W, int64_t, \
        int64_t, int64_t P, int64_t Q, const int64_t window[2], const int64_t stride[2],           \
        const int64_t pad[2], bool, aicf_stream stream)                                            \
    {                                                                                              \
        using namespace aicf::AICF_OP;                                                             \
        using D = aicf::device_t<T>;                                                               \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, false);                  \
        tensors<D> t = {aicf::device(x), aicf::device(out), indices};                              \
        return indices ? launch_##kernel<D, true>(p, t, stream)                                    \
                       : launch_##kernel<D, false>(p, t, stream);                                  \
    }
#else
#define LAUNCH(T, s, kernel)                                                                  \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                 \
        const T *x, T *out, int64_t N, int64_t C, int64_t H, int64_t W, int64_t, int64_t,     \
        int64_t P, int64_t Q, const int64_t window[2], const int64_t stride[2],               \
        const int64_t pad[2], bool, bool count_include_pad, aicf_stream stream)               \
    {                                                                                         \
        using namespace aicf::AICF_OP;                                                        \
        using D = aicf::device_t<T>;                                                          \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, count_include_pad); \
        tensors<D> t = {aicf::device(x), aicf::device(out), nullptr};                         \
        return launch_##kernel<D, false>(p, t, stream);                                       \
    }
#endif

#define LAUNCHERS(T, s)  \
    LAUNCH(T, s, planes) \
    LAUNCH(T, s, nhwc)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
