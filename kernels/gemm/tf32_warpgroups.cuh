// The kernel of gemm_tf32_sm_90a.cu: gemm's by warpgroups (warpgroups.cuh) with operands of f32
// that the copy engine rounds to tf32, and an out of f32 at any address and pitch: sums are stored
// from registers, where four lanes fill a sector.
//
// Of tf32, wgmma reads from shared memory only operands whose k lies together. One whose m or n
// does comes through registers (tf32_held.cuh) as the a of wgmma: the product's a or, where that is
// the product's b, the tile's rows are the out's columns.
#ifndef AICF_GEMM_TF32_WARPGROUPS_CUH
#define AICF_GEMM_TF32_WARPGROUPS_CUH

#include "tf32_held.cuh"

namespace aicf::gemm {

// How a tile is made. direct: k lies together in both operands. held: not in a. crossed: not in b,
// which is the tile's a, as the product's a is its b: m and n of the plan are n and m of the out.
enum class way { direct, held, crossed };
constexpr int kWays = 3;

struct tf32_plan : plan {
    float *out;
    int64_t out_pitch, out_step;
    bool out_pairs; // pairs of the out lie on 8 bytes, and N is even
};

// ---- a thread's sums in the out -----------------------------------------------------------------

// Of 8 columns of the tile, `block`, a thread has two pairs of neighbours in rows of the out: pair
// 0 and 1, whose first sum is number first(block, pair), and the other `kNext` on.
template <way kWay> struct own_pairs {
    static constexpr int kNext = kWay == way::crossed ? 2 : 1;
    int m, n;          // of pair 0 of block 0, in the out
    int rows, columns; // of the out

    __device__ own_pairs(const tf32_plan &p, const corner &at, int consumer)
    {
        if constexpr (kWay == way::crossed) {
            m = at.n + column_of_sums();
            n = at.m + held_operand(consumer).x;
            rows = p.n;
            columns = p.m;
        } else {
            m = at.m + (kWay == way::held ? held_operand(consumer).x
                                          : consumer * kConsumerRows + row_of_sums());
            n = at.n + column_of_sums();
            rows = p.m;
            columns = p.n;
        }
    }

    __device__ static constexpr int first(int block, int pair)
    {
        return 4 * block + (kWay == way::crossed ? pair : 2 * pair);
    }

    __device__ int m_of(int block, int pair) const
    {
        return m + (kWay == way::crossed ? 8 * block + pair : kWay == way::held ? pair : 8 * pair);
    }

    __device__ int n_of(int block) const
    {
        return kWay == way::crossed ? n : n + 8 * block;
    }

    // How many elements of the out there are from a pair on.
    __device__ int inside(int block, int pair) const
    {
        return m_of(block, pair) < rows ? columns - n_of(block) : 0;
    }
};

// Two neighbours, of which `inside` exist; `pairs`: the two lie on 8 bytes, and exist or not.
__device__ inline float2
load_two(const float *from, int inside, bool pairs)
{
    if (pairs) {
        return inside > 0 ? *reinterpret_cast<const float2 *>(from) : float2{0.0f, 0.0f};
    }
    return {inside > 0 ? from[0] : 0.0f, inside > 1 ? from[1] : 0.0f};
}

__device__ inline void
store_two(float *to, float x, float y, int inside, bool pairs)
{
    if (pairs && inside > 0) {
        *reinterpret_cast<float2 *>(to) = {x, y};
    } else if (!pairs) {
        if (inside > 0) {
            to[0] = x;
        }
        if (inside > 1) {
            to[1] = y;
        }
    }
}

// sums += beta * c.
template <way kWay, int kSums>
__device__ inline void
add_c(float (&sums)[kSums], const tf32_plan &p, const own_pairs<kWay> &own, int matrix)
{
    const float *c = static_cast<const float *>(p.c) + matrix * p.c_step;
#pragma unroll
    for (int i = 0; i < kSums / 2; i++) {
        int block = i / 2, pair = i % 2, first = own.first(block, pair);
        const float *from = c + own.m_of(block, pair) * p.c_pitch + own.n_of(block);
        float2 x = load_two(from, own.inside(block, pair), p.c_pairs);
        sums[first] += p.beta * x.x;
        sums[first + own.kNext] += p.beta * x.y;
    }
}

template <way kWay, int kSums>
__device__ inline void
add_bias(float (&sums)[kSums], const tf32_plan &p, const own_pairs<kWay> &own)
{
    const float *bias = static_cast<const float *>(p.bias);
#pragma unroll
    for (int block = 0; block < kSums / 4; block++) {
        int n = own.n_of(block);
        float2 x = load_two(bias + n, own.columns - n, false);
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            sums[own.first(block, pair)] += x.x;
            sums[own.first(block, pair) + own.kNext] += x.y;
        }
    }
}

