// What the CUDA kernels of gemm share: out = act(alpha * a @ b + beta * c + bias) over batches.
//
// a[.., M, K] and b[.., K, N] each have unit stride along one of their last two dims ("row" or
// "col" in the table; here: along k or not); c and out have it along n. Pitches and batch strides
// are free; a batch stride of 0 broadcasts. Where beta is 0, c is not read. out may be exactly c:
// each element of c is read by the thread that writes the out's, before it does.
#ifndef AICF_GEMM_CUH
#define AICF_GEMM_CUH

#include <aicf_ops/gemm.h>

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::gemm {

constexpr int kMostBatchDims = AICF_MAX_RANK - 2;

template <typename T> struct problem {
    const T *a, *b, *bias, *c; // bias and c may be NULL
    T *out;
    int64_t M, N, K;
    int64_t a_pitch, b_pitch, c_pitch, out_pitch; // between neighbours along the other dim
    bool a_along_k, b_along_k;                    // unit stride along k
    float alpha, beta;
    int act;        // aicf_gemm_act
    int batch_rank; // innermost dim first
    int64_t batch_sizes[kMostBatchDims];
    int64_t a_batch[kMostBatchDims], b_batch[kMostBatchDims];
    int64_t c_batch[kMostBatchDims], out_batch[kMostBatchDims];
    int64_t batches;
    int64_t tiles_m, tiles_n;
    int64_t first; // tile of the first block of this launch, over all batches
    bool narrow;   // one launch does it all
};

inline int64_t
stride_from_end(const aicf_view *view, int back)
{
    return view->strides[view->rank - back];
}

// Whether the last dim of an operand is the one of unit stride, else the one before it is. Strides
// of dims of size 1 are 0: where no stride is 1, a dim of one element counts as having unit stride.
inline bool
unit_is_last(const aicf_view *view)
{
    return stride_from_end(view, 1) == 1 ||
           (stride_from_end(view, 2) != 1 && view->sizes[view->rank - 1] == 1);
}

template <typename T>
problem<T>
problem_of(
    const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c, const aicf_view *out,
    int64_t M, int64_t K, int64_t N, double alpha, double beta, aicf_gemm_act act)
{
    problem<T> p = {};
    c = beta == 0.0 ? nullptr : c;
    p.a = static_cast<const T *>(a->data);
    p.b = static_cast<const T *>(b->data);
    p.bias = bias;
    p.c = c ? static_cast<const T *>(c->data) : nullptr;
    p.out = static_cast<T *>(out->data);
    p.M = M;
    p.N = N;
    p.K = K;
    p.a_along_k = unit_is_last(a);
    p.a_pitch = stride_from_end(a, p.a_along_k ? 2 : 1);
    p.b_along_k = !unit_is_last(b);
    p.b_pitch = stride_from_end(b, p.b_along_k ? 1 : 2);
    p.c_pitch = c ? stride_from_end(c, 2) : 0;
    p.out_pitch = stride_from_end(out, 2);
    p.alpha = static_cast<float>(alpha);
    p.beta = static_cast<float>(beta);
    p.act = act;
    p.batches = 1;
    p.batch_rank = static_cast<int>(out->rank) - 2;
    for (int dim = 0; dim < p.batch_rank; dim++) {
        int from = p.batch_rank - 1 - dim;
        p.batch_sizes[dim] = out->sizes[from];
        p.a_batch[dim] = a->strides[from];
        p.b_batch[dim] = b->strides[from];
        p.c_batch[dim] = c ? c->strides[from] : 0;
        p.out_batch[dim] = out->strides[from];
        p.batches *= out->sizes[from];
    }
    return p;
}

// ---- tiles --------------------------------------------------------------------------------------

// What a block computes: `m` and `n` are the tile's first row and column; the pointers have the
// batch's offsets in them.
template <typename T> struct job {
    const T *a, *b, *c;
    T *out;
    int64_t m, n;
};

// Bands of 8 rows of tiles, column by column within a band: the blocks that run at once then share
// rows of a and columns of b in the L2.
constexpr uint32_t kBand = 8;

template <int kTileM, int kTileN, typename Index, typename T>
__device__ inline job<T>
job_at(const problem<T> &p, Index index)
{
    Index tiles_m = static_cast<Index>(p.tiles_m), tiles_n = static_cast<Index>(p.tiles_n);
    Index batch = index / (tiles_m * tiles_n);
    Index tile = index - batch * (tiles_m * tiles_n);
    Index band = tile / (kBand * tiles_n);
    Index height = tiles_m - band * kBand < kBand ? tiles_m - band * kBand : kBand;
    tile -= band * kBand * tiles_n;
    Index column = tile / height;

    job<T> j = {
        p.a,
        p.b,
        p.c,
        p.out,
        static_cast<int64_t>(band * kBand + tile - column * height) * kTileM,
        static_cast<int64_t>(column) * kTileN};
    for (int dim = 0; dim < p.batch_rank; dim++) {
        Index size = static_cast<Index>(p.batch_sizes[dim]);
        Index next = batch / size;
        int64_t digit = static_cast<int64_t>(batch - next * size);
        batch = next;
        j.a += digit * p.a_batch[dim];
        j.b += digit * p.b_batch[dim];
        j.c += digit * p.c_batch[dim];
        j.out += digit * p.out_batch[dim];
    }
    return j;
}

// 64-bit divisions, a hundred instructions each, only where 32 bits do not hold the tiles.
template <int kTileM, int kTileN, typename T>
__device__ inline job<T>
job_of(const problem<T> &p)
{
    if (p.narrow) {
        return job_at<kTileM, kTileN, uint32_t>(p, blockIdx.x);
    }
    return job_at<kTileM, kTileN, uint64_t>(p, static_cast<uint64_t>(p.first) + blockIdx.x);
}

// One block a tile of each batch, all along grid.x; launches of at most kMostBlocks.
template <typename Problem>
aicf_status
launch_tiles(
    void (*kernel)(Problem), Problem p, int tile_m, int tile_n, int threads, size_t shared,
    aicf_stream stream)
{
    p.tiles_m = ceil_div(p.M, tile_m);
    p.tiles_n = ceil_div(p.N, tile_n);
    int64_t count = p.tiles_m * p.tiles_n * p.batches;
    p.narrow = count <= kMostBlocks;
    for (p.first = 0; p.first < count; p.first += kMostBlocks) {
        int64_t left = count - p.first;
        aicf_status status = aicf::launch(
            kernel, static_cast<unsigned>(left < kMostBlocks ? left : kMostBlocks), threads, shared,
            stream, p);
        if (status.kind) {
            return status;
        }
    }
    return aicf_ok();
}

// Whether a block of the current device can have so many bytes of shared memory: from sm_80 on 163
// KiB, but 99 on some.
inline aicf_status
can_share(int bytes, bool *can)
{
    int device = 0, most = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    }
    *can = bytes <= most;
    return status_of(error);
}

