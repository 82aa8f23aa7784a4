// Gradients of pooled images with channels last: a thread makes a pack of channels, of one element
// or of the four that share their windows.
#ifndef POOL2D_BWD_PIXELS_CUH
#define POOL2D_BWD_PIXELS_CUH

#include "planes.cuh"

namespace aicf::AICF_OP {

using namespace window;

struct pixel_operands {
    const void *gy;
    const int64_t *indices;
    void *gx;
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
            w.value[i] = kLargest ? w.value[i] : count.template of<T>(w.value[i]);
            w.at[i] = kLargest ? narrow_index(at[i]) : 0;
        }
        return w;
    }
};

template <typename T, int kWindow>
__global__ void
__launch_bounds__(kBlock, kResident - 1) pixels(const __grid_constant__ pixel_operands p)
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
            held[r][c].load(
                static_cast<const T *>(p.gy), p.indices, from + (r * p.z.outs + c) * width, inside);
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
            store_lanes(
                static_cast<T *>(p.gx) + to + (i / 2 * p.z.size + i % 2) * width,
                sum[i / 2][i % 2]);
        }
    }
}

template <typename T, int kEach>
__global__ void
__launch_bounds__(kBlock) any_pixels(const __grid_constant__ any_operands<int64_t> p)
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
    store_lanes(static_cast<T *>(p.gx) + to, sum);
}

} // namespace aicf::AICF_OP

#endif
