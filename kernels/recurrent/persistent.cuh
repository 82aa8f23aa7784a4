// Recurrent layers on the matrix units of sm_80 and later, f16 and bf16 with f32 sums: one launch
// for all steps, in which a block owns some units and keeps their rows of w_hh in shared memory.
// Requires D and H in eights, addresses on multiples of 16 bytes, and all blocks of a group of rows
// of the batch on the device at once (a cooperative launch).
//
// In a step a warp takes a share of the depth: it waits for the blocks whose units lie in it, reads
// their hidden states from the out, where the step before left them, and multiplies. Sums meet in
// shared memory, threads make cells of them, and once the block's part of the out is written it
// says so: a number a block, the steps it has done. The steps of other groups are none of its
// business. Bound by the way of a hidden state from one multiprocessor to all others.
#ifndef AICF_RECURRENT_PERSISTENT_CUH
#define AICF_RECURRENT_PERSISTENT_CUH

#include "matrix.cuh"
#include "steps.cuh"

#include <aicf/cuda/ptx_grid.cuh>

namespace aicf::recurrent {

constexpr int kDepth = 32;               // k of a chunk: 16 bytes of a row in each of 4 lanes
constexpr uint32_t kMostPolls = 1 << 27; // some minutes: whoever is waited for is no more

// kUnits units a block, of kLines lines of weights each; kTiles tiles of 16 rows of the batch a
// group. A warp reads kAhead chunks at once.
template <int kLines_, int kUnits_, int kTiles_, int kAhead_> struct block_shape {
    static constexpr int kLines = kLines_, kUnits = kUnits_, kTiles = kTiles_, kAhead = kAhead_;
    static constexpr int kThreads = 256, kWarps = kThreads / kWarp;
    static constexpr int kM = 16 * kTiles, kColumns = kLines * kUnits, kN = kColumns / 8;
    // The rows of sums that a half warp writes or reads at once lie in different banks.
    static constexpr int kPitch = kColumns % 16 == 8 ? kColumns : kColumns + 8;
    static constexpr int kSumBytes = kWarps * kM * kPitch * 4;
    static constexpr int kChunkBytes = kN * kWarp * 16; // of weights, for kDepth of k
    static constexpr int kCells = (kM * kUnits + kThreads - 1) / kThreads; // a thread
};

template <typename T> struct persistent {
    int64_t S, N, H;
    bool reverse;
    const T *h0, *c0, *w_hh, *b_n;
    const float *in;
    T *out, *hn, *cn, *gates, *cells;
    uint32_t *done; // steps, a block
    int unit_blocks, chunks, first_group;
};

// Until `count` blocks from `done` on have done `steps` steps.
__device__ inline void
wait_for_blocks(const uint32_t *done, int count, uint32_t steps)
{
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < count; i += kWarp) {
        for (uint32_t polls = 0; ptx::load_acquire(done + i) < steps; polls++) {
            if (polls == kMostPolls) {
                __trap();
            }
        }
    }
    __syncwarp();
}

// Fragments of b as mma.sync takes them, two steps of 16 k in 16 bytes a lane: lane l has 8
// neighbours along k, from 8 (l % 4) on, of column l / 4 of a tile of 8. Rows of a come in the same
// order, so that the sums are over the same k. Line l of unit u is row l * units + u of `from`.
template <typename T, typename B>
__device__ inline void
load_weights(
    const T *from, int64_t units, int64_t depth, int chunks, int64_t first_unit, uint4 *weights)
{
    for (int i = static_cast<int>(threadIdx.x); i < chunks * B::kN * kWarp; i += B::kThreads) {
        int lane = i % kWarp, column = i / kWarp % B::kN * 8 + lane / 4;
        int64_t k = i / (kWarp * B::kN) * kDepth + lane % 4 * kChunk;
        int64_t unit = first_unit + column % B::kUnits;
        uint4 w = {};
        if (unit < units && k < depth) {
            int64_t row = column / B::kUnits * units + unit;
            w = *reinterpret_cast<const uint4 *>(from + row * depth + k);
        }
        weights[i] = w;
    }
}

