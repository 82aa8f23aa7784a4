// What blocks share that go through all steps of a recurrent layer together: weights that they
// keep, rows that others write while they wait, products, launches of blocks that all run at once.
// Here for f16 and bf16 on the matrix units of sm_80 and later; blocks_f32.cuh has f32.
#ifndef AICF_RECURRENT_BLOCKS_CUH
#define AICF_RECURRENT_BLOCKS_CUH

#include <type_traits>

#include "matrix.cuh"

#include <aicf/cuda/ptx_grid.cuh>

namespace aicf::AICF_OP {

constexpr int kDepth = 32; // k of a chunk: 16 bytes of a row in each of 4 lanes
// Two NaNs of all ones: conversions give NaN as 0x7fff, and a step stores that for this.
constexpr uint32_t kUnwritten = 0xffffffff;
constexpr int kUnwrittenByte = 0xff;
// What was filled so long ago lies in the L2 again before it is awaited: so many steps ahead.
constexpr int kFetched = 8;
constexpr uint32_t kMostPolls = 1 << 27; // some minutes: whoever is waited for is no more

// kUnits units a block, of kLines lines of weights each; kTiles tiles of 16 rows of the batch a
// group. A warp reads kAhead chunks at once; with kHeld they are all it has, and it keeps their
// weights in registers.
template <int kLines_, int kUnits_, int kTiles_, int kAhead_, bool kHeld_> struct block_shape {
    static constexpr bool kHeld = kHeld_, kIsF32 = false;
    static constexpr int kLines = kLines_, kUnits = kUnits_, kTiles = kTiles_, kAhead = kAhead_;
    static constexpr int kThreads = 256, kWarps = kThreads / kWarp;
    static constexpr int kM = 16 * kTiles, kColumns = kLines * kUnits, kN = kColumns / 8;
    // The rows of sums that a half warp writes or reads at once lie in different banks.
    static constexpr int kPitch = kColumns % 16 == 8 ? kColumns : kColumns + 8;
    static constexpr int kSumBytes = kWarps * kM * kPitch * 4;
    static constexpr int kChunkBytes = kHeld ? 0 : kN * kWarp * 16; // of weights, for kDepth of k
    static constexpr int kMostChunks = kHeld ? kWarps * kAhead : 1 << 16;
    static constexpr int kStageBytes = 0;
    static constexpr int kCells = (kM * kUnits + kThreads - 1) / kThreads; // a thread
};

// Fragments of b as mma.sync takes them, two steps of 16 k in 16 bytes a lane: lane l has 8
// neighbours along k, from 8 (l % 4) on, of column l / 4 of tile `tile` of 8. Rows of a come in the
// same order, so that the sums are over the same k. Line l of unit u is row l * units + u.
template <typename B, typename T> struct weight_lines {
    const T *data;
    int64_t units, depth, first_unit;

    __device__ uint4 at(int chunk, int tile, int lane) const
    {
        int column = tile * 8 + lane / 4;
        int64_t k = static_cast<int64_t>(chunk) * kDepth + lane % 4 * kChunk;
        int64_t unit = first_unit + column % B::kUnits;
        if (unit >= units || k >= depth) {
            return {};
        }
        int64_t row = column / B::kUnits * units + unit;
        return *reinterpret_cast<const uint4 *>(data + row * depth + k);
    }
};

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

// The weights of a block: of all warps in `shared`, or each warp's own in its registers. They are
// there after a barrier.
template <typename B, bool = B::kIsF32> struct weights_of {
    const uint4 *shared;
    uint4 held[B::kHeld ? B::kAhead : 1][B::kHeld ? B::kN : 1];

    template <typename T>
    __device__ weights_of(
        const weight_lines<B, T> &from, int chunks, const share_of_depth<B> &share, uint4 *to)
        : shared(to)
    {
        int lane = static_cast<int>(threadIdx.x) % kWarp;
        if constexpr (B::kHeld) {
#pragma unroll
            for (int i = 0; i < B::kAhead; i++) {
#pragma unroll
                for (int j = 0; j < B::kN; j++) {
                    held[i][j] =
                        share.begin + i < share.end ? from.at(share.begin + i, j, lane) : uint4{};
                }
            }
        } else {
            int warp = static_cast<int>(threadIdx.x) / kWarp;
            for (int i = warp; i < chunks * B::kN; i += B::kWarps) {
                to[i * kWarp + lane] = from.at(i / B::kN, i % B::kN, lane);
            }
        }
    }

    // Number i of those that are read at once, from chunk `first` on.
    __device__ uint4 at(int first, int i, int tile) const
    {
        if constexpr (B::kHeld) {
            return held[i][tile];
        } else {
            return shared[((first + i) * B::kN + tile) * kWarp + threadIdx.x % kWarp];
        }
    }
};

// kAhead chunks of rows, from chunk `first` on, in fragments of a; `rows`: their addresses for this
// lane, two a tile. With `awaited` they are read until all of them are written.
template <typename T, typename B>
__device__ inline void
read_chunks(
    const T *const (&rows)[B::kTiles][2], int first, int end, int depth, bool awaited,
    uint32_t (&a)[B::kAhead][B::kTiles][2][4])
{
    int along = static_cast<int>(threadIdx.x) % 4 * kChunk;
    for (uint32_t polls = 0;; polls++) {
#pragma unroll
        for (int i = 0; i < B::kAhead; i++) {
            int k = (first + i) * kDepth + along;
            if (first + i < end) {
#pragma unroll
                for (int t = 0; t < B::kTiles; t++) {
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        ptx::load_shared_by_grid(
                            rows[t][half] + (k < depth ? k : 0), a[i][t][half]);
                    }
                }
            }
        }
        if (!awaited) {
            return;
        }
        bool missing = false;
#pragma unroll
        for (int i = 0; i < B::kAhead; i++) {
            if (first + i < end) {
#pragma unroll
                for (int word = 0; word < B::kTiles * 8; word++) {
                    missing |= a[i][word / 8][word / 4 % 2][word % 4] == kUnwritten;
                }
            }
        }
        if (!__any_sync(0xffffffff, missing)) {
            return;
        }
        if (polls == kMostPolls) {
            __trap();
        }
    }
}

