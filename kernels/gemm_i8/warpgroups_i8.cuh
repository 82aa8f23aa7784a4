// What gemm_i8 and conv2d_i8 share by warpgroups of sm_90a: gemm's stages and producer
// (../gemm/warpgroups.cuh), which see 128 bytes of k as 64 pairs, and consumers that multiply bytes
// and requantise (aicf/requant.h).
//
// A consumer stores its sums from registers: the two neighbours that a thread holds of a row, and
// with its quad whole sectors of 32-bit outs. Consumers wait for stages alone, not for each other,
// so that one's stores run under another's products.
#ifndef AICF_GEMM_I8_WARPGROUPS_CUH
#define AICF_GEMM_I8_WARPGROUPS_CUH

#include <aicf/cuda/ptx_i8_sm_90a.cuh>
#include <aicf/cuda/requant.cuh>

#include "../gemm/warpgroups.cuh"

namespace aicf::i8 {

using namespace aicf::wgmma;

// Where outs go: rows of `n` columns. A row of the product is a row of them.
struct outs {
    void *data;
    int64_t pitch;
    bool pairs;        // columns 2 i and 2 i + 1 are aligned as one word of their bytes
    bool plain;        // the sums are the outs
    const int *shifts; // NULL: none
    aicf_requant requant;
};

inline outs
outs_of(void *data, int64_t pitch, int64_t columns, const int *shifts, const aicf_requant &r)
{
    unsigned bytes = static_cast<unsigned>(bytes_of(r.kind));
    uint64_t places = reinterpret_cast<uintptr_t>(data) | static_cast<uint64_t>(pitch) * bytes;
    bool pairs = columns % 2 == 0 && places % (2 * bytes) == 0;
    return {data, pitch, pairs, !shifts && aicf_requant_plain(&r), shifts, r};
}

// ---- products -----------------------------------------------------------------------------------

// As multiply_slab of wgmma.cuh.
template <typename Pair, int kSums>
__device__ inline void
multiply_slab(int (&sums)[kSums], uint32_t a, uint32_t b, bool first)
{
    uint64_t from_a = descriptor_of(a), from_b = descriptor_of(b);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < kDepth / kStepK; k++) {
        ptx::wgmma(
            sums, from_a + k * kNext16<false>, from_b + k * kNext16<false>, !first || k > 0,
            Pair{});
    }
    ptx::wgmma_commit();
}

// As multiply of ../gemm/warpgroups.cuh.
template <class S, typename Pair>
__device__ inline void
multiply(
    int (&sums)[S::kSums], const gemm::shared_memory<S> &shared, ring<S::kStages> &place,
    int consumer, int slabs)
{
    uint32_t before = 0;
    for (int slab = 0; slab < slabs; slab++, place.next()) {
        ptx::barrier_wait(shared.barriers().full(place.stage), place.parity);
        multiply_slab<Pair>(
            sums, shared.a(place.stage) + consumer * kPanelBytes, shared.b(place.stage), slab == 0);
        ptx::wgmma_wait<1>();
        if (slab > 0) {
            release_stage<S::kShare>(before);
        }
        before = shared.barriers().empty(place.stage);
    }
    ptx::wgmma_wait<0>();
    release_stage<S::kShare>(before);
}

// ---- outs ---------------------------------------------------------------------------------------

// A column of the tile in shared memory, on 16 bytes.
struct alignas(16) held_column {
    column of;
};

// A consumer's own copy of the tile's columns, in the room of its out panel.
template <class S>
__device__ inline held_column *
columns_of(uint8_t *shared, int consumer)
{
    static_assert(S::kCols * sizeof(held_column) <= S::kOutPanels * kPanelBytes, "room");
    return reinterpret_cast<held_column *>(
        shared + S::kOutAt + consumer * S::kOutPanels * kPanelBytes);
}

template <class S>
__device__ inline void
load_columns(held_column *columns, const outs &to, int first, int n)
{
    for (int i = static_cast<int>(threadIdx.x) % kWarpgroup; i < S::kCols; i += kWarpgroup) {
        if (first + i < n) {
            columns[i].of = column_of(to.requant, first + i, to.shifts ? to.shifts[first + i] : 0);
        }
    }
}

