// gemm where M or N is 1: a matrix times a vector, for any layout and alignment, f32 sums (see
// gemm.cuh for the operands). A block makes 32 elements of the out. A warp reads 32 neighbours of
// the matrix at a time: along k it makes one sum; else each lane has its own, of every 32nd k, and
// the warps' sums meet in shared memory. Bound by the bytes of the matrix.
#ifndef AICF_GEMM_THIN_CUH
#define AICF_GEMM_THIN_CUH

#include "gemm.cuh"

namespace aicf::gemm {

constexpr int kThinSide = 32;  // lanes, warps of a block, and elements that a block makes
constexpr int kThinLoads = 16; // of the matrix on their way at once: 64 KiB a multiprocessor

// Element (x, k) of the matrix lies at x + k * pitch or, along_k, at x * pitch + k.
template <typename T> struct thin_operands {
    const T *matrix, *vector;
    int64_t pitch, step, size; // step: between elements of the vector; size: of the out
    bool along_k;
};

template <typename T>
__device__ inline thin_operands<T>
thin_operands_of(const problem<T> &p, const job<T> &j)
{
    if (p.N == 1) {
        return {j.a, j.b, p.a_pitch, p.b_along_k ? 1 : p.b_pitch, p.M, p.a_along_k};
    }
    return {j.b, j.a, p.b_pitch, p.a_along_k ? 1 : p.a_pitch, p.N, p.b_along_k};
}

// Every 32nd product from k on.
template <typename T>
__device__ inline float
thin_sum(const T *row, int64_t row_step, const T *vector, int64_t vector_step, int64_t k, int64_t K)
{
    float sum = 0.0f;
    for (; k < K; k += kThinLoads * kThinSide) {
        T x[kThinLoads], y[kThinLoads];
#pragma unroll
        for (int u = 0; u < kThinLoads; u++) {
            bool inside = k + u * kThinSide < K;
            x[u] = inside ? row[(k + u * kThinSide) * row_step] : of_f32<T>(0.0f);
            y[u] = inside ? vector[(k + u * kThinSide) * vector_step] : of_f32<T>(0.0f);
        }
#pragma unroll
        for (int u = 0; u < kThinLoads; u++) {
            sum += to_f32(x[u]) * to_f32(y[u]);
        }
    }
    return sum;
}

// The end of a block: the sum of element `first` + warp lies with the lanes of a warp.
template <typename T>
__device__ inline void
store_thin(const problem<T> &p, const job<T> &j, int64_t first, int64_t size, float sum)
{
    for (int distance = kThinSide / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    int64_t x = first + static_cast<int>(threadIdx.x) / kThinSide;
    if (threadIdx.x % kThinSide == 0 && x < size) {
        int64_t m = p.N == 1 ? x : 0, n = p.N == 1 ? 0 : x;
        j.out[m * p.out_pitch + n] = of_f32<T>(finish(p, sum, row_of_c(p, j, m), n));
    }
}

template <typename T>
__global__ void
__launch_bounds__(kThinSide *kThinSide) thin(const __grid_constant__ problem<T> p)
{
    __shared__ float sums[kThinSide][kThinSide + 1]; // one more: columns lie in different banks
    job<T> j = job_of<1, 1>(p);                      // m and n count tiles
    thin_operands<T> o = thin_operands_of(p, j);
    int lane = static_cast<int>(threadIdx.x) % kThinSide;
    int warp = static_cast<int>(threadIdx.x) / kThinSide;
    int64_t first = (p.N == 1 ? j.m : j.n) * kThinSide;
    int64_t x = first + (o.along_k ? warp : lane);

    float sum = 0.0f;
    if (x < o.size) {
        sum = o.along_k ? thin_sum(o.matrix + x * o.pitch, 1, o.vector, o.step, lane, p.K)
                        : thin_sum(o.matrix + x, o.pitch, o.vector, o.step, warp, p.K);
    }
    if (!o.along_k) {
        sums[warp][lane] = sum;
        __syncthreads();
        sum = sums[lane][warp];
    }
    store_thin(p, j, first, o.size, sum);
}

template <typename T>
bool
is_thin(const problem<T> &p)
{
    return p.M == 1 || p.N == 1;
}

template <typename T>
aicf_status
launch_thin(const problem<T> &p, aicf_stream stream)
{
    int tile_m = p.N == 1 ? kThinSide : 1, tile_n = p.N == 1 ? 1 : kThinSide;
    return launch_tiles(thin<T>, p, tile_m, tile_n, kThinSide * kThinSide, 0, stream);
}

} // namespace aicf::gemm

#endif