// This warp's sums over chunks [begin, end) of the rows of h, whose addresses for this lane are
// `rows`: two a tile.
template <typename T, typename B>
__device__ inline void
multiply_chunks(
    const T *const (&rows)[B::kTiles][2], const uint4 *weights, int begin, int end, int depth,
    float (&sums)[B::kTiles][B::kN][4])
{
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int first = begin; first < end; first += B::kAhead) {
        uint32_t a[B::kAhead][B::kTiles][2][4];
#pragma unroll
        for (int i = 0; i < B::kAhead; i++) {
            int k = (first + i) * kDepth + lane % 4 * kChunk;
            if (first + i < end) {
#pragma unroll
                for (int t = 0; t < B::kTiles; t++) {
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        // What lies outside meets weights of 0, but must be no NaN.
                        ptx::load_shared_by_grid(
                            rows[t][half] + (k < depth ? k : 0), a[i][t][half]);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < B::kAhead; i++) {
            if (first + i < end) {
                bool inside = (first + i) * kDepth + lane % 4 * kChunk < depth;
#pragma unroll
                for (int t = 0; t < B::kTiles; t++) {
#pragma unroll
                    for (int word = 0; word < 4; word++) {
                        a[i][t][0][word] = inside ? a[i][t][0][word] : 0;
                        a[i][t][1][word] = inside ? a[i][t][1][word] : 0;
                    }
                }
#pragma unroll
                for (int j = 0; j < B::kN; j++) {
                    uint4 b = weights[((first + i) * B::kN + j) * kWarp + lane];
#pragma unroll
                    for (int t = 0; t < B::kTiles; t++) {
                        const uint32_t(&lo)[4] = a[i][t][0], (&hi)[4] = a[i][t][1];
                        ptx::mma_m16n8k16(sums[t][j], {lo[0], hi[0], lo[1], hi[1]}, b.x, b.y, T{});
                        ptx::mma_m16n8k16(sums[t][j], {lo[2], hi[2], lo[3], hi[3]}, b.z, b.w, T{});
                    }
                }
            }
        }
    }
}

template <typename B>
__device__ inline void
put_sums(const float (&sums)[B::kTiles][B::kN][4], float *to)
{
    int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    float *mine = to + (warp * B::kM + lane / 4) * B::kPitch + lane % 4 * 2;
#pragma unroll
    for (int t = 0; t < B::kTiles; t++) {
#pragma unroll
        for (int j = 0; j < B::kN; j++) {
            float *at = mine + t * 16 * B::kPitch + j * 8;
            store_pack(at, pack<float, 2>{{sums[t][j][0], sums[t][j][1]}});
            store_pack(at + 8 * B::kPitch, pack<float, 2>{{sums[t][j][2], sums[t][j][3]}});
        }
    }
}

// A warp's share of the depth, in chunks.
template <typename B> struct share_of_depth {
    int begin, end;

    __device__ share_of_depth(int chunks)
    {
        int warp = static_cast<int>(threadIdx.x) / kWarp;
        int share = (chunks + B::kWarps - 1) / B::kWarps;
        begin = warp * share < chunks ? warp * share : chunks;
        end = begin + share < chunks ? begin + share : chunks;
    }
};

// The products of `count` rows of `from` with the weights, of this warp's share, to where all meet.
template <typename T, typename B>
__device__ inline void
multiply_rows(
    const T *from, int count, int depth, const uint4 *weights, const share_of_depth<B> &share,
    float *meeting)
{
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    const T *rows[B::kTiles][2];
#pragma unroll
    for (int i = 0; i < 2 * B::kTiles; i++) {
        int row = i / 2 * 16 + i % 2 * 8 + lane / 4;
        // Rows beyond the batch are its last one again: nobody takes their sums.
        rows[i / 2][i % 2] = from + static_cast<int64_t>(row < count ? row : count - 1) * depth;
    }
    float sums[B::kTiles][B::kN][4] = {};
    multiply_chunks<T, B>(rows, weights, share.begin, share.end, depth, sums);
    put_sums<B>(sums, meeting);
}

// The sums of all warps of one row and column.
template <typename B>
__device__ inline float
sum_of_warps(const float *sums, int row, int column)
{
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < B::kWarps; warp++) {
        sum += sums[(warp * B::kM + row) * B::kPitch + column];
    }
    return sum;
}

template <cell kCell, int kUnits, int kTiles>
using forward_shape = block_shape<kGates<kCell>, kUnits, kTiles, 4>;

