// Operands of tf32 whose m or n lies together, x here, read from shared memory to registers as the
// fragments that wgmma takes a in. A slab is 32 k of a tile's x in boxes of 32 x: rows of 32 x, one
// a k, as the copy engine swizzles them.
#ifndef AICF_GEMM_TF32_HELD_CUH
#define AICF_GEMM_TF32_HELD_CUH

#include "warpgroups.cuh"

namespace aicf::gemm {

constexpr int kDepthTf32 = 32; // k of a slab: f32 values in a swizzled row
constexpr int kStepTf32 = 8;   // of one wgmma
constexpr int kStepsTf32 = kDepthTf32 / kStepTf32;
constexpr int kBoxTf32 = 32; // x of a box
constexpr int kBoxBytes = kDepthTf32 * kRowBytes;

using tf32_fragments = uint32_t[kStepsTf32][4]; // of a slab

// Where a thread finds its fragments in a slab. Lane 4 g + t has rows g and g + 8 of its warp's 16,
// at k of t and t + 4 in each step. Which x they are is free: neighbours, so that 8 bytes have
// both, and such ones that the 16 lanes which are served at once, at 4 k, read different banks: of
// two chunks 4 apart, whatever the swizzle adds.
struct held_operand {
    int x;              // of row g, in the tile; of row g + 8 it is the next
    uint32_t low, high; // at t and t + 4

    __device__ explicit held_operand(int consumer)
    {
        int warp = static_cast<int>(threadIdx.x) / 32 % 4;
        int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
        int box = consumer * (kConsumerRows / kBoxTf32) + warp / 2;
        int chunk = warp % 2 * 2 + g / 4 + g / 2 % 2 * 4, pair = g % 2;
        x = box * kBoxTf32 + chunk * 4 + pair * 2;
        low = static_cast<uint32_t>(box * kBoxBytes + t * kRowBytes + (chunk ^ t) * 16 + pair * 8);
        high = static_cast<uint32_t>(
            box * kBoxBytes + (t + 4) * kRowBytes + (chunk ^ (t + 4)) * 16 + pair * 8);
    }

    __device__ void read(uint32_t slab, tf32_fragments &f) const
    {
#pragma unroll
        for (int step = 0; step < kStepsTf32; step++) {
            uint32_t rows = slab + step * kStepTf32 * kRowBytes;
            ptx::load_shared_pair(rows + low, f[step][0], f[step][1]);
            ptx::load_shared_pair(rows + high, f[step][2], f[step][3]);
        }
    }
};

// One thread: fills the stages for all of this block's tiles.
template <class S>
__device__ inline void
produce_held(
    const shared_memory<S> &shared, const CUtensorMap *a, const CUtensorMap *b, const plan &p,
    int rank)
{
    constexpr int kCols = S::kCols / S::kShare; // of b that this block loads
    int column = S::kShare > 1 ? rank * kCols : 0;
    ring<S::kStages> place;
    int clusters = static_cast<int>(gridDim.x) / S::kCluster;
    for (int i = static_cast<int>(blockIdx.x) / S::kCluster; i < p.tiles; i += clusters) {
        corner at = corner_of<S>(p, i, rank);
        for (int slab = 0; slab < p.slabs; slab++, place.next()) {
            uint32_t full = shared.barriers().full(place.stage), to = shared.a(place.stage);
            ptx::barrier_wait(shared.barriers().empty(place.stage), place.parity ^ 1);
            ptx::barrier_expect(full, S::kABytes + S::kBBytes);
#pragma unroll
            for (int x = 0; x < S::kRows; x += kBoxTf32) {
                ptx::box_load(
                    to + x * kRowBytes, a, at.m + x, slab * kDepthTf32, at.matrix * p.a_step, full);
            }
            load_box<S::kShare>(
                shared.b(place.stage) + column * kRowBytes, b, slab * kDepthTf32, at.n + column,
                at.matrix * p.b_step, full);
        }
    }
}

// One slab's products, of fragments `now`, while the next slab's are read to `next`: they were
// those of the slab before, whose products are over first.
template <class S>
__device__ inline void
multiply_slab_held(
    float (&sums)[S::kSums], const tf32_fragments &now, tf32_fragments &next,
    const shared_memory<S> &shared, ring<S::kStages> &place, const held_operand &a, int slab,
    int slabs)
{
    uint64_t b = descriptor_of(shared.b(place.stage));
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kStepsTf32; step++) {
        ptx::wgmma_held(
            sums, now[step], b + step * (kStepTf32 * 4 >> 4), slab > 0 || step > 0, ptx::tf32{});
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    if (slab > 0) {
        release_stage<S::kShare>(
            shared.barriers().empty((place.stage == 0 ? S::kStages : place.stage) - 1));
    }
    place.next();
    if (slab + 1 < slabs) {
        ptx::barrier_wait(shared.barriers().full(place.stage), place.parity);
        a.read(shared.a(place.stage), next);
    }
}

// As multiply of warpgroups.cuh.
template <class S>
__device__ inline void
multiply_held(
    float (&sums)[S::kSums], const shared_memory<S> &shared, ring<S::kStages> &place,
    const held_operand &a, int slabs)
{
    tf32_fragments even, odd;
    ptx::barrier_wait(shared.barriers().full(place.stage), place.parity);
    a.read(shared.a(place.stage), even);
    for (int slab = 0; slab < slabs; slab += 2) {
        multiply_slab_held<S>(sums, even, odd, shared, place, a, slab, slabs);
        if (slab + 1 < slabs) {
            multiply_slab_held<S>(sums, odd, even, shared, place, a, slab + 1, slabs);
        }
    }
    ptx::wgmma_wait<0>();
    release_stage<S::kShare>(
        shared.barriers().empty((place.stage == 0 ? S::kStages : place.stage) - 1));
}

} // namespace aicf::gemm

#endif
