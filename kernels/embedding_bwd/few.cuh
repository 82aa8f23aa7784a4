// gw from so few places that every block looks through all of them: one launch, bound by writing.
#ifndef EMBEDDING_BWD_FEW_CUH
#define EMBEDDING_BWD_FEW_CUH

#include <aicf/cuda/digits.cuh>
#include <aicf/cuda/lanes.cuh>

#include "sort.cuh"

namespace aicf::embedding_bwd {

constexpr int kFewest = 64;             // places
constexpr int64_t kFewBytes = 32 << 10; // of gw that a block writes, about

template <typename T, typename I> struct few_operands {
    const T *gy;
    T *gw;
    raw_keys<I> from;
    int64_t D, share; // rows of a block
    digits packs;     // of a row
    int n;
};

// The places of a block's rows, in their order.
struct places_found {
    int row[kFewest], place[kFewest]; // row: from the block's first on
    int count;

    // By a warp.
    template <typename I> __device__ void look(raw_keys<I> from, int n, int64_t first, int64_t rows)
    {
        int lane = static_cast<int>(threadIdx.x), found = 0;
        for (int begin = 0; begin < n; begin += kWarp) {
            int i = begin + lane;
            int64_t row = i < n ? from.key(i) - first : -1;
            bool mine = row >= 0 && row < rows;
            uint32_t all = __ballot_sync(0xffffffff, mine);
            if (mine) {
                int at = found + __popc(all & ((1u << lane) - 1));
                this->row[at] = static_cast<int>(row);
                place[at] = i;
            }
            found += __popc(all);
        }
        count = found;
    }
};

template <typename T, int kSize, typename I>
__global__ void
__launch_bounds__(kBlock) few(const __grid_constant__ few_operands<T, I> p)
{
    __shared__ places_found found;
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();
    int64_t first = blockIdx.x * p.share;
    int64_t rows = first + p.share < p.from.V ? p.share : p.from.V - first;
    // Zeros first: they wait for nothing.
    T *gw = p.gw + first * p.D;
    int64_t end = rows * p.packs.size;
    const float nothing[kSize] = {};
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < end; i += kBlock) {
        store_lanes(gw + i * kSize, nothing);
    }
    if (threadIdx.x < kWarp) {
        found.look(p.from, p.n, first, rows);
    }
    __syncthreads();

    int count = found.count;
    end = count > 0 ? end : 0;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < end; i += kBlock) {
        int64_t row = i, column = p.packs.take(row);
        float sum[kSize] = {};
        bool any = false;
        for (int j = 0; j < count; j++) {
            if (found.row[j] == row) {
                any = true;
                lanes<T, kSize> held;
                float x[kSize];
                held.load(p.gy + found.place[j] * p.D + column * kSize);
                held.unpack(x);
#pragma unroll
                for (int lane = 0; lane < kSize; lane++) {
                    sum[lane] += x[lane];
                }
            }
        }
        if (any) {
            store_lanes(gw + i * kSize, sum);
        }
    }
}

template <int kSize, typename T, typename I>
aicf_status
launch_few(const T *gy, T *gw, raw_keys<I> from, int64_t n, int64_t D, aicf_stream stream)
{
    int64_t share = kFewBytes / (D * static_cast<int64_t>(sizeof(T)));
    share = share > 0 ? share : 1;
    few_operands<T, I> p = {
        gy, gw, from, D, share, digits_of(D / kSize, share * (D / kSize)), static_cast<int>(n)};
    return launch_waiting(
        few<T, kSize, I>, static_cast<unsigned>(ceil_div(from.V, share)), kBlock, 0, stream, p);
}

} // namespace aicf::embedding_bwd

#endif