template <typename T, cell kCell, int kUnits, int kTiles>
__global__ void
    __launch_bounds__(256, 1) forward_persistent(const __grid_constant__ persistent<T> p)
{
    using B = forward_shape<kCell, kUnits, kTiles>;
    constexpr int kG = kGates<kCell>;
    extern __shared__ __align__(128) uint8_t shared[];
    float *meeting = reinterpret_cast<float *>(shared);
    uint4 *weights = reinterpret_cast<uint4 *>(shared + B::kSumBytes);
    int block = static_cast<int>(blockIdx.x) % p.unit_blocks;
    int group = static_cast<int>(blockIdx.x) / p.unit_blocks + p.first_group;
    int64_t first_unit = static_cast<int64_t>(block) * kUnits;
    int64_t first_row = static_cast<int64_t>(group) * B::kM;
    int count = static_cast<int>(p.N - first_row < B::kM ? p.N - first_row : B::kM);
    uint32_t *done = p.done + static_cast<int64_t>(group) * p.unit_blocks;
    load_weights<T, B>(p.w_hh, p.H, p.H, p.chunks, first_unit, weights);

    // This warp's share of the depth, and the blocks that make it.
    share_of_depth<B> mine(p.chunks);
    int from = mine.begin * kDepth / kUnits, to = (mine.end * kDepth + kUnits - 1) / kUnits;
    to = to < p.unit_blocks ? to : p.unit_blocks;

    // This thread's cells.
    int64_t place[B::kCells];                           // in a state; -1: none
    int64_t in_place[B::kCells], kept_place[B::kCells]; // of its first gate
    float carry[B::kCells] = {}, b_n[B::kCells] = {};
#pragma unroll
    for (int c = 0; c < B::kCells; c++) {
        int i = static_cast<int>(threadIdx.x) + c * B::kThreads, row = i / kUnits;
        int64_t unit = first_unit + i % kUnits;
        place[c] = row < count && unit < p.H ? (first_row + row) * p.H + unit : -1;
        in_place[c] = (first_row + row) * kG * p.H + unit;
        kept_place[c] = (first_row + row) * kKept * p.H + unit;
        if (place[c] >= 0) {
            b_n[c] = p.b_n ? to_f32(p.b_n[unit]) : 0.0f;
            if constexpr (kCell != cell::tanh) {
                carry[c] = to_f32((kCell == cell::gru ? p.h0 : p.c0)[place[c]]);
            }
        }
    }
    __syncthreads(); // the weights are there

    const T *before = p.h0;
    int64_t state = p.N * p.H;
    for (int64_t at = 0; at < p.S; at++) {
        int64_t time = time_of(p, at);
        float in[B::kCells][kG]; // asked for long before they are used
#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
#pragma unroll
            for (int g = 0; g < kG; g++) {
                in[c][g] = place[c] >= 0 ? p.in[time * state * kG + in_place[c] + g * p.H] : 0.0f;
            }
        }

        wait_for_blocks(done + from, to - from, static_cast<uint32_t>(at));
        multiply_rows<T, B>(
            before + first_row * p.H, count, static_cast<int>(p.H), weights, mine, meeting);
        __syncthreads();

        float kept[B::kCells][kKept] = {};
#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
            if (place[c] >= 0) {
                int i = static_cast<int>(threadIdx.x) + c * B::kThreads;
                float hidden[kG];
#pragma unroll
                for (int g = 0; g < kG; g++) {
                    hidden[g] = sum_of_warps<B>(meeting, i / kUnits, g * kUnits + i % kUnits);
                }
                T h = of_f32<T>(
                    forward_cell<kCell, kQuick<T>>(in[c], hidden, b_n[c], carry[c], kept[c]));
                p.out[time * state + place[c]] = h;
                if constexpr (kCell == cell::gru) {
                    carry[c] = to_f32(h);
                }
                if (at + 1 == p.S) {
                    p.hn[place[c]] = h;
                }
            }
        }
        __syncthreads(); // the block's part of the out is written, and its sums are read
        if (threadIdx.x == 0) {
            ptx::store_release(done + block, static_cast<uint32_t>(at + 1));
        }

        // What the gradient needs, while others go on.
        before = p.out + time * state;
#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
            if (kCell != cell::tanh && p.gates && place[c] >= 0) {
#pragma unroll
                for (int g = 0; g < kKept; g++) {
                    p.gates[time * state * kKept + kept_place[c] + g * p.H] = of_f32<T>(kept[c][g]);
                }
            }
            if (kCell == cell::lstm && p.cells && place[c] >= 0) {
                p.cells[time * state + place[c]] = of_f32<T>(carry[c]);
            }
        }
    }
    if constexpr (kCell == cell::lstm) {
#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
            if (place[c] >= 0) {
                p.cn[place[c]] = of_f32<T>(carry[c]);
            }
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

// Blocks of a kernel that the current device runs at once; 0 where they do not fit.
inline int64_t
blocks_at_once(const void *kernel, int threads, int shared, aicf_status &status)
{
    int device = 0, processors = 0, most = 0, each = 0;
    cudaError_t error = cudaGetDevice(&device);
    error =
        error ? error : cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    error = error ? error
                  : cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (!error && shared <= most) {
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
        error = error ? error
                      : cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                            &each, kernel, threads, static_cast<size_t>(shared));
    }
    if (error) {
        cudaGetLastError();
    }
    status = status_of(error);
    return static_cast<int64_t>(processors) * each;
}

