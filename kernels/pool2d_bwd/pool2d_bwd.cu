// max_pool2d_bwd and avg_pool2d_bwd (cuda), f32, f16 and bf16: each element of gx gathers from the
// windows that hold it, row by row, summed in f32 and rounded once; so bits do not depend on who
// comes first. An index that names no element of its window is met by none.
//   planes   dense NCHW. `pairs`: windows of 2 or 3 at every second element, rows of whole packs: a
//            thread loads the windows of a pack, and takes the one to the right from the next lane;
//            `element`, any other: a thread an element.
//   nhwc     channels last: a thread makes a pack of channels, of one element or, of windows of 2
//   or
//            3 at every second element, of the four that share the same windows.
// Bound by bytes.
#define HEADER_OF(op) <aicf_ops/op.h>
#define HEADER(op) HEADER_OF(op)
#include HEADER(AICF_OP)

#include <aicf/cuda/window.cuh>

#define LARGEST_max_pool2d_bwd 1
#define LARGEST_avg_pool2d_bwd 0
#define LARGEST_OF(op) LARGEST_##op
#define LARGEST_IN(op) LARGEST_OF(op)
#define LARGEST LARGEST_IN(AICF_OP)

namespace aicf::AICF_OP {

using namespace window;

constexpr bool kLargest = LARGEST;
// Pairs of rows of gx that a thread makes where windows are in pairs.
constexpr int kBands = 2;
// Blocks that a multiprocessor shall hold at least. Said, since else ptxas aims at twice as many,
// and to that end waits for the first rows before it loads the last.
constexpr int kResident = 4;
// Elements that a thread stores at once: of a largest, two windows have two indices, one access.
template <typename T> constexpr int kSize = kLargest ? 4 : kPackSize<T>;

// An index as those of narrow planes are; -1, which no element has, of one that is not.
__device__ inline int
narrow_index(int64_t at)
{
    return static_cast<uint64_t>(at) <= static_cast<uint64_t>(kNarrow) ? static_cast<int>(at) : -1;
}

// ---- planes, in pairs ---------------------------------------------------------------------------

template <typename T> struct plane_operands {
    const T *gy;
    const int64_t *indices;
    T *gx;
    axis<int> y, z; // rows and columns
    bool include_pad;
    divider packs, bands; // of a row, of a plane
    uint32_t threads;
};

// Some windows of one row: what each hands on, and to which element; of a mean, to all.
template <int kCount> struct windows {
    float value[kCount];
    int at[kCount];

    // What element `at` gets of window o.
    __device__ float part(int o, int element) const
    {
        return !kLargest || at[o] == element ? value[o] : 0.0f;
    }
};

template <typename T, int kWindow>
__global__ void
__launch_bounds__(kBlock, kResident) pairs(const __grid_constant__ plane_operands<T> p)
{
    constexpr int kOuts = kSize<T> / 2, kMore = kWindow - 2, kRows = kBands + kMore;
    uint32_t thread = blockIdx.x * uint32_t{kBlock} + threadIdx.x;
    bool mine = thread < p.threads;
    uint32_t plane = mine ? thread : p.threads - 1; // those without any take part in the shuffles
    int pack = static_cast<int>(take_digit(plane, p.packs));
    int band = static_cast<int>(take_digit(plane, p.bands)) * kBands;
    int lane = threadIdx.x % kWarp;
    bool last = pack + 1 == static_cast<int>(p.packs.divisor);
    int64_t from = (int64_t{plane} * p.y.outs + band) * p.z.outs + pack * kOuts;

    lanes<T, kOuts> held[kRows];
    lanes<T, 1> beside[kRows]; // the window to the right, where no lane has it
    int64_t at[kRows][kOuts], at_beside[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        bool inside = band + r < p.y.outs;
        held[r].fill(0);
        beside[r].fill(0);
        at_beside[r] = -1;
        if (inside) {
            held[r].load(p.gy + from + r * p.z.outs);
        }
        if constexpr (kLargest) {
#pragma unroll
            for (int o = 0; o < kOuts; o++) {
                at[r][o] = -1;
            }
            if (inside) {
                load_indices(p.indices + from + r * p.z.outs, at[r]);
            }
        }
        if (kMore == 1 && lane == kWarp - 1 && !last && inside) {
            beside[r].load(p.gy + from + r * p.z.outs + kOuts);
            if constexpr (kLargest) {
                at_beside[r] = p.indices[from + r * p.z.outs + kOuts];
            }
        }
    }

    windows<kOuts + 1> row[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        float values[kOuts], right[1];
        held[r].unpack(values);
        beside[r].unpack(right);
#pragma unroll
        for (int o = 0; o < kOuts; o++) {
            row[r].value[o] = values[o];
            row[r].at[o] = kLargest ? narrow_index(at[r][o]) : 0;
        }
        if constexpr (kMore == 1) {
            float value = __shfl_down_sync(0xffffffff, values[0], 1);
            int index = kLargest ? __shfl_down_sync(0xffffffff, row[r].at[0], 1) : 0;
            bool near = lane < kWarp - 1;
            row[r].value[kOuts] = last ? 0.0f : near ? value : right[0];
            row[r].at[kOuts] = last ? -1 : near ? index : narrow_index(at_beside[r]);
        }
        if constexpr (!kLargest) {
#pragma unroll
            for (int o = 0; o < kOuts + kMore; o++) {
                int column = pack * kOuts + o;
                share count = share_of(p.y, band + r, p.z, column, p.include_pad);
                row[r].value[o] = count.of(row[r].value[o]);
            }
        }
    }

#pragma unroll
    for (int i = 0; i < 2 * kBands; i++) {
        int h = 2 * band + i, w = pack * kSize<T>;
        float sum[kSize<T>] = {};
#pragma unroll
        for (int r = i / 2; r <= i / 2 + beyond<kWindow>(i % 2); r++) {
#pragma unroll
            for (int j = 0; j < kSize<T>; j++) {
#pragma unroll
                for (int o = j / 2; o <= j / 2 + beyond<kWindow>(j % 2); o++) {
                    sum[j] += row[r].part(o, h * p.z.size + w + j);
                }
            }
        }
        if (mine && h < p.y.size) {
            store_lanes(p.gx + (int64_t{plane} * p.y.size + h) * p.z.size + w, sum);
        }
    }
}

// ---- planes, any window -------------------------------------------------------------------------

template <typename T, typename Index> struct any_operands {
    const T *gy;
    const int64_t *indices;
    T *gx;
    axis<Index> y, z;
    bool include_pad;
    digits packs, columns, rows; // of elements; packs: of channels, in nhwc
    digits y_stride, z_stride;
    int64_t threads;
};

template <typename Index> struct span {
    Index begin, end;
};

// The windows that hold element i.
template <typename Index>
__device__ inline span<Index>
windows_of(const axis<Index> &a, const digits &stride, Index i)
{
    Index at = i + a.pad;
    Index begin = at < a.window ? 0 : static_cast<Index>(stride.quotient(at - a.window)) + 1;
    return {begin, least(static_cast<Index>(stride.quotient(at)) + 1, a.outs)};
}

// Adds what element `at` gets of the windows [columns.begin, columns.end) of kRows rows of them
// from `row` on, which end at rows.end, kColumns of each on their way at once: packs of kEach,
// `pitch` apart from `from` on.
template <typename T, int kRows, int kColumns, int kEach, typename Index>
__device__ inline void
add_windows(
    float (&sum)[kEach], const any_operands<T, Index> &p, int64_t from, Index pitch, Index row,
    span<Index> rows, span<Index> columns, int64_t at)
{
    for (Index column = columns.begin; column < columns.end; column += kColumns) {
        lanes<T, kEach> held[kRows][kColumns];
        int64_t index[kRows][kColumns][kEach];
#pragma unroll
        for (int r = 0; r < kRows; r++) {
#pragma unroll
            for (int c = 0; c < kColumns; c++) {
                int64_t window = from + ((row + r) * p.z.outs + column + c) * pitch;
                held[r][c].fill(0);
#pragma unroll
                for (int i = 0; i < kEach; i++) {
                    index[r][c][i] = -1;
                }
                if (row + r < rows.end && column + c < columns.end) {
                    held[r][c].load(p.gy + window);
                    if constexpr (kLargest) {
                        load_indices(p.indices + window, index[r][c]);
                    }
                }
            }
        }
#pragma unroll
        for (int r = 0; r < kRows; r++) {
#pragma unroll
            for (int c = 0; c < kColumns; c++) {
                float values[kEach];
                held[r][c].unpack(values);
                if constexpr (kLargest) {
#pragma unroll
                    for (int i = 0; i < kEach; i++) {
                        sum[i] += index[r][c][i] == at ? values[i] : 0.0f;
                    }
                } else if (row + r < rows.end && column + c < columns.end) {
                    share count = share_of(p.y, row + r, p.z, column + c, p.include_pad);
#pragma unroll
                    for (int i = 0; i < kEach; i++) {
                        sum[i] += count.of(values[i]);
                    }
                }
            }
        }
    }
}

// Elements in up to kMost squared windows, which are met at once; of 0, any, four of a row at once.
template <typename T, typename Index, int kMost>
__global__ void
__launch_bounds__(kBlock, kResident) element(const __grid_constant__ any_operands<T, Index> p)
{
    constexpr int kRows = kMost > 0 ? kMost : 1, kColumns = kMost > 0 ? kMost : 4;
    int64_t thread = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (thread >= p.threads) {
        return;
    }
    int64_t plane = thread;
    Index w = static_cast<Index>(p.columns.take(plane));
    Index h = static_cast<Index>(p.rows.take(plane));
    span<Index> rows = windows_of(p.y, p.y_stride, h), columns = windows_of(p.z, p.z_stride, w);

    float sum[1] = {};
    int64_t from = plane * p.y.outs * p.z.outs, at = int64_t{h} * p.z.size + w;
    for (Index o = rows.begin; o < rows.end; o += kRows) {
        add_windows<T, kRows, kColumns>(sum, p, from, Index{1}, o, rows, columns, at);
    }
    store_lanes(p.gx + thread, sum);
}

// ---- channels last ------------------------------------------------------------------------------

template <typename T> struct pixel_operands {
    const T *gy;
    const int64_t *indices;
    T *gx;
    axis<int> y, z;
    bool include_pad;
    divider packs, columns, rows; // of channels, of pairs of elements
    uint32_t threads;
};

// One window of a pack of channels. `load` leaves it unread, `open` makes it floats.
template <typename T> struct channels {
    lanes<T, kSize<T>> held;
    int64_t at[kSize<T>];

    __device__ void load(const T *gy, const int64_t *indices, int64_t from, bool inside)
    {
        held.fill(0);
        if constexpr (kLargest) {
#pragma unroll
            for (int i = 0; i < kSize<T>; i++) {
                at[i] = -1;
            }
        }
        if (inside) {
            held.load(gy + from);
            if constexpr (kLargest) {
                load_indices(indices + from, at);
            }
        }
    }

    __device__ windows<kSize<T>> open(const share &count) const
    {
        windows<kSize<T>> w;
        held.unpack(w.value);
#pragma unroll
        for (int i = 0; i < kSize<T>; i++) {
            w.value[i] = kLargest ? w.value[i] : count.of(w.value[i]);
            w.at[i] = kLargest ? narrow_index(at[i]) : 0;
        }
        return w;
    }
};

template <typename T, int kWindow>
__global__ void
__launch_bounds__(kBlock, kResident - 1) pixels(const __grid_constant__ pixel_operands<T> p)
{
    constexpr int kSide = kWindow - 1; // windows that two elements lie in
    uint32_t image = blockIdx.x * uint32_t{kBlock} + threadIdx.x;
    if (image >= p.threads) {
        return;
    }
    int width = static_cast<int>(p.packs.divisor) * kSize<T>;
    int pack = static_cast<int>(take_digit(image, p.packs)) * kSize<T>;
    int q = static_cast<int>(take_digit(image, p.columns));
    int o = static_cast<int>(take_digit(image, p.rows));
    int64_t from = ((int64_t{image} * p.y.outs + o) * p.z.outs + q) * width + pack;

    channels<T> held[kSide][kSide];
#pragma unroll
    for (int r = 0; r < kSide; r++) {
#pragma unroll
        for (int c = 0; c < kSide; c++) {
            bool inside = o + r < p.y.outs && q + c < p.z.outs;
            held[r][c].load(p.gy, p.indices, from + (r * p.z.outs + c) * width, inside);
        }
    }

    float sum[2][2][kSize<T>] = {};
    int at = 2 * o * p.z.size + 2 * q;
#pragma unroll
    for (int r = 0; r < kSide; r++) {
#pragma unroll
        for (int c = 0; c < kSide; c++) {
            share count = share_of(p.y, o + r, p.z, q + c, p.include_pad);
            windows<kSize<T>> w = held[r][c].open(count);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (r <= beyond<kWindow>(i / 2) && c <= beyond<kWindow>(i % 2)) {
#pragma unroll
                    for (int j = 0; j < kSize<T>; j++) {
                        sum[i / 2][i % 2][j] += w.part(j, at + i / 2 * p.z.size + i % 2);
                    }
                }
            }
        }
    }