// This warp's sums over its share of the rows.
template <typename T, typename B>
__device__ inline void
multiply_chunks(
    const T *const (&rows)[B::kTiles][2], const weights_of<B> &weights,
    const share_of_depth<B> &share, int depth, bool awaited, float (&sums)[B::kTiles][B::kN][4])
{
    int along = static_cast<int>(threadIdx.x) % 4 * kChunk;
    for (int first = share.begin; first < share.end; first += B::kAhead) {
        uint32_t a[B::kAhead][B::kTiles][2][4];
        read_chunks<T, B>(rows, first, share.end, depth, awaited, a);
#pragma unroll
        for (int i = 0; i < B::kAhead; i++) {
            if (first + i >= share.end) {
                break;
            }
            // What lies outside meets weights of 0, but must be no NaN.
            bool inside = (first + i) * kDepth + along < depth;
#pragma unroll
            for (int word = 0; word < B::kTiles * 8; word++) {
                uint32_t &x = a[i][word / 8][word / 4 % 2][word % 4];
                x = inside ? x : 0;
            }
#pragma unroll
            for (int j = 0; j < B::kN; j++) {
                uint4 b = weights.at(first, i, j);
#pragma unroll
                for (int t = 0; t < B::kTiles; t++) {
                    const uint32_t(&lo)[4] = a[i][t][0], (&hi)[4] = a[i][t][1];
                    ptx::mma_m16n8k16(sums[t][j], {lo[0], hi[0], lo[1], hi[1]}, b.x, b.y, T{});
                    ptx::mma_m16n8k16(sums[t][j], {lo[2], hi[2], lo[3], hi[3]}, b.z, b.w, T{});
                }
            }
        }
        if (B::kHeld) {
            break; // that was all
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

// Until a word of each eight of this warp's share of a row is written. All of the rows, awaited by
// all blocks, are more than the L2 likes to be asked for in vain.
template <typename T, typename B>
__device__ inline void
await_share(const T *row, const share_of_depth<B> &share, int depth)
{
    int end = share.end * kDepth < depth ? share.end * kDepth : depth;
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int k = share.begin * kDepth + lane * kChunk; k < end; k += kWarp * kChunk) {
        for (uint32_t polls = 0; ptx::load_shared_by_grid(row + k) == kUnwritten; polls++) {
            if (polls == kMostPolls) {
                __trap();
            }
        }
    }
    __syncwarp();
}

// The products of `count` rows of `from` with the weights, of this warp's share, to where all meet.
template <typename T, typename B, std::enable_if_t<!B::kIsF32, int> = 0>
__device__ inline void
multiply_rows(
    const T *from, int count, int depth, const weights_of<B> &weights,
    const share_of_depth<B> &share, bool awaited, float *meeting)
{
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    const T *rows[B::kTiles][2];
#pragma unroll
    for (int i = 0; i < 2 * B::kTiles; i++) {
        int row = i / 2 * 16 + i % 2 * 8 + lane / 4;
        // Rows beyond the batch are its last one again: nobody takes their sums.
        rows[i / 2][i % 2] = from + static_cast<int64_t>(row < count ? row : count - 1) * depth;
    }
    if (awaited) {
        await_share(from, share, depth);
    }
    float sums[B::kTiles][B::kN][4] = {};
    multiply_chunks<T, B>(rows, weights, share, depth, awaited, sums);
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

__device__ inline void
store_pair(float *to, float x, bool there)
{
    uint32_t word = __float_as_uint(x);
    if (there) {
        ptx::store_shared_by_grid(to, word == kUnwritten ? 0x7fffffff : word);
    }
}

// x and its neighbour's, stored by the even one of each two lanes as one word: never kUnwritten.
template <typename T>
__device__ inline void
store_pair(T *to, T x, bool there)
{
    uint32_t mine = reinterpret_cast<const uint16_t &>(x);
    uint32_t word = mine | __shfl_down_sync(0xffffffff, mine, 1) << 16;
    word = word == kUnwritten ? 0x7fff7fff : word;
    if (there && threadIdx.x % 2 == 0) {
        ptx::store_shared_by_grid(to, word);
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

template <typename T>
aicf_status
mark_unwritten(T *of, int64_t count, aicf_stream stream)
{
    return status_of(cudaMemsetAsync(
        of, kUnwrittenByte, static_cast<size_t>(count) * sizeof(T),
        reinterpret_cast<cudaStream_t>(stream)));
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
    if (p.chunks > B::kMostChunks) {
        return false;
    }
    int64_t groups = ceil_div(p.N, B::kM), at_once = 0;
    int shared = 0;
    for (p.buffers = 2; p.buffers > 0 && !status.kind; p.buffers--) {
        shared = p.buffers * B::kSumBytes + p.chunks * B::kChunkBytes + B::kStageBytes;
        at_once = blocks_at_once(kernel, B::kThreads, shared, status) / p.unit_blocks;
        if (at_once > 0) {
            break;
        }
    }
    if (status.kind || at_once == 0) {
        return status.kind != 0;
    }
    for (int64_t group = 0; group < groups && !status.kind; group += at_once) {
        int64_t now = groups - group < at_once ? groups - group : at_once;
        p.first_group = static_cast<int>(group);
        status = launch_at_once(kernel, now * p.unit_blocks, B::kThreads, shared, stream, &p);
    }
    return true;
}

} // namespace aicf::AICF_OP

#endif
