// The kernel of gemm_tf32_sm_90a.cu: gemm's by warpgroups (warpgroups.cuh) with operands of f32, k
// together in both, that the copy engine rounds to tf32, and an out of f32 at any address and
// pitch: sums are stored from registers, where four lanes fill a sector. A tile's sums are finished
// after its products; as many as registers hold beside the next tile's sums go out in parts under
// each of its slabs, the others at once.
#ifndef AICF_GEMM_TF32_WARPGROUPS_CUH
#define AICF_GEMM_TF32_WARPGROUPS_CUH

#include "warpgroups.cuh"

namespace aicf::gemm {

constexpr int kDepthTf32 = 32; // k of a slab: f32 values in a swizzled row

struct tf32_plan : plan {
    float *out;
    int64_t out_pitch, out_step;
    bool out_pairs; // pairs of the out lie on 8 bytes, and N is even
};

// The bias of a tile's columns, spread over each warp: pair i of lane l is of columns 64 i + 2 l
// and the next.
template <class S> struct bias_pairs {
    float2 pair[S::kPanels];

    __device__ void load(const plan &p, int column)
    {
        const float *bias = static_cast<const float *>(p.bias);
#pragma unroll
        for (int i = 0; i < S::kPanels; i++) {
            int n = column + i * kPanel + static_cast<int>(threadIdx.x) % 32 * 2;
            pair[i].x = n < p.n ? bias[n] : 0.0f;
            pair[i].y = n + 1 < p.n ? bias[n + 1] : 0.0f;
        }
    }

    // The two columns of this thread's sums in the 8 columns of `block`.
    __device__ float2 of(int block) const
    {
        int lane = block % 8 * 4 + static_cast<int>(threadIdx.x) % 4;
        const float2 &x = pair[block / 8];
        return {__shfl_sync(0xffffffff, x.x, lane), __shfl_sync(0xffffffff, x.y, lane)};
    }
};

// sums += beta * c.
template <class S>
__device__ inline void
add_c(float (&sums)[S::kSums], const tf32_plan &p, const corner &at, int consumer)
{
    int m = at.m + consumer * kConsumerRows + row_of_sums(), n = at.n + column_of_sums();
    const float *c = static_cast<const float *>(p.c) + at.matrix * p.c_step + m * p.c_pitch + n;
#pragma unroll
    for (int half = 0; half < 2; half++, c += 8 * p.c_pitch) {
        int inside = m + 8 * half < p.m ? p.n - n : 0;
#pragma unroll
        for (int block = 0; block < S::kCols / 8; block++) {
            float2 x = {0.0f, 0.0f};
            if (p.c_pairs && 8 * block < inside) {
                x = *reinterpret_cast<const float2 *>(c + 8 * block);
            } else if (!p.c_pairs) {
                x.x = 8 * block < inside ? c[8 * block] : 0.0f;
                x.y = 8 * block + 1 < inside ? c[8 * block + 1] : 0.0f;
            }
            sums[4 * block + 2 * half] += p.beta * x.x;
            sums[4 * block + 2 * half + 1] += p.beta * x.y;
        }
    }
}

// All that follows the products.
template <class S>
__device__ inline void
finish(
    float (&sums)[S::kSums], const bias_pairs<S> &bias, const tf32_plan &p, const corner &at,
    int consumer)
{
#pragma unroll
    for (int i = 0; i < S::kSums; i++) {
        sums[i] *= p.alpha;
    }
    if (p.c) {
        add_c<S>(sums, p, at, consumer);
    }
    if (p.bias) {
#pragma unroll
        for (int block = 0; block < S::kCols / 8; block++) {
            float2 x = bias.of(block);
            sums[block * 4] += x.x;
            sums[block * 4 + 1] += x.y;
            sums[block * 4 + 2] += x.x;
            sums[block * 4 + 3] += x.y;
        }
    }
    if (p.act == AICF_GEMM_ACT_RELU) {
#pragma unroll
        for (int i = 0; i < S::kSums; i++) {
            sums[i] = ptx::max_nan(sums[i], 0.0f);
        }
    } else if (p.act == AICF_GEMM_ACT_GELU) {
#pragma unroll
        for (int i = 0; i < S::kSums; i++) {
            sums[i] = gelu_of<false>(sums[i]);
        }
    }
}

// Two neighbours of the out, of which `inside` exist.
__device__ inline void
store_two(float *out, float x, float y, int inside, bool pairs)
{
    if (pairs && inside > 0) {
        *reinterpret_cast<float2 *>(out) = {x, y};
    } else if (!pairs) {
        if (inside > 0) {
            out[0] = x;
        }
        if (inside > 1) {
            out[1] = y;
        }
    }
}

// This thread's sums of the blocks of 8 columns from kFirst to kEnd.
template <int kFirst, int kEnd>
__device__ inline void
store_blocks(const float *sums, const tf32_plan &p, const corner &at, int consumer)
{
    int m = at.m + consumer * kConsumerRows + row_of_sums(), n = at.n + column_of_sums();
    float *out = p.out + at.matrix * p.out_step + m * p.out_pitch + n;
#pragma unroll
    for (int i = 0; i < 2 * (kEnd - kFirst); i++) {
        int block = kFirst + i / 2, half = i % 2;
        int inside = m + 8 * half < p.m ? p.n - n - 8 * block : 0;
        store_two(
            out + half * 8 * p.out_pitch + 8 * block, sums[2 * i], sums[2 * i + 1], inside,
            p.out_pairs);
    }
}

// The last sums of the tile before the present one, on their way out: parts from `next` on are not
// stored yet.
template <class S> struct late_sums {
    static constexpr int kCount = S::kSums < 64 ? S::kSums : 64;
    static constexpr int kBlocks = 2; // of 8 columns in a part
    static constexpr int kParts = kCount / 4 / kBlocks;
    static constexpr int kFirst = (S::kSums - kCount) / 4; // block

    float sums[kCount];
    corner at = {};
    int next = kParts;

    __device__ void store_next(const tf32_plan &p, int consumer)
    {
        corner part_at = at;
        part_at.n += 8 * (kFirst + next * kBlocks);
#pragma unroll
        for (int part = 0; part < kParts; part++) { // so that `sums` stay in registers
            if (part == next) {
                store_blocks<0, kBlocks>(&sums[4 * kBlocks * part], p, part_at, consumer);
            }
        }
        next++;
    }
};

// One warpgroup: 64 rows of all of this block's tiles.
template <class S>
__device__ inline void
consume(const shared_memory<S> &shared, const tf32_plan &p, int consumer, int rank)
{
    late_sums<S> late;
    ring<S::kStages> place;
    int clusters = static_cast<int>(gridDim.x) / S::kCluster;
    for (int i = static_cast<int>(blockIdx.x) / S::kCluster; i < p.tiles; i += clusters) {
        corner at = corner_of<S>(p, i, rank);
        bias_pairs<S> bias = {};
        if (p.bias) {
            bias.load(p, at.n);
        }
        float sums[S::kSums];
        multiply<S, ptx::tf32, false, false>(sums, shared, place, consumer, 0, p.slabs, [&] {
            if (late.next < late.kParts) {
                late.store_next(p, consumer);
            }
        });
        while (late.next < late.kParts) { // fewer slabs than parts
            late.store_next(p, consumer);
        }
        finish<S>(sums, bias, p, at, consumer);
        store_blocks<0, late.kFirst>(sums, p, at, consumer);
#pragma unroll
        for (int j = 0; j < late.kCount; j++) {
            late.sums[j] = sums[S::kSums - late.kCount + j];
        }
        late.at = at;
        late.next = 0;
    }
    while (late.next < late.kParts) {
        late.store_next(p, consumer);
    }
}

template <class S>
__global__ void
__launch_bounds__(S::kThreads, 1) tf32_warpgroups(
    const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
    const __grid_constant__ tf32_plan p)
{
    static_assert(S::kSplit == 1, "a tile is a block's own");
    extern __shared__ __align__(kSwizzleBytes) uint8_t bytes[];
    shared_memory<S> shared = {ptx::shared_address(bytes)};
    int rank = S::kCluster > 1 ? static_cast<int>(ptx::cluster_rank()) : 0;

    if (threadIdx.x == 0) {
        ptx::map_prefetch(&a);
        ptx::map_prefetch(&b);
        init_barriers(shared, p, rank);
    }
    __syncthreads();
    if constexpr (S::kCluster > 1) { // a peer's barriers exist before anything arrives there
        ptx::cluster_arrive();
        ptx::cluster_wait();
    }
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before(); // nothing above reads or writes what another launch may

    // 128 sums a thread and more are above an even share of the registers.
    constexpr bool kMoveRegisters = S::kConsumers == 2;
    int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
    if (warpgroup == 0) {
        if constexpr (kMoveRegisters) {
            ptx::registers_give<40>();
        }
        if (threadIdx.x == 0) {
            produce<S, false, false, kDepthTf32>(shared, &a, &b, nullptr, p, rank);
        }
    } else {
        if constexpr (kMoveRegisters) {
            ptx::registers_take<232>();
        }
        consume<S>(shared, p, warpgroup - 1, rank);
    }
    __syncwarp();
    if constexpr (S::kShare > 1) { // while the peer may still write or arrive here, stay
        ptx::cluster_arrive();
        ptx::cluster_wait();
    }
}

} // namespace aicf::gemm

#endif