// All that follows the products.
template <way kWay, int kSums>
__device__ inline void
finish(float (&sums)[kSums], const tf32_plan &p, const own_pairs<kWay> &own, int matrix)
{
#pragma unroll
    for (int i = 0; i < kSums; i++) {
        sums[i] *= p.alpha;
    }
    if (p.c) {
        add_c(sums, p, own, matrix);
    }
    if (p.bias) {
        add_bias(sums, p, own);
    }
    if (p.act == AICF_GEMM_ACT_RELU) {
#pragma unroll
        for (int i = 0; i < kSums; i++) {
            sums[i] = ptx::max_nan(sums[i], 0.0f);
        }
    } else if (p.act == AICF_GEMM_ACT_GELU) {
#pragma unroll
        for (int i = 0; i < kSums; i++) {
            sums[i] = gelu_of<false>(sums[i]);
        }
    }
}

// Blocks from kFirst to kEnd of them, of which sums[0] is the first's first.
template <int kFirst, int kEnd, way kWay>
__device__ inline void
store(const float *sums, const tf32_plan &p, const own_pairs<kWay> &own, int matrix)
{
    float *out = p.out + matrix * p.out_step;
#pragma unroll
    for (int i = 0; i < 2 * (kEnd - kFirst); i++) {
        int block = kFirst + i / 2, pair = i % 2, first = own.first(i / 2, pair);
        float *to = out + own.m_of(block, pair) * p.out_pitch + own.n_of(block);
        store_two(to, sums[first], sums[first + own.kNext], own.inside(block, pair), p.out_pairs);
    }
}

// The last sums of the tile before the present one, on their way out under its products: parts from
// `next` on are not stored yet. Held operands leave no registers for them.
template <class S, way kWay> struct late_sums {
    static constexpr int kCount = kWay != way::direct ? 0 : S::kSums < 64 ? S::kSums : 64;
    static constexpr int kBlocks = 2; // of 8 columns in a part
    static constexpr int kParts = kCount / 4 / kBlocks;
    static constexpr int kFirst = (S::kSums - kCount) / 4; // block

    float sums[kCount + 1];
    corner at = {};
    int next = kParts;

    __device__ void keep(const float (&all)[S::kSums], const corner &of)
    {
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            sums[i] = all[S::kSums - kCount + i];
        }
        at = of;
        next = 0;
    }

    __device__ void store_next(const tf32_plan &p, int consumer)
    {
        corner part_at = at;
        part_at.n += 8 * (kFirst + next * kBlocks);
        own_pairs<kWay> own(p, part_at, consumer);
#pragma unroll
        for (int part = 0; part < kParts; part++) { // so that `sums` stay in registers
            if (part == next) {
                store<0, kBlocks>(&sums[4 * kBlocks * part], p, own, at.matrix);
            }
        }
        next++;
    }

    // Of the last tile, that nothing hides.
    __device__ void store_all(const tf32_plan &p, int consumer) const
    {
        if (next == 0) {
            corner part_at = at;
            part_at.n += 8 * kFirst;
            own_pairs<kWay> own(p, part_at, consumer);
            store<0, kCount / 4>(sums, p, own, at.matrix);
        }
    }
};

// ---- the kernel ---------------------------------------------------------------------------------

// One warpgroup: 64 rows of all of this block's tiles.
template <class S, way kWay>
__device__ inline void
consume(const shared_memory<S> &shared, const tf32_plan &p, int consumer, int rank)
{
    late_sums<S, kWay> late;
    ring<S::kStages> place;
    int clusters = static_cast<int>(gridDim.x) / S::kCluster;
    for (int i = static_cast<int>(blockIdx.x) / S::kCluster; i < p.tiles; i += clusters) {
        corner at = corner_of<S>(p, i, rank);
        float sums[S::kSums];
        if constexpr (kWay == way::direct) {
            multiply<S, ptx::tf32, false, false>(sums, shared, place, consumer, 0, p.slabs, [&] {
                if (late.next < late.kParts) {
                    late.store_next(p, consumer);
                }
            });
            while (late.next < late.kParts) { // fewer slabs than parts
                late.store_next(p, consumer);
            }
        } else {
            multiply_held<S>(sums, shared, place, held_operand(consumer), p.slabs);
        }
        own_pairs<kWay> own(p, at, consumer);
        finish(sums, p, own, at.matrix);
        store<0, late.kFirst>(sums, p, own, at.matrix);
        late.keep(sums, at);
    }
    late.store_all(p, consumer);
}

template <class S, way kWay>
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
            if constexpr (kWay == way::direct) {
                produce<S, false, false, kDepthTf32>(shared, &a, &b, nullptr, p, rank);
            } else {
                produce_held<S>(shared, &a, &b, p, rank);
            }
        }
    } else {
        if constexpr (kMoveRegisters) {
            ptx::registers_take<232>();
        }
        consume<S, kWay>(shared, p, warpgroup - 1, rank);
    }
    __syncwarp();
    if constexpr (S::kShare > 1) { // while the peer may still write or arrive here, stay
        ptx::cluster_arrive();
        ptx::cluster_wait();
    }
}

} // namespace aicf::gemm

#endif
