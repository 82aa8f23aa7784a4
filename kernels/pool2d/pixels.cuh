// Pooling of images with channels last: a thread makes a pack of channels, of one out or of those
// of neighbouring rows.
#ifndef POOL2D_PIXELS_CUH
#define POOL2D_PIXELS_CUH

#include "planes.cuh"

namespace aicf::AICF_OP {

using namespace window;

struct pixel_operands {
    const void *x;
    void *out;
    int64_t *indices;
    axis<int> y, z;
    bool include_pad;
    divider packs, columns, bands;
    uint32_t threads;
};

// Windows of kWindow at every second row and column.
template <typename Reduce, typename T, int kWindow, int kSize>
__global__ void
__launch_bounds__(kBlock, kResident - 1) pixels(const __grid_constant__ pixel_operands p)
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
    const T *x = static_cast<const T *>(p.x);
    x += int64_t{image} * p.y.size * p.z.size * channels + pack;

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
            finish<Reduce, T>(s[b][i], count);
        }
        if (band + b < p.y.outs) {
            store_outs<Reduce>(static_cast<T *>(p.out) + at, p.indices + at, s[b]);
        }
    }
}

template <typename Reduce, typename T, int kSize>
__global__ void
__launch_bounds__(kBlock) any_pixels(const __grid_constant__ any_operands<int64_t> p)
{
    int64_t image = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (image >= p.threads) {
        return;
    }
    int64_t channels = p.packs.size * kSize, to = image * kSize;
    int64_t pack = p.packs.take(image) * kSize;
    int64_t q = p.columns.take(image), o = p.rows.take(image);
    span<int64_t> h = elements_of(p.y, o), w = elements_of(p.z, q);
    const T *x = static_cast<const T *>(p.x) + image * p.y.size * p.z.size * channels + pack;

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
        finish<Reduce, T>(s[i], count);
    }
    store_outs<Reduce>(static_cast<T *>(p.out) + to, p.indices + to, s);
}

} // namespace aicf::AICF_OP

#endif
