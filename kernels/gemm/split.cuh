// gemm in f32 by multiply-adds where the out has few tiles (see gemm.cuh for the operands), for
// sm_90 and later: any address, M * N * K above 0 and below 2^31. What takes the time there is to
// wait, so k is split twice: each block of a cluster has a part of it, and of a part's slabs each
// warp multiplies every so many fours of k. The sums meet in shared memory, in the same order at
// each run, so there is one launch and no workspace.
//
// Operands lie in shared memory as in global memory: what lies together along k is read along k.
#ifndef AICF_GEMM_SPLIT_CUH
#define AICF_GEMM_SPLIT_CUH

#include "lines.cuh"

#include <aicf/cuda/copy_engine.cuh>

namespace aicf::gemm {

constexpr int kWarpSide = 32;             // of the tile of a warp: 8 x 4 lanes with 4 x 8 sums each
constexpr int kSumsM = 4, kSumsN = 8;     // of a lane
constexpr int kStagesSplit = 4;           // slabs on their way
constexpr unsigned kMostClusterParts = 8; // what every device takes

template <int kTileM, int kTileN> struct cut {
    static constexpr int kWarpsM = kTileM / kWarpSide, kWarpsN = kTileN / kWarpSide;
    static constexpr int kSlices = kThreads / 32 / (kWarpsM * kWarpsN); // warps of the same sums
    static constexpr int kDepth = kTileM + kTileN <= 64 ? 64 : 32;      // k of a slab
    static constexpr int kFours = kDepth / kQuad / kSlices; // of k in a slab, for each warp
    static constexpr int kRoomPitch = kTileN + kQuad;
    static_assert(kFours * kSlices * kQuad == kDepth, "each warp has as many");
};

// A lane's place in the tile: its sums are of row(i) and column(j).
template <int kTileM, int kTileN, bool kAAlongK, bool kBAlongK> struct spot {
    int slice, m, n, lane_m, lane_n; // m and n: the warp's first row and column

    __device__ spot()
    {
        using mine = cut<kTileM, kTileN>;
        int warp = static_cast<int>(threadIdx.x) / 32;
        slice = warp / (mine::kWarpsM * mine::kWarpsN);
        m = warp / mine::kWarpsN % mine::kWarpsM * kWarpSide;
        n = warp % mine::kWarpsN * kWarpSide;
        lane_m = place_of_lane(8);
        lane_n = place_of_lane(4);
    }

    __device__ int row(int i) const
    {
        return m + (kAAlongK ? i * 8 + lane_m : lane_m * kQuad + i);
    }

    __device__ int column(int j) const
    {
        return n + (kBAlongK ? j * 4 + lane_n : j / kQuad * 16 + lane_n * kQuad + j % kQuad);
    }
};

// The products of four k, from the k-th of the slab on.
template <typename A, typename B, bool kAAlongK, bool kBAlongK, typename Place>
__device__ inline void
multiply_four(const float *a, const float *b, int k, const Place &at, float (&sums)[kSumsM][kSumsN])
{
    pack<float, kQuad> x[kQuad], y[kSumsN];
#pragma unroll
    for (int i = 0; i < kQuad; i++) {
        x[i] = load_pack<float, kQuad>(
            a + (kAAlongK ? at.row(i) * A::kPitch + k : (k + i) * A::kPitch + at.row(0)));
    }
#pragma unroll
    for (int j = 0; j < kSumsN; j++) {
        y[j] = load_pack<float, kQuad>(
            b + (kBAlongK ? at.column(j) * B::kPitch + k
                          : (k + j / 2) * B::kPitch + at.column(j % 2 * kQuad)));
    }
#pragma unroll
    for (int step = 0; step < kQuad; step++) {
#pragma unroll
        for (int i = 0; i < kSumsM; i++) {
#pragma unroll
            for (int j = 0; j < kSumsN; j++) {
                sums[i][j] +=
                    (kAAlongK ? x[i].lane[step] : x[step].lane[i]) *
                    (kBAlongK ? y[j].lane[step] : y[step * 2 + j / kQuad].lane[j % kQuad]);
            }
        }
    }
}

// A warp's sums to where all of the block's meet.
template <int kPitch, bool kBAlongK, typename Place>
__device__ inline void
put_sums(float *room, const Place &at, const float (&sums)[kSumsM][kSumsN])
{
#pragma unroll
    for (int i = 0; i < kSumsM; i++) {
        float *row = room + at.row(i) * kPitch;
#pragma unroll
        for (int j = 0; j < kSumsN; j += kQuad) {
            if constexpr (kBAlongK) {
#pragma unroll
                for (int lane = 0; lane < kQuad; lane++) {
                    row[at.column(j + lane)] = sums[i][j + lane];
                }
            } else {
                pack<float, kQuad> x = {
                    {sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]}};
                store_pack(row + at.column(j), x);
            }
        }
    }
}