inline aicf_status
launch_at_once(
    const void *kernel, int64_t blocks, int threads, int shared, aicf_stream stream, void *argument)
{
    void *pointers[] = {argument};
    cudaError_t error = cudaLaunchCooperativeKernel(
        kernel, dim3(static_cast<unsigned>(blocks)), dim3(threads), pointers,
        static_cast<size_t>(shared), reinterpret_cast<cudaStream_t>(stream));
    if (error) {
        cudaGetLastError();
    }
    return status_of(error);
}

// All groups, as many at once as the device runs; `depth`: of the products of a step. False, with
// nothing launched, where the blocks of one group do not fit on the device.
template <typename B, typename P>
bool
launch_groups(void (*of)(P), P p, int64_t depth, aicf_stream stream, aicf_status &status)
{
    const void *kernel = reinterpret_cast<const void *>(of);
    p.unit_blocks = static_cast<int>(ceil_div(p.H, B::kUnits));
    p.chunks = static_cast<int>(ceil_div(depth, kDepth));
    int shared = B::kSumBytes + p.chunks * B::kChunkBytes;
    int64_t groups = ceil_div(p.N, B::kM);
    int64_t at_once = blocks_at_once(kernel, B::kThreads, shared, status) / p.unit_blocks;
    if (status.kind || at_once == 0) {
        return status.kind != 0;
    }
    status = status_of(cudaMemsetAsync(
        p.done, 0, static_cast<size_t>(groups * p.unit_blocks) * sizeof(uint32_t),
        reinterpret_cast<cudaStream_t>(stream)));
    for (int64_t group = 0; group < groups && !status.kind; group += at_once) {
        int64_t now = groups - group < at_once ? groups - group : at_once;
        p.first_group = static_cast<int>(group);
        status = launch_at_once(kernel, now * p.unit_blocks, B::kThreads, shared, stream, &p);
    }
    return true;
}

template <typename T, cell kCell, int kUnits, int kTiles>
bool
launch_forward_units(const persistent<T> &p, aicf_stream stream, aicf_status &status)
{
    return launch_groups<forward_shape<kCell, kUnits, kTiles>>(
        forward_persistent<T, kCell, kUnits, kTiles>, p, p.H, stream, status);
}

// Few units a block spread the weights over more multiprocessors, if there are as many.
template <typename T, cell kCell, int kTiles>
bool
launch_forward_tiles(const persistent<T> &p, aicf_stream stream, aicf_status &status)
{
    return launch_forward_units<T, kCell, 8, kTiles>(p, stream, status) ||
           launch_forward_units<T, kCell, 16, kTiles>(p, stream, status);
}

// False, with no step made, where it does not fit on the device. Requires no size to be 0.
template <typename T, cell kCell>
bool
launch_persistent(const layer<T> &p, void *workspace, aicf_stream stream, aicf_status &status)
{
    room left = {static_cast<char *>(workspace)};
    float *in = left.take<float>(p.S * p.N * p.H * kGates<kCell>);
    persistent<T> all = {};
    all.S = p.S;
    all.N = p.N;
    all.H = p.H;
    all.reverse = p.reverse;
    all.h0 = p.h0;
    all.c0 = p.c0;
    all.w_hh = p.w_hh;
    all.b_n = bias_of_n<T, kCell>(p);
    all.in = in;
    all.out = p.out;
    all.hn = p.hn;
    all.cn = p.cn;
    all.gates = p.gates;
    all.cells = p.cells;
    all.done = left.take<uint32_t>(ceil_div(p.N, 16) * ceil_div(p.H, 8));
    status = multiply_along<T, float, true, true>(inputs_of<T, kCell>(p, in), stream);
    if (status.kind) {
        return true;
    }
    return p.N > 16 ? launch_forward_tiles<T, kCell, 2>(all, stream, status)
                    : launch_forward_tiles<T, kCell, 1>(all, stream, status);
}

} // namespace aicf::recurrent

#endif
