// Gradients of pooled planes: windows in pairs by packs of neighbouring elements, any other an
// element a thread.
#ifndef POOL2D_BWD_PLANES_CUH
#define POOL2D_BWD_PLANES_CUH

#include <aicf/cuda/window.cuh>

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

struct plane_operands {
    const void *gy;
    const int64_t *indices;
    void *gx;
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

// kEach: elements that a thread stores at once, which rows are whole of.
template <typename T, int kWindow, int kEach>
__global__ void
__launch_bounds__(kBlock, kResident) pairs(const __grid_constant__ plane_operands p)
{
    constexpr int kOuts = kEach / 2, kMore = kWindow - 2, kRows = kBands + kMore;
    ptx::let_next_launch_begin();
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
            held[r].load(static_cast<const T *>(p.gy) + from + r * p.z.outs);
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
            beside[r].load(static_cast<const T *>(p.gy) + from + r * p.z.outs + kOuts);
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
                row[r].value[o] = count.template of<T>(row[r].value[o]);
            }
        }
    }

#pragma unroll
    for (int i = 0; i < 2 * kBands; i++) {
        int h = 2 * band + i, w = pack * kEach;
        float sum[kEach] = {};
#pragma unroll
        for (int r = i / 2; r <= i / 2 + beyond<kWindow>(i % 2); r++) {
#pragma unroll
            for (int j = 0; j < kEach; j++) {
#pragma unroll
                for (int o = j / 2; o <= j / 2 + beyond<kWindow>(j % 2); o++) {
                    sum[j] += row[r].part(o, h * p.z.size + w + j);
                }
            }
        }
        if (mine && h < p.y.size) {
            store_lanes(
                static_cast<T *>(p.gx) + (int64_t{plane} * p.y.size + h) * p.z.size + w, sum);
        }
    }
}

// ---- planes, any window -------------------------------------------------------------------------

template <typename Index> struct any_operands {
    const void *gy;
    const int64_t *indices;
    void *gx;
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
    float (&sum)[kEach], const any_operands<Index> &p, int64_t from, Index pitch, Index row,
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
                    held[r][c].load(static_cast<const T *>(p.gy) + window);
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
                        sum[i] += count.template of<T>(values[i]);
                    }
                }
            }
        }
    }
}

// Elements in up to kMost squared windows, which are met at once; of 0, any, four of a row at once.
template <typename T, typename Index, int kMost>
__global__ void
__launch_bounds__(kBlock, kResident) element(const __grid_constant__ any_operands<Index> p)
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
    store_lanes(static_cast<T *>(p.gx) + thread, sum);
}

} // namespace aicf::AICF_OP

#endif