// Two neighbours at `at`, of which `inside` exist.
__device__ inline void
store_pair(const outs &to, int64_t at, int inside, word x, word y)
{
    aicf_dtype kind = to.requant.kind;
    if (!to.pairs || inside < 2) {
        if (inside > 0) {
            store(kind, to.data, at, x);
        }
        if (inside > 1) {
            store(kind, to.data, at + 1, y);
        }
        return;
    }
    switch (kind) {
    case AICF_I8:
    case AICF_U8:
        *reinterpret_cast<uint16_t *>(static_cast<uint8_t *>(to.data) + at) =
            static_cast<uint16_t>(__byte_perm(x, y, 0x0040));
        break;
    case AICF_F16:
        *reinterpret_cast<uint32_t *>(static_cast<uint16_t *>(to.data) + at) =
            pair_of(__uint_as_float(x), __uint_as_float(y), __half{});
        break;
    case AICF_BF16:
        *reinterpret_cast<uint32_t *>(static_cast<uint16_t *>(to.data) + at) =
            pair_of(__uint_as_float(x), __uint_as_float(y), __nv_bfloat16{});
        break;
    default:
        *reinterpret_cast<uint2 *>(static_cast<uint32_t *>(to.data) + at) = make_uint2(x, y);
        break;
    }
}

// The sums as they are, into rows from `m` on.
template <class S>
__device__ inline void
store_sums(const int (&sums)[S::kSums], const outs &to, int m, int n, int rows, int columns)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (m + 8 * half >= rows) {
            continue;
        }
        uint32_t *out = static_cast<uint32_t *>(to.data) + (m + 8 * half) * to.pitch + n;
#pragma unroll
        for (int block = 0; block < S::kCols / 8; block++) {
            int x = sums[4 * block + 2 * half], y = sums[4 * block + 2 * half + 1];
            int inside = columns - n - 8 * block;
            if (to.pairs && inside > 0) {
                *reinterpret_cast<int2 *>(out + 8 * block) = make_int2(x, y);
                continue;
            }
            if (inside > 0) {
                out[8 * block] = static_cast<uint32_t>(x);
            }
            if (inside > 1) {
                out[8 * block + 1] = static_cast<uint32_t>(y);
            }
        }
    }
}

// And requantised; `held` are the columns from `n` on.
template <class S>
__device__ inline void
store_requantised(
    const int (&sums)[S::kSums], const held_column *held, const outs &to, int m, int n, int rows,
    int columns)
{
    epilogue e(to.requant);
    int64_t at = m * to.pitch + n;
#pragma unroll
    for (int block = 0; block < S::kCols / 8; block++) {
        held_column low = held[8 * block], high = held[8 * block + 1];
        int inside = columns - n - 8 * block;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            word x = finish(e, low.of, sums[4 * block + 2 * half]);
            word y = finish(e, high.of, sums[4 * block + 2 * half + 1]);
            if (m + 8 * half < rows) {
                store_pair(to, at + 8 * half * to.pitch + 8 * block, inside, x, y);
            }
        }
    }
}

// One warpgroup: 64 rows of all of this block's tiles.
template <class S, typename Pair>
__device__ inline void
consume(
    const gemm::shared_memory<S> &shared, uint8_t *bytes, const gemm::plan &p, const outs &to,
    int consumer, int rank)
{
    held_column *columns = columns_of<S>(bytes, consumer);
    ring<S::kStages> place;
    int clusters = static_cast<int>(gridDim.x) / S::kCluster;
    for (int i = static_cast<int>(blockIdx.x) / S::kCluster; i < p.tiles; i += clusters) {
        gemm::corner at = gemm::corner_of<S>(p, i, rank);
        int m = at.m + consumer * kConsumerRows + row_of_sums(), n = at.n + column_of_sums();
        if (!to.plain) {
            load_columns<S>(columns, to, at.n, p.n);
        }
        int sums[S::kSums];
        multiply<S, Pair>(sums, shared, place, consumer, p.slabs);
        if (to.plain) {
            store_sums<S>(sums, to, m, n, p.m, p.n);
            continue;
        }
        ptx::threads_meet(1 + consumer, kWarpgroup); // the columns are there
        store_requantised<S>(sums, columns + column_of_sums(), to, m, n, p.m, p.n);
        ptx::threads_meet(1 + consumer, kWarpgroup); // and the next tile's may come
    }
}

} // namespace aicf::i8

#endif
