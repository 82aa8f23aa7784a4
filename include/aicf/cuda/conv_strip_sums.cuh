// Depthwise convolutions over places (see conv.h) by strips of rows, as conv_strips.cuh makes those
// over taps: a thread adds up its strips' products for all nine taps, blocks have parts of the
// places. Bound by bytes.
#ifndef AICF_CUDA_CONV_STRIP_SUMS_CUH
#define AICF_CUDA_CONV_STRIP_SUMS_CUH

#include <aicf/cuda/conv_strips.cuh>

namespace aicf::AICF_OP {

// A thread's places.
template <typename T, int kLanes, int kStep>
__device__ inline void
add_places(
    const strip_problem &p, const strip_walk &walk, const T *field, int output,
    float (&sums)[kNine][kLanes])
{
    constexpr int kRows = kStripRows<kLanes, kStep>;
#pragma unroll 1
    for (uint32_t place = walk.first; place < walk.end; place += walk.step) {
        strip<T, kLanes, kStep> x;
        x.find(p, place);
        x.load(p, field);
        words g[kRows];
        const T *at = x.outs(p, output);
#pragma unroll
        for (int r = 0; r < kRows; r++, at += p.out_strides[2]) {
            g[r] = load_inside<kLaneBytes<T, kLanes>>(at, x.row + r < p.rows);
        }
        if constexpr (kLanes == 1) { // packs have no registers for it: it spilled them
            if (place + walk.step < walk.end) {
                strip<T, kLanes, kStep> next;
                next.find(p, place + walk.step);
                next.fetch_ahead(p, field);
                const T *dense = next.outs(p, output);
#pragma unroll
                for (int r = 0; r < kRows; r++, dense += p.out_strides[2]) {
                    if (next.row + r < p.rows) {
                        ptx::prefetch_l2(dense);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kStripReads<kLanes, kStep>; i++) { // rows of the field
#pragma unroll
            for (int r = 0; r < kRows; r++) {
                if (i < r * kStep || i >= r * kStep + kSide) {
                    continue;
                }
                const int y = i - r * kStep;
#pragma unroll
                for (int t = 0; t < kSide; t++) {
#pragma unroll
                    for (int c = 0; c < kLanes; c++) {
                        sums[y * kSide + t][c] += x.value(i, t, c) * lane_of<T>(g[r], c);
                    }
                }
            }
        }
    }
}

// Sums of a block's threads with the same channels, in order of threads.
template <int kLanes, int kStep, typename T>
__global__ void
__launch_bounds__(kStripThreads, kStripBlocks)
    sums_of_packs(const __grid_constant__ strip_problem p)
{
    __shared__ float room[kNine * kLanes][kStripThreads];
    strip_walk walk = strip_walk::of<kLanes>(p);
    int thread = static_cast<int>(threadIdx.x), packs = 1 << p.packs_log;
    float sums[kNine][kLanes] = {};
    const T *field = static_cast<const T *>(p.field) + walk.output;
    add_places<T, kLanes, kStep>(p, walk, field, walk.output, sums);
#pragma unroll
    for (int k = 0; k < kNine * kLanes; k++) {
        room[k][thread] = sums[k / kLanes][k % kLanes];
    }
    __syncthreads();
    int first = walk.output - (thread & (packs - 1)) * kLanes;
    int64_t part = divide(blockIdx.x, p.chunks);
    for (int i = thread; i < kNine * kLanes * packs; i += kStripThreads) {
        int k = i >> p.packs_log, pack = i & (packs - 1);
        int output = first + pack * kLanes + k % kLanes;
        float sum = 0.0f;
#pragma unroll 8
        for (int other = pack; other < kStripThreads; other += packs) {
            sum += room[k][other];
        }
        if (output < p.channels) {
            p.parts[(part * p.channels + output) * kNine + k / kLanes] = sum;
        }
    }
}

// Of one output a block, in a fixed order.
template <int kStep, typename T>
__global__ void
__launch_bounds__(kStripThreads, kStripBlocks)
    sums_of_columns(const __grid_constant__ strip_problem p)
{
    constexpr int kWarp = 32, kWarps = kStripThreads / kWarp;
    __shared__ float room[kNine][kWarps];
    strip_walk walk = strip_walk::of<1>(p);
    int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
    int group = static_cast<int>(divide(static_cast<uint32_t>(walk.output), p.by_m));
    float sums[kNine][1] = {};
    const T *field = static_cast<const T *>(p.field) + group * p.field_strides[1];
    add_places<T, 1, kStep>(p, walk, field, walk.output, sums);
#pragma unroll
    for (int k = 0; k < kNine; k++) {
#pragma unroll
        for (int apart = kWarp / 2; apart > 0; apart /= 2) {
            sums[k][0] += __shfl_xor_sync(0xffffffff, sums[k][0], apart);
        }
        if (lane == 0) {
            room[k][warp] = sums[k][0];
        }
    }
    __syncthreads();
    if (threadIdx.x < kNine) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kWarps; i++) {
            sum += room[threadIdx.x][i];
        }
        int64_t part = divide(blockIdx.x, p.chunks);
        p.parts[(part * p.channels + walk.output) * kNine + threadIdx.x] = sum;
    }
}

// ---- launching ----------------------------------------------------------------------------------

// The sums of at most `most` parts of the places, into p.parts of as many; `parts`: how many.
template <typename T>
aicf_status
launch_strip_sums(
    const aicf_conv &c, const strip_way &way, float *workspace, int64_t most, int64_t &parts,
    aicf_stream stream)
{
    strip_problem p = strip_problem_of(c, way);
    aicf_status status = split_strips(p, most, parts);
    if (status.kind) {
        return status;
    }
    p.parts = workspace;
    constexpr int kLanes = kBeside<T>;
    auto kernel = way.packs
                      ? (way.step == 1 ? sums_of_packs<kLanes, 1, T> : sums_of_packs<kLanes, 2, T>)
                      : (way.step == 1 ? sums_of_columns<1, T> : sums_of_columns<2, T>);
    return aicf::launch(
        kernel, static_cast<unsigned>(parts * p.chunks.divisor), kStripThreads, 0, stream, p);
}

} // namespace aicf::AICF_OP

#endif