    int64_t to = (int64_t{image} * p.y.size * p.z.size + at) * width + pack;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (2 * o + i / 2 < p.y.size && 2 * q + i % 2 < p.z.size) {
            store_lanes(p.gx + to + (i / 2 * p.z.size + i % 2) * width, sum[i / 2][i % 2]);
        }
    }
}

template <typename T, int kEach>
__global__ void
__launch_bounds__(kBlock, kResident - 1)
    any_pixels(const __grid_constant__ any_operands<T, int64_t> p)
{
    int64_t image = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (image >= p.threads) {
        return;
    }
    int64_t width = p.packs.size * kEach, to = image * kEach;
    int64_t pack = p.packs.take(image) * kEach;
    int64_t w = p.columns.take(image), h = p.rows.take(image), at = h * p.z.size + w;
    span<int64_t> rows = windows_of(p.y, p.y_stride, h);
    span<int64_t> columns = windows_of(p.z, p.z_stride, w);

    float sum[kEach] = {};
    int64_t from = image * p.y.outs * p.z.outs * width + pack;
    for (int64_t o = rows.begin; o < rows.end; o++) {
        add_windows<T, 1, 2>(sum, p, from, width, o, rows, columns, at);
    }
    store_lanes(p.gx + to, sum);
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T> struct tensors {
    const T *gy;
    const int64_t *indices; // NULL: of a mean
    T *gx;

    // gy and gx where accesses of so many elements are aligned.
    bool aligned_for(int of_gy, int of_gx) const
    {
        int64_t size = static_cast<int64_t>(sizeof(T));
        return aligned(gy, size * of_gy) && aligned(gx, size * of_gx) && aligned(indices, 16);
    }

    tensors from(int64_t outs, int64_t elements) const
    {
        return {gy + outs, indices ? indices + outs : nullptr, gx + elements};
    }
};

template <typename Index, typename T>
any_operands<T, Index>
any_of(const problem &p, const tensors<T> &t, int64_t packs, int64_t threads)
{
    axis<Index> y = axis_of<Index>(p.y), x = axis_of<Index>(p.x);
    int64_t rows = p.y.size + p.y.pad, columns = p.x.size + p.x.pad;
    return {
        t.gy,
        t.indices,
        t.gx,
        y,
        x,
        p.include_pad,
        digits_of(packs, threads),
        digits_of(p.x.size, threads),
        digits_of(p.y.size, threads),
        digits_of(y.stride, rows),
        digits_of(x.stride, columns),
        threads};
}

template <typename T, typename Index, int kMost>
aicf_status
launch_elements(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t threads = p.images * p.channels * p.y.size * p.x.size;
    return launch(
        element<T, Index, kMost>, blocks_of(threads), kBlock, 0, stream,
        any_of<Index>(p, t, 1, threads));
}

template <typename T, int kWindow>
aicf_status
launch_pairs(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t packs = p.x.size / kSize<T>, bands = ceil_div(p.y.size, 2 * kBands);
    return in_parts(p.images * p.channels, packs * bands, [&](int64_t first, int64_t count) {
        tensors<T> part = t.from(first * p.y.outs * p.x.outs, first * p.y.size * p.x.size);
        int64_t threads = count * packs * bands;
        plane_operands<T> o = {
            part.gy,           part.indices,      part.gx,
            axis_of<int>(p.y), axis_of<int>(p.x), p.include_pad,
            divider_of(packs), divider_of(bands), static_cast<uint32_t>(threads)};
        return launch(pairs<T, kWindow>, blocks_of(threads), kBlock, 0, stream, o);
    });
}

template <typename T>
aicf_status
launch_planes(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    if (in_pairs(p) && is_narrow(p, 1) && p.x.size % kSize<T> == 0 && p.x.outs == p.x.size / 2 &&
        t.aligned_for(kSize<T> / 2, kSize<T>)) {
        return p.x.window == 2 ? launch_pairs<T, 2>(p, t, stream)
                               : launch_pairs<T, 3>(p, t, stream);
    }
    if (!is_narrow(p, 1)) {
        return launch_elements<T, int64_t, 0>(p, t, stream);
    }
    bool few = ceil_div(p.y.window, p.y.stride) <= 3 && ceil_div(p.x.window, p.x.stride) <= 3;
    return few ? launch_elements<T, int, 3>(p, t, stream)
               : launch_elements<T, int, 0>(p, t, stream);
}

template <typename T, int kWindow>
aicf_status
launch_pixels(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t packs = p.channels / kSize<T>;
    int64_t columns = ceil_div(p.x.size, 2), rows = ceil_div(p.y.size, 2);
    return in_parts(p.images, packs * columns * rows, [&](int64_t first, int64_t count) {
        tensors<T> part = t.from(
            first * p.channels * p.y.outs * p.x.outs, first * p.channels * p.y.size * p.x.size);
        int64_t threads = count * packs * columns * rows;
        pixel_operands<T> o = {part.gy,           part.indices,
                               part.gx,           axis_of<int>(p.y),
                               axis_of<int>(p.x), p.include_pad,
                               divider_of(packs), divider_of(columns),
                               divider_of(rows),  static_cast<uint32_t>(threads)};
        return launch(pixels<T, kWindow>, blocks_of(threads), kBlock, 0, stream, o);
    });
}

template <typename T, int kEach>
aicf_status
launch_any_pixels(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t packs = p.channels / kEach;
    int64_t threads = p.images * p.y.size * p.x.size * packs;
    return launch(
        any_pixels<T, kEach>, blocks_of(threads), kBlock, 0, stream,
        any_of<int64_t>(p, t, packs, threads));
}

template <typename T>
aicf_status
launch_nhwc(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    if (p.channels % kSize<T> != 0 || !t.aligned_for(kSize<T>, kSize<T>)) {
        return launch_any_pixels<T, 1>(p, t, stream);
    }
    if (in_pairs(p) && is_narrow(p, p.channels)) {
        return p.x.window == 2 ? launch_pixels<T, 2>(p, t, stream)
                               : launch_pixels<T, 3>(p, t, stream);
    }
    return launch_any_pixels<T, kSize<T>>(p, t, stream);
}

} // namespace aicf::AICF_OP

