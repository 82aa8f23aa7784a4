// Pooling of dense planes: windows in pairs by packs of neighbouring outs, any other an out a
// thread.
#ifndef POOL2D_PLANES_CUH
#define POOL2D_PLANES_CUH

#include "reduce.cuh"

namespace aicf::AICF_OP {

using namespace window;

// Rows of outs that a thread makes where windows are in pairs: at 2, five rows are loaded for two
// that overlap, of which a lone thread for each would load six.
constexpr int kBands = 2;
// Blocks that a multiprocessor shall hold at least. Said, since else ptxas aims at twice as many,
// and to that end waits for the first rows before it loads the last.
constexpr int kResident = 4;

// ---- planes, in pairs ---------------------------------------------------------------------------

struct plane_operands {
    const void *x;
    void *out;
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
__launch_bounds__(kBlock, kResident) pairs(const __grid_constant__ plane_operands p)
{
    constexpr int kPad = kWindow - 2, kOuts = kSize / 2, kRows = 2 * kBands + kPad;
    uint32_t thread = blockIdx.x * uint32_t{kBlock} + threadIdx.x;
    bool mine = thread < p.threads;
    uint32_t plane = mine ? thread : p.threads - 1; // those without outs take part in the shuffles
    int pack = static_cast<int>(take_digit(plane, p.packs));
    int band = static_cast<int>(take_digit(plane, p.bands)) * kBands;
    int width = p.z.size, row = 2 * band - kPad, lane = threadIdx.x % kWarp;
    const T *x = static_cast<const T *>(p.x) + int64_t{plane} * p.y.size * width + pack * kSize;

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
            finish<Reduce, T>(s[o], share_of(p.y, band + b, p.z, pack * kOuts + o, p.include_pad));
        }
        if (mine && band + b < p.y.outs) {
            store_outs<Reduce>(
                static_cast<T *>(p.out) + to + b * p.z.outs, p.indices + to + b * p.z.outs, s);
        }
    }
}

// ---- planes, any window -------------------------------------------------------------------------

template <typename Index> struct any_operands {
    const void *x;
    void *out;
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
__launch_bounds__(kBlock, kResident) element(const __grid_constant__ any_operands<Index> p)
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
    const T *x = static_cast<const T *>(p.x) + plane * p.y.size * p.z.size;

    typename Reduce::state s[1] = {Reduce::start(h.begin * p.z.size + w.begin)};
    for (Index row = h.begin; row < h.end; row += kRows) {
        take_rows<Reduce, kRows, kColumns>(s, x, Index{1}, p.z, row, h, w);
    }
    finish<Reduce, T>(s[0], share_of(p.y, o, p.z, q, p.include_pad));
    store_outs<Reduce>(static_cast<T *>(p.out) + thread, p.indices + thread, s);
}

} // namespace aicf::AICF_OP

#endif
