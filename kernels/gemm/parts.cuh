// Products whose tiles are too few for the machine (see gemm.cuh for the operands): parts of k are
// products of their own, as one more batch dim, whose outs lie in the workspace and are added in
// order.
#ifndef AICF_GEMM_PARTS_CUH
#define AICF_GEMM_PARTS_CUH

#include "tiles.cuh"

#include <aicf/cuda/ptx.cuh>

namespace aicf::gemm {

// A product, or parts of k as one more batch dim, the outermost, of which the last is shorter.
struct parted : problem<float> {
    int64_t last, last_K; // the first tile of the last part, and the part's K
};

constexpr int kMostParts = 16;
constexpr int64_t kMostSums = 264 * 128 * 128; // that the row's workspace is for
constexpr int kAddThreads = 128;

struct parts {
    const float *data; // [count][batches][M][N]
    int64_t count, step;
};

// kVector: columns of a thread, which lie on their size in the workspace.
template <int kVector>
__global__ void
__launch_bounds__(kAddThreads) add_parts(const __grid_constant__ problem<float> p, parts from)
{
    job<float> j = job_of<1, kAddThreads * kVector>(p);
    int64_t n = j.n + threadIdx.x * kVector,
            matrix = (static_cast<int64_t>(blockIdx.x) + p.first) / (p.tiles_m * p.tiles_n);
    ptx::wait_for_launch_before();
    if (n >= p.N) {
        return;
    }
    const float *part = from.data + (matrix * p.M + j.m) * p.N + n;
    pack<float, kVector> sum = {};
#pragma unroll 8
    for (int64_t i = 0; i < from.count; i++) {
        pack<float, kVector> x = load_pack<float, kVector>(part + i * from.step);
#pragma unroll
        for (int lane = 0; lane < kVector; lane++) {
            sum.lane[lane] += x.lane[lane];
        }
    }
    const float *c = row_of_c(p, j, j.m);
    float *out = j.out + j.m * p.out_pitch + n;
#pragma unroll
    for (int lane = 0; lane < kVector; lane++) {
        sum.lane[lane] = finish(p, sum.lane[lane], c, n + lane);
    }
    if (reinterpret_cast<uintptr_t>(out) % (kVector * sizeof(float)) == 0) {
        store_pack(out, sum);
        return;
    }
#pragma unroll
    for (int lane = 0; lane < kVector; lane++) {
        out[lane] = sum.lane[lane];
    }
}

// k of each of `count` parts, but the last: whole slabs.
inline int64_t
part_of(const problem<float> &p, int64_t count, int slab)
{
    return ceil_div(ceil_div(p.K, count), slab) * slab;
}

// Whether the row's workspace holds so many parts, and each is worth it.
inline bool
takes_parts(const problem<float> &p, int64_t count)
{
    constexpr int64_t kLeast = 128; // k of a part
    int64_t size = p.M * p.N * p.batches;
    return count == 1 ||
           (count <= kMostParts && p.batch_rank < kMostBatchDims && p.K / count >= kLeast &&
            size <= kMostSums / 2 && size * count <= kMostSums);
}

// The product of each part of k, into the workspace.
inline parted
part_problem(const problem<float> &p, int64_t count, int slab, void *workspace)
{
    parted part = {p, p.batches * (count - 1), 0};
    part.K = part_of(p, count, slab);
    part.last_K = p.K - (count - 1) * part.K;
    part.bias = part.c = nullptr;
    part.alpha = 1.0f;
    part.beta = 0.0f;
    part.act = AICF_GEMM_ACT_NONE;
    part.out = static_cast<float *>(workspace);
    part.out_pitch = p.N;
    int64_t step = p.M * p.N;
    for (int dim = 0; dim < p.batch_rank; dim++) {
        part.out_batch[dim] = step;
        part.c_batch[dim] = 0;
        step *= p.batch_sizes[dim];
    }
    int dim = part.batch_rank++;
    part.batch_sizes[dim] = count;
    part.a_batch[dim] = part.K * (p.a_along_k ? 1 : p.a_pitch);
    part.b_batch[dim] = part.K * (p.b_along_k ? 1 : p.b_pitch);
    part.c_batch[dim] = 0;
    part.out_batch[dim] = step;
    part.batches *= count;
    return part;
}

template <int kVector>
aicf_status
launch_add_parts(problem<float> p, const parts &from, aicf_stream stream)
{
    p.tiles_m = p.M;
    p.tiles_n = ceil_div(p.N, kAddThreads * kVector);
    p.narrow = true;
    int64_t blocks = p.tiles_m * p.tiles_n * p.batches; // of few tiles: far below 2^31
    return launch_waiting(
        add_parts<kVector>, static_cast<unsigned>(blocks), kAddThreads, 0, stream, p, from);
}

// One block a tile of each part, all along grid.x, early: `kernel` waits for the launch before.
inline aicf_status
launch_parted(
    void (*kernel)(parted), parted p, int tile_m, int tile_n, int threads, int shared,
    aicf_stream stream)
{
    aicf_status status = allow_shared(kernel, shared);
    p.tiles_m = ceil_div(p.M, tile_m);
    p.tiles_n = ceil_div(p.N, tile_n);
    p.last *= p.tiles_m * p.tiles_n; // it comes as a matrix
    int64_t count = p.tiles_m * p.tiles_n * p.batches;
    p.narrow = count <= kMostBlocks;
    for (p.first = 0; p.first < count && !status.kind; p.first += kMostBlocks) {
        int64_t left = count - p.first;
        status = launch_waiting(
            kernel, static_cast<unsigned>(left < kMostBlocks ? left : kMostBlocks),
            static_cast<unsigned>(threads), static_cast<size_t>(shared), stream, p);
    }
    return status;
}

// The product in at most `count` parts of whole slabs, which `launch` launches.
inline aicf_status
launch_in_parts(
    const problem<float> &p, int64_t count, int slab, void *workspace, aicf_stream stream,
    aicf_status (*launch)(const parted &, aicf_stream))
{
    count = count == 1 ? 1 : ceil_div(p.K, part_of(p, count, slab));
    if (count == 1) {
        return launch({p, p.batches, p.K}, stream);
    }
    parted part = part_problem(p, count, slab, workspace);
    aicf_status status = launch(part, stream);
    if (status.kind) {
        return status;
    }
    parts from = {part.out, count, p.M * p.N * p.batches};
    return p.N % kQuad == 0 ? launch_add_parts<kQuad>(p, from, stream)
                            : launch_add_parts<1>(p, from, stream);
}

} // namespace aicf::gemm

#endif