#define LAUNCHER_OF(op, kernel, s) aicf_cuda_##op##_##kernel##_##s
#define LAUNCHER(op, kernel, s) LAUNCHER_OF(op, kernel, s)

#if LARGEST
#define LAUNCH(T, s, kernel)                                                                      \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                     \
        const T *gy, const int64_t *indices, T *gx, int64_t N, int64_t C, int64_t P, int64_t Q,   \
        int64_t, int64_t, int64_t H, int64_t W, const int64_t window[2], const int64_t stride[2], \
        const int64_t pad[2], aicf_stream stream)                                                 \
    {                                                                                             \
        using namespace aicf::AICF_OP;                                                            \
        using D = aicf::device_t<T>;                                                              \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, false);                 \
        tensors<D> t = {aicf::device(gy), indices, aicf::device(gx)};                             \
        return launch_##kernel<D>(p, t, stream);                                                  \
    }
#else
#define LAUNCH(T, s, kernel)                                                                  \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                 \
        const T *gy, T *gx, int64_t N, int64_t C, int64_t P, int64_t Q, int64_t, int64_t,     \
        int64_t H, int64_t W, const int64_t window[2], const int64_t stride[2],               \
        const int64_t pad[2], bool count_include_pad, aicf_stream stream)                     \
    {                                                                                         \
        using namespace aicf::AICF_OP;                                                        \
        using D = aicf::device_t<T>;                                                          \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, count_include_pad); \
        tensors<D> t = {aicf::device(gy), nullptr, aicf::device(gx)};                         \
        return launch_##kernel<D>(p, t, stream);                                              \
    }
#endif

#define LAUNCHERS(T, s)  \
    LAUNCH(T, s, planes) \
    LAUNCH(T, s, nhwc)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
