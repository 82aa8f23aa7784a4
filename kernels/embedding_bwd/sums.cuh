// Rows of gw from the sorted places, in pieces where a row has many.
#ifndef EMBEDDING_BWD_SUMS_CUH
#define EMBEDDING_BWD_SUMS_CUH

#include <aicf/cuda/digits.cuh>
#include <aicf/cuda/lanes.cuh>

#include "sort.cuh"

namespace aicf::embedding_bwd {

// Packs of a row that a thread sums: 16 floats of them, or 4 of packs of one. What tells it where
// its places are is then read once for all.
template <int kSize> constexpr int kPacks = kSize == 1 ? 4 : 16 / kSize;

template <typename T> struct operands {
    const T *gy;
    T *gw;
    const uint32_t *keys, *places;
    const uint32_t *begin; // NULL: of few places
    float *partial;        // of slot s: [s * D, (s + 1) * D)
    int64_t n, V, D, piece;
    digits strips; // threads a row: one has the packs strip, strip + strips, ...
    int64_t threads;
};

struct span {
    int64_t begin, end;
};

// The sorted places of v.
template <typename T>
__device__ inline span
places_of(const operands<T> &p, int64_t v)
{
    if (p.begin) {
        return {p.begin[v], p.begin[v + 1]};
    }
    return {count_below(p.keys, p.n, v), count_below(p.keys, p.n, v + 1)};
}

template <typename T, int kSize> struct strip {
    int64_t row, first, step; // elements of its first pack, to the next
    float sum[kPacks<kSize>][kSize];

    __device__ strip(const operands<T> &p, int64_t thread) : row(thread)
    {
        first = p.strips.take(row) * kSize;
        step = p.strips.size * kSize;
#pragma unroll
        for (int k = 0; k < kPacks<kSize>; k++) {
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                sum[k][lane] = 0.0f;
            }
        }
    }

    // Adds gy at the sorted places [i, end), two at once.
    __device__ void add_places(const operands<T> &p, int64_t i, int64_t end)
    {
        constexpr int kUnroll = 2;
        for (; i < end; i += kUnroll) {
            lanes<T, kSize> held[kUnroll][kPacks<kSize>];
#pragma unroll
            for (int u = 0; u < kUnroll; u++) {
                const T *gy = p.gy;
                if (i + u < end) {
                    gy += p.places[i + u] * p.D;
                }
#pragma unroll
                for (int k = 0; k < kPacks<kSize>; k++) {
                    held[u][k].fill(0);
                    if (i + u < end && first + k * step < p.D) {
                        held[u][k].load(gy + first + k * step);
                    }
                }
            }
#pragma unroll
            for (int u = 0; u < kUnroll; u++) {
#pragma unroll
                for (int k = 0; k < kPacks<kSize>; k++) {
                    float x[kSize];
                    held[u][k].unpack(x);
#pragma unroll
                    for (int lane = 0; lane < kSize; lane++) {
                        sum[k][lane] += x[lane];
                    }
                }
            }
        }
    }

    __device__ void add_partial(const operands<T> &p, int64_t slot)
    {
#pragma unroll
        for (int k = 0; k < kPacks<kSize>; k++) {
            if (first + k * step < p.D) {
#pragma unroll
                for (int lane = 0; lane < kSize; lane++) {
                    sum[k][lane] += p.partial[slot * p.D + first + k * step + lane];
                }
            }
        }
    }
};

// The sorted places are cut into pieces of `piece`. Slot 2 * t has what piece t holds of the v at
// its first place, slot 2 * t + 1 of the one at its last place if that began in it: of those alone
// that have more than `piece` places.
template <typename T, int kSize>
__global__ void
__launch_bounds__(kBlock) pieces(const __grid_constant__ operands<T> p)
{
    int64_t thread = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    ptx::let_next_launch_begin();
    if (thread >= p.threads) {
        return;
    }
    strip<T, kSize> s(p, thread);
    int64_t first = s.row / 2 * p.piece;
    int64_t end = first + p.piece < p.n ? first + p.piece : p.n;
    uint32_t v = p.keys[s.row % 2 == 0 ? first : end - 1];
    if (v >= p.V) {
        return;
    }
    span of_v = places_of(p, v);
    if (of_v.end - of_v.begin <= p.piece || (s.row % 2 == 1 && of_v.begin <= first)) {
        return;
    }
    s.add_places(p, of_v.begin > first ? of_v.begin : first, of_v.end < end ? of_v.end : end);
#pragma unroll
    for (int k = 0; k < kPacks<kSize>; k++) {
        if (s.first + k * s.step < p.D) {
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                p.partial[s.row * p.D + s.first + k * s.step + lane] = s.sum[k][lane];
            }
        }
    }
}

template <typename T, int kSize>
__global__ void
__launch_bounds__(kBlock) rows(const __grid_constant__ operands<T> p)
{
    int64_t thread = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();
    if (thread >= p.threads) {
        return;
    }
    strip<T, kSize> s(p, thread);
    span of_row = places_of(p, s.row);
    if (of_row.end - of_row.begin <= p.piece) {
        s.add_places(p, of_row.begin, of_row.end);
    } else {
        int64_t first = of_row.begin / p.piece, last = (of_row.end - 1) / p.piece;
        s.add_partial(p, 2 * first + (of_row.begin % p.piece != 0));
#pragma unroll 4
        for (int64_t t = first + 1; t <= last; t++) {
            s.add_partial(p, 2 * t);
        }
    }
#pragma unroll
    for (int k = 0; k < kPacks<kSize>; k++) {
        if (s.first + k * s.step < p.D) {
            store_lanes(p.gw + s.row * p.D + s.first + k * s.step, s.sum[k]);
        }
    }
}

} // namespace aicf::embedding_bwd

#endif