// ---- epilogue -----------------------------------------------------------------------------------

__device__ inline float
activate(float x, int act)
{
    constexpr float kRootHalf = 0.70710678118654752440f;
    if (act == AICF_GEMM_ACT_RELU) {
        return x <= 0.0f ? 0.0f : x; // NaN passes
    }
    if (act == AICF_GEMM_ACT_GELU) {
        // erfc and not 1 + erf, which loses the small values; below -40 it is 0, of -inf too.
        float y = x < -40.0f ? -40.0f : x;
        return y * (0.5f * erfcf(-y * kRootHalf));
    }
    return x;
}

// The element at column n of an out's row, from its sum of products; `c` is the same row of c, and
// `bias` the column's, which counts where there is one.
template <typename T>
__device__ inline float
finish(const problem<T> &p, float sum, const T *c, int64_t n, float bias)
{
    float x = p.alpha * sum;
    if (c) {
        x += p.beta * to_f32(c[n]);
    }
    if (p.bias) {
        x += bias;
    }
    return activate(x, p.act);
}

template <typename T>
__device__ inline float
finish(const problem<T> &p, float sum, const T *c, int64_t n)
{
    return finish(p, sum, c, n, p.bias ? to_f32(p.bias[n]) : 0.0f);
}

// The row m of c in this job, or NULL.
template <typename T>
__device__ inline const T *
row_of_c(const problem<T> &p, const job<T> &j, int64_t m)
{
    return p.c ? j.c + m * p.c_pitch : nullptr;
}

} // namespace aicf::gemm

#endif