// In order.
__device__ inline float
add_up(const float *from, int step, int count)
{
    float sum = from[0];
#pragma unroll 4
    for (int i = 1; i < count; i++) {
        sum += from[i * step];
    }
    return sum;
}

// `part`: k of each block of a cluster, in fours.
template <int kTileM, int kTileN, bool kAAlongK, bool kBAlongK, int kVector>
__global__ void
__launch_bounds__(kThreads, 2) split(const __grid_constant__ problem<float> p, int part)
{
    using mine = cut<kTileM, kTileN>;
    using lines_a = lines<kTileM, mine::kDepth, kAAlongK, kVector, kThreads>;
    using lines_b = lines<kTileN, mine::kDepth, kBAlongK, kVector, kThreads>;
    constexpr int kStageBytes = lines_a::kBytes + lines_b::kBytes;
    static_assert(
        mine::kSlices * kTileM * mine::kRoomPitch * 4 <= kStagesSplit * kStageBytes, "room");
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint64_t sent; // counts what the blocks of the cluster send to this one
    uint32_t base = ptx::shared_address(shared), barrier = ptx::shared_address(&sent);
    ptx::let_next_launch_begin();
    int blocks = static_cast<int>(ptx::cluster_size());
    int rank = static_cast<int>(ptx::cluster_rank());
    if (blocks > 1) {
        if (threadIdx.x == 0) {
            ptx::barrier_init(barrier, 1);
            ptx::barrier_init_fence();
            ptx::barrier_expect(barrier, kTileM * kTileN * 4);
        }
        ptx::cluster_arrive();
    }

    job<float> j = job_at<kTileM, kTileN, uint32_t>(p, ptx::cluster_index());
    int first = rank * part, depth = static_cast<int>(p.K) - first;
    depth = depth < 0 ? 0 : depth > part ? part : depth;
    lines_a a(j.a, p.a_pitch, j.m, first, p.M - j.m);
    lines_b b(j.b, p.b_pitch, j.n, first, p.N - j.n);
    int ahead = depth; // k that is not asked for yet
    auto ask = [&](int to) {
        if (ahead > 0) {
            uint32_t at = base + static_cast<uint32_t>(to) * kStageBytes;
            a.copy(at, ahead, j.a);
            b.copy(at + lines_a::kBytes, ahead, j.b);
        }
        ahead -= mine::kDepth;
        ptx::copy_async_commit(); // an empty group too: waiting counts groups
    };
    ptx::wait_for_launch_before();
    for (int i = 0; i < kStagesSplit - 1; i++) {
        ask(i);
    }

    int column = static_cast<int>(threadIdx.x) % kTileN; // of all that this thread finishes
    bool there = j.n + column < p.N;
    float bias = p.bias && there ? p.bias[j.n + column] : 0.0f;

    spot<kTileM, kTileN, kAAlongK, kBAlongK> at;
    float sums[kSumsM][kSumsN] = {};
    int now = 0, next = kStagesSplit - 1;
#pragma unroll 1
    for (int left = depth; left > 0; left -= mine::kDepth) {
        ptx::copy_async_wait<kStagesSplit - 2>();
        __syncthreads(); // the slab has come for all, and all have read the one before
        ask(next);
        const float *slab_a = reinterpret_cast<const float *>(shared + now * kStageBytes);
        const float *slab_b = slab_a + lines_a::kBytes / 4;
        if (left >= mine::kDepth) {
#pragma unroll
            for (int i = 0; i < mine::kFours; i++) {
                multiply_four<lines_a, lines_b, kAAlongK, kBAlongK>(
                    slab_a, slab_b, (i * mine::kSlices + at.slice) * kQuad, at, sums);
            }
        } else {
#pragma unroll 1
            for (int k = at.slice * kQuad; k < left; k += mine::kSlices * kQuad) {
                multiply_four<lines_a, lines_b, kAAlongK, kBAlongK>(slab_a, slab_b, k, at, sums);
            }
        }
        next = now;
        now = now + 1 == kStagesSplit ? 0 : now + 1;
    }
    __syncthreads(); // what follows writes over the stages

    float *room = reinterpret_cast<float *>(shared);
    put_sums<mine::kRoomPitch, kBAlongK>(room + at.slice * kTileM * mine::kRoomPitch, at, sums);
    __syncthreads();
    int share = kTileM * kTileN / blocks, bits = 31 - __clz(share); // a power of two
    constexpr int kStep = kTileM * mine::kRoomPitch;
    const float *mail = reinterpret_cast<const float *>(shared + kStagesSplit * kStageBytes);
    if (blocks > 1) {
        ptx::cluster_wait(); // all have begun
#pragma unroll 4
        for (int i = static_cast<int>(threadIdx.x); i < kTileM * kTileN; i += kThreads) {
            uint32_t owner = static_cast<uint32_t>(i >> bits);
            uint32_t to = ptx::shared_address(mail + rank * share + (i & (share - 1)));
            ptx::send_cluster(
                ptx::address_in_block(to, owner),
                add_up(room + i / kTileN * mine::kRoomPitch + column, kStep, mine::kSlices),
                ptx::address_in_block(barrier, owner));
        }
        ptx::barrier_wait(barrier, 0);
    }

    constexpr int kAtOnce = 4;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < share; i += kAtOnce * kThreads) {
        float sum[kAtOnce];
#pragma unroll
        for (int u = 0; u < kAtOnce; u++) {
            int at = i + u * kThreads, row = (rank * share + at) / kTileN;
            sum[u] = at >= share ? 0.0f
                     : blocks > 1
                         ? add_up(mail + at, share, blocks)
                         : add_up(room + row * mine::kRoomPitch + column, kStep, mine::kSlices);
        }
#pragma unroll
        for (int u = 0; u < kAtOnce; u++) {
            int at = i + u * kThreads;
            int64_t m = j.m + (rank * share + at) / kTileN, n = j.n + column;
            if (at < share && m < p.M && there) {
                j.out[m * p.out_pitch + n] = finish(p, sum[u], row_of_c(p, j, m), n, bias);
            }
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

struct split_plan {
    int tile_m, tile_n;
    unsigned parts; // blocks of a cluster
};

// Clocks that a multiprocessor takes for its share, about: a lane's 12 operands of a k take 12 of
// what shared memory gives, its 32 products 8 while four warps multiply. One block waits for each
// in turn; of several the one hides the other. The L2 gives 22 bytes a clock.
inline int64_t
clocks_of(const problem<float> &p, const split_plan &s, int processors)
{
    constexpr int64_t kAtOnce = 2; // blocks that share a multiprocessor
    int64_t sums = int64_t{s.tile_m} * s.tile_n, warps = sums / (kWarpSide * kWarpSide);
    int64_t blocks = ceil_div(p.M, s.tile_m) * ceil_div(p.N, s.tile_n) * p.batches * s.parts;
    int64_t most = ceil_div(blocks, processors); // of one multiprocessor
    int64_t of_k = most == 1 ? 20 * warps + 9 : most * warps * 14;
    int64_t of_l2 = most * (s.tile_m + s.tile_n) * 4 / 22;
    return ceil_div(p.K, s.parts) * (of_k > of_l2 ? of_k : of_l2) + most * 500 +
           (ceil_div(most, kAtOnce) - 1) * 1000 + (s.parts > 1 ? 800 + sums / 8 : 0);
}

// Clusters of more than two blocks want places near each other, which they do not all find at once
// where blocks share multiprocessors.
inline split_plan
plan_split(const problem<float> &p, int processors)
{
    constexpr split_plan kTiles[] = {{64, 64, 1}, {64, 32, 1}, {32, 32, 1}};
    split_plan best = kTiles[0];
    int64_t least = clocks_of(p, best, processors);
    for (split_plan s : kTiles) {
        int64_t tiles = ceil_div(p.M, s.tile_m) * ceil_div(p.N, s.tile_n) * p.batches;
        for (; s.parts <= kMostClusterParts; s.parts *= 2) {
            int64_t clocks = clocks_of(p, s, processors);
            if (clocks < least && (s.parts <= 2 || tiles * s.parts <= processors)) {
                best = s;
                least = clocks;
            }
        }
    }
    return best;
}

template <int kTileM, int kTileN, bool kAAlongK, bool kBAlongK, int kVector>
aicf_status
launch_split_kernel(const problem<float> &p, unsigned parts, aicf_stream stream)
{
    using mine = cut<kTileM, kTileN>;
    constexpr int kShared =
        kStagesSplit * (lines<kTileM, mine::kDepth, kAAlongK, kVector, kThreads>::kBytes +
                        lines<kTileN, mine::kDepth, kBAlongK, kVector, kThreads>::kBytes) +
        kTileM * kTileN * 4;
    problem<float> q = p;
    q.tiles_m = ceil_div(p.M, kTileM);
    q.tiles_n = ceil_div(p.N, kTileN);
    int64_t blocks = q.tiles_m * q.tiles_n * p.batches * parts;
    int part = static_cast<int>(ceil_div(ceil_div(p.K, kQuad), parts)) * kQuad;
    return blocks == 0
               ? aicf_ok()
               : launch_clusters(
                     split<kTileM, kTileN, kAAlongK, kBAlongK, kVector>,
                     static_cast<unsigned>(blocks), kThreads, kShared, parts, stream, q, part);
}

template <int kTileM, int kTileN, int kVector>
aicf_status
launch_split_layout(const problem<float> &p, unsigned parts, aicf_stream stream)
{
    if (p.a_along_k) {
        return p.b_along_k
                   ? launch_split_kernel<kTileM, kTileN, true, true, kVector>(p, parts, stream)
                   : launch_split_kernel<kTileM, kTileN, true, false, kVector>(p, parts, stream);
    }
    return p.b_along_k
               ? launch_split_kernel<kTileM, kTileN, false, true, kVector>(p, parts, stream)
               : launch_split_kernel<kTileM, kTileN, false, false, kVector>(p, parts, stream);
}

template <int kTileM, int kTileN>
aicf_status
launch_split_tile(const problem<float> &p, unsigned parts, aicf_stream stream)
{
    bool quads = aligned(p.a, p.a_pitch, p.a_batch, p.batch_rank, kQuad) &&
                 aligned(p.b, p.b_pitch, p.b_batch, p.batch_rank, kQuad);
    return quads ? launch_split_layout<kTileM, kTileN, kQuad>(p, parts, stream)
                 : launch_split_layout<kTileM, kTileN, 1>(p, parts, stream);
}

inline aicf_status
launch_split(const problem<float> &p, aicf_stream stream)
{
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    split_plan s = plan_split(p, processors);
    return s.tile_m == 32   ? launch_split_tile<32, 32>(p, s.parts, stream)
           : s.tile_n == 32 ? launch_split_tile<64, 32>(p, s.parts, stream)
                            : launch_split_tile<64, 64>(p, s.parts, stream);
}

} // namespace aicf::gemm

#endif
