// f32 matrices copied to where k lies together, on the L2's lines, as the copy engine and wgmma
// want them in tf32: from where the other dim does, or from any address and pitch (see gemm.cuh for
// the operands). Bound by bytes.
#ifndef AICF_GEMM_TURNED_CUH
#define AICF_GEMM_TURNED_CUH

#include "batches.cuh"

#include <aicf/cuda/copy_engine.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::gemm {

// Element (x, k) of a matrix, x along m or n, lies at from + x * from_x + k * from_k, one of which
// is 1, and goes to to + x * pitch + k.
struct turned_copy {
    const float *from;
    float *to;
    int64_t sides, depth; // of x, of k
    int64_t from_x, from_k, pitch;
    int rank; // of the batch, innermost dim first
    int64_t sizes[kMostBatchDims], from_batch[kMostBatchDims], to_batch[kMostBatchDims];
    int64_t tiles_x, tiles_k, blocks;
};

// Two copies in one launch: the second's blocks follow the first's.
struct turned_copies {
    turned_copy copy[2];
};

constexpr int kTurnSide = 64; // of a tile
constexpr int kTurnThreads = 256;
constexpr int kTurnLoads = kTurnSide * kTurnSide / kTurnThreads; // a thread's, at once

__device__ inline void
turn_tile(const turned_copy &c, uint32_t block, float (&tile)[kTurnSide][kTurnSide + 1])
{
    uint32_t tiles = static_cast<uint32_t>(c.tiles_x * c.tiles_k), matrix = block / tiles;
    block -= matrix * tiles;
    int64_t x0 = static_cast<int64_t>(block / static_cast<uint32_t>(c.tiles_k)) * kTurnSide;
    int64_t k0 = static_cast<int64_t>(block % static_cast<uint32_t>(c.tiles_k)) * kTurnSide;
    const float *from = c.from;
    float *to = c.to;
    for (int dim = 0; dim < c.rank; dim++) {
        uint32_t size = static_cast<uint32_t>(c.sizes[dim]), next = matrix / size;
        int64_t digit = matrix - next * size;
        from += digit * c.from_batch[dim];
        to += digit * c.to_batch[dim];
        matrix = next;
    }
    bool turned = c.from_x == 1;
    int lane = static_cast<int>(threadIdx.x) % kTurnSide;
    int line = static_cast<int>(threadIdx.x) / kTurnSide;
    constexpr int kLines = kTurnThreads / kTurnSide;

    float held[kTurnLoads];
#pragma unroll
    for (int i = 0; i < kTurnLoads; i++) {
        int64_t x = x0 + (turned ? lane : line + i * kLines);
        int64_t k = k0 + (turned ? line + i * kLines : lane);
        held[i] = x < c.sides && k < c.depth ? from[x * c.from_x + k * c.from_k] : 0.0f;
    }
    if (turned) {
#pragma unroll
        for (int i = 0; i < kTurnLoads; i++) {
            tile[line + i * kLines][lane] = held[i];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kTurnLoads; i++) {
            held[i] = tile[lane][line + i * kLines];
        }
    }
#pragma unroll
    for (int i = 0; i < kTurnLoads; i++) {
        int64_t x = x0 + line + i * kLines, k = k0 + lane;
        if (x < c.sides && k < c.depth) {
            to[x * c.pitch + k] = held[i];
        }
    }
}

__global__ void
__launch_bounds__(kTurnThreads, 5) turn(const __grid_constant__ turned_copies copies)
{
    __shared__ float tile[kTurnSide][kTurnSide + 1]; // one more: columns lie in different banks
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();
    uint32_t first = static_cast<uint32_t>(copies.copy[0].blocks);
    if (blockIdx.x < first) {
        turn_tile(copies.copy[0], blockIdx.x, tile);
    } else {
        turn_tile(copies.copy[1], blockIdx.x - first, tile);
    }
}

inline aicf_status
launch_turned(const turned_copies &copies, aicf_stream stream)
{
    int64_t blocks = copies.copy[0].blocks + copies.copy[1].blocks;
    if (blocks > kMostBlocks) { // of 16 KiB each
        return status_of(cudaErrorInvalidValue);
    }
    return blocks == 0 ? aicf_ok()
                       : launch_waiting(
                             turn, static_cast<unsigned>(blocks), kTurnThreads, 0, stream, copies);
}

// An operand of a problem, to be looked at and replaced: `sides` of x by `depth` of k.
struct turned_operand {
    const float *data;
    int64_t sides, pitch;
    bool along_k;
    int64_t *batch;
};

// Whether the copy engine takes it as it lies; backwards is for the launcher to walk.
inline bool
engine_takes(const problem<float> &p, const turned_operand &x)
{
    constexpr int64_t kLanes = kEngineBytes / 4;
    bool takes = reinterpret_cast<uintptr_t>(x.data) % kEngineBytes == 0 &&
                 ((x.along_k ? x.sides : p.K) == 1 || (x.pitch > 0 && x.pitch % kLanes == 0));
    for (int dim = 0; dim < p.batch_rank; dim++) {
        takes = takes && x.batch[dim] % kLanes == 0;
    }
    return takes;
}

// The copy of `x` to `room`, which is moved on; x becomes that place. Dims that x does not walk, of
// stride 0, are not copied.
inline turned_copy
turn_to(float *&room, const problem<float> &p, turned_operand &x)
{
    constexpr int64_t kLine = kLineBytes / 4;
    turned_copy c = {};
    c.from = x.data;
    c.to = room;
    c.sides = x.sides;
    c.depth = p.K;
    c.from_x = x.along_k ? x.pitch : 1;
    c.from_k = x.along_k ? 1 : x.pitch;
    c.pitch = ceil_div(p.K, kLine) * kLine;
    c.tiles_x = ceil_div(c.sides, kTurnSide);
    c.tiles_k = ceil_div(c.depth, kTurnSide);
    c.blocks = c.tiles_x * c.tiles_k;
    int64_t step = x.sides * c.pitch;
    for (int dim = 0; dim < p.batch_rank; dim++) {
        if (x.batch[dim] == 0) {
            continue;
        }
        c.sizes[c.rank] = p.batch_sizes[dim];
        c.from_batch[c.rank] = x.batch[dim];
        c.to_batch[c.rank++] = step;
        c.blocks *= p.batch_sizes[dim];
        x.batch[dim] = step;
        step *= p.batch_sizes[dim];
    }
    room += step;
    x.data = c.to;
    x.pitch = c.pitch;
    x.along_k = true;
    return c;
}

} // namespace aicf::gemm

#endif
